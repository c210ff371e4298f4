package lease

import "time"

// Ready is what a Holder wants of its driver. There is nothing else to do until
// Wake, or until something happens to the holder.
type Ready struct {
	Resolved []*Waiter     // have their verdict since the last Ready, in order
	Ask      bool          // a request is due: call Request when it can leave, or PutOff
	Urgent   bool          // a caller waits for the answer to it
	Wake     time.Duration // when to call Ready again; math.MaxInt64 if Ask, or a request is out
}

const (
	// atOnce is how long after Take its Ready comes at most, if the caller has
	// nothing else to do: the request is then the reason for the Ready.
	atOnce = 100 * time.Microsecond

	// putOff is the pause before the next exchange that nobody waits for, after
	// one that the caller could not make.
	putOff = 500 * time.Millisecond
)

// Due reports whether Ready may have something to do: a cheap test for after
// each Take.
func (h *Holder) Due(now time.Duration) bool {
	return now >= h.next.wake || now >= h.next.look || h.meter.count >= h.next.alarm ||
		h.queue.len() > 0
}

// Ready serves the Waiters and says what to do. A request that is due is not
// made yet: until the driver can deliver it, more may come that it can ask for.
func (h *Holder) Ready(now time.Duration) Ready {
	due := h.consult(now)
	var done []*Waiter
	done, h.queue = h.queue.end()
	ask := due != nothing
	return Ready{Resolved: done, Ask: ask, Urgent: ask && h.queue.len() > 0, Wake: h.next.wake}
}

// consult serves the Waiters and looks at the agenda. When a request is due,
// nothing else is until it is made or put off.
func (h *Holder) consult(now time.Duration) (due why) {
	now = h.advance(now)
	h.serve()
	h.kind.count(h.meter.measure(now))
	if due, h.next = h.plan(now); due != nothing {
		h.next = idle
	}
	return due
}

// arm writes the agenda without acting on it.
func (h *Holder) arm(now time.Duration) { _, h.next = h.plan(now) }

// PutOff is for when a request that is due cannot be delivered: it is due again
// after a pause, or when Probe says so. All Waiters are resolved as Unavailable.
func (h *Holder) PutOff(now time.Duration) {
	now = h.advance(now)
	h.probe = false
	h.fail().renew = max(h.fail().renew, now+h.random.jitter(putOff))
	h.Dismiss(now)
	h.arm(now)
}

// Dismiss resolves all Waiters as Unavailable.
func (h *Holder) Dismiss(now time.Duration) {
	h.advance(now)
	h.queue.turnAway(Unavailable, func(*Waiter) bool { return true })
}

// Probe makes a request due, though nobody waits: now, or when the pause after
// exchanges that failed is over.
func (h *Holder) Probe(now time.Duration, atOnce bool) {
	now = h.advance(now)
	h.probe = true
	if f := h.failed; atOnce && f != nil {
		f.backoff, f.renew = 0, 0
	}
	h.arm(now)
}
