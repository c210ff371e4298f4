package local

import (
	"testing"
	"time"
)

// TestWindow: it opens while nothing queues, is halved once for all that were
// under way together, and measures what a round trip takes, near or far.
func TestWindow(t *testing.T) {
	const timeout = 250 * time.Millisecond
	for _, rtt := range []time.Duration{time.Millisecond, 200 * time.Millisecond} {
		w := window{size: leastWindow}
		now := time.Duration(0)
		trip := func(took time.Duration, n int) {
			w.landed(now, now+took, timeout, n, w.size)
			now += took
		}
		for range 10 { // hardly used
			w.landed(now, now+rtt, timeout, 1, 1)
		}
		if w.size != leastWindow {
			t.Errorf("%v away: %d at most, though that was not needed", rtt, w.size)
		}
		for range 2000 {
			trip(rtt+time.Millisecond, maxBatch)
		}
		if w.size != mostWindow {
			t.Errorf("%v away: %d at most, though nothing queues", rtt, w.size)
		}
		sent := now
		for range maxFlights {
			w.landed(sent, now+rtt+100*time.Millisecond, timeout, maxBatch, mostWindow)
		}
		if w.size != mostWindow/2 {
			t.Errorf("%v away: %d after a jam, want half of %d", rtt, w.size, mostWindow)
		}
		now += time.Second
		for range 40 {
			trip(rtt+100*time.Millisecond, maxBatch)
		}
		if w.size != leastWindow {
			t.Errorf("%v away: %d in a lasting jam", rtt, w.size)
		}
		w.forget()
		trip(rtt+100*time.Millisecond, leastWindow)
		if w.size != 2*leastWindow {
			t.Errorf("%v away: %d after it has moved away", rtt, w.size)
		}
	}
}
