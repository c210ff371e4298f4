package lease

import "math"

// contention is the part of Rate above which demand counts as contending:
// below it, fluctuations of Poisson traffic still find room.
const contention = 0.9

// shifted is the part of a holder's demand that must have come or gone since it last
// asked for that to count as unrest. What has shifted must also come to Smallest requests
// in three MaxRefresh: less is noise.
const shifted = 0.7

// divide decides what the holder is lent, by its demand and that of all: which
// shape of lease, its rate and its burst.
//
// What is lent stays within what others leave: rates by slice, bursts by slice and longBatch. Only
// what a holder has already may be more (I4, TestInvariants).
func (l bucketLedger) divide(a *bucketAnswer, q *Request) {
	p := &q.Policy
	a.demand = quantize(min(q.Demand, MaxRate, 2*MaxRate-l.demand)) // the sum stays exact
	sum := l.demand + a.demand
	shift, larger := math.Abs(a.demand-a.was), max(a.demand, a.was)
	moved := float64(shift*micros(p.MaxRefresh)) * laterTimes
	if shift >= shifted*larger && moved >= float64(p.Smallest)*1e6 {
		l.unrest += shift / max(sum, l.rate)
	}
	a.contended = sum > l.rate*contention
	a.hurry = 1 + l.caution + float64(haste*l.unrest)
	a.longest = l.longest(a, q)

	wish := a.demand * (1 + p.Headroom)
	level := (l.rate - float64(l.low*(1+p.Headroom))) / (l.high + 1)
	a.high = wish > level
	a.fair = a.demand
	worth := 0.0
	if q.ByClass != nil {
		worth = l.byClass(a, q, sum)
	}
	if (p.Mode == Auto || p.Mode == Shares) && a.demand > 0 {
		target := a.demand * min(1+p.Headroom, l.rate/sum)
		if p.Fairness == MaxMin {
			target = max(min(wish, level), 0)
		}
		if q.ByClass != nil {
			target = worth
		}
		a.fair = min(target, a.demand)
		a.share = min(target/min(sum*(1+p.Headroom), l.rate), 1)
		l.slice(a, q, target)
	}
	if q.ByClass == nil {
		a.asked = part{a.demand, a.fair, 1}
	}
	l.longBatch(a, q, sum)
	a.keep = a.burst
	a.burst = max(a.burst, a.floor)
}

// fewTrips is how many exchanges the burst of a slice must last for at its rate.
const fewTrips = 2.0

const (
	// laterTimes is how many MaxRefresh slices and batches last for at least, while nothing is missed.
	laterTimes = 3

	// haste is by how much unrest shortens that: at an unrest of 1, to a fifth. TestTable has chosen
	// it. Less costs fairness when processes turn on and off, more costs calls (ADR 50).
	haste = 4.0

	// sliceHold is the part of MaxHold for which a slice is lent at most: it runs on beside a lost
	// state (I6).
	sliceHold = 1. / 6
)

// longest is the longest time until a holder comes back, in µs. A renewal moves nothing while demand
// does not move; where demand moves, or tokens are missed, all come back sooner. In the time in
// which all together use a Burst, leases keep no more than that from others, whatever happens to
// their holders (TestLongSlices).
func (l bucketLedger) longest(a *bucketAnswer, q *Request) float64 {
	refresh := micros(q.Policy.MaxRefresh)
	if a.contended && q.ByClass != nil || l.limits.several() {
		return refresh // floors come back, and a new limit is heard of, within a refresh
	}
	longest := float64(refresh*laterTimes) - min(micros(q.Lag), refresh) // fits the fine ticks
	used := float64(l.burst*1e6) / (l.demand + a.demand)
	return max(longest, min(used, float64(micros(q.Policy.MaxHold)*sliceHold))) / a.hurry
}

// slice lends a slice, or a batch where a slice would be of no use. The target is the rate that
// the holder's demand is worth.
func (l bucketLedger) slice(a *bucketAnswer, q *Request, target float64) {
	p := &q.Policy
	// When the first process asks, nobody knows how many others will. So it is lent no
	// more than a batch, or its part of the whole rate. If it comes back, others have asked
	// by then: it gets what its way to the store needs (TestFarAndAlone).
	lend := l.lend(p)
	most := max(lend*target/l.rate, float64(p.Batch))
	if a.was > 0 {
		most = max(most, math.Ceil(float64(a.trips()*target*micros(q.Lag))/1e6))
	}
	burst := math.Floor(min(lend*a.share, most, lend-l.bursts))
	if burst < 1 {
		return // a lease that holds no token cannot be spent from
	}

	// Levels even out: a holder that has more than the pool, each by its size, gets
	// less rate. The noise of what it uses in a refresh is left out of account.
	// Otherwise one lease overflows while another is empty.
	refresh := a.longest
	room := max(l.burst-l.bursts-burst, 1)
	above := float64(burst*min(max(l.pool, 0)/room, 1)) + math.Sqrt(a.demand*refresh/1e6)
	target = min(target, max(a.demand+float64((above-a.held)*1e6)/refresh, 0))
	if q.ByClass == nil {
		target -= float64(target * l.lacks(p))
	}
	rate := max(quantize(min(target, l.rate-l.rates)), 0)
	l.choose(a, q, rate, burst)
}

// choose chooses the shape of a lease with that rate and burst.
func (l bucketLedger) choose(a *bucketAnswer, q *Request, rate, burst float64) {
	p := &q.Policy
	batch := float64(p.Smallest) / (2 * fewTrips) // a quarter
	slice := batch * a.trips()                    // half; all under contention: others miss what overflows
	if q.ByClass != nil {
		batch = float64(p.Smallest) / fewTrips // a class has a part of it
	}
	switch {
	case p.Mode == Shares:
		if rate > 0 {
			a.shape, a.rate, a.burst = Slice, rate, burst
		}
	case burst < batch: // of no use
	case float64(a.trips()*rate*micros(q.Lag)) > burst*1e6:
		// The burst would flow through the slice in a few exchanges. A batch that lasts for one
		// saves calls; in a shorter one callers gather anyhow. More than the Rate is denied in time.
		if burst*1e6 >= float64(min(a.demand, l.rate)*micros(q.Lag)) {
			a.shape, a.burst = Batch, burst
		}
	case rate*a.longest < 1e6:
		// The slice would add less than a token before it is due. So the holder keeps what it has,
		// and asks for each request when it has nothing.
		if !l.spares(a, q, rate) {
			burst = min(burst, math.Floor(a.held))
		}
		if burst >= 1 {
			a.shape, a.burst = Batch, burst
		}
	case burst >= slice*(1+float64(batchesFor*l.caution)):
		a.shape, a.rate, a.burst = Slice, rate, burst
	default:
		// The noise of a few requests would fill so small a slice while another one is
		// empty. What stays in the pool is anybody's.
		a.shape, a.burst = Batch, burst
	}
}

// spares reports whether a batch may take the place of a slice that adds less than a token: only
// hurry makes it so short, nobody was denied lately, and the pool has what all use in a MaxRefresh.
func (l bucketLedger) spares(a *bucketAnswer, q *Request, rate float64) bool {
	used := float64((l.demand + a.demand) * micros(q.Policy.MaxRefresh))
	calm := max(l.denied, l.caution) <= 0 && l.pool*1e6 >= used
	return calm && rate*a.longest*a.hurry >= 1e6
}

// trips is for how many exchanges the burst of a slice must last: for more of them under contention,
// where others miss what is not added while it is renewed. The smallest slice grows with it.
func (a *bucketAnswer) trips() float64 {
	if a.contended {
		return 2 * fewTrips
	}
	return fewTrips
}
