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

// TestShut: a flight that fails at once leaves few others, until one is answered. One that is late,
// or refused, tells nothing.
func TestShut(t *testing.T) {
	const timeout = 250 * time.Millisecond
	for _, c := range []struct {
		name              string
		took              time.Duration
		answered, refused int
		shut, after       bool // before it lands, and then
	}{
		{"closed", ms, 0, 0, false, true},
		{"late", timeout, 0, 0, false, false},
		{"refused", ms, 0, 1, false, false},
		{"answered in part", ms, 1, 0, false, false},
		{"open again", 200 * ms, 1, 0, true, false},
		{"late still", timeout, 0, 0, true, true},
		{"refused, and perhaps by another server", ms, 0, 1, true, true},
	} {
		l := newLane()
		l.shut = c.shut
		l.landed(&Flight{}, c.took, timeout, c.answered, c.refused)
		if l.shut != c.after {
			t.Errorf("%s: shut is %v", c.name, l.shut)
		}
	}

	for shut, want := range map[bool]int{false: maxFlights, true: fewFlights} {
		l := newLane()
		l.shut = shut
		depart := func() bool {
			_, ok := l.launch(0, time.Second, true)
			l.board(0, nil)
			return ok
		}
		for depart() {
		}
		if l.flights != want {
			t.Errorf("%d flights while shut is %v", l.flights, shut)
		}
		l.flights, l.hung = 0, maxHung-1
		if !depart() || depart() {
			t.Errorf("not one flight beside many that hang, while shut is %v", shut)
		}
	}
}

// TestPause: of the flights to a server far away the last ones are spread over a round trip. One of
// all at a time is about to leave, and takes what comes until then.
func TestPause(t *testing.T) {
	for _, c := range []struct{ trip, pause time.Duration }{
		{0, 0}, {ms, 0}, {7 * ms, 0}, {8 * ms, ms}, {160 * ms, 20 * ms}, {240 * ms, 5 * ms}, {249 * ms, 0},
	} {
		l := newLane()
		l.window.fastest = c.trip
		now := time.Second
		want := now
		for i := range maxFlights {
			if i >= manyFlights {
				want += c.pause
			}
			if leaves, ok := l.launch(now, 250*ms, true); !ok || leaves != want {
				t.Fatalf("%v away: flight %d leaves at %v, want %v", c.trip, i, leaves, want)
			}
			if _, ok := l.launch(now, 250*ms, true); ok {
				t.Fatalf("%v away: another flight before number %d has left", c.trip, i)
			}
			now = want
			l.board(now, nil)
		}
		if leaves, ok := l.launch(now, 250*ms, true); ok {
			t.Errorf("%v away: a flight more than there are, at %v", c.trip, leaves)
		}
		l.flights--
		if leaves, _ := l.launch(2*time.Second, 250*ms, true); leaves != 2*time.Second {
			t.Errorf("%v away: a flight after a break leaves at %v", c.trip, leaves)
		}
	}
}
