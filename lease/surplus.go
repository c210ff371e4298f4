package lease

import "math"

// A key has a surplus while its pool has had tokens to spare for some time. The pool itself is the
// evidence: sums.surplus is its low-water mark, as a part of what fits into it. The mark falls with
// the pool at once, and rises towards the pool in surplusIn, by a part for each exchange at least.
// While there is a surplus nobody is denied, so slices may be larger and last longer (ADR 50).
const (
	surplusIn    = 3e6    // µs, time constant
	surplusParts = 65535  // of what fits into the pool: two bytes in Redis
	surplusFrom  = 0.25   // no surplus below: chance empties a quarter of a pool now and then
	surplusLent  = 0.6    // of what BurstShare leaves in the pool
	surplusHold  = 1. / 6 // of MaxHold: not longer, as a slice runs on beside a lost state (I6)
)

// plenty is how much of a surplus there is when taken tokens have left the pool, 0 to 1.
func (l bucketLedger) plenty(taken float64) float64 {
	surplus := min(l.surplus, l.full(taken)) / surplusParts
	return max(surplus-surplusFrom, 0) / (1 - surplusFrom)
}

// full is how full the pool is when taken tokens have left it, in surplusParts.
func (l bucketLedger) full(taken float64) float64 {
	part := max(l.pool-taken, 0) / max(l.burst-l.bursts, 1)
	return math.Floor(min(part, 1) * surplusParts)
}

// noteSurplus moves the mark at the end of an exchange. The exchange before was at from.
func (l bucketLedger) noteSurplus(from float64) {
	full := l.full(0)
	rise := math.Ceil(max(full-l.surplus, 0) * min((l.at-from)/surplusIn, 1))
	l.surplus = min(l.surplus+rise, full)
}
