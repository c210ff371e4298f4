package lease

import "time"

// Refund gives back n tokens that were spent, and were not of use after all. It returns how many
// of them come back; the others stay spent. A debt that no request has carried is forgiven first,
// and what the class that asks owes. Then call Ready.
//
// What comes back counts as of the newest tokens that this Holder has spent (ADR 113, TestSettled).
// Of a bucket it is no more than was spent since the last answer, and than the lease has room for;
// what else was spent of a quota or a sliding window comes back to its window (ADR 113). Slots are
// released, and not refunded.
func (h *Holder) Refund(now time.Duration, n float64) (back float64) {
	now = h.advance(now)
	forgiven := h.debts.forgive(n)
	if h.classed {
		h.byClass().forgiven(forgiven)
		forgiven += h.ranks().forgive(n - forgiven)
	}
	back = forgiven + h.kind.unspend(h, n-forgiven)
	h.arm(now)
	return back
}
