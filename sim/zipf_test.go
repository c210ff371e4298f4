package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestZipfFrequencies(t *testing.T) {
	const draws = 100_000
	for _, s := range []float64{0, 0.5, 1, 2} {
		z := newZipf(5, s)
		rng := rand.New(rand.NewPCG(1, 2))
		var counts [5]float64
		for range draws {
			counts[z.draw(rng)]++
		}
		sum := 0.0
		for i := range counts {
			sum += math.Pow(float64(i+1), -s)
		}
		for i, n := range counts {
			want := math.Pow(float64(i+1), -s) / sum
			sigma := math.Sqrt(want * (1 - want) / draws)
			if got := n / draws; math.Abs(got-want) > 5*sigma {
				t.Errorf("s %v: rank %d drawn %.4f of the time, want %.4f", s, i, got, want)
			}
		}
	}
}

func TestZipfExtremes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	steep, single := newZipf(100, 1e6), newZipf(1, 0)
	for range 1000 {
		if i := steep.draw(rng); i != 0 {
			t.Fatalf("exponent 1e6: drew rank %d", i)
		}
		if i := single.draw(rng); i != 0 {
			t.Fatalf("single rank: drew rank %d", i)
		}
	}
}
