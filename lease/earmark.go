package lease

import "math"

// sums.earmark is what the pool keeps for holders that were denied, in tokens: record.mark for
// each, until that holder's next request, or until its record ends (ADR 5, ADR 193, TestEarmark,
// TestLine).

// waits is how many requests like the denied one an earmark outlives at the holder's
// demand: an impatient caller's next request should find the tokens.
const waits = 4

// refreshes bounds the earmark of a holder where several requests of one size wait: what
// it is due in so many MaxRefresh. It comes back as seldom.
const refreshes = 4

// largestMark is what is kept for a holder at most: a record has three bytes for it.
const largestMark = 1<<24 - 1

// few is how many times what the pool has a denied request must exceed, where nobody owns
// a slice: then small requests take all that comes.
const few = 16

// lend is how much may be lent: BurstShare of the Burst, less with caution, and no more than leaves
// room for the earmark.
func (l bucketLedger) lend(p *Policy) float64 {
	share := p.BurstShare
	if p.Mode == Auto {
		share /= 1 + l.caution
	}
	return max(min(float64(share*l.burst), l.burst-l.earmark), 0)
}

// lacks is the part of its rate that a slice gives up, at most half of it. So what the
// pool lacks of the earmark flows into it soon, even if slices own the whole rate. They
// give up more than it lacks, or the last token would never come.
func (l bucketLedger) lacks(p *Policy) float64 {
	if l.earmark == 0 || l.pool >= l.earmark { // the pool may be below 0 (I6)
		return 0
	}
	missing := float64(l.earmark*2) - l.pool
	return min(float64(missing*1e6)/float64(l.rate*micros(p.MaxRefresh)*refreshes), 0.5)
}

// lineUp keeps tokens for a holder that was denied, and tells when its turn comes: when the pool
// will have filled to what it keeps for others, and for this one. Until then others may take what
// is not kept, and this holder as much; from then on it takes its own before all others. So those
// that were denied stand in line, also those for which nothing is kept, as their callers do not
// wait.
func (l bucketLedger) lineUp(a *bucketAnswer, q *Request) {
	denied := q.Take > a.taken && !a.shape.Refills()
	a.stays = denied && q.Waits && q.Policy.Mode == PerRequest && q.ByClass == nil && q.Min <= l.burst
	if a.stays || l.large(a, q) {
		a.mark = min(l.due(a, q), largestMark)
	}
	if !denied {
		a.turn = 0
	} else if a.turn == 0 || a.taken > 0 {
		n := max(q.Min, 1)
		if l.earmark > 0 {
			n = max(a.mark, n)
		}
		missing := l.earmark + n - l.pool
		a.turn = a.at + max(math.Ceil(float64(missing*1e6)/l.rate), 1)
	}
}

// due is how many tokens are kept for a holder: what it is due in the time in which all together
// use a Burst, at most in some MaxRefresh, in whole requests. Chance decides about a part of one,
// or those that are due a half would have as much as those that are due one.
func (l bucketLedger) due(a *bucketAnswer, q *Request) float64 {
	fair := min(a.fair, float64(a.demand*l.rate)/max(l.demand+a.demand, l.rate))
	turn := min(micros(q.Policy.MaxRefresh)*refreshes, float64(l.burst*1e6)/l.rate)
	unit := max(q.Unit, 1)
	more := math.Floor((float64(fair*turn)/1e6-q.Min)/unit+a.mixed()/65536) * unit
	return max(q.Min, min(q.Min+float64(more), q.Take-a.taken, math.Floor(l.burst/2)))
}

// large reports whether tokens are kept for a holder with large requests, whose callers may not
// wait: for the next request like that. A coin decides whether a holder that has just been served
// has them. Beside leases, and with classes, one holder has an earmark at a time: floors come first.
func (l bucketLedger) large(a *bucketAnswer, q *Request) bool {
	switch {
	case q.Min <= 1 || q.Min > l.burst:
		return false
	case l.earmark > 0 && (q.ByClass != nil || q.Policy.Mode != PerRequest):
		return false
	case a.due == 0 && l.rates == 0 && l.pool*few >= q.Min:
		return false
	}
	return a.taken == 0 || a.contended && !a.coin()
}

// outlive lets the record of a holder live for as long as tokens are kept for it: until its callers
// that wait have been back, or a few requests like the denied one may be expected. An earmark of
// more than half the Burst stops others, and so it ends soon after the pool can have filled (ADR
// 11, TestEarmarkOfOneThatIsGone).
func (l bucketLedger) outlive(a *bucketAnswer, q *Request) {
	if a.turn > 0 {
		a.refills = min(max(a.turn-a.at, 1), micros(MaxFill))
	}
	if a.mark == 0 || a.burst > 0 {
		return
	}
	again := micros(q.Policy.MaxRefresh) * refreshes
	if a.stays {
		a.life = max(a.life, min(a.retry+again, l.ends.width*era))
		return
	}
	expected := math.Floor(float64(q.Min*waits*1e6) / max(a.demand, 1e-6))
	longest := micros(q.Policy.MaxHold)
	if a.mark*2 > l.burst {
		longest = min(longest, math.Floor(float64(a.mark*2*1e6)/l.rate)+again)
	}
	a.life = max(a.life, min(expected, longest))
	soon := max(micros(q.Policy.MaxRefresh), math.Ceil(1e6/l.rate))
	a.retry = min(a.retry, soon) // before that ends, and not sooner than there is a token more
}

// coin is heads for one of two answers, for any rhythm in which they are asked for.
func (a *bucketAnswer) coin() bool { return a.mixed() >= 32768 }

// mixed is a number from 0 to 65535.
func (a *bucketAnswer) mixed() float64 {
	return math.Mod(float64(math.Mod(a.at, 65536)*40503)+math.Mod(a.seq, 65536), 65536)
}
