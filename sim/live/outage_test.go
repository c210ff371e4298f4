package live

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/simtest"
)

// TestPredictionOfOutages: what is predicted for a fleet that loses Redis, or of which a process
// does, is what such a fleet does in virtual time: limiters and engine drive the same dispatch.
// Means are judged, by the tolerances of all predictions: when processes find Redis again is
// theirs to draw, and the first ones get the leases. So calls spread by a twentieth, more often
// above than below, and what is admitted in excess by a quarter. That spread is predicted, too,
// and so are the calls of the census, one in 40: while Redis fails, more of them are made.
func TestPredictionOfOutages(t *testing.T) {
	runs, spread := longform.Of(6, 24), longform.Of(2.0, 1)
	if testing.Short() { // a look at what is shared
		runs = 1
	}
	for _, name := range []string{"outage", "partition"}[:longform.Of(1, 2)] {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../scenarios/" + name + ".yaml")
			simtest.OK(t, err)
			s := read(t, string(text))
			m, x := virtual(t, s)
			predicted, err := Predict(t.Context(), s, m, x, 1, 2*runs)
			simtest.OK(t, err)
			rows := Compare(m, predicted, nil)
			played, mean := make([][]float64, len(rows)), make([]float64, len(rows))
			for run := range runs {
				if run > 0 {
					m, _ = virtual(t, s)
				}
				if m.ByOutage == 0 {
					t.Fatal("the outage policy has decided nothing")
				}
				for i, row := range Compare(m, predicted, nil) {
					mean[i] += row.Difference / float64(runs)
					played[i] = append(played[i], row.Measured)
				}
			}
			for i, row := range rows {
				tolerance := row.Tolerance
				if row.Name == "excess" {
					tolerance = 0.2 * row.Predicted.Mean // nearly four standard errors where it spreads most
				}
				if tolerance == 0 || testing.Short() {
					continue
				}
				apart := distance(played[i], values(measures[i].of, predicted))
				t.Logf("%-20s predicted %9.4f in [%.4f %.4f], off by %8.4f, distributions by %.2f",
					row.Name, row.Predicted.Mean, row.Predicted.Low, row.Predicted.High, mean[i], apart)
				if math.Abs(mean[i]) > spread*tolerance {
					t.Errorf("%s is off by %.4f, more than %.4f", row.Name, mean[i], spread*tolerance)
				}
				// 24 and 48 of one distribution are further apart once in 10,000 times: the limit
				// of Kolmogorov and Smirnov, sqrt(-ln(p/2)/2) x sqrt(1/24 + 1/48). 6 and 12 once in
				// 9,000.
				if apart > longform.Of(0.99, 0.556) {
					t.Errorf("%s: distributions of predicted and played runs are %.2f apart", row.Name, apart)
				}
			}
		})
	}
}

// values are a figure of runs.
func values(of func(*engine.Result) float64, runs []*engine.Result) (v []float64) {
	for _, r := range runs {
		v = append(v, of(r))
	}
	return v
}

// distance is the largest difference of the distribution functions of two samples: the two-sample
// statistic of Kolmogorov and Smirnov.
func distance(a, b []float64) (most float64) {
	upTo := func(sample []float64, x float64) (part float64) {
		for _, v := range sample {
			if v <= x {
				part += 1 / float64(len(sample))
			}
		}
		return part
	}
	for _, x := range append(slices.Clone(a), b...) {
		most = max(most, math.Abs(upTo(a, x)-upTo(b, x)))
	}
	return most
}
