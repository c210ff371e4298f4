package workload

import (
	"math"
	"slices"
	"testing"
)

// The functions that are ours agree with those of package math.
func TestLnExp(t *testing.T) {
	r := NewRandom(1, 0, 0, Arrivals)
	for range 100_000 {
		x := math.Exp(r.Uniform()*200 - 100)
		if got, want := ln(x), math.Log(x); math.Abs(got-want) > 2e-15*max(1, math.Abs(want)) {
			t.Fatalf("ln(%v) = %v, want %v", x, got, want)
		}
		y := r.Uniform()*200 - 100
		if got, want := exp(y), math.Exp(y); math.Abs(got-want) > 1e-13*want {
			t.Fatalf("exp(%v) = %v, want %v", y, got, want)
		}
	}
	if exp(-1e9) != 0 || exp(0) != 1 || ln(1) != 0 {
		t.Errorf("exp(-1e9) = %v, exp(0) = %v, ln(1) = %v", exp(-1e9), exp(0), ln(1))
	}
}

// Each generator has the distribution that it is named after: the largest
// distance from it (Kolmogorov and Smirnov) is within what chance allows once
// in a thousand seeds.
func TestDistributions(t *testing.T) {
	const n = 200_000
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	for _, c := range []struct {
		name string
		draw func(*Random) float64
		cdf  func(float64) float64
	}{
		{"uniform", (*Random).Uniform, func(x float64) float64 { return x }},
		{"exponential", (*Random).Exponential, func(x float64) float64 { return 1 - math.Exp(-x) }},
		{"normal", (*Random).Normal, phi},
		{"lognormal", func(r *Random) float64 { return r.Lognormal(3, 50) },
			func(x float64) float64 { return phi(math.Log(x/3) / math.Log(50.0/3) * 2.3263478740408408) }},
		{"gamma, cv 1", func(r *Random) float64 { return r.Gamma(1) }, func(x float64) float64 { return 1 - math.Exp(-x) }},
		// Shape 2 and scale 1/2.
		{"gamma, cv 0.707", func(r *Random) float64 { return r.Gamma(math.Sqrt(0.5)) },
			func(x float64) float64 { return 1 - math.Exp(-2*x)*(1+2*x) }},
		// Shape 1/2 and scale 2 is the square of a normal deviate.
		{"gamma, cv 1.414", func(r *Random) float64 { return r.Gamma(math.Sqrt2) },
			func(x float64) float64 { return math.Erf(math.Sqrt(x / 2)) }},
	} {
		r := NewRandom(42, 0, 0, Arrivals)
		x := make([]float64, n)
		for i := range x {
			x[i] = c.draw(r)
		}
		slices.Sort(x)
		worst := 0.0
		for i, v := range x {
			f := c.cdf(v)
			worst = max(worst, f-float64(i)/n, float64(i+1)/n-f)
		}
		if limit := 1.95 / math.Sqrt(n); worst > limit {
			t.Errorf("%s: distance %.5f, at most %.5f allowed", c.name, worst, limit)
		}
	}
}

// Streams of different purposes, processes, replications and seeds have
// nothing to do with one another.
func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]bool{}
	for seed := range uint64(5) {
		for replication := range 5 {
			for process := -1; process < 5; process++ {
				for purpose := Arrivals; purpose <= Service; purpose++ {
					x := NewRandom(seed, replication, process, purpose).Uint64()
					if seen[x] {
						t.Fatalf("seed %d, replication %d, process %d, purpose %d begins like another", seed, replication, process, purpose)
					}
					seen[x] = true
				}
			}
		}
	}
}

func BenchmarkExponential(b *testing.B) {
	r := NewRandom(1, 0, 0, Arrivals)
	b.Run("ziggurat", func(b *testing.B) {
		for b.Loop() {
			r.Exponential()
		}
	})
	b.Run("logarithm", func(b *testing.B) {
		for b.Loop() {
			_ = -ln(1 - r.Uniform())
		}
	})
}
