package rlqs

import (
	"math"
	"time"
)

// fillInterval is that of each token bucket, in seconds. Envoy cuts an interval to whole seconds,
// divides by it, and fills the bucket steadily. It does not see that only the seconds of an
// interval have changed, so they never do: a rate is told by tokens_per_fill alone, to a thousandth
// of a token a second.
const fillInterval = 1000

// numbers are a token bucket as Envoy is told. The zero numbers are none.
type numbers struct {
	max  uint32 // tokens, at least 1
	fill uint32 // tokens in each fillInterval, at least 1
}

// numbersOf are those nearest to a bucket of so many tokens and tokens/s, and not above, but for
// the least that Envoy can be told.
func numbersOf(tokens, rate float64) numbers {
	whole := func(x float64) uint32 { return uint32(min(max(x, 1), math.MaxUint32)) }
	return numbers{whole(tokens), whole(rate * fillInterval)}
}

func (n numbers) tokens() float64 { return float64(n.max) }
func (n numbers) rate() float64   { return float64(n.fill) / fillInterval }

// An assignment is what an Envoy was told last of a bucket. The zero assignment is none.
type assignment struct {
	numbers
	life time.Duration // whole seconds, as told
	sent time.Time

	// end is when Envoy can spend of it no more, at the latest: the message may have been under
	// way for flight.
	end time.Time
}

// price is what a message with the next numbers must be paid before it is sent, in tokens, so that
// all messages together have been paid what the Envoy can spend by them, whichever of them arrive,
// each within flight (TestPaid).
//
// The same numbers again only lengthen the life, if they arrive before it ends. All others make a
// bucket that may be full. Until they arrive, the rate before goes on, which has been paid.
func (a assignment) price(now time.Time, next numbers, life time.Duration) float64 {
	if a.renewable(now) && next == a.numbers {
		return next.rate() * max(now.Add(life+flight).Sub(a.end), 0).Seconds()
	}
	rate, left := 0.0, max(a.end.Sub(now), 0).Seconds()
	if left > 0 {
		rate = a.rate()
	}
	return max(0, max(rate, next.rate())*flight.Seconds()+next.tokens()+
		next.rate()*life.Seconds()-rate*left)
}

// renewable reports whether a message that is sent now arrives before the assignment has ended.
func (a assignment) renewable(now time.Time) bool {
	return a.max > 0 && now.Sub(a.sent) <= a.life-flight
}

// due reports whether the assignment is to be renewed. A second message is still in time if one is
// put off.
func (a assignment) due(now time.Time) bool { return now.Sub(a.sent) >= a.life/4 }

// told is what an Envoy has been told last.
func told(now time.Time, n numbers, life time.Duration) assignment {
	return assignment{n, life, now, now.Add(life + flight)}
}

// most is what an Envoy that has got the assignment can spend from now on.
func (a assignment) most(now time.Time) float64 {
	return a.tokens() + a.rate()*max(a.end.Sub(now), 0).Seconds()
}
