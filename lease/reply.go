package lease

import (
	"time"
)

// failures are exchanges without an answer, in a row.
type failures struct {
	row     int
	since   time.Duration // the first of them
	backoff time.Duration // nothing is sent before,
	renew   time.Duration // and before this nothing that nobody waits for; never earlier
}

// fail returns the failures, to be written.
func (h *Holder) fail() *failures {
	if h.failed == nil {
		h.failed = new(failures)
	}
	return h.failed
}

// again counts a further failure.
func (f *failures) again(now time.Duration, r *random) {
	if f.row == 0 {
		f.since = now
	}
	f.row++
	pause := r.jitter(min(minBackoff<<min(f.row-1, 10), maxRenew))
	f.backoff, f.renew = now+min(pause, maxBackoff), now+pause
}

func (f *failures) count() int {
	if f == nil {
		return 0
	}
	return f.row
}

// pauses are until when nothing is sent, and nothing that nobody waits for.
func (f *failures) pauses() (backoff, renew time.Duration) {
	if f == nil {
		return 0, 0
	}
	return f.backoff, f.renew
}

// A denial is in force until its time, for so many tokens or more.
type denial struct {
	until time.Duration // then the ledger is asked again
	told  time.Duration // of a quota, when something comes by the answer: not before until
	least float64
}

const (
	// drift is the part by which every life of a lease is shortened. A holder whose
	// clock is slow by up to it still stops before the ledger does (I2).
	drift = 1.0 / 512

	// After failures in a row, the pause before the next exchange doubles from
	// minBackoff to maxBackoff, and to maxRenew where nobody waits: a store that
	// is too slow must get the time to work off what came too late.
	minBackoff = 20 * time.Millisecond
	maxBackoff = 200 * time.Millisecond
	maxRenew   = 2 * time.Second
)

// Handle takes the answer to the outstanding request. A reply to any other is
// ignored: what it added comes back when the ledger sees that it was not accepted.
func (h *Holder) Handle(now time.Duration, r Reply) {
	now = h.advance(now)
	if !h.talk.out || r.Seq != h.talk.seq {
		return
	}
	if r.Stale {
		h.Fail(now)
		return
	}
	h.talk.timed(now - h.talk.sent)
	h.talk.out, h.failed = false, nil
	h.talk.waited = h.waited(now)
	// A lease that has ended on the way is worth no more than that of a lost reply, and no less: the
	// next request does not know of it, and what it brought comes back (TestLateAnswerComesBack).
	ended := r.Burst > 0 && now >= h.talk.sent+early(r.Expires)
	if ended {
		r.Add, r.Portions = 0, nil
	} else {
		h.talk.seen = r.Seq
	}
	h.debts.told(!h.talk.turned && frameOf(r.Limit) == frameOf(h.limit), r.Pool.Level)
	if h.talk.turned {
		return // it is of a kind of limit that has gone
	}
	taken := h.kind.answer(h, now, r)
	h.others, h.holders = h.lower(r.Limit), uint16(min(r.Holders, maxHolders))
	h.pool = newPool(r.Pool, r.Burst, float64(r.Limit.Burst), h.talk.sent, now)
	if !ended {
		h.borrow(r)
		h.hold(r.Add)
	}
	h.refuse(now, r)
	h.grant(taken)
	h.spent = 0
	h.kind.returned(h, now)
	if h.queue.exceeds(float64(h.InForce().Burst)) {
		h.exceed(now)
	}
	if h.classed {
		h.byClass().refuse(h)
	}
	h.deny(now)
}

// timed takes how long an exchange took, as TCP estimates its round trips (RFC 6298).
// A division that goes by the last of them alone would change with each.
func (c *conversation) timed(d time.Duration) {
	if c.trip == 0 {
		c.trip = d
		return
	}
	c.off += ((d - c.trip).Abs() - c.off) / 4
	c.trip += (d - c.trip) / 8
}

// borrow takes the terms of the new lease. Its times count from when the request
// left: a slow reply shortens it, never stretches it (I2,
// TestSlowReplyShortensLease).
func (h *Holder) borrow(r Reply) {
	h.running, h.shape = true, r.Shape
	h.rate, h.burst, h.keep = r.Rate, r.Burst, r.Keep
	h.contended, h.dry = r.Contended, r.Dry
	// While they were under way, the tokens of the answer took up room beside those held.
	h.got, h.peak = 0, h.talk.held+r.Add
	refresh := r.Refresh
	if h.shape.lapses() {
		refresh = refresh / 4 * 3 // not in vain: a request makes it ask, and another may come
	}
	h.refresh = h.talk.sent + h.random.jitter(refresh)
	h.rateUntil = h.talk.sent + early(r.RateUntil)
	h.expires = h.talk.sent + early(r.Expires)
	h.expire(h.at) // at once, where there is none: with it goes what was reserved in the one before
}

// refuse takes the denial, or that there is none.
func (h *Holder) refuse(now time.Duration, r Reply) {
	h.denial.until = 0
	if r.Taken+r.Add > 0 {
		h.talk.served = h.talk.sent
	}
	retry := r.RetryAfter
	if retry <= 0 {
		return
	}
	if h.InForce() != h.limit {
		// Under a lower limit that others declare it asks again: nobody
		// tells it when that has gone (TestDenialEndsWithTheLowerLimit).
		retry = min(retry, h.policy.MaxRefresh)
	}
	h.denial = denial{until: h.kind.again(h, now, retry, r.Window), least: h.talk.first}
	if r.Window > 0 {
		h.denial.told = now + retry
	}
	if r.Taken > 0 {
		h.denial.least = 1 // the pool gave all it had
	}
}

// grant serves the queue from the tokens taken for it, before those held.
func (h *Holder) grant(taken float64) {
	h.tokens += taken
	h.serve()
	// The rest was for callers that have gone: it was never set aside.
	h.lost(waste{unclaimed: h.fit()})
	h.peak = max(h.peak, h.all())
}

// Fail ends the outstanding request without an answer: the timeout has passed or the
// connection broke. The impatient Waiters are resolved as Unavailable; the patient
// ones wait for the next answer.
func (h *Holder) Fail(now time.Duration) {
	now = h.advance(now)
	if !h.talk.out {
		return
	}
	h.talk.out = false
	h.fail().again(now, &h.random)
	h.queue.turnAway(Unavailable, impatient)
	h.arm(now)
}

// Failures is the number of exchanges that failed since the last answer.
func (h *Holder) Failures() int { return h.failed.count() }

// FailingSince is when the first of those did.
func (h *Holder) FailingSince() time.Duration {
	if h.failed == nil {
		return 0
	}
	return h.failed.since
}

func early(d time.Duration) time.Duration { return d - time.Duration(float64(d)*drift) }
