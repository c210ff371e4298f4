package lease

import "time"

// Refund gives back n tokens that were spent, and were not of use after all. It returns how many
// of them come back; the others stay spent. A debt that no request has carried is forgiven first.
// Then call Ready.
//
// What comes back counts as of the newest tokens that this Holder has spent. So it fits the lease
// at the time of each of them (TestSettled):
//
//   - Of a bucket or a quota it is no more than was spent since the last answer, and than the
//     lease has room for. Each request tells the ledger what is held, which may lend the room of
//     what was spent to others. So nothing comes back while a request is unanswered.
//   - What else was spent in a window of a quota comes back to the ledger, with the next request:
//     it counts as used for as long, so there is room for it.
//   - Of a sliding window it is what counts in the Holder's own window, which is set aside for it
//     whether or not it was spent.
//   - What the ledger has taken for callers that waited has no lease, and does not come back but
//     to a window. Nor do slots, which are released.
func (h *Holder) Refund(now time.Duration, n float64) (back float64) {
	now = h.advance(now)
	forgiven := h.debts.forgive(n)
	back = forgiven + h.kind.unspend(h, n-forgiven)
	h.arm(now)
	return back
}
