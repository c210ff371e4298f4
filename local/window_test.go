package local

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestWindow: it opens while nothing queues, is halved once for all that were under way together,
// and measures what a round trip takes, near or far. Far away some jitter is no queue.
func TestWindow(t *testing.T) {
	for rtt, jitter := range map[time.Duration]time.Duration{ms: 0, 200 * ms: 3 * ms} {
		w := window{size: leastWindow}
		now := time.Duration(0)
		trip := func(took time.Duration, n int) {
			w.landed(now, now+took, n, w.size)
			now += took
		}
		for range 10 { // hardly used
			w.landed(now, now+rtt, 1, 1)
		}
		if w.size != leastWindow {
			t.Errorf("%v away: %d at most, though that was not needed", rtt, w.size)
		}
		for range 2000 {
			trip(rtt+jitter, maxBatch)
		}
		if w.size != mostWindow {
			t.Errorf("%v away: %d at most, though nothing queues", rtt, w.size)
		}
		sent := now
		for range maxFlights {
			w.landed(sent, now+rtt+100*ms, maxBatch, mostWindow)
		}
		if w.size != mostWindow/2 {
			t.Errorf("%v away: %d after a jam, want half of %d", rtt, w.size, mostWindow)
		}
		now += time.Second
		for range 40 { // half of what is under way at 100 ms, a third at 200 ms
			trip(rtt+100*ms, maxBatch)
		}
		if w.size < leastWindow || w.size > 3*leastWindow {
			t.Errorf("%v away: %d in a lasting jam", rtt, w.size)
		}
		w.forget()
		size := w.size
		trip(rtt+100*ms, size)
		if w.size != size+leastWindow {
			t.Errorf("%v away: %d after it has moved away, was %d", rtt, w.size, size)
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
		for l.starts(0) {
		}
		if l.flights != want {
			t.Errorf("%d flights while shut is %v", l.flights, shut)
		}
		l.flights, l.hung = 0, maxHung-1
		if !l.starts(0) || l.starts(0) {
			t.Errorf("not one flight beside many that hang, while shut is %v", shut)
		}
	}
}

// starts has a flight asked for, which leaves at once, if there may be one.
func (l *lane) starts(now time.Duration) bool {
	leaves, ok := l.launch(now, 250*ms, true)
	if ok && !l.depart(leaves > now) {
		panic("no place is left for a flight that leaves at once")
	}
	l.left = max(l.left, leaves)
	return ok
}

// TestPause: of the flights to a server far away, or at an unknown distance, the last ones are
// spread over a round trip. One that pauses takes what comes until then.
func TestPause(t *testing.T) {
	for _, c := range []struct{ trip, pause time.Duration }{
		{0, 25 * ms}, {ms, 0}, {7 * ms, 0}, {8 * ms, ms}, {160 * ms, 20 * ms}, {240 * ms, 5 * ms},
		{249 * ms, 0}, {time.Second, 0},
	} {
		l := newLane()
		l.window.fastest = c.trip
		now := time.Second
		for i := range maxFlights {
			want := now
			if i >= manyFlights {
				want += c.pause
			}
			leaves, ok := l.launch(now, 250*ms, true)
			if !ok || leaves != want {
				t.Fatalf("%v away: flight %d leaves at %v, want %v", c.trip, i, leaves, want)
			}
			if _, ok := l.launch(now, 250*ms, true); ok {
				t.Fatalf("%v away: another flight before number %d has left", c.trip, i)
			}
			if !l.depart(leaves > now) || l.flights != i+1 {
				t.Fatalf("%v away: %d flights after %d", c.trip, l.flights, i+1)
			}
			now, l.left = want, want
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

// TestPauseEnds: beside one that pauses another flight leaves at once when others have landed, the
// server turns out to be near, or a full batch waits. If no place is left then, the one that
// pauses comes to nothing.
func TestPauseEnds(t *testing.T) {
	for name, happens := range map[string]func(l *lane){
		"others have landed": func(l *lane) { l.flights = manyFlights - 1 },
		"it is near":         func(l *lane) { l.window.fastest = ms },
		"a full batch waits": func(l *lane) { l.urgent = make([]*Entry, maxBatch) },
	} {
		l := newLane()
		l.window.fastest = 160 * ms
		for l.flights < maxFlights-1 {
			l.starts(0)
		}
		l.left = 0
		if leaves, ok := l.launch(0, 250*ms, true); !ok || leaves != 20*ms || l.flights != maxFlights-1 {
			t.Fatalf("%d flights, the next one at %v", l.flights, leaves)
		}
		renewal := *l
		if leaves, ok := renewal.launch(ms, 250*ms, false); !ok || leaves != ms {
			t.Errorf("a renewal leaves at %v", leaves)
		}
		if happens(l); !l.starts(ms) {
			t.Errorf("%s: no flight leaves", name)
		}
		if got, want := l.depart(true), l.flights < maxFlights; got && !want || l.paused {
			t.Errorf("%s: the one that pauses leaves beside %d", name, l.flights)
		}
	}
}

// TestFullBatches: where many wait, a flight leaves for each full batch, before any has boarded: on
// a busy processor it takes milliseconds until one does.
func TestFullBatches(t *testing.T) {
	l := newLane()
	for posted := range 4 * maxBatch {
		l.urgent = append(l.urgent, nil)
		l.launch(0, 250*ms, true)
		if want := 1 + (posted+1)/maxBatch; l.leaving != want || l.flights != want {
			t.Fatalf("%d wait: %d flights are to leave, want %d", posted+1, l.leaving, want)
		}
	}
}

// TestVoidLoad: where a flight's entries have nothing to ask for any more, what stands behind them
// starts another one.
func TestVoidLoad(t *testing.T) {
	d := sharing(NewShares(), 100, 2)
	for i := range 3 * leastWindow {
		d.post(0, d.table.Open(0, fmt.Sprint(i), lease.Limit{Rate: 100, Burst: 100}), false)
	}
	for takeoff, ok := d.Takeoff(); ok; takeoff, ok = d.Takeoff() {
		if f := d.Board(0, takeoff, new(Flight)); f != nil && d.Load(0, f) {
			t.Fatal("entries that nobody has asked have something to ask for")
		}
	}
	if l := d.lanes[""]; len(l.renewals) > 0 || l.flights != 0 || l.flying != 0 {
		t.Errorf("%d stand, beside %d flights of %d exchanges", len(l.renewals), l.flights, l.flying)
	}
}

// TestLateLanding: when a flight that was overdue has landed, there is a place for another one.
func TestLateLanding(t *testing.T) {
	d := sharing(NewShares(), 100, 2)
	l := d.laneLocked("")
	l.flights, l.hung = 1, maxFlights-1
	d.post(0, d.table.Open(0, "a", lease.Limit{Rate: 100, Burst: 100}), true)
	if _, ok := d.Takeoff(); ok {
		t.Fatal("more flights than there are places")
	}
	d.Land(0, &Flight{lane: l, overdue: true})
	if _, ok := d.Takeoff(); !ok || l.hung != maxFlights-2 {
		t.Errorf("none leaves beside %d that hang", l.hung)
	}
}
