package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A group is the requests of one class at one process, each for n tokens: callers that wait, and
// ask again a millisecond after they are served, or requests that do not wait, so many a second.
type group struct {
	process, class int
	n              float64
	callers        int
	rate           float64 // by chance, or where steady evenly
	steady         bool
}

// A crowd is groups that ask for a limit of classes.
type crowd struct {
	limit   lease.Limit
	policy  lease.Policy
	classes []lease.Class
	groups  []group
}

// floored has its floor, and whoever comes has the rest.
var floored = []lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}}

// run plays the seconds from the third on, and returns what each class has asked for without
// waiting, and what it got, in tokens, and the calls.
func (c crowd) run(t *testing.T, seconds int, seed uint64) (asked, got [lease.MaxClasses]float64, calls int) {
	t.Helper()
	f := fleet{
		limit: c.limit, policy: c.policy, rtt: time.Millisecond, timeout: 250 * time.Millisecond,
		offered: 1e-9,
	}
	for _, g := range c.groups {
		f.procs = max(f.procs, g.process+1)
	}
	s := f.begin(seed)
	s.cost = 0 // what is admitted is counted here
	for _, p := range s.procs {
		p.holder.Divide(c.classes)
	}
	counts := false
	admitted := func(class int, n float64) {
		s.excess = max(s.excess, s.spent.pour(s.now, n)-float64(s.limit.Burst))
		if counts {
			got[class] += n
		}
	}
	var ask func(g group)
	ask = func(g group) {
		p := s.procs[g.process]
		p.holder.As(uint8(g.class))
		if counts {
			asked[g.class] += g.n
		}
		w := &lease.Waiter{N: g.n, Class: uint8(g.class), Tag: g}
		if g.callers > 0 {
			w.Until = s.now + time.Hour
		}
		switch w.Verdict = p.holder.Take(s.now, g.n); {
		case w.Verdict == lease.Admitted:
			admitted(g.class, g.n)
			if g.callers > 0 {
				s.after(time.Millisecond, func() { ask(g) })
			}
		case w.Verdict == lease.Pending || g.callers > 0:
			p.holder.Enter(w)
		}
		if p.holder.Due(s.now) {
			s.poll(p)
		}
	}
	s.resolved = func(p *process, w *lease.Waiter) {
		g := w.Tag.(group)
		if w.Verdict == lease.Admitted {
			admitted(g.class, g.n)
		}
		if g.callers > 0 {
			s.after(time.Millisecond, func() { ask(g) })
		}
	}
	for _, g := range c.groups {
		for range g.callers {
			s.after(s.exponential(1000), func() { ask(g) })
		}
		if g.rate > 0 {
			var next func()
			next = func() {
				ask(g)
				pause := s.exponential(g.rate)
				if g.steady {
					pause = time.Duration(1e9 / g.rate)
				}
				s.after(pause, next)
			}
			s.after(s.exponential(g.rate), next)
		}
	}
	s.play(2 * time.Second)
	counts, s.calls = true, 0
	s.play(time.Duration(2+seconds) * time.Second)
	if s.excess > 1 {
		t.Errorf("seed %d: %v tokens above the envelope", seed, s.excess)
	}
	return asked, got, s.calls
}

// TestClassOfLargerRequests: a class that asks steadily, within its floor, for several tokens at a
// time has them, beside a process of another class that takes all it can. Nothing of a lease is kept
// for the noise of classes that have no part of it.
func TestClassOfLargerRequests(t *testing.T) {
	for _, n := range []float64{1, 10, 20} {
		c := crowd{limit: lease.Limit{Rate: 1000, Burst: 1000}, classes: floored, groups: []group{
			{process: 0, class: 0, n: n, rate: 400 / n, steady: true},
			{process: 1, class: 1, n: 1, rate: 3000},
		}}
		for seed := range uint64(3) {
			asked, got, calls := c.run(t, 10, seed+1)
			t.Logf("requests of %v tokens, seed %d: %v of %v, and %v; %d calls", n, seed+1, got[0], asked[0], got[1], calls)
			if got[0] < 0.97*asked[0] || got[0]+got[1] < 9900 {
				t.Errorf("requests of %v tokens, seed %d: %v of %v, beside %v", n, seed+1, got[0], asked[0], got[1])
			}
		}
	}
}
