package lease

import "math"

// contention is the part of Rate above which demand counts as contending:
// below it, fluctuations of Poisson traffic still find room.
const contention = 0.9

// fewTrips is how many exchanges a sub-bucket must last for at the rate of its slice.
const fewTrips = 2.0

// divide sets the rate and burst that next should have by its demand, and
// returns its share of the bucket, 0 to 1, and the part of its demand that it
// is due, in tokens/s. Zero rate and burst is no lease.
func (l *Ledger) divide(next *answer, held float64, leased bool, q Request) (share, fair float64) {
	demand, p := next.demand, q.Policy
	sum := l.demand + demand
	next.contended = sum > l.rate*contention

	wish := demand * (1 + p.Headroom)
	level := (l.rate - float64(l.low*(1+p.Headroom))) / (l.high + 1)
	next.high = wish > level
	if p.Mode == PerRequest || p.Mode == Batches || demand == 0 {
		return 0, demand
	}

	var target float64
	if p.Fairness == MaxMin {
		target = max(min(wish, level), 0)
	} else {
		target = demand * min(1+p.Headroom, l.rate/sum)
	}
	fair = min(target, demand)
	share = min(target/min(sum*(1+p.Headroom), l.rate), 1)
	// Who asks first does not know who else will come: no more than a batch, or
	// its part of the whole rate.
	lend := float64(p.BurstShare * l.burst)
	burst := max(math.Floor(min(lend*share, max(lend*target/l.rate, float64(p.Batch)), lend-l.bursts)), 0)

	// Levels even out: what it holds above the level of the pool, and above the
	// noise of what it uses in a refresh, it needs the less rate for. Else one
	// sub-bucket overflows while another is empty.
	room := max(l.burst-l.bursts-burst, 1)
	above := float64(burst*min(max(l.pool, 0)/room, 1)) + math.Sqrt(demand*micros(p.MaxRefresh)/1e6)
	target = min(target, max(demand+float64((above-held)*1e6)/micros(p.MaxRefresh), 0))
	rate := max(quantize(min(target, l.rate-l.rates)), 0)

	if p.Mode == Auto {
		// Nor is a slice of use that flows through its sub-bucket during a few
		// exchanges. There must be room for more of them in a new lease, so that it is
		// not lent and taken back by turns, and where others miss what is not added
		// while it is renewed.
		trips := fewTrips
		if !leased {
			trips *= 2
		}
		if next.contended {
			trips *= 2
		}
		if burst < max(float64(p.Smallest), float64(trips*rate*micros(q.Lag))/1e6) {
			return share, fair
		}
		if rate*micros(p.MaxRefresh) < 1e6 {
			rate = 0 // it would add less than a token before it is due: a plain batch does
		}
	}
	if burst < 1 {
		return share, fair // a sub-bucket that holds no token cannot be spent from
	}
	next.rate, next.burst = rate, burst
	return share, fair
}

// turnOfCrowd is how many µs of a refresh there are for each holder: however many
// there are, they do not come back more often than a store can answer.
const turnOfCrowd = 200

// term is when the holder should come back, and until when it may refill by
// itself, in µs: after about a batch, sooner when demand moves, and with time
// enough for its round trip.
func (l *Ledger) term(next *answer, q Request) (refresh, until float64) {
	p, longest := q.Policy, micros(q.Policy.MaxRefresh)
	lag := min(micros(q.Lag), longest)
	refresh = longest
	if next.calm {
		refresh = steadyRefresh(p)
	} else if next.rate > 0 {
		batch := min(float64(p.Batch)*1e6/next.rate, longest)
		holders := len(l.holders)
		if l.holders[q.Holder] == nil {
			holders++
		}
		crowd := min(float64(holders)*turnOfCrowd, longest)
		refresh = math.Floor(max(batch/(1+float64(haste*l.unrest)), micros(p.MinRefresh), lag, crowd))
	}
	return refresh, refresh + math.Floor(longest/4) + lag
}

// longestTerm bounds how long any lease refills by itself, in slots of the calendar:
// a sixth of MaxHold and 1.25 MaxRefresh. (What the request says of its policy may be
// less than what its lease was made of: see Holder.request.) None lives for
// longer than an era.
const longestTerm = era/6 + 5

// retry is how long a holder shall not ask again, in µs. Fair is the part of
// its demand that it is due; with fewer than scarce tokens the pool is low.
func (l *Ledger) retry(next *answer, q Request, fair, scarce float64) float64 {
	denied := q.Take > next.taken || q.Policy.Mode == Batches && next.keep == 0
	if next.rate > 0 && (denied || next.contended && l.pool < scarce) {
		return next.refresh // it lives on its own refill: overload costs no calls
	}
	turn := l.turn(next, q, fair, max(scarce, 1))
	if !denied {
		return turn
	}
	// What is free now is a guess that holds until the others come back. While
	// they hold tokens these may come back, too; else it cannot be sooner than
	// at the whole rate.
	missing := 1 - l.pool
	if next.taken == 0 {
		missing = max(q.Min, 1) - l.pool
	}
	free := l.rate - l.rates - next.rate
	longest := micros(q.Policy.MaxRefresh) / 1e6
	wait := min(missing/max(free, 1e-6), longest)
	if l.bursts == 0 {
		wait = max(wait, missing/l.rate)
	}
	return min(max(math.Ceil(wait*1e6), turn, 1000), micros(MaxFill)) // at least a millisecond
}

// turn is when a holder that wants a lease but is too small for one should ask
// again, in µs, as the pool runs low: so much later than its next request is
// expected that it asks for what it is due. Who asks each time is denied as
// often, at the price of a call, and chance decides who is not. (Of those who
// want none, as their requests have only begun to come, nobody knows when the
// next one does.)
func (l *Ledger) turn(next *answer, q Request, fair, scarce float64) float64 {
	if next.keep > 0 || q.Take == 0 || fair >= next.demand || l.pool >= scarce {
		return 0
	}
	n := max(next.taken, q.Min, 1)
	wait := n * (next.demand - fair) / (next.demand * fair) * (1 - max(l.pool, 0)/scarce)
	return min(math.Ceil(wait*1e6), micros(q.Policy.MaxRefresh))
}
