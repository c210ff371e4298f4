package main

import (
	"math"
	"math/rand/v2"
	"sort"
)

// zipf draws ranks 0 to n-1 with a chance in proportion to (rank+1)^-s, for
// any s >= 0: 0 is uniform. (rand.Zipf demands s > 1.)
type zipf struct {
	sums []float64 // of the weights up to and with each rank
}

func newZipf(n int, s float64) zipf {
	z := zipf{make([]float64, n)}
	sum := 0.0
	for i := range z.sums {
		sum += math.Pow(float64(i+1), -s)
		z.sums[i] = sum
	}
	return z
}

func (z zipf) draw(rng *rand.Rand) int {
	u := rng.Float64() * z.sums[len(z.sums)-1]
	return sort.Search(len(z.sums)-1, func(i int) bool { return z.sums[i] > u })
}
