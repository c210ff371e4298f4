package local

import "time"

// A lane is the way to one server: what stands in front of it, and what is under way to it. A
// server that hangs holds up its own lane alone (TestFrozenNode). Guarded by the Dispatch's lock.
type lane struct {
	urgent, renewals []*Entry            // the outbox: somebody waits, or nobody does
	standing         map[*Entry]struct{} // those in renewals
	probes           []*Entry            // before both, and alone while the store is away
	flights          int                 // round trips under way, and those that are to leave now
	leaving          int                 // the latter: one, and one for each full batch that waits
	paused           bool                // another one is to leave after a pause
	left             time.Duration       // when a flight did last
	flying           int                 // exchanges under way
	hung             int                 // round trips that are overdue
	shut             bool                // connections are; see landed
	window           window
	used             bool // since the last forget
}

func newLane() *lane {
	return &lane{standing: map[*Entry]struct{}{}, window: window{size: leastWindow}}
}

// add puts an entry into the outbox.
func (l *lane) add(e *Entry, urgent bool) {
	if urgent {
		l.urgent = append(l.urgent, e)
	} else if _, stands := l.standing[e]; !stands {
		l.renewals = append(l.renewals, e)
		l.standing[e] = struct{}{}
	}
}

// free reports whether there may be one more flight.
func (l *lane) free() bool {
	most := maxFlights
	if l.shut {
		most = fewFlights
	}
	return l.flights+l.hung < most || l.flights == 0 && l.hung < maxHung
}

// launch reports whether a flight is to be started, and when it leaves. What is posted until then
// boards it. One that requests ask for may have to pause. It has no place until then: another one
// may leave before, as when some have landed.
func (l *lane) launch(now, timeout time.Duration, urgent bool) (leaves time.Duration, ok bool) {
	full := len(l.urgent) / maxBatch
	if l.leaving > full || !l.free() || !urgent && l.flying >= l.window.size {
		return 0, false
	}
	leaves = now
	if urgent && l.flights >= manyFlights && full == 0 {
		leaves = max(now, l.left+l.window.pause(timeout))
	}
	if leaves > now {
		ok = !l.paused
		l.paused = true
		return leaves, ok
	}
	l.leaving++
	l.flights++
	return now, true
}

// depart begins a flight that launch has asked for, and reports false if no place is left for it.
func (l *lane) depart(paused bool) bool {
	if !paused {
		l.leaving--
		return true
	}
	l.paused = false
	if !l.free() {
		return false
	}
	l.flights++
	return true
}

// waits reports whether something is in the outbox, and whether somebody waits for it.
func (l *lane) waits() (urgent, any bool) {
	urgent = len(l.probes)+len(l.urgent) > 0
	return urgent, urgent || len(l.renewals) > 0
}

// board takes those out of the outbox that leave now, and adds them to an empty batch, the probes
// first.
func (l *lane) board(empty []*Entry) (batch []*Entry, probes int) {
	batch, l.probes = next(empty, l.probes, maxBatch)
	probes = len(batch)
	batch, l.urgent = next(batch, l.urgent, maxBatch-probes)
	waited := len(batch)
	batch, l.renewals = next(batch, l.renewals, min(maxBatch-waited, l.window.size-l.flying))
	for _, e := range batch[waited:] {
		delete(l.standing, e)
	}
	return batch, probes
}

// next moves up to most entries from the front of a queue to a batch.
func next(batch, queue []*Entry, most int) (b, q []*Entry) {
	n := min(len(queue), max(most, 0))
	batch = append(batch, queue[:n]...)
	if n < len(queue) {
		return batch, queue[n:]
	}
	clear(queue)
	return batch, queue[:0]
}

// landed takes how long a flight took, and how many of its exchanges were answered. A refusal
// tells nothing of that.
//
// Each flight beside others takes a connection of its own. One that fails at once tells that
// connections have been closed, as by a failover: all processes dial the new master then, and few
// flights are under way until one is answered.
func (l *lane) landed(f *Flight, now, timeout time.Duration, answered, refused int) {
	if answered > 0 {
		l.shut = false
	} else if refused == 0 && now-f.Sent < timeout/2 {
		l.shut = true
	}
	if answered > 0 || now-f.Sent >= timeout {
		l.window.landed(f.Sent, now, len(f.Calls), l.flying)
	}
}

// clear empties the outbox.
func (l *lane) clear() { l.probes, l.urgent, l.renewals, l.standing = nil, nil, nil, nil }

// forget lets what was measured long ago go, and reports whether all of the lane may: nothing
// has been sent since the last forget, as to a server that is there no more.
func (l *lane) forget() (idle bool) {
	l.window.forget()
	if len(l.standing) == 0 {
		l.standing = map[*Entry]struct{}{} // a map that has been large stays so
	}
	l.probes, l.urgent, l.renewals = shrunk(l.probes), shrunk(l.urgent), shrunk(l.renewals)
	_, any := l.waits()
	idle = !l.used && !any && l.flights+l.hung == 0
	l.used = false
	return idle
}
