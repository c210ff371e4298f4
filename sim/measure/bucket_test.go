package measure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func TestBucketSteps(t *testing.T) {
	b := NewBucket(0, lease.Per(10, time.Second).WithBurst(3), 0)
	for i, step := range []struct {
		at   time.Duration
		n    float64
		want bool
	}{
		{0, 2, true},
		{0, 2, false}, // one left, and a denial takes nothing
		{0, 1, true},
		{50 * time.Millisecond, 1, false},
		{100 * time.Millisecond, 1, true},
		{10 * time.Second, 4, false}, // never more than the burst
		{10 * time.Second, 3, true},
	} {
		if got := b.Take(step.at, step.n); got != step.want {
			t.Errorf("step %d: take %v at %v: %v, want %v", i, step.n, step.at, got, step.want)
		}
	}
}

// The gauge against its definition: all windows, one by one.
func TestGaugeFindsWorstWindow(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limit := lease.Per(100, time.Second).WithBurst(5)
		g := NewGauge(limit)
		var times []time.Duration
		var costs []float64
		at := time.Duration(0)
		worst, want := math.Inf(-1), math.Inf(-1)
		for range 100 {
			at += time.Duration(rng.ExpFloat64() * float64(8*time.Millisecond))
			n := float64(1 + rng.IntN(3))
			times, costs = append(times, at), append(costs, n)
			worst = max(worst, g.Pour(at, n))
			sum := 0.0
			for i := len(times) - 1; i >= 0; i-- { // windows that end now
				sum += costs[i]
				want = max(want, sum-limit.Rate*(at-times[i]).Seconds()-float64(limit.Burst))
			}
		}
		if math.Abs(worst-want) > 1e-9 {
			t.Errorf("seed %d: worst excess %v, all windows say %v", seed, worst, want)
		}
	}
}

// What the ideal bucket admits is by definition within the limit.
func TestBucketNeverExceeds(t *testing.T) {
	limit := lease.Per(100, time.Second).WithBurst(5)
	rng := rand.New(rand.NewPCG(1, 0))
	b, g := NewBucket(0, limit, 0), NewGauge(limit)
	at := time.Duration(0)
	for range 10_000 {
		at += time.Duration(rng.ExpFloat64() * float64(3*time.Millisecond))
		if b.Take(at, 1) {
			if over := g.Pour(at, 1); over > 1e-9 {
				t.Fatalf("at %v: %v tokens over the limit", at, over)
			}
		}
	}
}
