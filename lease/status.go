package lease

import "time"

// A Lease is what a Holder holds.
type Lease struct {
	Tokens   float64       // can be spent without asking
	Reserved float64       // admitted, and may come back
	Rate     float64       // tokens/s that it adds by itself
	Burst    float64       // most tokens it may hold; 0 is no lease
	Refills  time.Duration // for how long it goes on to add
	Lives    time.Duration // for how long the tokens can be spent

	// What the holder could not use since NewHolder, in tokens.
	Spilt   float64 // added while it was full
	Expired float64 // held when the lease ended
	Lapsed  float64 // reserved when it ended: they count as spent

	// Unclaimed were taken for callers that had gone when they came.
	Unclaimed float64

	Owed float64 // spent, and not there: the ledger may not know of them
}

// Lease describes the lease.
func (h *Holder) Lease(now time.Duration) Lease {
	now = h.advance(now)
	w := h.wasted()
	l := Lease{
		Tokens: h.tokens, Reserved: h.reserves.tokens,
		Spilt: w.spilt, Expired: w.expired, Lapsed: w.lapsed, Unclaimed: w.unclaimed,
		Owed: h.Owed(),
	}
	if h.leased(now) {
		l.Rate, l.Burst, l.Refills, l.Lives = h.rate, h.burst, max(h.rateUntil-now, 0), h.expires-now
	}
	return l
}

// Holders is how many holders of the key there are, this one among them, as the last reply
// told; 0 if there was none.
func (h *Holder) Holders() int { return int(h.holders) }

// Running reports whether a lease is in force and refilling: no request is
// unanswered, and its rate has not ended.
func (h *Holder) Running(now time.Duration) bool {
	return h.running && h.shape.Refills() && now < h.rateUntil
}

// Idle reports whether the holder has nothing that the ledger should know
// about: no lease, no request under way, no one waiting, no debt, nor one of Eager that the pool
// has not paid yet: whoever forgot it would be eager again. A denial may be forgotten: it only
// spares a call. So may a long batch: the ledger has debited it, and it lapses there by itself.
func (h *Holder) Idle(now time.Duration) bool {
	now = h.advance(now)
	free := h.burst == 0 || h.shape.lapses() && h.reserves.tokens == 0 || !h.leased(now)
	return !h.talk.out && h.queue.len() == 0 && !h.untold() && !h.debts.asks() && free
}

// Held is how many tokens could be spent without asking when the holder was last told the time.
// See Level for how many are left of the limit. With classes these are those of the class that asks.
func (h *Holder) Held() float64 { return h.usable(h.Asking()) }

// Ended counts the leases that have ended while some of their tokens were reserved.
func (h *Holder) Ended() uint64 { return h.reserves.lease }

// Expires is when the lease ends, or when the last lease ended.
func (h *Holder) Expires() time.Duration { return h.expires }

// Fence is a number that grows with the answers of the ledger. It is larger than the fence of any
// holder that had the same slots before: see Reply.
func (h *Holder) Fence() uint64 { return h.kind.fence() }
