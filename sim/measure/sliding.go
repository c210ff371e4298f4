package measure

import (
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A sliding is an exact central sliding log: what was admitted in the Window until now. It is
// the Ideal of a sliding window, and its Gauge.
type sliding struct {
	limit lease.Limit
	wait  time.Duration
	log   []spending // by time; of callers who wait, when their tokens come
	sum   float64
}

// A spending is tokens that count for one Window from at on.
type spending struct {
	at     time.Duration
	tokens float64
}

// when is when n tokens can be spent, and whether that is in time. Nobody overtakes those who
// wait.
func (s *sliding) when(at time.Duration, n float64) (when time.Duration, inTime bool) {
	s.advance(at)
	there, latest := float64(s.limit.Burst)-s.sum, at+s.wait
	when = at
	if last := len(s.log) - 1; last >= 0 {
		when = max(at, s.log[last].at)
	}
	for i := 0; i < len(s.log) && there < n && when <= latest; i++ {
		when = max(when, s.log[i].at+s.limit.Window)
		there += s.log[i].tokens
	}
	return when, there >= n && when <= latest
}

func (s *sliding) Fits(at time.Duration, n float64) bool {
	_, inTime := s.when(at, n)
	return inTime
}

func (s *sliding) Take(at time.Duration, n float64) bool {
	when, inTime := s.when(at, n)
	if inTime {
		s.spend(when, n)
	}
	return inTime
}

func (s *sliding) SetLimit(_ time.Duration, limit lease.Limit) { s.limit = limit }

func (s *sliding) Tokens(at time.Duration) float64 {
	s.advance(at)
	return float64(s.limit.Burst) - s.sum
}

func (s *sliding) Level(_ time.Duration, _ float64, fleet Gauge) {
	if f, ok := fleet.(*sliding); ok {
		s.log, s.sum = slices.Clone(f.log), f.sum
	}
}

// Spilt is nothing: a token that nobody wants stays.
func (s *sliding) Spilt(time.Duration) float64 { return 0 }

// Pour counts from the earliest moment, and looks at the latest: what may not be in the same
// window does not exceed it.
func (s *sliding) Pour(from, at time.Duration, n float64) float64 {
	s.advance(at)
	s.spend(from, n)
	return s.sum - float64(s.limit.Burst)
}

func (s *sliding) Copy() Gauge {
	c := *s
	c.log = slices.Clone(s.log)
	return &c
}

func (s *sliding) spend(at time.Duration, n float64) {
	i := len(s.log)
	for i > 0 && s.log[i-1].at > at {
		i--
	}
	s.log = slices.Insert(s.log, i, spending{at, n})
	s.sum += n
}

func (s *sliding) advance(at time.Duration) {
	n := 0
	for n < len(s.log) && s.log[n].at+s.limit.Window <= at {
		s.sum -= s.log[n].tokens
		n++
	}
	s.log = s.log[n:]
}
