package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestWaterFillKnownVectors(t *testing.T) {
	for _, c := range []struct {
		demand []float64
		supply float64
		want   []float64
	}{
		{[]float64{1, 2, 3}, 10, []float64{1, 2, 3}}, // enough for all
		{[]float64{1, 2, 3}, 3, []float64{1, 1, 1}},  // the smallest is just served
		{[]float64{10, 2, 3}, 9, []float64{4, 2, 3}}, // one is above the level
		{[]float64{8, 1, 8, 2}, 11, []float64{4, 1, 4, 2}},
		{[]float64{0, 5}, 3, []float64{0, 3}},
		{[]float64{4, 4}, 0, []float64{0, 0}},
		{nil, 5, nil},
	} {
		got := WaterFill(nil, c.demand, c.supply)
		if len(got) != len(c.want) {
			t.Fatalf("%v of %v: %v", c.supply, c.demand, got)
		}
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-12 {
				t.Errorf("%v of %v: %v, want %v", c.supply, c.demand, got, c.want)
			}
		}
	}
}

// Whatever the demands: nobody gets more than it wants, everything is used
// that can be, and who gets less than it wants gets no less than anybody else.
func TestWaterFillIsMaxMin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		demand := make([]float64, 1+rng.IntN(20))
		sum := 0.0
		for i := range demand {
			demand[i] = rng.ExpFloat64() * float64(rng.IntN(3))
			sum += demand[i]
		}
		supply := rng.Float64() * 1.5 * sum
		got := WaterFill(nil, demand, supply)
		used, level := 0.0, 0.0
		for i, x := range got {
			used += x
			level = max(level, x)
			if x > demand[i]+1e-12 {
				t.Fatalf("%v of %v: %v", supply, demand, got)
			}
		}
		if math.Abs(used-min(sum, supply)) > 1e-9 {
			t.Fatalf("%v of %v: %v is %v in all", supply, demand, got, used)
		}
		for i, x := range got {
			if x < demand[i]-1e-9 && x < level-1e-9 {
				t.Fatalf("%v of %v: %v leaves %d below the level", supply, demand, got, i)
			}
		}
	}
}
