package lease

import "math"

// sums.earmark is what the pool keeps for the first holder that was denied a large
// request, in tokens. Others take from the pool, or are lent, no more than leaves it
// there. It ends with that holder's next request, which is served, or with its
// record. Without it small requests, or those who own slices, take each token
// as it comes, and a large request waits for ever (TestEarmark).

// waits is for how many requests like the one that was denied an earmark is kept: an
// impatient caller's next one should find the tokens.
const waits = 4

// refreshes is for how many MaxRefresh of what the holder is due the pool keeps tokens, if
// so many requests of the same size wait there: it comes back as seldom.
const refreshes = 4

// few is the part of a denied request, 1/few, that the pool has at most where small ones
// take all that comes.
const few = 16

// lend is how much may be lent: so much that the pool has room for the earmark.
func (l *Ledger) lend(p *Policy) float64 {
	return max(min(float64(p.BurstShare*l.burst), l.burst-l.earmark), 0)
}

// lacks is the part of their rate that slices give up, at most half of it, so that
// what the pool lacks of the earmark flows into it soon, if they own the whole. They give
// up more than it lacks, or the last token would never come.
func (l *Ledger) lacks(p *Policy) float64 {
	if l.earmark == 0 || l.pool >= l.earmark { // the pool may be below 0 (I6)
		return 0
	}
	missing := float64(l.earmark*2) - l.pool
	return min(float64(missing*1e6)/float64(l.rate*micros(p.MaxRefresh)*refreshes), 0.5)
}

// earmarks keeps tokens for the holder, if it has been denied a request for several, and
// nobody else has an earmark. They are those of that request, or if more of its kind
// wait, what the holder is due. Where nobody owns a slice, requests of one size fare alike
// without it. There the pool must have less than a sixteenth of what was denied:
// small requests take it.
//
// Of a holder that has just been served the next request will be as large. A coin decides
// whether it or another one has the next earmark. Until its next request may be
// expected, its record lives. An earmark of more than half the Burst stops others, and
// so it ends soon after the pool can have filled (TestEarmarkOfOneThatIsGone).
func (l *Ledger) earmarks(a *answer, q *Request) {
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
	a.life = max(a.life, min(expected, longest))
}

// coin is heads for one of two answers, for any rhythm in which they are asked for.
func (a *answer) coin() bool {
	mixed := float64(math.Mod(a.at, 65536)*40503) + math.Mod(a.seq, 65536)
	return math.Mod(mixed, 65536) >= 32768
}
