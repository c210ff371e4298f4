package lease

import (
	"math"
	"slices"
)

// A past is what was used of a key under other frames than the one in force. It counts until
// their windows have ended, so that programs of two versions, which take turns at a key while
// they are deployed, do not find it unused at each turn (TestFramesInTurn).
//
// A quota and a sliding window have so much less in their pool for as long. A bucket begins so
// much emptier, and then refills by its own rate.
//
// What a bucket has used has no window: full is when it would be full again, by its rate.
type past struct {
	uses []use // by until
	rate float64
	full float64
}

// A use is tokens that count until the end of a window.
type use struct{ tokens, until float64 }

// uses is how many windows are told apart. Of more, the first two to end become one, which
// ends with the second.
const uses = 3

// longestPast is the longest that a bucket's past counts, in µs. A debt may have taken it so
// far below 0 that it would never be full.
const longestPast = 36500 * day

// add counts tokens, as whole ones, until a window ends.
func (p *past) add(tokens, until float64) {
	if tokens <= 0 {
		return
	}
	tokens = math.Ceil(tokens)
	i := 0
	for i < len(p.uses) && p.uses[i].until < until {
		i++
	}
	switch {
	case i < len(p.uses) && p.uses[i].until == until:
		p.uses[i].tokens = min(p.uses[i].tokens+tokens, paneMost)
	default:
		p.uses = slices.Insert(p.uses, i, use{min(tokens, paneMost), until})
	}
	if len(p.uses) > uses {
		p.uses[1].tokens = min(p.uses[1].tokens+p.uses[0].tokens, paneMost)
		p.uses = slices.Delete(p.uses, 0, 1)
	}
}

// forget lets go what does not count at t any more.
func (p *past) forget(t float64) {
	p.uses = slices.DeleteFunc(p.uses, func(u use) bool { return u.until <= t })
	if p.full <= t {
		p.rate, p.full = 0, 0
	}
}

// sum is what counts at t of the uses.
func (p *past) sum(t float64) (sum float64) {
	for _, u := range p.uses {
		if u.until > t {
			sum += u.tokens
		}
	}
	return sum
}

// lacks is what a bucket has not refilled at t.
func (p *past) lacks(t float64) float64 {
	return min(max(float64((p.full-t)*p.rate)/1e6, 0), paneMost)
}

// under is when no more than n tokens count, from t on: infinity if n is below 0.
func (p *past) under(t, n float64) float64 {
	if n < 0 {
		return math.Inf(1)
	}
	at, sum := t, p.sum(t)
	for _, u := range p.uses {
		if u.until > t && sum > n {
			sum -= u.tokens
			at = u.until
		}
	}
	if p.lacks(t) > n {
		at = max(at, math.Ceil(p.full-float64(math.Floor(n)*1e6)/p.rate))
	}
	return at
}

// ends is when nothing of it counts any more, or 0.
func (p *past) ends() float64 {
	last := p.full
	for _, u := range p.uses {
		last = max(last, u.until)
	}
	return last
}
