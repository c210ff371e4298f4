package local

import "time"

// An audience waits for the ledger to be heard.
type audience struct {
	heard time.Duration // when it answered last, 0 for never
	told  chan struct{} // closed with the next end of an exchange, nil if nobody waits
}

// Listen returns nil if the ledger has answered since then. Else a request is due, and
// the channel is closed when its exchange has ended: then call Listen again. Call Ready
// after Listen.
func (e *Entry) Listen(now, since time.Duration) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	a := &e.audience
	if a.heard > 0 && a.heard >= since || e.life != inUse {
		return nil
	}
	if a.told == nil {
		a.told = make(chan struct{})
		e.holder.Probe(now, true)
	}
	return a.told
}

// Heard reports whether the ledger has answered since then.
func (e *Entry) Heard(since time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.audience.heard > 0 && e.audience.heard >= since
}

// tell ends the waiting.
func (a *audience) tell() {
	if a.told != nil {
		close(a.told)
		a.told = nil
	}
}
