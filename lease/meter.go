package lease

import (
	"math"
	"time"
)

// A meter estimates the offered rate: requests are counted, and from time to
// time folded into an average that forgets with the time constant memory.
// Counting is all that a decision pays for.
type meter struct {
	rate  float64 // tokens/s at time at
	count float64 // tokens offered since
	at    time.Duration
}

const memory = 100 * time.Millisecond

// fold brings the average to now. Each token weighs 1/memory when it arrives
// and decays from then on; those counted are taken to have come evenly. The
// weight needs no division by the time passed, so a tiny one does no harm.
func (m *meter) fold(now time.Duration) {
	x := float64(max(now-m.at, 0)) / float64(memory)
	decay, weight := 1.0, 1.0
	if x > 1e-6 {
		decay = math.Exp(-x)
		weight = (1 - decay) / x
	}
	m.rate = m.rate*decay + m.count*weight/memory.Seconds()
	m.count, m.at = 0, now
}

// until is the count at which the average would reach rate, were it folded
// now: an alarm that costs a comparison.
func (m *meter) until(rate float64) float64 {
	return max(rate-m.rate, 0) * memory.Seconds()
}
