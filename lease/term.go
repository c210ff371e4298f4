package lease

import "math"

const (
	// turnOfCrowd is how many µs of a refresh there are for each holder: however many
	// there are, they do not come back more often than a store can answer.
	turnOfCrowd = 200
)

// longestTerm bounds how long any lease refills by itself, in ticks of the calendar: a
// sixth of MaxHold and 1.25 MaxRefresh. (The policy of a request may allow less than
// that by which its lease was made: see Holder.wish.) None lives for longer than an era.
const longestTerm = era/6 + 5

// term is when the holder should come back, until when it may refill by itself, and when
// its tokens die, in µs. At the ledger they may die later than the holder is told: until
// it has heard of a shorter life, it goes by the one before (I2, TestShorterLife).
//
// What callers have reserved, or are about to, lives for as long as they may hold it: while it is
// open, through an answer that is long under way, and an outage.
func (l bucketLedger) term(a *bucketAnswer, q *Request) {
	p, longest := &q.Policy, micros(q.Policy.MaxRefresh)
	lag := min(micros(q.Lag), longest)
	switch a.shape {
	case LongBatch:
		a.refresh = micros(p.MaxHold)
	case Slice:
		a.refresh = l.refresh(a, q)
	case Batch:
		a.refresh = longest
		if p.Mode == Auto {
			a.refresh = math.Floor(max(a.longest, longest))
		}
	default:
		a.refresh = longest
	}
	if a.shape != LongBatch {
		a.refills = a.refresh + math.Floor(longest/4) + lag
	}
	a.granted = a.refills + float64(a.refresh*a.shape.tail())
	if a.refresh > longest && a.shape != LongBatch {
		a.granted = a.refills + longest
	}
	a.granted = max(a.granted, min(micros(q.Hold), l.ends.width*era))
	a.life = max(a.granted, a.left)
	if !a.shape.Refills() {
		a.refills = 0
	}
}

// refresh is when the holder of a slice should come back, in µs: after about a
// batch, sooner when demand moves, and with time enough for its round trip.
func (l bucketLedger) refresh(a *bucketAnswer, q *Request) float64 {
	batch := min(float64(q.Policy.Batch)*1e6/(a.rate*a.hurry), a.longest)
	return math.Floor(max(batch, l.shortest(a, q)))
}

// shortest is the shortest time for which slices are lent, in µs: MinRefresh, an exchange, and what
// a store needs to answer all holders.
func (l bucketLedger) shortest(a *bucketAnswer, q *Request) float64 {
	longest := micros(q.Policy.MaxRefresh)
	crowd := min(l.crowd(q)*turnOfCrowd, max(a.longest, longest))
	return max(micros(q.Policy.MinRefresh), min(micros(q.Lag), longest), crowd)
}

// crowd is the number of holders, with the one that asks.
func (l bucketLedger) crowd(q *Request) float64 {
	if l.holders[q.Holder] == nil {
		return float64(len(l.holders) + 1)
	}
	return float64(len(l.holders))
}

// retry is how long a holder shall not ask again, in µs, and whether the pool has
// run dry.
func (l bucketLedger) retry(a *bucketAnswer, q *Request) {
	scarce := max(a.scarce, a.spared+1) // a pool at spared gives nothing
	if l.crowd(q) == 1 && l.pool >= a.spared+max(q.Min, 1) {
		scarce = a.spared + 1 // what there is nobody else needs
	}
	a.dry = a.contended && l.pool < scarce
	denied := q.Take > a.taken || q.Policy.Mode == Batches && a.keep == 0
	if a.shape.Refills() && a.dry {
		a.retry = a.refresh // it lives on its own refill: overload costs no calls
		return
	}
	if a.stays {
		a.retry = a.turn - a.at
	} else {
		a.retry = l.turn(a, q, scarce)
	}
	if denied {
		a.retry = min(max(l.wait(a, q), a.retry, 1000), micros(MaxFill)) // at least a millisecond
	}
}

// wait is when the pool may have what was denied, in µs. It goes by the rate that is free now. That
// is a guess: others that come back may leave a part of theirs, or tokens. So the holder is back when
// the whole rate can have brought what is missing. While others hold something, or one waits with an
// earmark, it is back after MaxRefresh at the latest: a slice may be lent long before a debt is paid.
func (l bucketLedger) wait(a *bucketAnswer, q *Request) float64 {
	first := 1.0
	if a.taken == 0 {
		first = max(q.Min, 1)
	}
	before := l.earmark
	if 0 < a.turn && a.turn <= a.at {
		before = 0
	}
	missing := first + max(before, a.guarded) - l.pool
	longest := float64(missing*1e6) / l.rate
	if l.bursts+l.earmark > 0 {
		longest = min(longest, micros(q.Policy.MaxRefresh))
	}
	longest = max(longest, l.shortest(a, q))
	free := l.rate - l.rates - a.rate
	return math.Ceil(min(float64(missing*1e6)/max(free, 1e-6), longest))
}

// turn is when a holder without a slice should ask again, in µs, as the pool runs low: when it
// is due as many tokens as it has now, less the time in which its next request comes. If it
// asked each time it would be denied as often, each time at the price of a call, and chance
// would decide. A holder for which nobody waits is told no turn.
//
// It is back a few exchanges before the pool is full (TestTurnBeforeFull): what has no
// room there is of use to nobody. Requests that come during an exchange go with the next
// one, but those of a turn do not.
func (l bucketLedger) turn(a *bucketAnswer, q *Request, scarce float64) float64 {
	if q.Take == 0 || a.asked.fair >= a.asked.demand || l.pool >= scarce {
		return 0
	}
	next := max(q.Min, 1)
	n := max(float64((a.held+(a.add-a.kept))*a.asked.lease)+(a.taken-a.kept), next)
	wait := max(n/a.asked.fair-next/a.asked.demand, 0) * (1 - max(l.pool, 0)/scarce) * 1e6
	free := max(l.rate-l.rates-a.rate, 1e-6)
	full := float64((l.burst-l.bursts-a.burst-l.pool)*1e6) / free
	full = max(full-float64(fewTrips*2*micros(q.Lag)), 0)
	return math.Ceil(min(wait, full, a.longest))
}
