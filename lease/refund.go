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
	forgiven := h.forgive(n)
	back = forgiven + h.unspend(n-forgiven)
	if h.limit.Kind == KindQuota {
		back += h.window.giveBack(now, n-back)
	}
	h.arm(now)
	return back
}

// unspend makes tokens free again that were spent, n of them at most.
func (h *Holder) unspend(n float64) float64 {
	switch h.limit.Kind {
	case KindSlots:
		return 0
	case KindSliding:
		n = h.used.undo(n)
		h.freed(n)
		return n
	}
	if !h.running {
		return 0
	}
	n = max(min(n, h.spent, h.burst-h.all()), 0)
	h.spent -= n
	if h.limit.Kind == KindQuota {
		h.window.spent -= n
	}
	h.tokens += n
	h.peak = max(h.peak, h.all())
	return n
}

// A returning is what was spent in the window of a quota, and what of that goes back to the ledger.
//
// A request names the answer before it, by its Seq and its time at the ledger. What it gives back
// was spent in that answer's window, so the ledger takes it only while the record is that of the
// answer: in the same window, and once, whatever is repeated or late (Q1, TestQuotaInvariants).
type returning struct {
	spent float64 // and has not come back
	back  float64 // goes with the next request
	told  float64 // went with the last one, which has had no answer
	again bool    // and with one before, which may have brought it
}

// giveBack is for n tokens that were spent, as far as they were and the window surely goes on.
func (b *boundary) giveBack(now time.Duration, n float64) float64 {
	if now >= b.last {
		return 0
	}
	n = min(n, b.spent)
	b.spent -= n
	b.back += n
	return n
}

// telling is what the request that leaves now gives back, and the time of the answer before it.
func (h *Holder) telling() (back float64, since uint64) {
	if h.limit.Kind != KindQuota {
		return 0, 0
	}
	b := &h.window
	if b.again = b.told > 0; !b.again {
		b.told, b.back = b.back, 0
	}
	return b.told, h.usage.fence
}

// enter takes the window of an answer. That is the one before for sure if that had not ended when
// the answer came. What the ledger did not take, as the record had ended, goes once more.
func (h *Holder) enter(b boundary, r Reply, now time.Duration) {
	if was := h.window; b.ends != never && now < was.last {
		b.spent, b.back = was.spent, was.back
		if !r.Back && !was.again {
			b.back += was.told
		}
	}
	h.window, h.usage.fence = b, r.Fence
}
