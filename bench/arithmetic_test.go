package main

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{5, 1, 2}, Spread{2, 1, 5}},
		{[]float64{4, 1, 2, 10}, Spread{3, 1, 10}},
	} {
		if got := spread(c.values); got != c.want {
			t.Errorf("spread of %v is %v, not %v", c.values, got, c.want)
		}
	}
}

// TestRatiosAreOfTheSameRound: the machine was half as fast in the second round,
// for both.
func TestRatiosAreOfTheSameRound(t *testing.T) {
	same := func(x float64) float64 { return x }
	if got := ratios([]float64{100, 50, 90}, same, []float64{10, 5, 10}, same); got != (Spread{10, 9, 10}) {
		t.Errorf("ratios %v, not 10 [9-10]", got)
	}
	if got := ratios([]float64{100, 50}, same, []float64{0}, same); got != (Spread{}) {
		t.Errorf("ratios to nothing are %v", got)
	}
}

func TestHistogramPercentiles(t *testing.T) {
	var h Histogram
	if got := h.Percentile(0.99); got != 0 {
		t.Errorf("p99 of nothing is %v", got)
	}
	for i := 1; i <= 1000; i++ {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	for _, c := range []struct {
		p    float64
		want time.Duration
	}{{0, time.Microsecond}, {0.5, 501 * time.Microsecond}, {0.99, 991 * time.Microsecond}, {1, time.Millisecond}} {
		got := h.Percentile(c.p)
		if got < c.want || float64(got) > 1.035*float64(c.want) {
			t.Errorf("p%v is %v, not %v to 3.5 %% more", 100*c.p, got, c.want)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		x := random.Uint64() >> (4 + random.IntN(60))
		i := bucketOf(x)
		if end := bucketEnd(i); x > end || float64(end-x) > float64(x)/32 {
			t.Fatalf("%d is in bucket %d that ends at %d", x, i, end)
		}
		if i > 0 && bucketEnd(i-1) >= x {
			t.Fatalf("%d is in bucket %d, but the one before ends at %d", x, i, bucketEnd(i-1))
		}
	}
	var h Histogram
	h.Add(math.MaxInt64) // has a bucket
	h.Add(-1)            // a clock that stepped back
}
