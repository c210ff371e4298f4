package lease

import (
	"math"
	"time"
)

// A pool is what a Holder knows of its ledger's pool.
type pool struct {
	Pool           // as last replied, and what has been handed back since
	others float64 // most tokens that other holders held then

	// The exchange was between sent and heard. The estimate counts from heard, so that
	// it says at first what the ledger has said; the bound counts from sent.
	sent, heard time.Duration
}

// newPool takes what a reply says that was sent for and heard at these times.
func newPool(p Pool, lent, burst float64, sent, heard time.Duration) pool {
	return pool{Pool: p, others: max(burst-p.Room-lent, 0), sent: sent, heard: heard}
}

// flowed is how many tokens have flowed into the pool since the reply.
func (p *pool) flowed(now time.Duration) float64 {
	return float64(p.Flow * float64(now-p.heard) * 1e-9)
}

// Level is how many tokens of the limit are left, as far as this holder knows: whole
// ones, from 0 to the Burst in force. Before the first reply that is the Burst, less what is owed.
//
// It adds up the pool as the last reply told it, what has flowed into the pool since, and what the
// holder holds now. An earmark of another holder is not counted. What other holders hold is counted
// for a quota only (quotaHolder.left). With classes it is what the class that asks may have.
func (h *Holder) Level(now time.Duration) int64 {
	level := h.level(h.advance(now))
	if h.classed {
		level = h.byClass().level(h, level)
	}
	return int64(math.Floor(max(level, 0)))
}

// Until is when the tokens granted so far can be spent no more: the end of a quota's window, as
// far as the holder knows.
func (h *Holder) Until() time.Duration { return h.kind.boundary().last }

// ResetAfter is how long the whole bucket of the limit takes to be full if nobody takes
// anything more: at the Rate in force, from the level that this holder knows. Of a quota it
// is until its window ends, if anything is used, of a sliding window until nothing of it
// counts any more. Of slots it is 0: nobody knows when jobs end.
func (h *Holder) ResetAfter(now time.Duration) time.Duration {
	now = h.advance(now)
	return h.kind.resetAfter(h, now)
}

// missing is how many whole tokens of the limit are used.
func (h *Holder) missing(now time.Duration) float64 {
	left := math.Floor(h.level(now)) // it is a step too high
	return max(float64(h.InForce().Burst)-left, 0)
}

// level is the estimate, at most the Burst in force. It may be below 0 (I6). Sums of
// fractions may come out just below a whole number: a resolution's step is allowed for.
func (h *Holder) level(now time.Duration) float64 {
	burst := float64(h.InForce().Burst)
	if h.talk.seen == 0 || now >= h.kind.boundary().ends {
		return burst - h.debts.owed()
	}
	pool := h.kind.left(h, now)
	pool -= min(h.pool.Earmark, max(pool, 0))
	return min(pool+h.tokens-h.debts.owed()+1.0/resolution, burst)
}

// most is the most tokens that there can be for this holder now, if all others hand back what they
// hold and ask for nothing. It is below 0 with a debt. What has overflowed from others'
// leases is not known here, and not counted.
func (h *Holder) most(now time.Duration) float64 {
	burst := float64(h.limit.Burst)
	if h.talk.seen == 0 {
		return burst
	}
	p := &h.pool
	came := float64(h.limit.Rate * float64(now-p.sent) * 1e-9)
	return min(p.Level+came+p.others+h.tokens-h.debts.owed(), burst)
}
