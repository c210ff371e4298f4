package lease

import "math"

// A key is calm when its demand is a small part of the rate and its pool nearly full.
// A batch that is a sixteenth of the pool then takes nothing from anybody, though it
// lives for seconds.
//
// All such batches together are at most half of what may be lent, so that holders that
// come when calm ends find something. They are at most what flows in a twentieth of
// MaxHold, or a sixteenth of the Burst if that is more: a flash after a calm time misses
// no more than that (TestFlashAfterCalm).
const (
	calmDemand = 0.5      // of the rate
	calmPool   = 0.875    // of what fits into it
	calmBatch  = 1.0 / 16 // of the pool, and of the Burst
	calmLent   = 0.5      // of what may be lent
	calmFlow   = 0.05     // of what flows in MaxHold
	calmMost   = 16       // times Policy.Smallest
	calmFirst  = 4        // the same, for a new holder; it gets half the part of the pool
	calmStart  = 1.0 / 64 // of what flows in MaxRefresh, divided by the holders, if that is more
)

// calm reports whether all together want at most a part of the rate, and the pool
// is nearly full.
func (l bucketLedger) calm(sum, left float64) bool {
	return sum <= float64(l.rate*calmDemand) && left >= float64((l.burst-l.bursts)*calmPool)
}

// longBatch lends a batch for MaxHold, in place of what divide has found. It is what
// the holder uses in that time. If its demand is not known yet, it is a few tokens, or
// the holder's part of what flows in a 64th of MaxRefresh if that is more (ADR 19). There is
// none if the key is not calm, or if the batch would be used up too soon.
func (l bucketLedger) longBatch(a *bucketAnswer, q *Request, sum float64) {
	p, left := &q.Policy, l.pool-q.Take
	if p.MaxHold <= p.MaxRefresh || p.Mode != Auto && p.Mode != PerRequest ||
		a.demand+q.Take == 0 || !l.calm(sum, left) {
		return
	}
	smallest, used := float64(p.Smallest), float64(a.demand*micros(p.MaxRefresh))/1e6
	if used >= smallest {
		return
	}
	lend := l.lend(p)
	missed := max(float64(calmFlow*l.rate*micros(p.MaxHold))/1e6, l.burst*calmBatch)
	half := min(float64(lend*calmLent), missed)
	most := half - l.bursts
	start := float64(calmStart*l.rate*micros(p.MaxRefresh)) / 1e6 / l.crowd(q)
	first := max(smallest*calmFirst, start)
	need := min(first, left*calmBatch/2)
	if a.demand > 0 {
		most = min(half*a.demand/sum, lend-l.bursts)
		few := max(min(a.held, first), smallest) // those need not come back
		need = max(float64(a.demand*micros(p.MaxHold))/1e6, few)
		need = min(need, max(smallest*calmMost, first), left*calmBatch)
	}
	batch := math.Floor(min(need, most))
	if batch < max(smallest/2, 2*used) {
		return
	}
	a.shape, a.rate, a.burst, a.share = LongBatch, 0, batch, 1
	if batch < a.held {
		a.shape = Batch // the holder brings the rest back first, else it would keep it for long
	}
}
