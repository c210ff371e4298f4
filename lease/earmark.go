package lease

import "math"

// sums.earmark is what the pool keeps for the first holder that was denied a large request, in
// tokens, until that holder's next request, or until its record ends (ADR 5, TestEarmark).

// waits is how many requests like the denied one an earmark outlives at the holder's
// demand: an impatient caller's next request should find the tokens.
const waits = 4

// refreshes bounds the earmark of a holder where several requests of one size wait: what
// it is due in so many MaxRefresh. It comes back as seldom.
const refreshes = 4

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

// earmarks keeps tokens for a holder that was denied a request for several, while nobody else has
// an earmark: those of that request, or what the holder is due if more requests of its kind wait. A
// coin decides whether a holder that has just been served has the next one. The record lives until
// a few such requests may be expected. An earmark of more than half the Burst stops others, and so
// it ends soon after the pool can have filled (ADR 11, TestEarmarkOfOneThatIsGone).
func (l bucketLedger) earmarks(a *bucketAnswer, q *Request) {
	first := !a.marked
	a.marked = false
	if l.earmark > 0 || q.Min <= 1 || q.Min > l.burst {
		return
	}
	if first && l.rates == 0 && l.pool*few >= q.Min || a.taken > 0 && (!a.contended || a.coin()) {
		return
	}
	due := float64(a.fair*micros(q.Policy.MaxRefresh)) / 1e6
	a.marked, l.earmark = true, max(q.Min, math.Floor(min(q.Take, float64(due*refreshes), l.burst/2)))
	expected := math.Floor(float64(q.Min*waits*1e6) / max(a.demand, 1e-6))
	longest := micros(q.Policy.MaxHold)
	if l.earmark*2 > l.burst {
		filled := math.Floor(float64(l.earmark*2*1e6) / l.rate)
		longest = min(longest, filled+float64(micros(q.Policy.MaxRefresh)*refreshes))
	}
	if a.burst == 0 { // a lease brings its holder back
		a.life = max(a.life, min(expected, longest))
		soon := max(micros(q.Policy.MaxRefresh), math.Ceil(1e6/l.rate))
		a.retry = min(a.retry, soon) // before that ends, and not sooner than there is a token more
	}
}

// coin is heads for one of two answers, for any rhythm in which they are asked for.
func (a *bucketAnswer) coin() bool {
	mixed := float64(math.Mod(a.at, 65536)*40503) + math.Mod(a.seq, 65536)
	return math.Mod(mixed, 65536) >= 32768
}
