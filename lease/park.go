package lease

import "time"

// Parked is all that has to be remembered of a Holder that has a long batch, while no
// request comes: a fourth of the memory that the Holder takes.
type Parked struct {
	limit, others    numbers // of a bucket
	seq              uint64
	tokens, burst    float64
	got, peak, spent float64
	began            time.Duration // of the meter
	sent             time.Duration // when the batch was asked for
	refresh, expires time.Duration
	cost             float32
	holders          uint16
	pool             Pool
}

// Park reports whether the holder may be replaced by what it returns, until a
// request comes. The demand is then what was used of the batch since it was asked for.
func (h *Holder) Park(now time.Duration) (Parked, bool) {
	now = h.advance(now)
	known := !h.talk.out && h.talk.seen == h.talk.seq && h.failed.count() == 0 && h.reserves.tokens == 0 && h.debts.owed() == 0
	whole := h.limit.Kind == KindBucket && h.shape.lapses() && h.leased(now) && h.keep == h.burst && h.tokens >= 1
	if !known || !whole || h.queue.len() > 0 {
		return Parked{}, false
	}
	return Parked{
		limit: h.limit.numbers(), others: h.others, holders: h.holders,
		tokens: h.tokens, burst: h.burst, got: h.got, peak: h.peak, spent: h.spent,
		refresh: h.refresh, expires: h.expires,
		seq: h.talk.seq, sent: h.talk.sent, cost: float32(h.meter.cost), began: h.meter.began, pool: h.pool.Pool,
	}, true
}

// Resume makes the Holder again, which must not exist any more. The arguments
// are those of NewHolder; SetLimit tells it of a limit that has changed. It
// returns nil when the batch has ended: nothing is left of it then.
func (p Parked) Resume(now time.Duration, id string, policy *Policy, seed uint64) *Holder {
	if now >= p.expires {
		return nil
	}
	h := NewHolder(id, Limit{Rate: p.limit.rate, Burst: p.limit.burst}, policy, seed)
	h.others = p.others
	h.talk.seq, h.talk.seen, h.talk.sent = p.seq, p.seq, p.sent
	h.pool = newPool(p.pool, p.burst, float64(h.InForce().Burst), p.sent, p.sent)
	h.holding = holding{
		running: true, shape: LongBatch, at: now, holders: p.holders,
		tokens: p.tokens, burst: p.burst, keep: p.burst, got: p.got, peak: p.peak,
		spent: p.spent, refresh: p.refresh, expires: p.expires,
	}
	h.meter = p.meter(now, h.meter.arrivals)
	h.arm(now)
	return h
}

// meter is as if what was used of the batch had come evenly since it was asked for.
func (p *Parked) meter(now time.Duration, a arrivals) meter {
	return meter{
		arrivals: a, cost: float64(p.cost), at: now, began: min(p.began, now),
		slow: average{p.burst - p.tokens, (now - p.sent).Seconds()},
	}
}
