package lease

import "time"

// Parked is all that has to be remembered of a Holder with the batch of a calm
// key that nobody asks for at the moment: a tenth of what the Holder takes.
type Parked struct {
	limit, inForce   Limit
	seq              uint64
	tokens, burst    float64
	got, peak        float64
	cost             float64
	began            time.Duration // of the meter
	sent             time.Duration // when the batch was asked for
	refresh, expires time.Duration
	holders          int
}

// Park reports whether the holder may be replaced by what it returns, until a
// request comes. Demand is then what was used of the batch, since it was asked
// for.
func (h *Holder) Park(now time.Duration) (Parked, bool) {
	now = h.advance(now)
	if h.out || h.queue.len() > 0 || h.failures > 0 || h.seen != h.seq || !h.shape.Lapses() || !h.leased(now) || h.keep != h.burst || h.tokens < 1 {
		return Parked{}, false
	}
	return Parked{
		limit: h.limit, inForce: h.inForce, seq: h.seq, tokens: h.tokens, burst: h.burst,
		got: h.got, peak: h.peak,
		cost: h.meter.cost, began: h.meter.began, sent: h.sent, refresh: h.refresh, expires: h.expires,
		holders: h.holders,
	}, true
}

// Resume makes the Holder again, which must not exist any more. The arguments
// are those of NewHolder; SetLimit tells it of a limit that has changed. It
// returns nil when the batch has ended: nothing is left of it then.
func (p Parked) Resume(now time.Duration, id string, policy Policy, seed uint64) *Holder {
	if now >= p.expires {
		return nil
	}
	h := NewHolder(id, p.limit, policy, seed)
	h.running, h.shape, h.inForce = true, LongBatch, p.inForce
	h.at, h.seq, h.seen = now, p.seq, p.seq
	h.tokens, h.burst, h.keep = p.tokens, p.burst, p.burst
	h.sent, h.refresh, h.expires = p.sent, p.refresh, p.expires
	h.holders = p.holders
	h.got, h.peak = p.got, p.peak
	h.meter.cost = p.cost
	h.meter.slow = average{p.burst - p.tokens, (now - p.sent).Seconds()}
	h.meter.at, h.meter.began = now, min(p.began, now)
	h.arm(now)
	return h
}
