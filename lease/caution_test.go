package lease_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A wary is a ledger of 1000 tokens/s, of which b asks for each request.
type wary struct {
	*testing.T
	ledger lease.Ledger
	at     time.Duration
	seq    uint64
	hold   time.Duration // Policy.MaxHold
}

// after is an exchange of b, which has denied so many tokens, and now takes some.
func (w *wary) after(d time.Duration, denied, takes float64) {
	w.seq++
	w.at += d
	w.ledger.Exchange(w.at, ask("b", w.seq, func(q *lease.Request) {
		q.Policy = lease.Policy{Mode: lease.PerRequest, MaxHold: w.hold}.Resolved()
		q.Denied, q.Take, q.Min = denied, takes, takes
	}))
}

func (w *wary) caution(of string, want float64) {
	w.Helper()
	if got := w.ledger.View().Caution; math.Abs(got-want) > 0.02 {
		w.Errorf("%s: caution is %v, want %v", of, got, want)
	}
}

// lent is what a gets, whose demand is known.
func (w *wary) lent(mode lease.Mode) (r lease.Reply) {
	for seq := range uint64(2) {
		r = w.ledger.Exchange(w.at, ask("a", seq+1, func(q *lease.Request) {
			q.Demand, q.Policy = 1500, lease.Policy{Mode: mode}.Resolved()
		}))
	}
	return r
}

// TestCaution: what is lost shortly before or after others are denied makes parts smaller, for a
// while.
func TestCaution(t *testing.T) {
	for _, hold := range []time.Duration{0, time.Hour} { // ticks are wide then
		testCaution(t, hold)
	}
}

func testCaution(t *testing.T, hold time.Duration) {
	w := &wary{T: t, hold: hold}
	w.after(time.Second, 0, 0)
	w.after(time.Second, 0, 0)
	w.caution("the pool is full, and nobody was denied", 0)
	w.after(0, 50, 0)
	w.caution("what was lost before would have found no room", 0)
	w.after(300*ms, 0, 0)
	rise := 14 * 0.05 * (1 - 0.03)
	w.caution("300 were lost 300 ms after 50 were denied", rise)
	w.after(300*ms, 0, 0)
	w.caution("no more were denied", rise-0.03*(1+rise))
	for range 7 {
		w.after(time.Second, 0, 0)
	}
	w.caution("after 7 s", 0)

	w.after(0, 50, 1000)
	for range 150 {
		w.after(100*ms, 0, 100)
	}
	for range 4 {
		w.after(300*ms, 0, 0)
	}
	w.caution("50 were denied 16 s ago", 14*0.05*math.Pow(0.99, 150)*math.Pow(0.97, 4))
	for range 9 {
		w.after(time.Second, 0, 0)
	}
	w.after(0, 1e6, 0)
	w.after(320*ms, 0, 0)
	w.caution("nobody came for longer than 1.25 MaxRefresh", 0)
	w.after(0, 1e6, 0)
	w.after(300*ms, 0, 0)
	w.caution("all of 300 ms was lost", 14*0.3)
	w.after(0, 1e6, 0)
	w.after(300*ms, 0, 0)
	w.caution("and again", 15)
}

// TestSlowLimitRemembers: a limit of few requests is silent between them, and nobody is late.
func TestSlowLimitRemembers(t *testing.T) {
	for _, after := range []time.Duration{1900 * ms, 3 * time.Second} {
		var l lease.Ledger
		for seq, denied := range []float64{0, 1, 0} {
			l.Exchange(time.Duration(seq)*after, ask("b", uint64(seq)+1, func(q *lease.Request) {
				q.Limit.Rate, q.Limit.Burst, q.Denied = 5, 10, denied
				q.Take, q.Min = float64(seq%2*8), float64(seq%2*8)
			}))
		}
		// 8 tokens flow in 1.6 s: 1.25 times that is 2 s, and from the end of the holder's record on.
		if got := l.View().Caution; (got > 0) != (after < 2*time.Second) {
			t.Errorf("one was denied %v before tokens were lost: caution is %v", after, got)
		}
	}
}

// TestLostBeforeDenied: tokens of a lease that ended were lost while the pool was not full. Who is
// denied later would have had them.
func TestLostBeforeDenied(t *testing.T) {
	for _, denied := range []float64{0, 30} {
		w := &wary{T: t}
		w.after(0, 0, 1000) // the pool is empty
		for seq := range uint64(3) {
			w.at += 10 * ms
			w.ledger.Exchange(w.at, ask("a", seq+1, func(q *lease.Request) {
				q.Demand, q.Seen, q.Peak = 1500, seq, 500
			}))
		}
		w.after(50*ms, 0, 0)
		if lost := w.ledger.View().Denied; lost > -1 {
			t.Fatalf("%v were lost", -lost)
		}
		w.after(10*ms, denied, 0)
		if got := w.ledger.View().Caution; (got > 0.01) != (denied > 0) {
			t.Errorf("%v denied after tokens were lost: caution is %v", denied, got)
		}
	}
}

// TestStalls: what a store costs that answers nobody for a while says nothing of how the bucket is
// divided. Two seconds later a key needs the calls that it needed before.
func TestStalls(t *testing.T) {
	for _, f := range []fleet{
		{procs: 4, limit: lease.Limit{Rate: 1000, Burst: 200}, offered: 3.3},
		{procs: 4, limit: lease.Limit{Rate: 1000, Burst: 200}, offered: 1.1},
		{procs: 20, limit: lease.Limit{Rate: 1000, Burst: 200}, offered: 2},
		{procs: 10, limit: lease.Limit{Rate: 10000, Burst: 1000}, offered: 2},
		{procs: 5, limit: lease.Limit{Rate: 100, Burst: 25}, offered: 2},
	} {
		f.rtt, f.timeout = ms, 250*ms
		calls := func(stall time.Duration) (n int) {
			for seed := range uint64(3) {
				s := f.begin(seed)
				s.after(4*time.Second, func() { s.stuck = s.now + stall })
				s.play(6*time.Second + stall)
				n -= s.calls
				s.play(9*time.Second + stall)
				n += s.calls
			}
			return n
		}
		calm := calls(0)
		for _, stall := range []time.Duration{300 * ms, 600 * ms, time.Second} {
			n := float64(calls(stall)) / float64(calm)
			text := fmt.Sprintf("%d processes, %v/s burst %d, %v times that: %v later %.2f times the calls",
				f.procs, f.limit.Rate, f.limit.Burst, f.offered, stall, n)
			if t.Log(text); n > 1.2 {
				t.Error(text)
			}
		}
	}
}

// A cautious ledger has lost 300 tokens, and so many were denied.
func cautious(t *testing.T, denied float64) *wary {
	w := &wary{T: t}
	w.after(time.Second, 0, 0) // the pool is full
	w.after(0, denied, 0)
	w.after(300*ms, 0, 0)
	return w
}

// TestCautionLendsLess: mode auto lends less by it. Others lend as they are told.
func TestCautionLendsLess(t *testing.T) {
	for _, mode := range []lease.Mode{lease.Auto, lease.Shares} {
		calm, wary := cautious(t, 0).lent(mode), cautious(t, 100).lent(mode)
		less := wary.Burst < calm.Burst*0.7
		if less != (mode == lease.Auto) || !less && calm.Burst != wary.Burst || calm.Burst < 100 {
			t.Errorf("%v lends %v, and %v with caution", mode, calm.Burst, wary.Burst)
		}
	}
}

// TestCautionHurries: with it holders come back sooner.
func TestCautionHurries(t *testing.T) {
	back := map[float64]time.Duration{}
	for _, denied := range []float64{0, 100} {
		w := cautious(t, denied)
		for seq := range uint64(2) { // so little is no unrest
			r := w.ledger.Exchange(w.at, ask("a", seq+1, func(q *lease.Request) {
				q.Demand, q.Policy.MaxHold = 10, q.Policy.MaxRefresh
			}))
			back[denied] = r.Refresh
		}
	}
	if back[100] > back[0]*3/4 {
		t.Errorf("back after %v, and after %v with caution", back[0], back[100])
	}
}

// TestCautionLendsBatches: with caution a batch takes the place of a slice.
func TestCautionLendsBatches(t *testing.T) {
	for denied, want := range map[float64]lease.Shape{0: lease.Slice, 5: lease.Batch} {
		var l lease.Ledger
		exchange := func(of string, seq uint64, demand, denied float64) lease.Reply {
			return l.Exchange(time.Duration(seq)*100*ms, ask(of, seq, func(q *lease.Request) {
				q.Limit.Rate, q.Limit.Burst, q.Demand, q.Denied = 100, 50, demand, denied
				if of == "b" {
					q.Policy.Mode = lease.PerRequest
				}
			}))
		}
		exchange("b", 1, 80, denied)
		exchange("b", 2, 80, 0) // 10 were lost
		exchange("a", 3, 60, 0)
		if r := exchange("a", 4, 60, 0); r.Shape != want {
			t.Errorf("%v denied: %v is lent, want %v", denied, r.Shape, want)
		}
	}
}

// TestOverflowIsRegretted: so does what overflows a lease and does not come back.
func TestOverflowIsRegretted(t *testing.T) {
	for _, denied := range []float64{0, 30} {
		o := newOverflow(t)
		o.seq++
		o.ledger.Exchange(o.at, ask("b", o.seq, func(q *lease.Request) {
			q.Policy, q.Demand, q.Denied = o.policy, 700, denied
		}))
		o.at += 100 * ms
		for i := range 8 { // the pool fills up: it has no room for what overflows
			o.at += time.Duration(i) * ms
			o.exchange("a", min(o.lent("a"), 20), 40)
		}
		if got := o.ledger.View().Caution; (got > 0.01) != (denied > 0) {
			t.Errorf("%v denied: caution is %v", denied, got)
		}
	}
}

// TestWhoWaitsIsNotDenied: a caller whom Take has denied, and who waits, is denied when the time is up.
func TestWhoWaitsIsNotDenied(t *testing.T) {
	h := &bench{leased(t, share), time.Second}
	h.spend(50)
	for _, enters := range []bool{false, true} {
		h.Probe(h.now, true)
		q, _ := h.Request(h.now)
		h.Handle(h.now, lease.Reply{
			Seq: q.Seq, Shape: lease.Slice, Rate: 1e-6, Burst: 50, Keep: 50, RetryAfter: time.Minute,
			Refresh: time.Minute, RateUntil: time.Minute, Expires: time.Minute,
		})
		if v := h.Take(h.now, 6); v != lease.Denied {
			t.Fatalf("%v", v)
		}
		want := 6.0
		if enters {
			h.Enter(&lease.Waiter{N: 6, Verdict: lease.Denied, Until: h.now + time.Hour})
			want = 0
		}
		h.Probe(h.now, true)
		if q, ok := h.Request(h.now); !ok || q.Denied != want {
			t.Errorf("enters %v: %v, %v denied, want %v", enters, ok, q.Denied, want)
		}
		h.Fail(h.now)
		h.now += time.Second
	}
}

// TestDeniedIsTold: a request tells once how much was denied since the one before: by Take, by a
// Settle, and of those who waited.
func TestDeniedIsTold(t *testing.T) {
	h := &bench{leased(t, share), time.Second}
	h.spend(50)
	h.Enter(&lease.Waiter{N: 5})
	h.Request(h.now)
	h.Handle(h.now, lease.Reply{
		Seq: 2, Shape: lease.Slice, Rate: 1e-6, Burst: 50, Keep: 50, RetryAfter: time.Minute,
		Refresh: time.Minute, RateUntil: time.Minute, Expires: time.Minute,
	})
	if v := h.Take(h.now, 6); v != lease.Denied {
		t.Fatalf("%v", v)
	}
	h.Settle(h.now, 0, 4)
	for _, want := range []float64{15, 0} {
		h.Probe(h.now, true)
		q, ok := h.Request(h.now)
		if !ok || q.Denied != want {
			t.Errorf("%v, %v denied, want %v", ok, q.Denied, want)
		}
		h.Fail(h.now)
		h.now += time.Second
	}
}
