package lease_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

const hold = 5 * time.Second // of the tests that name it

// lone is the traffic of a key that is calm: so many requests/s in each process.
func lone(limit lease.Limit, procs int, requests float64) fleet {
	return fleet{
		limit: limit, procs: procs, offered: requests * float64(procs) / limit.Rate,
		rtt: ms, timeout: 50 * ms, duration: 60 * time.Second,
	}
}

// TestCallsOfCalmKeys: where the limit is generous, a few requests a second
// share an exchange, and most of them wait for none. Without calm batches each
// needs one, or more.
func TestCallsOfCalmKeys(t *testing.T) {
	t.Log("| requests/s | processes | calls/request | waited for one | without MaxHold |")
	t.Log("|---|---|---|---|---|")
	for _, c := range []struct {
		procs         int
		requests      float64 // each second, in each process
		calls, waited float64 // at most, of a request
	}{
		{1, 0.5, 0.6, 0.35}, {1, 1, 0.35, 0.1}, {1, 2, 0.25, 0.04}, {1, 5, 0.25, 0.02},
		{10, 0.5, 0.5, 0.3}, {10, 1, 0.35, 0.1}, {10, 2, 0.25, 0.04}, {10, 5, 0.2, 0.02},
		{50, 0.5, 0.55, 0.3}, {50, 1, 0.5, 0.25}, {50, 2, 0.42, 0.15}, {50, 5, 0.42, 0.1},
	} {
		f := lone(thousand, c.procs, c.requests)
		s := f.sim(1)
		f.policy.MaxHold = 250 * ms
		without := f.run(1)
		offered := 0.0
		for _, p := range s.procs {
			offered += p.offered
		}
		calls, waited := float64(s.calls)/offered, float64(s.waits)/offered
		t.Logf("| %v | %d | %.2f | %.2f | %.2f |", c.requests, c.procs, calls, waited, without.calls)
		if calls > c.calls || waited > c.waited {
			t.Errorf("%d processes with %v requests/s: %.3f calls a request, %.3f waited; at most %v and %v",
				c.procs, c.requests, calls, waited, c.calls, c.waited)
		}
		if u := s.outcome().util; u != 1 {
			t.Errorf("%d processes with %v requests/s: utilisation %v, though there is more than enough", c.procs, c.requests, u)
		}
	}
}

// TestSmallLimitsAreNeverCalm: where a few tokens are much, no batch is lent for long. A longer
// MaxHold lets slices last, and saves calls.
func TestSmallLimitsAreNeverCalm(t *testing.T) {
	for _, f := range []fleet{
		lone(lease.Limit{Rate: 5, Burst: 5}, 50, 0.02),
		lone(lease.Limit{Rate: 10, Burst: 10}, 10, 0.3),
	} {
		with := f.sim(1)
		f.policy.MaxHold = 250 * ms
		without := f.sim(1)
		if a, b := with.outcome(), without.outcome(); with.calls > without.calls || a.util < b.util {
			t.Errorf("%v, %d processes: %d calls and utilisation %v, without MaxHold %d and %v",
				f.limit, f.procs, with.calls, a.util, without.calls, b.util)
		}
	}
}

// TestCalmBatch: what makes a key calm, and how much it lends then.
func TestCalmBatch(t *testing.T) {
	sparse := func(q *lease.Request) { q.Demand, q.Policy.Mode, q.Policy.MaxHold = 1, lease.PerRequest, hold }
	and := func(change func(*lease.Request)) func(*lease.Request) {
		return func(q *lease.Request) { sparse(q); change(q) }
	}
	for _, c := range []struct {
		name   string
		others func(*lease.Ledger)
		ask    func(*lease.Request)
		burst  float64 // of the reply; 0 is no lease
	}{
		{"what is used in MaxHold", nil, sparse, 5},
		{"nobody knows yet", nil, and(func(q *lease.Request) { q.Demand, q.Take, q.Min = 0, 1, 1 }), 16},
		{"nobody knows yet: half that part of the pool", nil, and(func(q *lease.Request) { q.Demand, q.Take, q.Min, q.Limit.Burst = 0, 1, 1, 100 }), 3},
		{"nobody knows yet: what flows in a 64th of MaxRefresh", nil, and(func(q *lease.Request) {
			q.Demand, q.Take, q.Min, q.Limit = 0, 1, 1, lease.Limit{Rate: 1e6, Burst: 1e6}
		}), 3906},
		{"nobody asks for anything", nil, and(func(q *lease.Request) { q.Demand = 0 }), 0},
		{"no more than a sixteenth of the pool", nil, and(func(q *lease.Request) { q.Demand = 15 }), 62},
		{"no more than the largest", nil, and(func(q *lease.Request) { q.Demand, q.Limit.Burst = 15, 10_000 }), 64},
		{"too busy for it", nil, and(func(q *lease.Request) { q.Demand = 16 }), 0},
		{"larger requests", nil, and(func(q *lease.Request) { q.Demand, q.Policy.Smallest = 10, 40 }), 50},
		{"MaxHold is off", nil, and(func(q *lease.Request) { q.Policy.MaxHold = 250 * ms }), 0},
		{"MaxHold is longer", nil, and(func(q *lease.Request) { q.Policy.MaxHold = 7 * time.Second }), 7},
		{"shares", nil, func(q *lease.Request) { q.Demand, q.Policy.Mode = 1, lease.Shares }, 100},
		{"a sixteenth of the pool", nil, and(func(q *lease.Request) { q.Limit.Burst = 50 }), 3},
		{"too little of it", nil, and(func(q *lease.Request) { q.Limit.Burst = 31 }), 0},
		{"an eighth of the pool is gone", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Take, q.Min, q.Policy.MaxHold = 126, 126, q.Policy.MaxRefresh }))
		}, sparse, 0},
		{"nearly", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Take, q.Min, q.Policy.MaxHold = 124, 124, q.Policy.MaxRefresh }))
		}, sparse, 5},
		{"others want half the rate", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, and(func(q *lease.Request) { q.Demand, q.Limit.Burst = 491, 10_000 })))
		}, and(func(q *lease.Request) { q.Demand, q.Limit.Burst = 10, 10_000 }), 0},
		{"others want nearly half of it", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, and(func(q *lease.Request) { q.Demand, q.Limit.Burst = 489, 10_000 })))
		}, and(func(q *lease.Request) { q.Demand, q.Limit.Burst = 10, 10_000 }), 12},
		{"its part of all demand", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) {
				q.Demand, q.Policy.Mode, q.Policy.MaxHold = 99, lease.PerRequest, q.Policy.MaxRefresh
			}))
		}, sparse, 2},
		{"its part of half of what may be lent", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Demand, q.Policy.Mode = 90, lease.PerRequest }))
		}, and(func(q *lease.Request) {
			q.Demand, q.Policy.Smallest, q.Policy.MaxHold = 10, 40, 30*time.Second
		}), 25},
		{"half of what may be lent is out: its part of that half", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Policy.Mode, q.Policy.Batch = lease.Batches, 300 }))
			l.Exchange(0, ask("c", 1, and(func(q *lease.Request) { q.Demand = 78 })))
		}, sparse, 3},
		{"too small a part", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Policy.Mode, q.Policy.Batch = lease.Batches, 300 }))
			l.Exchange(0, ask("c", 1, and(func(q *lease.Request) { q.Demand = 130 })))
		}, sparse, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l lease.Ledger
			if c.others != nil {
				c.others(&l)
			}
			before := l.View().Pool
			if c.others == nil {
				before = 1000
			}
			r := l.Exchange(0, ask("a", 1, c.ask))
			if r.Burst != c.burst {
				t.Fatalf("%v tokens at most, want %v: %+v", r.Burst, c.burst, r)
			}
			if r.Rate > 0 || c.burst == 0 {
				return
			}
			if r.Add != c.burst || r.Keep != c.burst || r.RateUntil != 0 || r.Refresh != r.Expires || r.Expires < hold {
				t.Errorf("not a batch of %v for %v: %+v", c.burst, hold, r)
			}
			if v := l.View(); r.Limit.Burst == 1000 && math.Abs(before-v.Pool-r.Taken-c.burst) > 1e-9 {
				t.Errorf("the pool had %v and has %v", before, v.Pool)
			}
		})
	}
}

// TestCalmHandsBack: who holds more than the batch, and more than a few, is to
// bring that back with its next exchange, and gets the batch then. A few it may keep.
func TestCalmHandsBack(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("a", 1, demanding(10)))
	r := l.Exchange(ms, ask("a", 2, func(q *lease.Request) { q.Demand, q.Held, q.Policy.MaxHold = 1, 20, hold }))
	if r.Keep != 16 || r.Burst != 20 || r.Refresh < 750*ms || r.Refresh > time.Second || r.Shape != lease.Batch {
		t.Errorf("who holds 20 gets %+v", r)
	}
	r = l.Exchange(250*ms, ask("a", 3, func(q *lease.Request) { q.Demand, q.Held, q.Give, q.Policy.MaxHold = 1, 16, 4, hold }))
	if r.Keep != 16 || r.Burst != 16 || r.Refresh != hold || r.RateUntil != 0 {
		t.Errorf("who holds 16 gets %+v", r)
	}
}

// TestHandedBackSoon: who asks for no lease brings what it has back within MaxRefresh.
func TestHandedBackSoon(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("a", 1, demanding(100)))
	r := l.Exchange(ms, ask("a", 2, func(q *lease.Request) {
		q.Demand, q.Held, q.Policy.Mode, q.Policy.MaxHold = 100, 5, lease.PerRequest, q.Policy.MaxRefresh
	}))
	if r.Shape != lease.Batch || r.Keep != 0 || r.Refresh != 250*ms {
		t.Errorf("%+v", r)
	}
}

// TestFirstLeaseStays: what is left of the first lease of a generous limit need not
// come back, and the next exchange is as late as one for a few tokens.
func TestFirstLeaseStays(t *testing.T) {
	var l lease.Ledger
	generous := func(demand, take, held float64) func(*lease.Request) {
		return func(q *lease.Request) {
			q.Limit = lease.Limit{Rate: 1e6, Burst: 1e6}
			q.Demand, q.Take, q.Min, q.Held, q.Policy.MaxHold = demand, take, take, held, hold
		}
	}
	l.Exchange(0, ask("a", 1, generous(0, 1, 0)))
	r := l.Exchange(time.Second, ask("a", 2, generous(1, 0, 3000)))
	if r.Shape != lease.LongBatch || r.Keep != 3000 || r.Refresh != hold {
		t.Errorf("a holder of 3000 of 3906 gets %+v", r)
	}
}

// calmly answers a holder's request with a batch of a calm key.
func calmly(h *lease.Holder, now time.Duration, q lease.Request, batch float64) {
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Taken: q.Take, Add: batch - q.Held, Burst: batch, Keep: batch,
		Refresh: hold, Expires: hold, Shape: lease.LongBatch, Limit: thousand, Holders: 1,
	})
}

// calm returns a holder that has just got a batch of 5 tokens, at a minute.
func calm(t *testing.T) *lease.Holder {
	t.Helper()
	h := lease.NewHolder("a", thousand, &lease.Policy{MaxHold: hold}, 1)
	now := time.Minute - 5*time.Second
	for ; now < time.Minute; now += time.Second {
		if h.Take(now, 1) != lease.Pending {
			t.Fatal("it has tokens")
		}
		h.Enter(&lease.Waiter{N: 1})
		q, ok := h.Request(now)
		if !ok {
			t.Fatal("it does not ask")
		}
		r := lease.Reply{Seq: q.Seq, Taken: q.Take, Limit: thousand, Holders: 1}
		h.Handle(now, r)
	}
	h.Take(now, 1)
	h.Enter(&lease.Waiter{N: 1})
	q, _ := h.Request(now)
	if q.Policy.MaxHold != hold || q.Policy.Mode != lease.PerRequest || q.Demand < 0.5 || q.Demand > 1.5 {
		t.Fatalf("one request a second asks with %+v", q)
	}
	calmly(h, now, q, 5)
	h.Request(now)
	return h
}

// TestCalmBatchLapses: nobody comes back for a batch that is not used, and it
// ends before the ledger says so.
func TestCalmBatchLapses(t *testing.T) {
	h := calm(t)
	if wake := h.Ready(time.Minute + ms).Wake; wake != math.MaxInt64 {
		t.Errorf("it wants to be woken at %v", wake)
	}
	if !h.Idle(time.Minute + time.Second) {
		t.Error("its key may not be evicted, though the batch lapses by itself")
	}
	if q, ok := h.Request(time.Minute + hold - 10*ms); ok {
		t.Errorf("it asks, though there were no requests: %+v", q)
	}
	if l := h.Lease(time.Minute + hold - 10*ms); l.Tokens != 5 || l.Rate != 0 || l.Lives > time.Second {
		t.Errorf("it holds %+v", l)
	}
	if v := h.Take(time.Minute+hold-5*ms, 1); v != lease.Pending {
		t.Errorf("%v 5 ms before its end: a slow clock needs a margin", v)
	}
}

// TestCalmBatchIsRenewedAhead: requests make it ask for the next batch while
// there are tokens left, and wait for none.
func TestCalmBatchIsRenewedAhead(t *testing.T) {
	used := func(at ...time.Duration) (asked time.Duration) {
		h := calm(t)
		for _, at := range at {
			now := time.Minute + at
			if h.Take(now, 1) != lease.Admitted {
				t.Fatalf("%v after the last exchange a request waits", at)
			}
			if !h.Due(now) {
				continue
			}
			if q, ok := h.Request(now); ok {
				if q.Take != 0 || q.Held != h.Lease(now).Tokens || q.Give != 0 {
					t.Errorf("it asks with %+v", q)
				}
				return at
			}
		}
		return 0
	}
	second := time.Second
	if at := used(second/2, second, 3*second/2, 2*second); at != 2*second {
		t.Errorf("it asks at %v, the fourth of five was used at 2s", at)
	}
	if at := used(second, 2*second, 4*second); at != 4*second {
		t.Errorf("it asks at %v, the last quarter of its time begins by 3.75s", at)
	}
}

// TestCalmHolderHearsOfLimit: who uses a batch is polled within MaxRefresh, to learn
// a changed limit, and then asks with it at once.
func TestCalmHolderHearsOfLimit(t *testing.T) {
	h := calm(t)
	h.Request(time.Minute + 500*ms)
	now := time.Minute + 760*ms
	if h.Take(now, 1); !h.Due(now) {
		t.Fatal("260 ms after the last look it is not looked at")
	}
	h.SetLimit(lease.Limit{Rate: 10, Burst: 10})
	if q, ok := h.Request(now); !ok || q.Limit.Rate != 10 {
		t.Errorf("it does not tell the ledger: %v %+v", ok, q)
	}
}

// TestCalmNeedsMeasuring: for all that one who comes for the first time may
// want, a calm batch of some seconds will do; a stream that began a moment ago,
// or whose requests do not fit, is lent nothing for long.
func TestCalmNeedsMeasuring(t *testing.T) {
	h := lease.NewHolder("a", thousand, &lease.Policy{}, 1)
	now := time.Minute
	h.Take(now, 1)
	h.Enter(&lease.Waiter{N: 1})
	q, _ := h.Request(now)
	if q.Policy.MaxHold != 15*time.Second {
		t.Errorf("the first request asks for a calm batch of %v", q.Policy.MaxHold)
	}
	h.Handle(now, lease.Reply{Seq: 1, Taken: 1, Limit: thousand})
	h.Take(now+ms, 1)
	h.Enter(&lease.Waiter{N: 1})
	if q, _ = h.Request(now + ms); q.Seq != 2 || q.Policy.MaxHold != q.Policy.MaxRefresh {
		t.Errorf("the second one, at once, asks for a calm batch: %+v", q)
	}
	h = calm(t)
	now += 100 * ms
	if h.Take(now, 20) != lease.Pending {
		t.Fatal("20 of 5 tokens are admitted")
	}
	h.Enter(&lease.Waiter{N: 20})
	if q, _ := h.Request(now); q.Policy.MaxHold != q.Policy.MaxRefresh {
		t.Errorf("a request that no batch holds asks for one: %+v", q)
	}
	for _, mode := range []lease.Mode{lease.PerRequest, lease.Batches, lease.Shares} {
		h := lease.NewHolder("a", thousand, &lease.Policy{Mode: mode}, 1)
		for i := range 3 {
			now := time.Minute + time.Duration(i)*time.Second
			h.Take(now, 1)
			h.Enter(&lease.Waiter{N: 1})
			q, _ := h.Request(now)
			if q.Policy.MaxHold != q.Policy.MaxRefresh {
				t.Errorf("%v asks for a calm batch", mode)
			}
			h.Handle(now, lease.Reply{Seq: q.Seq, Taken: q.Take, Limit: thousand})
		}
	}
}

// TestCalmEndIsNoticed: what a calm key has lent and nobody comes back for is
// set aside until the era passes in which it ended: up to 30 s, by default.
func TestCalmEndIsNoticed(t *testing.T) {
	const hold = 30 * time.Second
	for _, start := range []time.Duration{60 * time.Second, 72 * time.Second, 90*time.Second - time.Microsecond} {
		var l lease.Ledger
		l.Exchange(start, ask("a", 1, func(q *lease.Request) { q.Demand, q.Policy.Mode = 1, lease.PerRequest }))
		noticed := start.Truncate(hold) + 2*hold
		each := func(q *lease.Request) { q.Policy.Mode = lease.PerRequest }
		l.Exchange(noticed-time.Microsecond, ask("b", 1, each))
		if v := l.View(); len(v.Holders) != 2 || v.Bursts != 30 {
			t.Errorf("a batch of %v is forgotten before %v: %+v", start, noticed, v)
		}
		l.Exchange(noticed, ask("b", 2, each))
		if v := l.View(); len(v.Holders) != 1 || v.Bursts != 0 {
			t.Errorf("a batch of %v is still there at %v: %+v", start, noticed, v)
		}
	}
}

// TestCalmLeaseShortens: a holder with a batch for seconds gets a slice that lives
// shorter. Until it has heard of that, the ledger counts on the longer life, and
// does not forget it however often it looks at all holders.
func TestCalmLeaseShortens(t *testing.T) {
	var l lease.Ledger
	const hold = 30 * time.Second
	l.Exchange(0, ask("a", 1, func(q *lease.Request) { q.Demand, q.Policy.Mode = 1, lease.PerRequest }))
	r := l.Exchange(ms, ask("a", 2, func(q *lease.Request) { q.Demand, q.Claim.Left = 600, hold-ms }))
	if r.Rate == 0 || r.Expires > time.Second {
		t.Fatalf("no slice: %+v", r)
	}
	for i := range uint64(299) { // the rate ends, and is noticed
		l.Exchange(time.Duration(i+1)*100*ms, ask("b", i+1, nil))
	}
	v := l.View()
	if a := find(v, "a"); a == nil || !a.Ended || a.Expires() != hold {
		t.Errorf("before the end of the batch the ledger knows %+v", v)
	}
	for i := range uint64(301) {
		l.Exchange(hold+time.Duration(i)*100*ms, ask("b", i+300, nil))
	}
	if v := l.View(); find(v, "a") != nil {
		t.Errorf("30 s after its end it is still there: %+v", v)
	}
}

// TestCalmClaim is I6: a batch of a state that was lost is believed for as long
// as any may live, an era, whatever the request says of its policy.
func TestCalmClaim(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("a", 1, func(q *lease.Request) {
		q.Held, q.Claim = 4, lease.Claim{Burst: 5, Left: time.Hour}
		q.Policy.Mode = lease.PerRequest
		q.Policy.MaxHold = hold
	}))
	if a := find(l.View(), "a"); a == nil || a.Expires() != 30*time.Second || a.Burst != 4 {
		t.Errorf("the claim is taken for %+v", a)
	}
}

// TestCalmWidth: the calendar's ticks are no wider than the shares' MaxRefresh
// needs them, unless MaxHold is longer than 120 of it.
func TestCalmWidth(t *testing.T) {
	for _, c := range []struct {
		policy lease.Policy
		width  float64 // µs
	}{
		{lease.Policy{}, 62500},
		{lease.Policy{MaxHold: time.Minute}, 125000},
		{lease.Policy{MaxHold: time.Minute - 1}, 125000}, // of whole µs, rounded up
		{lease.Policy{MaxRefresh: 100 * ms}, 62500},
		{lease.Policy{MaxRefresh: 100 * ms, MaxHold: time.Second}, 25000},
		{lease.Policy{MaxRefresh: time.Hour}, 900e6},
	} {
		var l lease.Ledger
		l.Exchange(0, ask("a", 1, func(q *lease.Request) { q.Policy = c.policy.Resolved() }))
		if v := l.View(); v.Tick != c.width {
			t.Errorf("%+v: a tick of %v µs, want %v", c.policy, v.Tick, c.width)
		}
	}
}

// TestFlashAfterCalm: batches of a calm time, which nobody uses any more, leave a
// flash nearly the whole Burst.
func TestFlashAfterCalm(t *testing.T) {
	for _, c := range []struct {
		limit lease.Limit
		least float64 // tokens for the flash
	}{
		{lease.Limit{Rate: 10, Burst: 1000}, 930},
		{lease.Per(100, time.Minute).WithBurst(33), 30},
		{lease.Limit{Rate: 1000, Burst: 1000}, 740},
	} {
		var l lease.Ledger
		for i := range 50 {
			for seq := range uint64(2) {
				at := time.Duration(i)*100*ms + time.Duration(seq)*3*time.Second
				l.Exchange(at, ask(fmt.Sprint("p", i), seq+1, func(q *lease.Request) {
					q.Limit, q.Seen, q.Take, q.Min = c.limit, seq, 1, 1
					q.Demand, q.Policy.Mode, q.Policy.MaxHold = 0.3*float64(seq), lease.PerRequest, 30*time.Second
				}))
			}
		}
		r := l.Exchange(22*time.Second, ask("flash", 1, func(q *lease.Request) {
			q.Limit, q.Take, q.Min = c.limit, float64(c.limit.Burst), 1
			q.Policy.Mode, q.Policy.MaxHold = lease.PerRequest, q.Policy.MaxRefresh
		}))
		if r.Taken < c.least {
			t.Errorf("%v: a flash gets %v tokens, want %v", c.limit, r.Taken, c.least)
		}
	}
}

// TestLargeFleetFromTheStart: the first leases of a thousand processes that come together,
// and nearly use up the limit, leave the others room for leases.
func TestLargeFleetFromTheStart(t *testing.T) {
	f := fleet{
		limit: lease.Limit{Rate: 100_000, Burst: 100_000}, procs: 1000, offered: 0.95,
		rtt: ms, timeout: 50 * ms, duration: 2 * time.Second,
	}
	if s := f.sim(1); s.calls > 20*f.procs {
		t.Errorf("%d exchanges of %d processes in %v", s.calls, f.procs, f.duration)
	} else {
		t.Logf("%d exchanges", s.calls)
	}
}
