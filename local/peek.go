package local

import "time"

// Listen returns nil if the ledger has answered since then. Else a request is due, and
// the channel is closed when its exchange has ended: then call Listen again. Attend
// after Listen.
func (e *Entry) Listen(now, since time.Duration) <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.heard > 0 && e.heard >= since || e.life != inUse {
		return nil
	}
	x := e.extraLocked()
	if x.told == nil {
		x.told = make(chan struct{})
		e.holder.Probe(now, true)
	}
	return x.told
}

// Heard reports whether the ledger has answered since then.
func (e *Entry) Heard(since time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.heard > 0 && e.heard >= since
}

// tellLocked ends the waiting.
func (e *Entry) tellLocked() {
	if x := e.extra; x != nil && x.told != nil {
		close(x.told)
		x.told = nil
	}
}
