package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// slideOf is a sliding window of 1000 in a minute. A pane is a little more than a second.
var slideOf = lease.Limit{Kind: lease.KindSliding, Burst: 1000, Window: time.Minute}

// slides is a request of a process with some demand.
func slides(id string, seq uint64, take, demand float64) lease.Request {
	q := wants(id, seq, take, demand)
	q.Limit, q.Policy = slideOf, lease.Policy{}
	return q
}

// keeps is the next message of a holder that keeps so much, some of it spent.
func keeps(id string, seq uint64, held, used, demand float64) lease.Request {
	q := slides(id, seq, 0, demand)
	q.Held, q.Used, q.Claim = held, used, lease.Claim{Burst: held, Left: time.Minute}
	return q
}

// TestSlidingFastClock: a holder whose clock is fast by a 600th spends nothing again before a
// Window has passed, however long that is. The first token is spent at the end of a pane.
func TestSlidingFastClock(t *testing.T) {
	day := lease.Limit{Kind: lease.KindSliding, Burst: 1, Window: lease.Day}
	fast := func(d time.Duration) time.Duration { return d + d/600 }
	const start = 1430 * time.Second
	h := lease.NewHolder("a", day, &lease.Policy{}, 1)
	h.Take(fast(start), 1)
	h.Enter(&lease.Waiter{N: 1})
	q, _ := h.Request(fast(start))
	h.Handle(fast(start), lease.Reply{
		Seq: q.Seq, Add: 1, Shape: lease.Batch, Burst: 1, Keep: 1, Refresh: 2 * lease.Day,
		Expires: 2 * lease.Day,
		Holders: 1, Limit: day,
	})
	if h.Used() != 1 {
		t.Fatal("nothing is spent")
	}
	again := start
	for h.Take(fast(again), 1) != lease.Admitted {
		again += 10 * time.Second
	}
	if d := again - start; d < lease.Day || d > lease.Day*21/20 {
		t.Errorf("a token of one in any day is spent again after %v", d)
	}
}

// TestSlidingAlone: the only holder is lent all. What is for holders without a lease it is not lent
// any more when the state is a Window old, or beside another one, and then it brings that back.
func TestSlidingAlone(t *testing.T) {
	const whole, spared, hot = 1000, 2, 1e6
	for _, c := range []struct {
		name  string
		other bool
		after time.Duration // the first exchange
		lent  float64
	}{
		{"alone", false, 59 * time.Second, whole},
		{"in an old state", false, time.Minute, whole - spared},
		{"beside another", true, 0, whole - spared},
	} {
		var l lease.Ledger
		l.Exchange(noon, slides("b", 1, 0, 0))
		if c.other {
			l.Exchange(noon+c.after, slides("b", 2, 0, 0))
		}
		if r := l.Exchange(noon+c.after, slides("a", 1, 0, hot)); r.Add != c.lent || r.Keep != c.lent {
			t.Errorf("%s: lent %v, of which it may keep %v, not %v", c.name, r.Add, r.Keep, c.lent)
		}
	}
	var l lease.Ledger
	l.Exchange(noon, slides("b", 1, 0, 0))
	l.Exchange(noon+time.Minute-10*ms, slides("a", 1, 0, hot))
	for i, keep := range []float64{whole, whole - spared} {
		at := noon + time.Minute - time.Duration(1-i)*ms
		if r := l.Exchange(at, keeps("a", uint64(i+2), whole, whole, hot)); r.Keep != keep {
			t.Errorf("after %v it may keep %v, not %v", at-noon, r.Keep, keep)
		}
	}
}

// TestSlidingLostReply: what a lost reply brought comes back with the next message.
func TestSlidingLostReply(t *testing.T) {
	var l lease.Ledger
	if r := l.Exchange(noon, slides("a", 1, 0, 100)); r.Add == 0 {
		t.Fatalf("nothing was lent: %+v", r)
	}
	q := slides("a", 2, 0, 0)
	q.Seen = 0
	if r := l.Exchange(noon+ms, q); r.Pool.Level != 1000 {
		t.Errorf("%v tokens are left of 1000 that nobody has used", r.Pool.Level)
	}
}

// TestSlidingRolledBack: a state that has lost some exchanges takes back no more than it knows
// to be lent, and counts what a holder has beyond that. What is in panes stays there.
func TestSlidingRolledBack(t *testing.T) {
	for _, c := range []struct{ held, give, left float64 }{
		{0, 300, 600}, {130, 0, 470}, {50, 300, 550},
	} {
		var l lease.Ledger
		l.Exchange(noon, slides("b", 1, 400, 0))
		lent := l.Exchange(noon, slides("a", 1, 100, 0)).Burst
		q := keeps("a", 9, c.held, 0, 0)
		q.Give = c.give
		if r := l.Exchange(noon+ms, q); r.Pool.Level != c.left {
			t.Errorf("of %v that were lent %v are held and %v come back: %v are left of 600", lent, c.held,
				c.give, r.Pool.Level)
		}
	}
	var l lease.Ledger
	l.Exchange(noon, slides("b", 1, 400, 0))
	l.Exchange(noon+2*time.Second, slides("a", 1, 100, 0))
	l.Exchange(noon+2*time.Second, keeps("b", 2, 0, 0, 0)) // 400 in a pane
	q := keeps("a", 9, 0, 0, 0)
	q.Give = 300
	if r := l.Exchange(noon+2*time.Second+ms, q); r.Pool.Level != 600 || counted(l.View()) != nil {
		t.Errorf("400 are in a pane, of 100 that were lent 300 come back: %v are left of 600, %v",
			r.Pool.Level, counted(l.View()))
	}
}

// TestSlidingLeaves: what a holder had that declares another window, or another kind of limit,
// counts as spent by then. The others have it again a window later.
func TestSlidingLeaves(t *testing.T) {
	for _, other := range []lease.Limit{
		{Kind: lease.KindSliding, Burst: 1000, Window: time.Hour},
		{Kind: lease.KindQuota, Burst: 1000, Window: time.Minute},
		{Kind: lease.KindSlots, Burst: 1000},
		{Rate: 1000, Burst: 1000},
	} {
		var l lease.Ledger
		l.Exchange(noon, slides("a", 1, 400, 100))
		l.Exchange(noon, slides("b", 1, 1, 100))
		q := slides("a", 2, 1, 100)
		q.Limit = other
		l.Exchange(noon+ms, q)
		if err := counted(l.View()); err != nil {
			t.Errorf("a declares %v: %v", other, err)
		}
		r := l.Exchange(noon+63*time.Second, slides("b", 2, 0, 0))
		if r.Pool.Level != 1000 || counted(l.View()) != nil {
			t.Errorf("a has declared %v a minute ago: %v are left, %v",
				other, r.Pool.Level, counted(l.View()))
		}
	}
}

// TestSlidingNotNoticed: a lease that has ended counts from its end, also if a message of its
// holder is what brings that to light.
func TestSlidingNotNoticed(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(noon, slides("a", 1, 100, 100))
	end := noon + r.Expires
	l.Exchange(end, slides("a", 2, 0, 0))
	for _, s := range l.View().Panes {
		if ends := time.Duration(s.Ends) * time.Microsecond; ends < end {
			t.Errorf("%v tokens count as spent before %v, the lease ended at %v", s.Tokens, ends, end)
		}
	}
	if l.View().Panes == nil {
		t.Error("nothing counts")
	}
}

// TestSlidingDebt: a debt counts for a Window, and then is forgotten.
func TestSlidingDebt(t *testing.T) {
	var l lease.Ledger
	q := slides("a", 1, 0, 0)
	q.Debt, q.Since = 1200, 1
	if r := l.Exchange(noon, q); r.Pool.Level != -200 {
		t.Errorf("%v are left", r.Pool.Level)
	}
	if r := l.Exchange(noon+time.Minute, slides("b", 1, 1, 0)); r.Pool.Level != -200 {
		t.Errorf("%v are left after a minute", r.Pool.Level)
	}
	if r := l.Exchange(noon+63*time.Second, slides("b", 2, 0, 0)); r.Pool.Level != 1000 {
		t.Errorf("%v are left when the debt has left the window", r.Pool.Level)
	}
}

// TestSlidingAdoption: a state that was lost debits what holders still hold of the one before.
// One that has been there for longer than any lease does not believe a claim.
func TestSlidingAdoption(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, slides("c", 1, 400, 0))
	if r := l.Exchange(noon, keeps("a", 7, 30, 10, 0)); r.Pool.Level != 570 {
		t.Errorf("400 of 1000 are used, 30 are on a lease that was lost, and %v are left", r.Pool.Level)
	}
	if r := l.Exchange(noon+10*time.Minute, keeps("b", 9, 30, 10, 0)); r.Pool.Level != 1000 {
		t.Errorf("nothing is used, and %v are left", r.Pool.Level)
	}
}

// TestSlidingReclaims: who has all gives up a part for another one that wants as much.
func TestSlidingReclaims(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, slides("a", 1, 1000, 100))
	if r := l.Exchange(noon+ms, slides("b", 1, 1, 100)); r.RetryAfter == 0 {
		t.Fatalf("%+v", r)
	}
	if r := l.Exchange(noon+2*ms, keeps("a", 2, 1000, 1000, 100)); r.Keep != 875 {
		t.Errorf("of 1000 it keeps %v, and is due 500", r.Keep)
	}
	if r := l.Exchange(noon+3*ms, keeps("a", 3, 600, 600, 100)); r.Keep != 575 {
		t.Errorf("of 600 it keeps %v, while another one that is due 500 has nothing", r.Keep)
	}
	// The 40 that it hands back are not for its own callers that wait.
	q := keeps("a", 4, 560, 560, 100)
	q.Give, q.Take, q.Min = 40, 50, 1
	if r := l.Exchange(noon+4*ms, q); r.Add > 0 || r.Pool.Level != 40 {
		t.Errorf("it hands back 40 of 600, and gets %v of them", r.Add)
	}
	if r := l.Exchange(noon+5*ms, slides("b", 2, 1, 100)); r.Add != 38 {
		t.Errorf("of the 40, 2 of them for those without a lease, the other one gets %v", r.Add)
	}
}

// TestSlidingLargeOfFew: a request that is larger than its holder's part is served, though another
// one has much less than its own.
func TestSlidingLargeOfFew(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, slides("a", 1, 1000, 500))
	l.Exchange(noon+ms, slides("b", 1, 900, 500))
	q := keeps("a", 2, 100, 100, 500)
	q.Give = 900
	l.Exchange(noon+2*ms, q)
	large := slides("c", 1, 700, 0.1)
	large.Min = 700
	if r := l.Exchange(noon+3*ms, large); r.Add != 700 {
		t.Errorf("of 900 a request for 700 gets %v, denied for %v", r.Add, r.RetryAfter)
	}
}

// TestSlidingFewRequests: a holder with a request now and then makes one call for each, and none
// between them.
func TestSlidingFewRequests(t *testing.T) {
	var l lease.Ledger
	h := lease.NewHolder("a", slideOf, &lease.Policy{}, 1)
	calls := 0
	for now := time.Duration(0); now < 10*time.Minute; now += 10 * ms {
		if now%(30*time.Second) == 0 {
			if h.Take(now, 1) == lease.Pending {
				h.Enter(&lease.Waiter{N: 1})
			}
		}
		if h.Ready(now).Ask {
			q, _ := h.Request(now)
			h.Handle(now, l.Exchange(noon+now, q))
			h.Ready(now)
			calls++
		}
	}
	if calls != 20 {
		t.Errorf("%d calls for 20 requests", calls)
	}
}

// TestSlidingForeseen: an answer tells when the panes let go what is missing, unless what nobody has
// spent suffices: that may come at any time. Of a pool below 0 nobody asks later than that.
func TestSlidingForeseen(t *testing.T) {
	const second = time.Second
	soon, later := 41*second, 51*second // when the panes let go, or a second sooner or later
	few, owes, quota := slides("b", 1, 700, 0), slides("b", 1, 0, 0), slides("a", 1, 300, 0)
	few.Min = 700
	owes.Debt, owes.Since = 600, 1
	quota.Limit.Kind = lease.KindQuota
	held, spent := keeps("b", 1, 300, 299, 0), keeps("b", 1, 300, 300, 0)
	for _, c := range []struct {
		name   string
		first  lease.Request
		used   [2]float64 // at noon, and 10 s later
		then   lease.Request
		last   lease.Request
		window time.Duration // from noon + 20 s
	}{
		{name: "a look", used: [2]float64{600, 400}, last: slides("b", 1, 0, 0), window: soon},
		{name: "a denial", used: [2]float64{600, 400}, last: slides("b", 1, 1, 0), window: soon},
		{name: "a denial of many", used: [2]float64{600, 400}, last: few, window: later},
		{name: "a debt", used: [2]float64{600, 400}, last: owes, window: later},
		{name: "others have the rest", used: [2]float64{600, 100}, then: keeps("c", 1, 300, 300, 0),
			last: slides("b", 1, 0, 0)},
		{name: "this one has a token", used: [2]float64{600, 100}, last: held},
		{name: "and has spent it", used: [2]float64{600, 100}, last: spent, window: soon},
		{name: "another frame has the rest", first: quota, used: [2]float64{600, 100},
			last: slides("b", 1, 0, 0)},
	} {
		var l lease.Ledger
		if c.first.Holder != "" {
			l.Exchange(noon, c.first)
		}
		for i, n := range c.used {
			at, seq := noon+time.Duration(i)*10*second, uint64(2*i+2)
			l.Exchange(at, slides("a", seq, n, 0))
			l.Exchange(at, slides("a", seq+1, 0, 0))
		}
		if c.then.Holder != "" {
			l.Exchange(noon+20*second, c.then)
		}
		r := l.Exchange(noon+20*second, c.last)
		if off := r.Window - c.window; off.Abs() > second {
			t.Errorf("%s: %v, not about %v: %+v", c.name, r.Window, c.window, r)
		}
	}

	var l lease.Ledger
	owes.Debt, owes.Demand = 1200, 10
	l.Exchange(noon, owes)
	q := slides("b", 2, 1, 10)
	if r := l.Exchange(noon+60*second, q); r.RetryAfter != r.Window || r.Window == 0 || r.Refresh < second {
		t.Errorf("the debt ends after %v, and it asks again after %v: %+v", r.Window, r.RetryAfter, r)
	}
}

// TestSlidingTold: what an answer foretells a caller is told, unless it wants less, or the holder's
// own window lets tokens go before. Then the panes have let them go.
func TestSlidingTold(t *testing.T) {
	const second = time.Second
	begin := func(first float64, change func(r *lease.Reply)) *lease.Holder {
		h := lease.NewHolder("a", slideOf, &lease.Policy{}, 1)
		h.Take(0, first)
		h.Enter(&lease.Waiter{N: first})
		q, _ := h.Request(0)
		r := lease.Reply{Seq: q.Seq, Window: 40 * second, Holders: 1, Limit: slideOf, Pool: lease.Pool{Room: 1000}}
		change(&r)
		h.Handle(0, r)
		return h
	}
	lent := func(r *lease.Reply) {
		r.Add, r.Burst, r.Keep, r.Shape = 100, 100, 100, lease.Batch
		r.Refresh, r.Expires, r.Pool.Room = 20*second, 30*second, 900
	}
	for _, c := range []struct {
		name        string
		h           *lease.Holder
		now         time.Duration
		n           float64
		least, most time.Duration
	}{
		{"as many as were denied", begin(10, func(*lease.Reply) {}), second, 10, 39 * second, 39 * second},
		{"fewer", begin(10, func(*lease.Reply) {}), second, 1, 250 * ms, 250 * ms},
		{"when some were lent, a token", begin(10, lent), second, 100, 39 * second, 39 * second},
		{"its own leave sooner", begin(100, func(r *lease.Reply) {
			lent(r)
			r.Window = 70 * second
		}), second, 1, 59 * second, 62 * second},
		{"and not, as its lease is not renewed", begin(100, func(r *lease.Reply) {
			lent(r)
			r.Window, r.Refresh = 70*second, 60*second
		}), second, 1, 69 * second, 69 * second},
	} {
		if d := c.h.RetryAfter(c.now, c.n); d < c.least || d > c.most {
			t.Errorf("%s: %v, not from %v to %v", c.name, d, c.least, c.most)
		}
	}
	reserved := lease.NewHolder("a", slideOf, &lease.Policy{}, 1)
	reserved.Enter(&lease.Waiter{N: 100, Hold: lease.WhileOpen})
	q, _ := reserved.Request(0)
	r := lease.Reply{Seq: q.Seq, Holders: 1, Limit: slideOf, Pool: lease.Pool{Room: 900}}
	lent(&r)
	reserved.Handle(0, r)
	reserved.Reserve(0, 100)
	if d := reserved.RetryAfter(second, 1); d != 250*ms {
		t.Errorf("all is reserved: %v", d)
	}
	for _, c := range []struct {
		room  float64
		now   time.Duration
		level int64
	}{
		{1000, 39 * second, 0}, {1000, 40 * second, 10}, {900, 40 * second, 0},
	} {
		h := begin(10, func(r *lease.Reply) { r.Pool.Room = c.room })
		if n := h.Level(c.now); n != c.level {
			t.Errorf("%v after the answer %v of others, %v are left", c.now, 1000-c.room, n)
		}
	}
}
