package lease

import (
	"math"
	"time"
)

// reserves are tokens of a Holder that were admitted, and whose use is known later.
//
// A reserved token keeps its room: tokens + reserved <= burst (ADR 92, TestReservedKeepRoom). So
// what comes back fits, whenever it does, and is alive all the time in the proof of I1.
type reserves struct {
	tokens float64 // in the lease
	lease  uint64  // its number, if anything is reserved: reserved tokens are spent as it ends
}

// debts are tokens that were used and not there.
type debts struct {
	// A debt goes to the ledger with the next request. Until that is answered nothing is
	// admitted. What comes meanwhile pays, as far as no request has carried the debt.
	debt    float64
	carried float64 // by a request that is out, or was lost
	since   uint64  // Seq of the first one that did
	below   bool    // the pool has not been at 0 since, as answers have said
	eager   bool    // Eager made it
}

// Reserved is tokens of a lease that may come back to it, until that lease has ended.
// Those of lease 0 were taken for good.
type Reserved struct {
	Tokens float64
	lease  uint64
	class  uint8
	until  time.Duration // those that were taken for good are of a window that ends then
}

// Taken reports whether they were taken for good: nothing of them comes back.
func (r Reserved) Taken() bool { return r.lease == 0 }

// WhileOpen is the Hold of what may be released at any time: it lives for as long as any lease may.
const WhileOpen = time.Duration(math.MaxInt64)

// maxDebt is the largest debt that a request carries. The rest goes with later ones.
const maxDebt = 1 << 40

// Reserve is a Take whose tokens keep their room until Release.
func (h *Holder) Reserve(now time.Duration, n float64) (Reserved, Verdict) {
	now = h.advance(now)
	h.offered(now, n)
	if h.admits(n) {
		return h.reserve(n), Admitted
	}
	return Reserved{}, h.refuses(now, n)
}

// Look is what Take would say, and takes nothing.
func (h *Holder) Look(now time.Duration, n float64) Verdict {
	now = h.advance(now)
	if h.admits(n) {
		return Admitted
	}
	probe := h.probe
	v := h.refuses(now, n)
	h.probe = probe
	return v
}

// reserve takes n tokens of those held. What was taken for a caller that has gone since may
// have no room.
func (h *Holder) reserve(n float64) Reserved {
	if h.all() > h.burst {
		h.spend(n)
		return Reserved{Tokens: n, until: h.kind.boundary().last}
	}
	h.give(n)
	h.reserves.tokens += n
	h.kind.reserve(h)
	return Reserved{Tokens: n, lease: h.reserves.lease, class: h.Asking()}
}

// Keeps reports whether what was reserved could still come back, or was taken for good: it
// may be used. If not, its lease has ended, or the window of its quota.
func (h *Holder) Keeps(now time.Duration, r Reserved) bool {
	now = h.advance(now)
	if r.lease == 0 {
		return now < r.until
	}
	return r.lease == h.reserves.lease
}

// Release ends a reservation: back of its tokens, 0 to all, can be spent again, and the
// others are spent. It does nothing once the lease has ended. It may be called once for
// each Reserved. Then call Ready.
func (h *Holder) Release(now time.Duration, r Reserved, back float64) {
	now = h.advance(now)
	if r.lease != h.reserves.lease {
		return
	}
	h.reserves.tokens -= r.Tokens
	h.tokens += back
	if h.classed {
		h.byClass().released(int(r.class), back)
	}
	h.kind.spend(h, r.Tokens-back)
	h.pay()
	h.kind.returned(h, now)
	h.arm(now)
}

// Charge spends n tokens that were used already. What is not there is a debt. Then call
// Ready.
func (h *Holder) Charge(now time.Duration, n float64) {
	now = h.advance(now)
	h.offered(now, n)
	if h.classed {
		h.byClass().charge(h, n)
	} else {
		h.owe(n)
	}
	h.arm(now)
}

// Eager admits n tokens that Take has left Pending, as a debt. It reports whether it has: not
// if there is a lease, or somebody waits, nor while the pool is known to be below 0, nor if more
// than most were owed then; and not where classes divide what there is: the pool may have the floors
// of others. Then call Ready.
//
// So each holder has taken the pool below 0 by most at the most (TestEager).
func (h *Holder) Eager(now time.Duration, n, most float64) bool {
	now = h.advance(now)
	if h.debts.owed()+n > most || h.debts.unpaid() || h.leased(now) || h.queue.len() > 0 ||
		h.divided() || n > float64(h.InForce().Burst) {
		return false
	}
	h.owe(n)
	h.debts.eager = true
	h.arm(now)
	return true
}

// owe makes n tokens a debt, as far as there are none to pay with.
func (h *Holder) owe(n float64) {
	if h.debts == nil {
		h.debts = new(debts)
	}
	h.debts.debt += n
	if h.classed {
		h.byClass().owe(n)
	}
	h.pay()
}

// Denied reports whether the last answer was a denial.
func (h *Holder) Denied() bool { return h.denial.until > 0 }

// indebted reports whether a debt is not paid yet: nothing is admitted.
func (d *debts) indebted() bool { return d.unpaid() || d.owed() > 0 }

// indebted reports whether nothing is admitted before a debt is paid.
func (h *Holder) indebted() bool { return h.debts.indebted() && !h.paysByClass() }

// unpaid reports whether the ledger knows of a debt for which the pool has not had enough.
func (d *debts) unpaid() bool { return d != nil && d.below }

// first reports whether a debt comes before a lease: the holder asks for none. So its part of the
// rate flows into the pool, and pays. Of Eager's the ledger has to say first that it is too large.
func (d *debts) first() bool { return d.unpaid() || d.owed() > 0 && !d.eager }

// asks reports whether the holder wants to hear that a debt is paid, though no request comes.
func (d *debts) asks() bool { return d.unpaid() && d.eager }

// told takes the answer to a request that may have carried a debt. debited says whether the ledger
// has debited the debt, and level is the level of its pool.
func (d *debts) told(debited bool, level float64) {
	if d == nil {
		return
	}
	d.below = (d.below || d.carried > 0) && level < 0
	if debited {
		d.carried, d.since = 0, 0
	}
	d.eager = d.eager && d.indebted()
}

// owed is the debt that no answer has confirmed.
func (d *debts) owed() float64 {
	if d == nil {
		return 0
	}
	return d.debt + d.carried
}

// untold reports whether the ledger may not know of a debt, or of what is given back.
func (h *Holder) untold() bool { return h.debts.owed() > 0 || h.kind.untold(h) }

// pay pays with the tokens held what no request has carried, unless classes have their parts of them.
func (h *Holder) pay() {
	if h.classed && !h.byClass().pays(h) {
		return
	}
	if paid := h.debts.forgive(h.tokens); paid > 0 {
		h.spend(paid)
	}
}

// carry is the debt for the request that leaves now. One that was carried before goes
// again as it was: the ledger may have debited it (TestDebtIsPostedOnce).
func (d *debts) carry(seq uint64) (debt float64, since uint64) {
	if d == nil {
		return 0, 0
	}
	if d.carried == 0 && d.debt > 0 {
		d.carried, d.since = min(d.debt, maxDebt), seq
		d.debt -= d.carried
	}
	return d.carried, d.since
}

// forgive lets n tokens go of the debt that no request has carried, as far as there is one.
func (d *debts) forgive(n float64) (forgiven float64) {
	if d == nil {
		return 0
	}
	forgiven = min(n, d.debt)
	d.debt -= forgiven
	return forgiven
}

// postAt is when the ledger wants to hear of a debt, or of what is given back. One that an answer
// has left goes by another kind of limit for now, and is asked as often as a caller would ask it
// (TestDebtOfAnotherKind). One of Eager is to be paid before the holder is forgotten.
func (h *Holder) postAt(now time.Duration) time.Duration {
	switch {
	case !h.untold() && h.debts.asks():
		return max(now+h.kind.comes(h, now, 1), h.talk.sent+h.policy.MaxHold)
	case !h.untold():
		return never
	case h.debts.owed() > 0 && h.debts.carried > 0 && h.failed.count() == 0:
		return max(h.denial.until, now)
	}
	return now
}

// endReserves spends what is reserved, as the lease ends.
func (h *Holder) endReserves() {
	if h.reserves.tokens > 0 {
		h.lost(waste{lapsed: h.reserves.tokens})
		h.reserves.tokens = 0
		h.reserves.lease++
	}
}

// Owed is how many tokens were spent that the ledger may not know of.
func (h *Holder) Owed() float64 {
	owed := h.debts.owed()
	if h.classed {
		for _, owes := range h.ranks().owes {
			owed += owes
		}
	}
	return owed
}

// Retry is when a debt may be told again, after exchanges that failed, or answers by
// another kind of limit.
func (h *Holder) Retry(now time.Duration) time.Duration {
	backoff, _ := h.failed.pauses()
	return max(h.postAt(now), backoff)
}

// Lapsed is how many tokens were reserved in leases that have ended, since NewHolder.
func (h *Holder) Lapsed() float64 { return h.wasted().lapsed }

// Reserving is how many tokens are reserved. They are not among those held.
func (h *Holder) Reserving() float64 { return h.reserves.tokens }
