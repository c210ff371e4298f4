package main

import (
	"testing"
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
