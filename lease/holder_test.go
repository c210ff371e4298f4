package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// leased returns a holder that got the given reply at 1 s to a request it sent then.
func leased(t *testing.T, r lease.Reply) *lease.Holder {
	t.Helper()
	h := lease.NewHolder("a", thousand, &lease.Policy{}, 1)
	h.Take(time.Second, 1)
	h.Enter(&lease.Waiter{N: 1})
	q, ok := h.Request(time.Second)
	if !ok || q.Seq != 1 || q.Take != 1 {
		t.Fatalf("the first request is %+v", q)
	}
	r.Seq, r.Taken, r.Limit = 1, 1, thousand
	h.Handle(time.Second, r)
	if done := h.Ready(time.Second).Resolved; len(done) != 1 || done[0].Verdict != lease.Admitted {
		t.Fatalf("resolved %+v", done)
	}
	return h
}

// share is a usual lease of 100 tokens/s.
var share = lease.Reply{
	Add: 50, Shape: lease.Slice, Rate: 100, Burst: 50, Keep: 50,
	Refresh: 200 * ms, RateUntil: 250 * ms, Expires: 650 * ms, Holders: 1,
}

func (h *bench) spend(n int) (admitted int) {
	for range n {
		if h.Take(h.now, 1) == lease.Admitted {
			admitted++
		}
	}
	return admitted
}

// bench is a holder with a clock.
type bench struct {
	*lease.Holder
	now time.Duration
}

func TestSpendsAndRefills(t *testing.T) {
	h := bench{leased(t, share), time.Second}
	for _, step := range []struct {
		at       time.Duration // after the request was sent
		ask, get int
	}{
		{0, 60, 50},        // the burst
		{100 * ms, 60, 10}, // the refill
		{240 * ms, 5, 5},   // a part of it
		{400 * ms, 100, 9}, // the rest of it until the rate ended, 249.5 ms
		{640 * ms, 1, 0},   // nothing since
		{10 * time.Hour, 1, 0},
	} {
		h.now = time.Second + step.at
		if got := h.spend(step.ask); got != step.get {
			t.Errorf("at %v %d of %d admitted, want %d", step.at, got, step.ask, step.get)
		}
	}
}

func TestTokensDieAtTheEnd(t *testing.T) {
	h := bench{leased(t, share), time.Second + 600*ms}
	if got := h.spend(1); got != 1 {
		t.Errorf("%d admitted just before the end", got)
	}
	h.now = time.Second + 650*ms // 1/512 of 650 ms late already
	if got := h.spend(1); got != 0 {
		t.Errorf("%d admitted after the end", got)
	}
}

// TestSlowClock: a holder whose clock is slow by a thousandth stops before the
// ledger does (I2).
func TestSlowClock(t *testing.T) {
	h := bench{leased(t, share), time.Second + 650*ms*999/1000}
	if got := h.spend(1); got != 0 {
		t.Error("spends after the end, by the ledger's clock")
	}
	h = bench{leased(t, share), time.Second + 250*ms*999/1000}
	if h.Running(h.now) {
		t.Error("refills after the end of the rate, by the ledger's clock")
	}
}

// TestRefillPausesWhileAsking: what the ledger may give to another is not added
// meanwhile, nor when the reply comes. The ledger hears of it, and takes it back
// (TestWhatDidNotArriveComesBack).
func TestRefillPausesWhileAsking(t *testing.T) {
	h := bench{leased(t, share), time.Second}
	h.spend(50)
	h.now += 200 * ms
	h.spend(20)
	q, ok := h.Request(h.now)
	if !ok {
		t.Fatal("no request at Refresh")
	}
	h.now += 40 * ms
	if got := h.spend(10); got != 0 {
		t.Errorf("%d admitted from a refill that may be lost", got)
	}
	h.Handle(h.now, lease.Reply{
		Seq: q.Seq, Shape: lease.Slice, Rate: 100, Burst: 50, Keep: 50,
		Refresh: 200 * ms, RateUntil: 250 * ms, Expires: 650 * ms,
	})
	if got := h.spend(10); got != 0 {
		t.Errorf("%d admitted when the reply came, which added nothing", got)
	}
	h.now += 55 * ms
	if got := h.spend(10); got != 5 {
		t.Errorf("%d admitted 55 ms after the reply, want 5", got)
	}
}

// TestSlowReplyShortensLease: lives count from before the request was sent.
func TestSlowReplyShortensLease(t *testing.T) {
	h := lease.NewHolder("a", thousand, &lease.Policy{}, 1)
	h.Take(0, 1)
	h.Enter(&lease.Waiter{N: 1})
	h.Request(0)
	r := share
	r.Seq = 1
	h.Handle(600*ms, r)
	b := bench{h, 600 * ms}
	if got := b.spend(1); got != 1 {
		t.Error("a lease of 650 ms is dead after 600")
	}
	b.now = 650 * ms
	if got := b.spend(1); got != 0 {
		t.Error("a lease of 650 ms lives 650 ms after its request")
	}
}

func TestAfterAFailure(t *testing.T) {
	h := bench{leased(t, share), time.Second + 200*ms}
	q, _ := h.Request(h.now)
	h.now += 50 * ms
	h.Fail(h.now)
	if again, ok := h.Request(h.now); ok {
		t.Fatalf("asked at once after a failure: %+v", again)
	}
	h.now += 30 * ms
	h.spend(1)
	again, ok := h.Request(h.now)
	if !ok || again.Seq != q.Seq+1 || again.Seen != 1 {
		t.Fatalf("after the failure of %+v: %+v", q, again)
	}
	late := share
	late.Seq = q.Seq
	before := h.Lease(h.now).Tokens
	h.Handle(h.now, late)
	if after := h.Lease(h.now).Tokens; after != before || h.Outstanding() != again.Seq {
		t.Errorf("the late reply changed %v tokens to %v", before, after)
	}
}

// TestClumpIsNoStream: requests that came all at once have not lasted, however
// long the round trip in which they waited.
func TestClumpIsNoStream(t *testing.T) {
	h := bench{lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Second}
	var q lease.Request
	for range 50 {
		h.Take(h.now, 1)
		h.Enter(&lease.Waiter{N: 1})
		if x, ok := h.Request(h.now); ok {
			q = x
		}
	}
	for range 2 {
		if q.Policy.Mode != lease.PerRequest {
			t.Errorf("a clump asks for a lease: %+v", q)
		}
		h.now += 20 * ms
		h.Handle(h.now, lease.Reply{Seq: q.Seq, Taken: min(q.Take, 10), Limit: thousand, Refresh: 250 * ms, RateUntil: 300 * ms, Expires: 800 * ms})
		q, _ = h.Request(h.now)
	}
}

// TestPolicyCountsRequests: Batch and Smallest are of requests, and the ledger divides
// tokens: they go out times the mean cost of what came.
func TestPolicyCountsRequests(t *testing.T) {
	limit, policy := thousand.WithBurst(lease.MaxBurst), lease.Policy{Batch: 40, Smallest: 3}
	for _, c := range []struct{ cost, batch, smallest float64 }{
		{1, 40, 3}, {5, 200, 15}, {1e9, lease.MaxBurst, 3e9},
	} {
		h := lease.NewHolder("a", limit, &policy, 1)
		h.Take(time.Second, c.cost)
		h.Enter(&lease.Waiter{N: c.cost})
		q, ok := h.Request(time.Second)
		if !ok || float64(q.Policy.Batch) != c.batch || float64(q.Policy.Smallest) != c.smallest {
			t.Errorf("requests of %v tokens: a batch of %v, smallest %v, want %v and %v",
				c.cost, q.Policy.Batch, q.Policy.Smallest, c.batch, c.smallest)
		}
	}
}

// TestWorthALease: one is asked for from a request expected within three MaxRefresh on.
func TestWorthALease(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		mode  lease.Mode
	}{{800 * ms, lease.PerRequest}, {500 * ms, lease.Auto}} {
		h := bench{lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Second}
		var q lease.Request
		for range 50 {
			h.now += c.pause
			if h.Take(h.now, 1) == lease.Pending {
				h.Enter(&lease.Waiter{N: 1})
			}
			q, _ = h.Request(h.now)
			h.Handle(h.now, lease.Reply{Seq: q.Seq, Taken: 1, Limit: thousand, Holders: 1})
		}
		if q.Policy.Mode != c.mode {
			t.Errorf("a request each %v: asks as %v, want %v", c.pause, q.Policy.Mode, c.mode)
		}
	}
}

// TestWaitersShare: a holder whose callers wait asks for no lease of a bucket that is too small for
// two, unless it is alone.
func TestWaitersShare(t *testing.T) {
	for _, c := range []struct {
		calls, holders int
		burst          int64
		contended      bool
		mode           lease.Mode
	}{
		{2, 1, 15, true, lease.Auto}, {2, 2, 15, false, lease.PerRequest}, {2, 2, 16, true, lease.Auto},
		{1, 2, 15, false, lease.Auto}, {1, 2, 15, true, lease.PerRequest},
	} {
		limit := thousand.WithBurst(c.burst)
		h := bench{lease.NewHolder("a", limit, &lease.Policy{}, 1), time.Second}
		var q lease.Request
		for range 20 {
			for range c.calls { // of which one is served
				if h.Take(h.now, 1) == lease.Pending {
					h.Enter(&lease.Waiter{N: 1, Until: time.Hour})
				}
			}
			q, _ = h.Request(h.now)
			h.now += ms
			h.Handle(h.now, lease.Reply{
				Seq: q.Seq, Taken: 1, Limit: limit, Holders: c.holders, Contended: c.contended,
			})
		}
		if q.Policy.Mode != c.mode {
			t.Errorf("%d calls, %d holders, Burst %d, contended %v: asks as %v, want %v",
				c.calls, c.holders, c.burst, c.contended, q.Policy.Mode, c.mode)
		}
	}
}

// TestSilence: a contended lease that is not used is handed back, long before
// its Refresh. An uncontended one is kept.
func TestSilence(t *testing.T) {
	for _, contended := range []bool{true, false} {
		r := share
		r.Contended = contended
		h := bench{leased(t, r), time.Second}
		for range 500 { // a demand of 1000/s is reported at the first Refresh
			h.now += ms
			h.spend(1)
			if q, ok := h.Request(h.now); ok {
				r.Seq, r.Add = q.Seq, 0
				r.Refresh, r.RateUntil, r.Expires = 10*time.Second, 11*time.Second, 20*time.Second
				h.Handle(h.now, r)
			}
		}
		h.now += 12 * ms // by chance, each 160 s
		if _, ok := h.Request(h.now); ok {
			t.Errorf("contended %v: 12 requests stay away, and a slice of 1000/s goes back", contended)
		}
		h.now += 18 * ms
		q, ok := h.Request(h.now)
		if ok != contended || ok && (q.Demand != 0 || q.Held != 0 || q.Give == 0 && h.Lease(h.now).Tokens > 0) {
			t.Errorf("contended %v: after 30 ms of silence: %v %+v", contended, ok, q)
		}
	}
}

// TestNoSilenceWhileCallersWait: nobody asks while all callers wait for an answer. When it comes,
// they have as long to ask again as others have. Then their lease goes back, too.
func TestNoSilenceWhileCallersWait(t *testing.T) {
	for _, contended := range []bool{true, false} {
		r := share
		r.Contended, r.Refresh = contended, 10*time.Second
		r.RateUntil, r.Expires = 11*time.Second, 20*time.Second
		h := bench{leased(t, r), time.Second}
		answer := func(q lease.Request) {
			r.Seq, r.Add, r.Taken = q.Seq, r.Burst-q.Held, q.Take
			h.Handle(h.now, r)
			h.Ready(h.now)
		}
		for range 1000 {
			h.now += ms
			switch h.Take(h.now, 1) {
			case lease.Pending:
				h.Enter(&lease.Waiter{N: 1})
				q, _ := h.Request(h.now)
				h.now += 300 * ms
				answer(q)
				if _, ok := h.Request(h.now); ok {
					t.Fatalf("contended %v: a lease goes back as it comes", contended)
				}
			case lease.Denied:
				t.Fatal("denied")
			}
		}
		h.now += time.Second
		h.Ready(h.now)
		if q, ok := h.Request(h.now); !ok || q.Demand > 0 {
			t.Errorf("contended %v: a second later %+v, %v; want that the lease goes back", contended, q, ok)
		}
	}
}

func TestQuit(t *testing.T) {
	h := bench{leased(t, share), time.Second + 10*ms}
	q, ok := h.Quit(h.now)
	if !ok || q.Give != 50 || q.Held != 0 || q.Demand != 0 {
		t.Errorf("quitting hands back %+v", q)
	}
	h.Fail(h.now)
	if got := h.spend(1); got != 0 {
		t.Error("spends what was handed back")
	}
	if _, ok := h.Quit(h.now + time.Second); ok {
		t.Error("quits twice")
	}
	if _, ok := lease.NewHolder("b", thousand, &lease.Policy{}, 1).Quit(0); ok {
		t.Error("a holder that never asked has something to hand back")
	}
}

// TestReadyFirst: a caller that cannot deliver at once, and so looks twice at
// the same request, asks for the same and comes back as late.
func TestReadyFirst(t *testing.T) {
	answers := func(first bool) (q lease.Request, wake time.Duration) {
		h := lease.NewHolder("a", thousand, &lease.Policy{Mode: lease.Batches, MaxRefresh: time.Hour}, 1)
		now := time.Minute
		h.Take(now, 1)
		h.Enter(&lease.Waiter{N: 1})
		if first {
			if r := h.Ready(now); !r.Ask || !r.Urgent {
				t.Fatalf("%+v", r)
			}
			now += 30 * time.Microsecond
		}
		q, ok := h.Request(now)
		if !ok {
			t.Fatal("no request")
		}
		h.Handle(now+ms, lease.Reply{Seq: 1, Taken: 1, Add: 100, Shape: lease.Batch, Burst: 100, Keep: 100, Refresh: time.Hour, RateUntil: time.Hour, Expires: time.Hour, Limit: thousand})
		return q, h.Ready(now + ms).Wake
	}
	q, wake := answers(false)
	q2, wake2 := answers(true)
	if q2 != q || (wake2-wake).Abs() > ms {
		t.Errorf("asks\n%+v, not\n%+v, and comes back at %v, not %v", q2, q, wake2, wake)
	}
}

// TestPutOff: what could not be asked is no failure. The lease goes on to refill,
// nobody waits, and it is asked for again after a pause, or at once if somebody waits.
func TestPutOff(t *testing.T) {
	h := leased(t, share)
	now := time.Second + 200*ms // past its refresh
	if r := h.Ready(now); !r.Ask || r.Urgent {
		t.Fatalf("%+v", r)
	}
	for h.Take(now, 1) == lease.Admitted {
	}
	w := &lease.Waiter{N: 1, Until: time.Hour}
	h.Enter(w)
	h.PutOff(now)
	if done := h.Ready(now).Resolved; len(done) != 1 || w.Verdict != lease.Unavailable {
		t.Errorf("who waited got %v", w.Verdict)
	}
	if r := h.Ready(now + 100*ms); r.Ask || h.Failures() != 0 || r.Wake < now+400*ms {
		t.Errorf("asks again: %+v, after %d failures", r, h.Failures())
	}
	if h.Lease(now+100*ms).Tokens < 1 {
		t.Error("the lease does not refill")
	}
	h.Enter(&lease.Waiter{N: 1e6})
	if r := h.Ready(now + 110*ms); !r.Ask || !r.Urgent {
		t.Errorf("somebody waits: %+v", r)
	}
}

// TestAboveLimitInForce: while another process declares a smaller Burst, who asks for
// more than that is told so, keeps nobody else waiting, and may ask again soon.
func TestAboveLimitInForce(t *testing.T) {
	h := bench{lease.NewHolder("a", thousand.WithBurst(1000), &lease.Policy{}, 1), 0}
	large, small := &lease.Waiter{N: 600, Until: time.Hour}, &lease.Waiter{N: 1}
	for _, w := range []*lease.Waiter{large, small} {
		h.Take(h.now, w.N)
		h.Enter(w)
	}
	q, _ := h.Request(h.now)
	h.Handle(h.now, lease.Reply{Seq: q.Seq, RetryAfter: time.Hour, Refresh: 250 * ms, RateUntil: 300 * ms, Expires: 800 * ms, Limit: thousand.WithBurst(500)})
	if done := h.Ready(h.now).Resolved; len(done) != 1 || done[0] != large || large.Verdict != lease.Exceeding {
		t.Fatalf("resolved %v", done)
	}
	if got := h.InForce(); got != thousand.WithBurst(500) {
		t.Errorf("%v is in force", got)
	}
	q, ok := h.Request(h.now)
	if !ok || q.Min != 1 {
		t.Fatalf("asks for %v, %v; want what the other one waits for", q.Min, ok)
	}
	h.Handle(h.now, lease.Reply{Seq: q.Seq, Taken: 1, Refresh: 250 * ms, RateUntil: 300 * ms, Expires: 800 * ms, Limit: thousand.WithBurst(500)})
	if small.Verdict != lease.Admitted {
		t.Errorf("the other one: %v", small.Verdict)
	}

	h.Take(h.now, 600)
	h.Enter(large)
	q, _ = h.Request(h.now)
	h.Handle(h.now, lease.Reply{Seq: q.Seq, RetryAfter: time.Hour, Refresh: 250 * ms, RateUntil: 300 * ms, Expires: 800 * ms, Limit: thousand.WithBurst(500)})
	for _, c := range []struct {
		after time.Duration
		n     float64
		want  lease.Verdict
	}{
		{0, 600, lease.Exceeding}, {0, 500, lease.Pending}, {250 * ms, 600, lease.Pending},
	} {
		if v := h.Take(h.now+c.after, c.n); v != c.want {
			t.Errorf("%v tokens after %v: %v, want %v", c.n, c.after, v, c.want)
		}
	}
}

// TestExceedingForLong: who asks for more than the Burst in force may ask again after a
// MaxRefresh, also when it was a smaller request that was denied, for long.
func TestExceedingForLong(t *testing.T) {
	h := bench{lease.NewHolder("a", thousand.WithBurst(1000), &lease.Policy{}, 1), 0}
	h.Take(h.now, 500)
	h.Enter(&lease.Waiter{N: 500})
	q, _ := h.Request(h.now)
	h.Handle(h.now, lease.Reply{Seq: q.Seq, RetryAfter: time.Hour, Refresh: 250 * ms, RateUntil: 300 * ms, Expires: 800 * ms, Limit: thousand.WithBurst(500)})
	if v := h.Take(h.now+time.Minute, 600); v != lease.Pending {
		t.Errorf("a minute after another process declared a lower limit: %v, want %v", v, lease.Pending)
	}
}

// TestDeniesWhenDry: while an exchange is out, a request that the slice cannot serve
// waits for it, unless the pool had nothing left the last time.
func TestDeniesWhenDry(t *testing.T) {
	for _, dry := range []bool{false, true} {
		r := share
		r.Contended, r.Dry = true, dry
		h := bench{leased(t, r), time.Second}
		h.spend(50)
		h.now += 200 * ms
		h.spend(20)
		if _, ok := h.Request(h.now); !ok {
			t.Fatal("no request at Refresh")
		}
		want := lease.Pending
		if dry {
			want = lease.Denied
		}
		if got := h.Take(h.now, 1); got != want {
			t.Errorf("dry %v: %v, want %v", dry, got, want)
		}
	}
}

// TestLag: what is reported of exchanges is their mean time and two deviations, not
// the last one.
func TestLag(t *testing.T) {
	h := lease.NewHolder("a", thousand, &lease.Policy{}, 1)
	var lags []time.Duration
	now := time.Second
	for i := range 60 {
		h.Take(now, 1)
		h.Enter(&lease.Waiter{N: 1})
		q, ok := h.Request(now)
		if !ok {
			t.Fatalf("exchange %d: no request", i)
		}
		lags = append(lags, q.Lag)
		trip := 20 * ms
		if i == 40 {
			trip = 200 * ms
		}
		now += trip
		h.Handle(now, lease.Reply{Seq: q.Seq, Taken: q.Take, Limit: thousand, Holders: 1})
		now += 300 * ms
	}
	if lags[40] > 21*ms || lags[41] < 100*ms || lags[41] > 150*ms || lags[59] > 35*ms {
		t.Errorf("20 ms, once 200: reported %v before, %v after, %v in the end", lags[40], lags[41], lags[59])
	}
}

// TestLowAsksOnce: a plain batch that the pool could not fill is not asked for again
// until requests have come.
func TestLowAsksOnce(t *testing.T) {
	h := leased(t, lease.Reply{Add: 1, Shape: lease.Batch, Burst: 20, Keep: 20, Refresh: 200 * ms, RateUntil: 250 * ms, Expires: 650 * ms, Contended: true, Holders: 1})
	if q, ok := h.Request(time.Second + 50*ms); ok {
		t.Errorf("nobody has come, and it asks %+v", q)
	}
	h.Take(time.Second+60*ms, 1)
	if _, ok := h.Request(time.Second + 60*ms); !ok {
		t.Error("it does not ask though it runs low")
	}
}

// TestSmallBatchIsUsedUp: a batch of which a quarter is less than a request is not renewed ahead
// of need: the request that finds it empty asks.
func TestSmallBatchIsUsedUp(t *testing.T) {
	for _, c := range []struct {
		batch float64
		left  int // when it asks
	}{{3, 0}, {8, 2}} {
		h := bench{leased(t, lease.Reply{
			Add: c.batch, Shape: lease.Batch, Burst: c.batch, Keep: c.batch, Refresh: time.Minute,
			RateUntil: time.Minute, Expires: time.Minute, Holders: 1,
		}), 2 * time.Second}
		for left := int(c.batch) - 1; left >= c.left; left-- {
			h.spend(1)
			if asks := h.Ready(h.now).Ask; asks != (left > 0 && left == c.left) {
				t.Errorf("%v of %v are left, and it asks: %v", left, c.batch, asks)
			}
		}
	}
}
