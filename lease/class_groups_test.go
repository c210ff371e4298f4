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
	even    bool // see fleet
}

// floored has its floor, and whoever comes has the rest.
var floored = []lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}}

// run plays the seconds from the third on, and returns what each class has asked for without
// waiting, and what it got, in tokens, and the calls.
func (c crowd) run(t *testing.T, seconds int, seed uint64) (asked, got [lease.MaxClasses]float64, calls int) {
	t.Helper()
	f := fleet{
		limit: c.limit, policy: c.policy, rtt: time.Millisecond, timeout: 250 * time.Millisecond,
		offered: 1e-9, even: c.even,
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

// runs is the sum of so many plays.
func (c crowd) runs(t *testing.T, seconds, seeds int) (asked, got [lease.MaxClasses]float64, calls int) {
	t.Helper()
	for seed := range seeds {
		a, g, n := c.run(t, seconds, uint64(seed+1))
		for class := range a {
			asked[class] += a[class]
			got[class] += g[class]
		}
		calls += n
	}
	return asked, got, calls
}

// TestClassOfLargerRequests: a class that asks within its floor for several tokens at a time has them,
// beside a process of another class that takes all it can. Nothing of a lease is kept for the noise of
// classes that have no part of it.
func TestClassOfLargerRequests(t *testing.T) {
	for _, c := range []struct {
		n      float64
		steady bool
		least  float64 // of what is asked, in the mean of all seeds
	}{{1, true, 0.999}, {10, true, 0.999}, {20, true, 0.999}, {20, false, 0.95}, {50, false, 0.85}} {
		crowd := crowd{limit: lease.Limit{Rate: 1000, Burst: 1000}, classes: floored, groups: []group{
			{process: 0, class: 0, n: c.n, rate: 400 / c.n, steady: c.steady},
			{process: 1, class: 1, n: 1, rate: 3000},
		}}
		asked, got, calls := crowd.runs(t, 10, 6)
		t.Logf("%+v: %.3f of %.0f, and %.0f; %d calls", c, got[0]/asked[0], asked[0], got[1], calls)
		if got[0] < c.least*asked[0] || got[0]+got[1] < 0.97*6*10_000 { // the pool fills meanwhile
			t.Errorf("%+v: %v of %v, beside %v", c, got[0], asked[0], got[1])
		}
	}
}

// TestClassesOfASmallLimit: where each request asks, too, a class that asks within its floor has about
// what it asks, beside one that takes all it can.
func TestClassesOfASmallLimit(t *testing.T) {
	for _, c := range []struct {
		limit lease.Limit
		least float64
	}{{lease.Limit{Rate: 10, Burst: 2}, 0.6}, {lease.Limit{Rate: 10, Burst: 10}, 0.75}, {lease.Limit{Rate: 100, Burst: 10}, 0.93}} {
		for _, callers := range []int{0, 10} {
			crowd := crowd{limit: c.limit, classes: floored, groups: []group{
				{process: 0, class: 0, n: 1, rate: 0.4 * c.limit.Rate},
				{process: 1, class: 1, n: 1, callers: callers},
			}}
			if callers == 0 {
				crowd.groups[1].rate = 5 * c.limit.Rate
			}
			asked, got, calls := crowd.runs(t, 20, 6)
			t.Logf("%v, %d callers: %.3f of %.0f, and %.0f; %d calls", c.limit, callers, got[0]/asked[0], asked[0], got[1], calls)
			if all := c.limit.Rate * 20 * 6; got[0] < c.least*asked[0] || got[0]+got[1] < 0.96*all {
				t.Errorf("%v, %d callers: %v of %v, beside %v", c.limit, callers, got[0], asked[0], got[1])
			}
		}
	}
}

// TestClassesWaitForSeveral: a class whose callers wait for several tokens each has its part beside
// callers of another process and class that take each token as it comes.
func TestClassesWaitForSeveral(t *testing.T) {
	for _, n := range [][2]float64{{2, 1}, {5, 1}, {1, 2}, {1, 5}, {4, 4}} {
		for _, callers := range []int{1, 5, 50} {
			crowd := crowd{limit: lease.Limit{Rate: 100, Burst: 10}, classes: floored, groups: []group{
				{process: 0, class: 0, n: n[0], callers: callers}, {process: 1, class: 1, n: n[1], callers: 5},
			}}
			_, got, calls := crowd.runs(t, 10, 3)
			t.Logf("for %v tokens, %d callers: %.0f and %.0f; %d calls", n, callers, got[0], got[1], calls)
			if all := 3 * 1000.0; got[0] < 0.42*all || got[1] < 0.42*all || got[0]+got[1] < 0.98*all || calls > 6200 {
				t.Errorf("for %v tokens, %d callers: %v and %v of %v; %d calls", n, callers, got[0], got[1], all, calls)
			}
		}
	}
}
