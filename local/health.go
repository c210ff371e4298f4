package local

import (
	"sync"
	"sync/atomic"
	"time"
)

// health knows whether the store answers. It is safe for concurrent use.
type health struct {
	timeout time.Duration
	random  func(n int64) int64
	away    atomic.Bool

	mu       sync.Mutex
	failures int           // in a row
	since    time.Duration // the first of them
	answered time.Duration // the last time that it did
	next     time.Duration // probe
}

const (
	// awayAfter failures in a row, over more than the timeout, is an outage.
	awayAfter = 3

	// ProbeInterval is how often the store is tried while it is away.
	ProbeInterval = 500 * time.Millisecond
)

// newHealth returns the health of a store that answers now. timeout is that of an
// exchange, and random returns a number from 0 to below n: it spreads the probes
// of different processes.
func newHealth(now, timeout time.Duration, random func(n int64) int64) *health {
	return &health{timeout: timeout, random: random, answered: now}
}

// Away reports whether the store does not answer.
func (h *health) Away() bool { return h.away.Load() }

// Report takes the outcome of a round trip. It reports whether Away has
// changed by it, and how long the failures have lasted.
func (h *health) Report(now time.Duration, answered bool) (changed bool, lasted time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered {
		h.failures, h.answered = 0, now
		return h.away.CompareAndSwap(true, false), now - h.since
	}
	if h.failures == 0 {
		h.since = now
	}
	h.failures++
	lasted = now - h.since
	outage := h.failures >= awayAfter && lasted >= h.timeout
	return outage && h.away.CompareAndSwap(false, true), lasted
}

// Answered is when the store answered last.
func (h *health) Answered() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answered
}

// Probe reports whether it is time to try the store, once in an interval.
func (h *health) Probe(now time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if now < h.next {
		return false
	}
	h.next = now + ProbeInterval/2 + time.Duration(h.random(int64(ProbeInterval)))
	return true
}
