package local

import (
	"math"
	"sync/atomic"
	"time"
)

// A slowness knows whether the store is slow: it answers, but a good part of exchanges too
// late, or late. It is set under its Dispatch's lock, and read without.
type slowness struct {
	is atomic.Bool

	all, late float64       // exchanges, each of which counts half after slowMemory
	at        time.Duration // they are counted up to here
	otherwise time.Duration // since when the counts say something else than is, or never
}

const (
	slowMemory = time.Second
	// slowPart of exchanges late makes a store slow, and quickPart no more. Either must last
	// for slowLasts: an outage is noticed sooner.
	slowPart, quickPart = 1.0 / 4, 1.0 / 16
	slowLasts           = 2 * time.Second
	slowLeast           = 2 // exchanges tell something

	never = time.Duration(math.MaxInt64)
)

// landed counts a round trip, of which so many exchanges had no answer in time. One that
// took half of the timeout, and twice as long as the fastest, is late as a whole. It
// reports whether the store has become slow, or is slow no more.
func (s *slowness) landed(
	now time.Duration, f *Flight, failed int, timeout, fastest time.Duration,
) (changed bool) {
	if took := now - f.Sent; took >= timeout/2 && took >= 2*fastest {
		failed = len(f.Calls)
	}
	fade := math.Exp2(-(now - s.at).Seconds() / slowMemory.Seconds())
	s.at = now
	s.all, s.late = float64(s.all*fade)+float64(len(f.Calls)), float64(s.late*fade)+float64(failed)
	part := slowPart
	if s.is.Load() {
		part = quickPart
	}
	if late := s.late >= s.all*part && s.all >= slowLeast; late == s.is.Load() {
		s.otherwise = never
		return false
	}
	s.otherwise = min(s.otherwise, now)
	if now-s.otherwise < slowLasts {
		return false
	}
	s.otherwise = never
	s.is.Store(!s.is.Load())
	return true
}

// reset forgets everything, as the store is away.
func (s *slowness) reset() {
	s.is.Store(false)
	s.all, s.late, s.otherwise = 0, 0, never
}
