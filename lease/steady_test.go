package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestLongSlices: slices last for as long as all holders together use a Burst.
func TestLongSlices(t *testing.T) {
	const most = 5 * time.Second // a sixth of MaxHold
	for _, c := range []struct {
		name          string
		lasts, demand float64
		take          float64
		change        func(*lease.Request)
		back          time.Duration
	}{
		{"little demand", 20, 100, 0, nil, most},
		{"much demand", 20, 500, 0, nil, 2 * time.Second},
		{"in unrest", 0.2, 500, 0, nil, 800 * ms},
		{"a short MaxHold", 20, 100, 0, func(q *lease.Request) { q.Policy.MaxHold = 6 * time.Second }, time.Second},
		{"a caller reserves", 20, 100, 200, func(q *lease.Request) { q.Hold, q.Policy.Batch = lease.WhileOpen, 100 }, 250 * ms},
		{"no MaxHold", 20, 100, 0, func(q *lease.Request) { q.Policy.MaxHold = q.Policy.MaxRefresh }, 748 * ms},
	} {
		var l lease.Ledger
		now, seq := time.Duration(0), uint64(0)
		exchange := func(change func(*lease.Request)) lease.Reply {
			seq++
			return l.Exchange(now, ask("a", seq, func(q *lease.Request) {
				q.Demand, q.Lag = c.demand, 2*ms
				if change != nil {
					change(q)
				}
			}))
		}
		for ; now.Seconds() < c.lasts; now += 100 * ms {
			exchange(nil)
		}
		now += 100 * ms
		r := exchange(func(q *lease.Request) {
			q.Take, q.Min, q.Policy.Batch = c.take, c.take, 1e4
			if c.change != nil {
				c.change(q)
			}
		})
		if r.Shape != lease.Slice || (r.Refresh-c.back).Abs() > c.back/10 {
			t.Errorf("%s: %v, back after %v, not %v", c.name, r.Shape, r.Refresh, c.back)
		}
	}
}

// TestLongSlicesOfMany: slices that last long cost others no more than a Burst, whatever happens:
// half of the processes crash, as many come, or the state is lost.
func TestLongSlicesOfMany(t *testing.T) {
	for _, burst := range []int64{300, 1000} {
		f := fleet{
			limit: lease.Limit{Rate: 1000, Burst: burst}, procs: 20, offered: 0.8, rtt: ms,
			timeout: 50 * ms, duration: 30 * time.Second,
		}
		begin := func(f fleet) *simulation {
			s := f.begin(1)
			s.play(20 * time.Second)
			return s
		}
		served := func(s *simulation, list []*process, until time.Duration) (part, missing float64) {
			sums := func() (offered, admitted float64) {
				for _, p := range list {
					offered, admitted = offered+p.offered, admitted+p.admitted
				}
				return
			}
			o, a := sums()
			s.play(until)
			offered, admitted := sums()
			return (admitted - a) / (offered - o), offered - o - (admitted - a)
		}

		s := begin(f)
		for i, p := range s.procs {
			if i%2 == 0 {
				s.start(p)
			}
		}
		// Half of the leases have a quarter of the Burst, and add half of it. The pool has half of it.
		if _, missing := served(s, s.procs, 25*time.Second); missing > 0.3*float64(burst) {
			t.Errorf("burst %d: half of all crash, and %.0f requests are denied", burst, missing)
		}

		s = begin(f)
		var came []*process
		for range 20 {
			came = append(came, s.join(40))
		}
		if part, _ := served(s, came, 22*time.Second); part < 0.5 {
			t.Errorf("burst %d: of those that come %.3f is admitted", burst, part)
		}

		f.flush = 20 * time.Second
		s = begin(f)
		for range 20 {
			s.join(150)
		}
		s.play(30 * time.Second)
		if most := float64(burst); s.excess > most {
			t.Errorf("burst %d: %.0f tokens are above it when the state is lost", burst, s.excess)
		}
	}
}

// steadily is a slice that is lent for long.
var steadily = lease.Reply{
	Add: 50, Rate: 100, Burst: 50, Keep: 50, Shape: lease.Slice,
	Refresh: time.Second, RateUntil: 1062 * ms, Expires: 1312 * ms, Holders: 1,
}

// TestSteadyHolder: it comes back when the slice is due, and at once when its
// traffic has gone elsewhere or its limit is another one.
func TestSteadyHolder(t *testing.T) {
	run := func(gone time.Duration, limit lease.Limit) (asked time.Duration, q lease.Request) {
		h := bench{leased(t, share), time.Second}
		h.Request(h.now)
		for ; h.now < 3*time.Second; h.now += 10 * ms { // 100/s
			if h.now < time.Second+gone {
				h.Take(h.now, 1)
			}
			if h.now == 1500*ms {
				h.SetLimit(limit)
			}
			if !h.Due(h.now) {
				continue
			}
			q, ok := h.Request(h.now)
			if h.now < 1400*ms && ok {
				r := steadily
				r.Seq, r.Add, r.Limit = q.Seq, 0, thousand
				h.Handle(h.now, r)
				h.Request(h.now)
			} else if ok {
				return h.now - time.Second, q
			}
		}
		return 0, lease.Request{}
	}
	if at, q := run(time.Hour, thousand); at < 900*ms || at > 1400*ms || q.Held == 0 {
		t.Errorf("with steady traffic it asks after %v: %+v", at, q)
	}
	if at, q := run(450*ms, thousand); at < 690*ms || at > 700*ms || q.Held != 0 || q.Give == 0 {
		t.Errorf("after silence since 450 ms it asks after %v: %+v", at, q)
	}
	lower := lease.Limit{Rate: 200, Burst: 200}
	if at, q := run(time.Hour, lower); at < 500*ms || at > 760*ms || q.Limit != lower {
		t.Errorf("with a new limit after 500 ms it asks after %v: %+v", at, q)
	}
}

// TestCrashedSteadyIsNoticed is I7: once others want what a process that crashed
// was lent for long, its rate flows back soon after it has ended, not when an
// era passes. While little is wanted, nobody looks.
func TestCrashedSteadyIsNoticed(t *testing.T) {
	for _, c := range []struct {
		demand  float64 // of another
		noticed time.Duration
	}{{600, 15 * time.Second}, {100, 30 * time.Second}} {
		var l lease.Ledger
		now, r := time.Duration(0), lease.Reply{}
		for i := range uint64(101) {
			now = time.Duration(i) * 100 * ms
			r = l.Exchange(now, ask("a", i+1, func(q *lease.Request) { q.Demand, q.Policy.Batch = 200, 1000 }))
		}
		if until := r.RateUntil; until < 4*time.Second || until > 5100*ms {
			t.Fatalf("not lent for long: %+v", r)
		}
		for i := range uint64(300) {
			now += 100 * ms
			l.Exchange(now, ask("b", i+1, demanding(c.demand)))
			if a := find(l.View(), "a"); (a == nil) != (now >= c.noticed) {
				t.Errorf("demand %v: at %v the ledger knows %+v", c.demand, now, a)
				break
			}
		}
	}
}
