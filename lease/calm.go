package lease

import "math"

// A key is calm when demand is at most half its rate and the pool at least half
// full. A batch that is a sixteenth of the pool then takes nothing from anybody,
// though it lives for seconds. All together lend no more than half of what may
// be lent: when calm ends, there are sub-buckets for those who come.
const (
	calmDemand = 0.5      // of the rate
	calmPool   = 0.5      // of what fits into it
	calmBatch  = 1.0 / 16 // of the pool
	calmLent   = 0.5      // of what may be lent
	calmMost   = 16       // smallest sub-buckets
	calmFirst  = 4        // the same, for a holder that nobody knows yet, and half the part of the pool
)

// calm is the batch to lend for MaxHold: what the holder uses in that time, and
// for one that nobody knows yet, a few tokens. It is 0 if the key is not calm,
// or where the batch would not last longer than a slice is lent for.
func (l *Ledger) calm(demand, held float64, q Request) float64 {
	p := q.Policy
	if p.MaxHold <= p.MaxRefresh || p.Mode != Auto && p.Mode != PerRequest || demand+q.Take == 0 {
		return 0
	}
	left := l.pool - q.Take
	sum := l.demand + demand
	if sum > l.rate*calmDemand || left < float64((l.burst-l.bursts)*calmPool) {
		return 0
	}
	lend := float64(p.BurstShare * l.burst)
	half := float64(lend * calmLent)
	most := half - l.bursts
	if demand > 0 {
		most = max(most, min(half*demand/sum, lend-l.bursts))
	}
	smallest, used := float64(p.Smallest), float64(demand*micros(p.MaxRefresh))/1e6
	if used >= smallest {
		return 0
	}
	need := min(smallest*calmFirst, left*calmBatch/2)
	if demand > 0 {
		few := max(min(held, smallest*calmFirst), smallest) // it need not bring those back
		need = min(max(float64(demand*micros(p.MaxHold))/1e6, few), smallest*calmMost, left*calmBatch)
	}
	batch := math.Floor(min(need, most))
	if batch < max(smallest/2, 2*used) {
		return 0
	}
	return batch
}

// steadyDemand is the part of the rate that demand must be below to lend slices
// for long, and steadyTail the part of that time for which their tokens outlive
// the rate.
const (
	steadyDemand = 0.25
	steadyTail   = 1.0 / 16
)

// steady lends a slice of a calm key for a sixth of MaxHold: with so little demand,
// what somebody keeps though its traffic has gone is missed by nobody. It is
// a little more than the demand, whatever the holder has at this moment,
// and its burst is the holder's part of half of what may be lent: were all of them to
// crash, those who come after them would find the other half.
func (l *Ledger) steady(next *answer, q Request) bool {
	p, sum := q.Policy, l.demand+next.demand
	if p.Mode != Auto || next.rate == 0 || sum > float64(l.rate*steadyDemand) || l.pool-q.Take < float64((l.burst-l.bursts)*calmPool) {
		return false
	}
	if steadyRefresh(p) <= micros(p.MaxRefresh) || float64(next.demand*micros(p.MaxRefresh))/1e6 < float64(p.Smallest) {
		return false
	}
	burst := math.Floor(min(next.burst, float64(p.BurstShare*l.burst)*calmLent*next.demand/sum))
	if burst < float64(p.Smallest) {
		return false
	}
	next.rate, next.burst = quantize(min(next.demand*(1+p.Headroom), l.rate-l.rates)), burst
	return true
}

// steadyRefresh is a sixth of MaxHold, in µs, and a multiple of the tail. It is
// not longer because a slice runs on beside a state that is lost (I6).
func steadyRefresh(p Policy) float64 { return float64(math.Floor(micros(p.MaxHold)/96) * 16) }
