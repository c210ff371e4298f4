package engine

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/measure"
)

// settling measures how long shares are less fair after a shift than before it.
//
// Unfairness of a window is half the sum over processes of the distance between
// its part of what was admitted and its fair part: the part of all tokens that
// went to the wrong one. A single window is noisy, so the mean of three counts
// as settled when it is within a quarter of the mean of the ten before the shift,
// or no more than what chance makes of it. It is for one key
// without classes only.
type settling struct {
	planned []time.Duration // shifts that the load is known to make
	last    [10]float64     // unfairness of the latest windows
	chance  float64         // what it would be of the last one if tokens were drawn by lot
	n       int             // windows so far

	open   bool // a shift is being watched
	at     time.Duration
	before float64 // unfairness
	since  int     // windows

	sum   time.Duration
	count int
}

const (
	calm       = 3 // windows
	calmFactor = 1.25
)

// reset forgets what was measured.
func (s *settling) reset() { s.sum, s.count, s.open = 0, 0, false }

// shifted notes that traffic or processes shift now.
func (m *meter) shifted() { m.settling.shift(m.now) }

func (s *settling) shift(now time.Duration) {
	if s.open {
		s.close(now - s.at) // at least so long
	}
	if s.n < len(s.last) {
		return // nothing to compare with yet
	}
	s.open, s.at, s.since = true, now, 0
	s.before = 0
	for _, x := range s.last {
		s.before += x / float64(len(s.last))
	}
}

func (s *settling) close(lasted time.Duration) {
	s.open = false
	s.sum += lasted
	s.count++
}

func (s *settling) tick(m *meter) {
	if len(m.keys) != 1 || m.classes != nil {
		return
	}
	for len(s.planned) > 0 && s.planned[0] <= m.now-Window {
		s.shift(s.planned[0])
		s.planned = s.planned[1:]
	}
	s.last[s.n%len(s.last)], s.chance = m.unfairness()
	s.n++
	if !s.open {
		return
	}
	if s.since++; s.since < calm {
		return
	}
	mean := 0.0
	for i := range calm {
		mean += s.last[(s.n-1-i)%len(s.last)] / calm
	}
	if mean <= max(s.before, s.chance)*calmFactor {
		s.close(max(m.now-calm*Window-s.at, 0))
	}
}

// unfairness of the window that ends now, and what it is in the mean if each
// token is drawn by lot, with chances as the shares should be: half the sum of the
// mean deviations of binomial numbers, in the normal approximation.
func (m *meter) unfairness() (of, chance float64) {
	var admitted, offered float64
	demand := m.shares[:0]
	for i := range m.processes {
		p := &m.processes[i]
		admitted += p.short.admitted
		offered += p.short.offered
		demand = append(demand, p.short.offered)
	}
	m.shares = demand
	if admitted == 0 {
		return 0, 0
	}
	if m.policy.Fairness == lease.MaxMin {
		offered = admitted
		demand = measure.WaterFill(nil, demand, admitted)
	}
	for i := range m.processes {
		fair := demand[i] / offered
		of += float64(math.Abs(m.processes[i].short.admitted/admitted-fair) / 2)
		chance += float64(math.Sqrt(2/math.Pi*fair*(1-fair)/admitted) / 2)
	}
	return of, chance
}

// mean is the mean time to settle, seconds, of so many shifts.
func (s *settling) mean() (float64, int) {
	if s.count == 0 {
		return 0, 0
	}
	return s.sum.Seconds() / float64(s.count), s.count
}
