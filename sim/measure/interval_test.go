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
	if got := Predict([]float64{9, 4, 8}, 0); got != (Interval{7, 4, 9, 3}) {
		t.Errorf("%+v", got)
	}
	off := Predict([]float64{4, 6, 8}, 3)
	if half := math.Hypot(2, 3*1.959964); math.Abs(off.High-6-half) > 1e-9 || math.Abs(off.Low-6+half) > 1e-9 {
		t.Errorf("with a discrepancy: %+v", off)
	}
	if one := Predict([]float64{5}, 0); one != (Interval{5, 5, 5, 1}) {
		t.Errorf("of one value: %+v", one)
	}
	if none := Predict(nil, 0); none != (Interval{}) {
		t.Errorf("of none: %+v", none)
	}
	var many []float64
	for i := range 79 {
		many = append(many, float64(i))
	}
	if got := Predict(many, 0); got != (Interval{39, 1, 77, 79}) {
		t.Errorf("of 79: %+v", got)
	}
}

// The interval keeps its word for values that are skewed, as utilisations are, and for those that
// are normal and off by a discrepancy.
func TestPredictCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, c := range []struct {
		name        string
		draw        func() float64
		discrepancy float64
		most        float64 // 1 where values may be equal, or a discrepancy is allowed for
	}{
		{"exponential", rng.ExpFloat64, 0, 0.959}, {"normal", rng.NormFloat64, 0, 0.959},
		{"normal and off", rng.NormFloat64, 1.5, 1},
		{"of two", func() float64 { return float64(rng.IntN(10) / 9) }, 0, 1},
	} {
		const trials = 10_000
		covered := 0
		for range trials {
			var x [Predictions]float64
			for i := range x {
				x[i] = c.draw()
			}
			next, i := c.draw()+c.discrepancy*rng.NormFloat64(), Predict(x[:], c.discrepancy)
			if i.Low <= next && next <= i.High {
				covered++
			}
		}
		part := float64(covered) / trials
		t.Logf("%s: %.3f", c.name, part)
		if part < 0.95-0.009 || part > c.most { // four standard deviations
			t.Errorf("%s: %.3f of the values lie in the interval, want 0.95", c.name, part)
		}
	}
}
