package lease

import "time"

// Spare is what a caller may decide by itself about requests for one token
// each, without a Take for each of them: until the given time it admits up to
// so many, or, if there are none, denies them all. A time that has passed means
// that it may do neither.
//
// It tells by Settle what it did, before it calls another method that takes
// the time. Only Take may come between, for tokens that were not spared.
func (h *Holder) Spare(now time.Duration) (tokens float64, until time.Duration) {
	now = h.advance(now)
	if h.queue.len() > 0 || h.debts.indebted() || h.classed {
		return 0, 0
	}
	if h.tokens >= 1 {
		if tokens = min(h.tokens, h.next.alarm-h.meter.count); tokens < 1 {
			return 0, 0
		}
		return tokens, min(h.expires, h.next.wake, h.next.look)
	}
	if !h.denies(now, 1) {
		return 0, 0
	}
	until = min(h.next.wake, h.next.look)
	if now < h.denial.until {
		until = min(until, h.denial.until)
	} else {
		until = min(until, h.expires)
	}
	until = min(until, h.kind.free(h, 1-h.tokens))
	if h.shape.Refills() && h.running {
		until = min(until, now+time.Duration((1-h.tokens)/h.rate*1e9))
	}
	return 0, until
}

// Settle tells of requests for one token each that the caller has decided by a
// Spare, until now at the latest.
//
// The tokens count as spent now, not before: they took up room until then, so
// that what was refilled meanwhile fits the lease whenever they were spent (I1,
// TestSpareFitsTheLease).
func (h *Holder) Settle(now time.Duration, admitted, denied float64) {
	if admitted+denied == 0 {
		return
	}
	if now > h.at {
		h.refill(now)
	}
	h.spend(admitted)
	h.expire(h.at)
	h.talk.denied += float32(denied)
	h.meter.offered(h.at, admitted+denied, admitted+denied)
}
