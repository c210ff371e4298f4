package workload

import (
	"math"
	"sort"
)

// A choice draws 0 to n-1 with a chance in proportion to weights.
type choice struct {
	sums []float64 // of the weights up to and with each
}

func (c *choice) set(weights []float64) {
	c.sums = c.sums[:0]
	sum := 0.0
	for _, w := range weights {
		sum += w
		c.sums = append(c.sums, sum)
	}
}

func (c *choice) draw(r *Random) int {
	n := len(c.sums)
	if n == 1 {
		return 0
	}
	u := r.Uniform() * c.sums[n-1]
	return sort.Search(n-1, func(i int) bool { return c.sums[i] > u })
}

// Zipf are the weights of n ranks by Zipf's law with exponent s >= 0: 0 is
// uniform. They add up to 1. (rand.Zipf demands s > 1.)
func Zipf(n int, s float64) []float64 {
	weights := make([]float64, n)
	sum := 0.0
	for i := range weights {
		weights[i] = portable(math.Pow(float64(i+1), -s))
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

// portable rounds away the last bits, in which machines may differ.
func portable(x float64) float64 { return float64(float32(x)) }
