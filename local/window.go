package local

import (
	"cmp"
	"time"
)

// A window is how many exchanges may be under way for one that nobody waits for to
// join them. It is set by additive increase and multiplicative decrease (Chiu and
// Jain, 1989): it grows by leastWindow in a round trip while it is in use, and is halved
// when as many stand in a queue. Of those under way that is the part by which a round trip
// takes longer than the fastest one (Little's law; TCP Vegas, Brakmo and others, 1994): the
// same near and far, and whatever the Timeout. Without a window a store that cannot keep up
// gets thousands of requests at once, answers them all when their time is over, and those
// who wait stand behind them.
type window struct {
	size    int
	fastest time.Duration // round trip, 0 if there was none yet
	cut     time.Duration // when it was halved last
}

const (
	leastWindow = 64
	mostWindow  = maxBatch * maxFlights

	// farthest is a round trip to the other side of the Earth and back. With the default Timeout
	// it leads to the longest pause that there is.
	farthest = 200 * time.Millisecond

	// shortestPause is what timers of an operating system can do.
	shortestPause = time.Millisecond
)

// landed takes a round trip of n exchanges, under way from sent until now, and how
// many were under way at its end.
func (w *window) landed(sent, now time.Duration, n, flying int) {
	took := now - sent
	if w.fastest == 0 || took < w.fastest {
		w.fastest = took
	}
	switch {
	case float64(flying)*float64(took-w.fastest) >= leastWindow*float64(took):
		if sent >= w.cut { // those that were under way with it say the same
			w.size, w.cut = max(w.size/2, leastWindow), now
		}
	case flying >= w.size/2:
		w.size = min(w.size+(n*leastWindow+w.size-1)/w.size, mostWindow)
	}
}

// pause is between two flights to a server far away beside manyFlights others, so that the last of
// them are spread over a round trip, and a burst does not take them all at its beginning. It is
// half of what the timeout leaves beside a round trip, at most. A server whose distance is not known
// may be the farthest one.
func (w *window) pause(timeout time.Duration) time.Duration {
	trip := cmp.Or(w.fastest, farthest)
	p := min(trip/(maxFlights-manyFlights), (timeout-trip)/2)
	if p < shortestPause {
		return 0
	}
	return p
}

// forget lets the fastest round trip be measured anew: the store may be
// somewhere else now.
func (w *window) forget() { w.fastest = 0 }
