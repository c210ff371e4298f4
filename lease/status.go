package lease

import "time"

// A Lease is what a Holder holds.
type Lease struct {
	Tokens  float64       // can be spent without asking
	Rate    float64       // tokens/s that it adds by itself
	Burst   float64       // most tokens it may hold; 0 is no lease
	Refills time.Duration // for how long it goes on to add
	Lives   time.Duration // for how long the tokens can be spent

	// What the holder could not use since NewHolder, in tokens.
	Spilt   float64 // added while it was full
	Expired float64 // held when the lease ended

	// Unclaimed were taken for callers that had gone when they came.
	Unclaimed float64
}

// Lease describes the lease.
func (h *Holder) Lease(now time.Duration) Lease {
	now = h.advance(now)
	l := Lease{Tokens: h.tokens, Spilt: h.spilt, Expired: h.expired, Unclaimed: h.unclaimed}
	if h.leased(now) {
		l.Rate, l.Burst, l.Refills, l.Lives = h.rate, h.burst, max(h.rateUntil-now, 0), h.expires-now
	}
	return l
}

// Remaining is how many tokens can be spent without asking. See Level for how many are
// left of the limit.
func (h *Holder) Remaining(now time.Duration) float64 {
	h.advance(now)
	return h.tokens
}

// Share is the rate, in tokens/s, that this process may go on with when the ledger is
// away, beside a lease that still refills: an equal part of the limit's Rate.
//
// fleet is the number of processes if that is known from elsewhere, else 0. It counts
// if it is larger than the number of holders that the last reply told. Without either
// there is no share. (What each process last owned would add up to more: they heard of
// it at different times.)
func (h *Holder) Share(now time.Duration, fleet int) float64 {
	n := max(fleet, h.holders)
	if n == 0 {
		return 0
	}
	share := h.InForce().Rate / float64(n)
	if h.Running(now) {
		share = max(share-h.rate, 0)
	}
	return share
}

// Running reports whether a lease is in force and refilling: no request is
// unanswered, and its rate has not ended.
func (h *Holder) Running(now time.Duration) bool {
	return h.running && h.shape.Refills() && now < h.rateUntil
}

// Idle reports whether the holder has nothing that the ledger should know
// about: no lease, no request under way, no one waiting. A denial may be
// forgotten: it only spares a call. So may a long batch: the ledger has debited it,
// and it lapses there by itself.
func (h *Holder) Idle(now time.Duration) bool {
	now = h.advance(now)
	return !h.out && h.queue.len() == 0 && (h.burst == 0 || h.shape.lapses() || !h.leased(now))
}

// Held is how many tokens there were when the holder was last told the time.
func (h *Holder) Held() float64 { return h.tokens }
