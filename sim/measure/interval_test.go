package measure

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestEstimateKnown(t *testing.T) {
	got := Estimate([]float64{4, 6, 8})
	// t(2) = 4.303, s = 2: 6 +- 4.303*2/sqrt(3)
	if got.Mean != 6 || math.Abs(got.High-6-4.303*2/math.Sqrt(3)) > 1e-9 || math.Abs(got.Low+got.High-12) > 1e-9 || got.N != 3 {
		t.Errorf("%+v", got)
	}
	if one := Estimate([]float64{5}); one != (Interval{5, 5, 5, 1}) {
		t.Errorf("of one value: %+v", one)
	}
	if none := Estimate(nil); none != (Interval{}) {
		t.Errorf("of none: %+v", none)
	}
	if math.Abs(studentT(31)-2.0395) > 1e-3 || math.Abs(studentT(120)-1.9799) > 1e-3 {
		t.Errorf("t(31) = %v, t(120) = %v", studentT(31), studentT(120))
	}
}

// The interval keeps its word: it holds the true mean about 95 times of 100.
func TestEstimateCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const trials = 20_000
	covered := 0
	for range trials {
		var x [5]float64
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		if !Estimate(x[:]).Differs() {
			covered++
		}
	}
	if part := float64(covered) / trials; math.Abs(part-0.95) > 0.006 { // 4 standard deviations
		t.Errorf("%.4f of the intervals hold the mean, want 0.95", part)
	}
}

func TestPredictKnown(t *testing.T) {
	got := Predict([]float64{4, 6, 8}, 0)
	if half := 4.303 * 2 * math.Sqrt(1+1./3); got.Mean != 6 || math.Abs(got.High-6-half) > 1e-9 || math.Abs(got.Low-6+half) > 1e-9 || got.N != 3 {
		t.Errorf("%+v", got)
	}
	off := Predict([]float64{4, 6, 8}, 3)
	if half := 4.303 * math.Sqrt(4*(1+1./3)+9); math.Abs(off.High-6-half) > 1e-9 {
		t.Errorf("with a discrepancy: %+v", off)
	}
	if one := Predict([]float64{5}, 0); one != (Interval{5, 5, 5, 1}) {
		t.Errorf("of one value: %+v", one)
	}
	if none := Predict(nil, 0); none != (Interval{}) {
		t.Errorf("of none: %+v", none)
	}
}
