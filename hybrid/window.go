package hybrid

import "time"

// A window bounds how many exchanges that nobody waits for are under way, as
// congestion control does: it grows while round trips take as long as the
// fastest one, and is halved when they queue. Without it a store that cannot
// keep up gets thousands of requests at once, answers them all when their time
// is over, and those who wait stand behind them.
type window struct {
	size    int
	fastest time.Duration // round trip, 0 if there was none yet
	cut     time.Duration // when it was halved last
}

const (
	leastWindow = 64
	mostWindow  = maxBatch * maxFlights

	// A round trip queues if it takes longer than the fastest one by a part of
	// the timeout.
	queueing = 1.0 / 32
)

// landed takes a round trip of n exchanges, under way from sent until now.
func (w *window) landed(sent, now, timeout time.Duration, n int) {
	took := now - sent
	if w.fastest == 0 || took < w.fastest {
		w.fastest = took
	}
	switch {
	case float64(took-w.fastest) < float64(timeout)*queueing:
		w.size = min(w.size+n, mostWindow)
	case sent >= w.cut: // those that were under way with it say the same
		w.size, w.cut = max(w.size/2, leastWindow), now
	}
}

// forget lets the fastest round trip be measured anew: the store may be
// somewhere else now.
func (w *window) forget() { w.fastest = 0 }
