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
	cost  float64 // mean tokens per request
	count float64 // tokens offered since
	calls float64 // requests offered since
	at    time.Duration
}

const (
	memory     = 100 * time.Millisecond
	costMemory = 16 // requests
)

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
	if m.calls > 0 {
		m.cost += (m.count/m.calls - m.cost) * min(m.calls/costMemory, 1)
	}
	m.count, m.calls, m.at = 0, 0, now
}

// noise is the standard deviation of the average of a Poisson stream of rate
// tokens/s: sqrt(rate*cost / (2*memory)), Campbell's theorem for exponential
// weights.
func (m *meter) noise(rate float64) float64 {
	return math.Sqrt(rate * m.cost / 2 / memory.Seconds())
}

// one is what a single request weighs when it arrives, in tokens/s.
func (m *meter) one() float64 { return m.cost / memory.Seconds() }

// until is the count at which the average would reach rate, were it folded
// now: an alarm that costs a comparison.
func (m *meter) until(rate float64) float64 {
	return max(rate-m.rate, 0) * memory.Seconds()
}
