package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// jobsOf is a request of a process that has so many slots, uses some of them, and wants more
// for its next job.
func jobsOf(id string, seq uint64, held, used, more float64) lease.Request {
	q := lease.Request{
		Holder: id, Seq: seq, Seen: seq - 1, Take: more, Min: more, Unit: more, Hold: lease.WhileOpen,
		Held: held, Got: used, Demand: used + more, Peak: used + more,
		Limit: slots(10), Policy: lease.Policy{Mode: lease.PerRequest},
	}
	if held > 0 {
		q.Claim = lease.Claim{Burst: held, Left: time.Second}
	}
	return q
}

// TestSlotsBlock: a block is what a holder wants and half as much again while there are enough
// for all, and its part when there are not.
func TestSlotsBlock(t *testing.T) {
	var l lease.Ledger
	q := jobsOf("a", 1, 0, 0, 4)
	q.Policy.Mode = lease.Auto
	r := l.Exchange(noon, q)
	if r.Shape != lease.Block || r.Burst != 7 || r.Keep != 7 || r.Taken != 0 || r.Add != 7 {
		t.Errorf("4 of 10 are wanted: %+v", r)
	}
	if r = l.Exchange(noon, jobsOf("b", 1, 0, 0, 8)); r.Add != 0 || r.RetryAfter == 0 {
		t.Errorf("8 of 10, of which 3 are left: %+v", r)
	}
	q = jobsOf("a", 2, 7, 4, 0)
	q.Policy.Mode = lease.Auto
	if r = l.Exchange(noon, q); r.Keep >= 4 || !r.Contended {
		t.Errorf("another one waits: %+v", r)
	}
}

// TestSlotsLostReply: what a lost answer brought is not held, and so others can have it.
func TestSlotsLostReply(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, jobsOf("a", 1, 0, 0, 10))
	q := jobsOf("a", 2, 0, 0, 0)
	q.Seen = 0
	if r := l.Exchange(noon, q); r.Pool.Level != 10 {
		t.Errorf("%v slots are left of 10 that nobody has", r.Pool.Level)
	}
}

// TestSlotsAdoption: a state that was lost believes what holders have.
func TestSlotsAdoption(t *testing.T) {
	var l lease.Ledger
	if r := l.Exchange(noon, jobsOf("a", 7, 6, 6, 0)); r.Pool.Level != 4 {
		t.Errorf("6 of 10 are in use, and %v are left", r.Pool.Level)
	}
	if r := l.Exchange(noon, jobsOf("b", 1, 0, 0, 5)); r.Add != 0 {
		t.Errorf("of 4 that are left %v are lent", r.Add)
	}
}

// TestSlotsTooMany: after a lost state two holders have the one slot in use. Neither keeps it
// for its next job.
func TestSlotsTooMany(t *testing.T) {
	var l lease.Ledger
	for _, c := range []struct {
		id   string
		seq  uint64
		keep float64
	}{{"a", 7, 1}, {"b", 7, 0}, {"a", 8, 0}} {
		q := jobsOf(c.id, c.seq, 1, 1, 0)
		q.Limit = slots(1)
		if r := l.Exchange(noon, q); r.Keep != c.keep || r.Burst != 1 {
			t.Errorf("%s has the slot in use, and keeps %v of %v", c.id, r.Keep, r.Burst)
		}
	}
}

// TestSlotsShorterLife: until a holder has heard of a shorter life it goes by the longer one,
// and a sixteenth more is set aside.
func TestSlotsShorterLife(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, jobsOf("a", 1, 0, 0, 10))
	q := jobsOf("a", 2, 10, 10, 0)
	q.Claim.Left = 28 * time.Second
	q.Policy.MaxHold = time.Second
	l.Exchange(noon+ms, q) // the answer is lost
	for _, c := range []struct {
		at   time.Duration
		lent bool
	}{{29800 * ms, false}, {60 * time.Second, true}} {
		r := l.Exchange(noon+c.at, jobsOf("b", uint64(c.at), 0, 0, 10))
		if r.Add > 0 != c.lent {
			t.Errorf("after %v: %+v", c.at, r)
		}
	}
}

// TestSlotsLife: a lease outlives a few refreshes, whatever the policy, and it is told
// to end a sixteenth before it does.
func TestSlotsLife(t *testing.T) {
	for hold, want := range map[time.Duration]time.Duration{
		0: 28125 * ms, time.Minute: 56250 * ms, 250 * ms: 937500 * time.Microsecond,
	} {
		var l lease.Ledger
		q := jobsOf("a", 1, 0, 0, 1)
		q.Policy.MaxHold = hold
		if r := l.Exchange(noon, q); r.Expires != want || r.Expires < 3*r.Refresh {
			t.Errorf("MaxHold %v: %+v", hold, r)
		}
	}
}

// TestSlotsRenewal: a holder comes back soon while it has idle slots, and seldom when all of
// them are in use.
func TestSlotsRenewal(t *testing.T) {
	var l lease.Ledger
	if r := l.Exchange(noon, jobsOf("a", 1, 0, 0, 4)); r.Refresh != 7500*ms {
		t.Errorf("all are in use: %+v", r)
	}
	if r := l.Exchange(noon, jobsOf("a", 2, 4, 3, 0)); r.Refresh != 250*ms {
		t.Errorf("one is idle: %+v", r)
	}
}

// TestSlotsEarmark: slots are kept for a large job, though others want single ones, and
// those that have some hand them back one by one.
func TestSlotsEarmark(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, jobsOf("a", 1, 0, 0, 4))
	if r := l.Exchange(noon, jobsOf("b", 1, 0, 0, 8)); r.Add != 0 {
		t.Fatalf("8 of 6 that are left: %+v", r)
	}
	if r := l.Exchange(noon, jobsOf("c", 1, 0, 0, 1)); r.Add != 0 || r.RetryAfter == 0 {
		t.Errorf("one of those that are kept: %+v", r)
	}
	if r := l.Exchange(noon, jobsOf("a", 2, 4, 4, 0)); r.Keep > 1 || !r.Contended {
		t.Errorf("a job waits for what this one has: %+v", r)
	}
	l.Exchange(noon, jobsOf("a", 3, 2, 2, 0))
	if r := l.Exchange(noon+100*ms, jobsOf("b", 2, 0, 0, 8)); r.Add != 8 {
		t.Errorf("8 are there: %+v", r)
	}
}

// TestSlotsTurn: the process that has waited longest has the next earmark, though another one
// asks before it.
func TestSlotsTurn(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, jobsOf("a", 1, 0, 0, 10))
	now, seq := noon, uint64(0)
	ask := func(ids ...string) {
		seq++
		for _, id := range ids {
			now += ms
			l.Exchange(now, jobsOf(id, seq, 0, 0, 10))
		}
	}
	ask("b", "c")
	for range 5 {
		now += 200 * ms
		ask("b", "c")
	}
	if v := l.View(); !find(v, "b").Marked || find(v, "c").Marked {
		t.Fatalf("%+v", v.Holders)
	}
	now += ms
	l.Exchange(now, jobsOf("a", 2, 0, 0, 0))
	ask("b") // has all
	ask("d", "c")
	if v := l.View(); !find(v, "c").Marked || find(v, "d").Marked {
		t.Errorf("%+v", v.Holders)
	}
}

// TestSlotsFence: fences grow with each exchange, at one moment and when the clock steps back.
func TestSlotsFence(t *testing.T) {
	var l lease.Ledger
	last := uint64(0)
	for i, now := range []time.Duration{noon, noon, noon - ms, noon - time.Hour,
		noon - time.Hour + ms} {
		r := l.Exchange(now, jobsOf("a", uint64(i+1), float64(i), 0, 1))
		if r.Fence <= last {
			t.Errorf("at %v: %d follows %d", now, r.Fence, last)
		}
		last = r.Fence
	}
}

// TestSlotsReturned: what a holder may not keep is not used again, and handed back at once if
// others wait; slots that nobody has used since the last request go back with the next one.
func TestSlotsReturned(t *testing.T) {
	h := lease.NewHolder("a", slots(10), &lease.Policy{}, 1)
	now := time.Duration(0)
	exchange := func(r lease.Reply) lease.Request {
		t.Helper()
		q, ok := h.Request(now)
		if !ok {
			t.Fatal("nothing is asked")
		}
		r.Seq, r.Shape, r.Expires, r.Limit = q.Seq, lease.Block, 28*time.Second, slots(10)
		now += ms
		h.Handle(now, r)
		return q
	}
	h.Enter(&lease.Waiter{N: 6, Hold: lease.WhileOpen, Until: time.Hour})
	h.Ready(now)
	exchange(lease.Reply{Add: 8, Burst: 8, Keep: 8, Refresh: 250 * ms})
	var reserved []lease.Reserved
	for _, w := range h.Ready(now).Resolved {
		reserved = append(reserved, w.Reserved)
	}
	if len(reserved) != 1 || h.Held() != 2 {
		t.Fatalf("%d jobs, and %v slots are idle", len(reserved), h.Held())
	}
	now += 250 * ms
	q := exchange(lease.Reply{Burst: 6, Keep: 3, Refresh: 7 * time.Second, Contended: true})
	if q.Held != 6 || q.Got != 6 || q.Peak != 6 || q.Demand != 6 {
		t.Errorf("6 of 8 were in use: %+v", q)
	}
	if h.Ready(now).Ask {
		t.Error("all slots are in use, and something is asked")
	}
	h.Release(now, reserved[0], 6)
	if h.Held() != 3 || !h.Ready(now).Ask {
		t.Errorf("%v slots are idle of 3 that may be kept, or nothing is handed back", h.Held())
	}
	v, more := h.Reserve(now, 2)
	if more != lease.Admitted {
		t.Fatal(more)
	}
	q, _ = h.Request(now)
	h.Release(now, v, 2)
	now += ms
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Shape: lease.Block, Burst: 3, Refresh: 7 * time.Second,
		Expires: 28 * time.Second, Limit: slots(10),
	})
	if h.Held() != 0 || h.Ready(now).Wake > now+250*ms {
		t.Errorf("%v slots are kept, and the ledger hears of that after %v", h.Held(),
			h.Ready(now).Wake-now)
	}
}

// TestSlotsContended: where more are wanted than there are, each holder has a part of them, and
// one that wants less than that has what it wants.
func TestSlotsContended(t *testing.T) {
	var l lease.Ledger
	for seq := range uint64(3) {
		for i, want := range []float64{10, 8, 2} {
			id := name(i, 1)
			q := jobsOf(id, seq+1, 0, 0, 0)
			q.Policy.Mode, q.Peak = lease.Auto, want
			if r := l.Exchange(noon, q); seq == 2 && (r.Keep != min(want, 4) || !r.Contended) {
				t.Errorf("%s wants %v of 10: %+v", id, want, r)
			}
		}
	}
}

// TestSlotsOfACrowd: however much those who wait want, it can be asked for.
func TestSlotsOfACrowd(t *testing.T) {
	h := lease.NewHolder("a", slots(lease.MaxBurst), &lease.Policy{}, 1)
	for range 1000 {
		h.Enter(&lease.Waiter{N: lease.MaxBurst, Hold: lease.WhileOpen, Until: time.Hour})
	}
	h.Ready(0)
	q, ok := h.Request(0)
	if err := q.Validate(); !ok || err != nil {
		t.Error(ok, err)
	}
}

// TestSlotsKept: slots are kept for a holder until it should be back, and no longer: not until the
// end of its lease, if it has slots in use, nor any longer than that.
func TestSlotsKept(t *testing.T) {
	for _, c := range []struct {
		refresh, kept, ends time.Duration
	}{
		{250 * ms, 750 * ms, 813 * ms},
		{time.Hour, 0, 16 * time.Minute}, // of another holder: ends are noticed late
	} {
		var l lease.Ledger
		q := jobsOf("b", 1, 0, 0, 1)
		q.Policy.MaxRefresh = c.refresh
		l.Exchange(noon, q)
		l.Exchange(noon, jobsOf("a", 1, 0, 0, 1))
		l.Exchange(noon, jobsOf("a", 2, 1, 1, 9))
		if c.kept > 0 {
			if r := l.Exchange(noon+c.kept-ms, jobsOf("c", 1, 0, 0, 1)); r.Add != 0 {
				t.Errorf("one of 8 that are kept for a: %+v", r)
			}
		}
		if r := l.Exchange(noon+c.ends, jobsOf("d", 1, 0, 0, 1)); r.Add != 1 {
			t.Errorf("one of 8 that were kept for a, which is gone: %+v", r)
		}
		if a := find(l.View(), "a"); c.ends < time.Second && (a == nil || a.Burst != 1 || a.Marked) {
			t.Errorf("it has a slot in use: %+v", a)
		}
	}
}

// TestSlotsLater: the longer a holder has waited, the more seldom it asks: after a quarter of its
// wait, and the one for which slots are kept after a 64th.
func TestSlotsLater(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, jobsOf("a", 1, 0, 0, 1))
	want := map[time.Duration][2]time.Duration{
		0: {20 * ms, 20 * ms}, 80 * ms: {20 * ms, 20 * ms}, 400 * ms: {20 * ms, 100 * ms},
		2 * time.Second: {31250 * time.Microsecond, 250 * ms}, 8 * time.Second: {125 * ms, 250 * ms},
		20 * time.Second: {250 * ms, 250 * ms},
	}
	for seq := range uint64(251) {
		waited := time.Duration(seq) * 80 * ms
		l.Exchange(noon+waited, jobsOf("a", seq+2, 1, 1, 0)) // its job lasts
		var asks [2]time.Duration
		for i := range asks {
			r := l.Exchange(noon+waited, jobsOf(name(i, 1), seq+1, 0, 0, 10))
			asks[i] = r.RetryAfter.Truncate(10 * time.Microsecond) // each exchange has its own µs
		}
		if w, ok := want[waited]; ok && asks != w {
			t.Errorf("after %v they ask after %v, want %v", waited, asks, w)
		}
	}
}

// TestSlotsPartly: a holder that got some of what it wants uses those for its jobs, one after the
// other, before it asks anew.
func TestSlotsPartly(t *testing.T) {
	var l lease.Ledger
	q := jobsOf("a", 1, 0, 0, 1)
	q.Take = 30
	if r := l.Exchange(noon, q); r.Add != 10 || r.RetryAfter != 250*ms {
		t.Errorf("30 of 10 are wanted: %+v", r)
	}
}

// TestSlotsNearlyAll: where another holder may soon miss a slot, none is lent that is not used at
// once.
func TestSlotsNearlyAll(t *testing.T) {
	for _, c := range []struct {
		used, wanted float64
		contended    bool
	}{{4, 2, false}, {5, 2, false}, {6, 2, true}, {0, 9, false}} {
		var l lease.Ledger
		if c.used > 0 {
			l.Exchange(noon, jobsOf("a", 1, 0, 0, c.used))
		}
		q := jobsOf("b", 1, 0, 0, 1)
		q.Policy.Mode, q.Peak = lease.Auto, c.wanted
		if r := l.Exchange(noon, q); r.Contended != c.contended || c.contended == (r.Add > 1) {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// TestSlotsAtOnce: on a contended key slots go from one job to the next in its process. Those that
// it does not want go to the ledger at once.
func TestSlotsAtOnce(t *testing.T) {
	h := lease.NewHolder("a", slots(10), &lease.Policy{}, 1)
	now := time.Duration(0)
	for _, n := range []float64{1, 2, 2, 1} {
		h.Enter(&lease.Waiter{N: n, Hold: lease.WhileOpen, Until: time.Hour})
	}
	h.Ready(now)
	q, _ := h.Request(now)
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Add: 3, Shape: lease.Block, Burst: 3, Keep: 3, Refresh: 7 * time.Second,
		Expires: 28 * time.Second, Limit: slots(10), Contended: true, RetryAfter: 250 * ms,
	})
	begun := h.Ready(now).Resolved
	if len(begun) != 2 {
		t.Fatalf("jobs of 1 and 2 have 3 slots: %+v", begun)
	}
	now += 50 * ms
	h.Release(now, begun[1].Reserved, 2)
	r := h.Ready(now)
	if len(r.Resolved) != 1 || r.Ask {
		t.Fatalf("the next job has both slots: %+v", r)
	}
	h.Release(now, r.Resolved[0].Reserved, 2)
	r = h.Ready(now)
	if q, ok := h.Request(now); len(r.Resolved) != 1 || !ok || q.Give != 1 || q.Held != 2 {
		t.Errorf("the next job has one, and nobody waits for the other one: %+v, %+v", r, q)
	}
}

// TestSlotsGatheredQuietly: slots that are gathered for a large job are no news to the ledger.
func TestSlotsGatheredQuietly(t *testing.T) {
	h := lease.NewHolder("a", slots(10), &lease.Policy{}, 1)
	h.Enter(&lease.Waiter{N: 5, Hold: lease.WhileOpen, Until: time.Hour})
	h.Ready(0)
	q, _ := h.Request(0)
	h.Handle(ms, lease.Reply{
		Seq: q.Seq, Add: 2, Shape: lease.Block, Burst: 2, Keep: 2, Refresh: 250 * ms,
		Expires: 28 * time.Second, Limit: slots(10), Contended: true, RetryAfter: 250 * ms,
	})
	if r := h.Ready(ms); r.Ask || r.Wake < 100*ms || h.Held() != 2 {
		t.Errorf("%v of 5 slots are there: %+v", h.Held(), r)
	}
}

// TestSlotsForsaken: a job has gone for which slots were gathered. The next one has them, or they
// go back at once. The ledger counts no more as wanted than is.
func TestSlotsForsaken(t *testing.T) {
	for _, next := range []float64{0, 2} { // slots that another job wants which waits
		h := lease.NewHolder("a", slots(10), &lease.Policy{}, 1)
		large := &lease.Waiter{N: 9, Hold: lease.WhileOpen, Until: time.Hour}
		h.Enter(large)
		if next > 0 {
			h.Enter(&lease.Waiter{N: next, Hold: lease.WhileOpen, Until: time.Hour})
		}
		h.Ready(0)
		q, _ := h.Request(0)
		h.Handle(2*ms, lease.Reply{
			Seq: q.Seq, Add: 3, Shape: lease.Block, Burst: 3, Keep: 3, Refresh: 250 * ms,
			Expires: 28 * time.Second, Limit: slots(10), Contended: true, RetryAfter: 250 * ms,
		})
		h.Withdraw(3*ms, large)
		r := h.Ready(3 * ms)
		q, asks := h.Request(3 * ms)
		if len(r.Resolved) != int(next/2) || !asks || q.Held != next || q.Give != 3-next ||
			q.Take != 0 || q.Peak != next {
			t.Errorf("%v are wanted next: %+v, %+v", next, r, q)
		}
	}
}

// TestSlotsNotKept: the ledger hears at once that nobody waits any more for the slots that it
// keeps, also if the job left before the answer. It is not told what it has not been asked.
func TestSlotsNotKept(t *testing.T) {
	for _, c := range []struct {
		leaves time.Duration // the answer comes at 2 ms, or there is no request
		asked  bool
		tells  bool
	}{{ms, true, true}, {3 * ms, true, true}, {3 * ms, false, false}} {
		h := lease.NewHolder("a", slots(10), &lease.Policy{}, 1)
		w := &lease.Waiter{N: 9, Hold: lease.WhileOpen, Until: time.Hour}
		h.Enter(w)
		if c.asked {
			h.Ready(0)
			q, _ := h.Request(0)
			if c.leaves < 2*ms {
				h.Withdraw(c.leaves, w)
			}
			h.Handle(2*ms, lease.Reply{
				Seq: q.Seq, Expires: time.Second, Limit: slots(10), RetryAfter: 20 * ms,
			})
		}
		h.Withdraw(3*ms, w)
		if h.Ready(3*ms).Ask != c.tells {
			t.Errorf("%+v: it tells %v", c, !c.tells)
		}
	}
}

// TestSlotsCling: idle slots that were needed lately are kept while requests have no answer, and
// handed back when one has. A holder that quits hands back all.
func TestSlotsCling(t *testing.T) {
	h := lease.NewHolder("a", slots(4), &lease.Policy{}, 1)
	now := time.Duration(0)
	answer := func(q lease.Request) {
		h.Handle(now, lease.Reply{
			Seq: q.Seq, Add: 4 - q.Held, Shape: lease.Block, Burst: 4, Keep: 4, Refresh: 250 * ms,
			Expires: 28 * time.Second, Limit: slots(4),
		})
	}
	request := func() lease.Request {
		t.Helper()
		now = max(now, h.Ready(now).Wake)
		q, ok := h.Request(now)
		if !ok {
			t.Fatal("nothing is asked")
		}
		return q
	}
	_, _ = h.Reserve(now, 1)
	h.Enter(&lease.Waiter{N: 1, Hold: lease.WhileOpen, Until: time.Hour})
	h.Ready(now)
	q, _ := h.Request(now)
	answer(q)
	for range 20 {
		v, _ := h.Reserve(now, 1)
		if v.Taken() {
			t.Fatal("nothing is reserved")
		}
		now += 10 * ms
		h.Release(now, v, 1)
	}
	for range 10 {
		if q = request(); q.Held != 2 || q.Give > 2 {
			t.Errorf("2 slots were needed at once: %+v", q)
		}
		now += ms
		h.Fail(now)
	}
	answer(request())
	if q = request(); q.Held != 1 || q.Give != 3 {
		t.Errorf("after an answer one slot is needed: %+v", q)
	}
	h.Fail(now)
	if q, ok := h.Quit(now); !ok || q.Held != 0 {
		t.Errorf("%+v", q)
	}
}

// TestSlotsTurnToAnotherKind: those who wait for what the key has not any more are sent away.
func TestSlotsTurnToAnotherKind(t *testing.T) {
	bucket := lease.Limit{Rate: 5, Burst: 5}
	for _, c := range [][2]lease.Limit{{slots(4), bucket}, {bucket, slots(4)}} {
		h := lease.NewHolder("a", c[0], &lease.Policy{}, 1)
		h.Enter(&lease.Waiter{N: 1, Until: time.Hour})
		h.Ready(0)
		h.SetLimit(c[1])
		if r := h.Ready(0).Resolved; len(r) != 1 || r[0].Verdict != lease.Exceeding {
			t.Errorf("%v to %v: %+v", c[0], c[1], r)
		}
	}
}
