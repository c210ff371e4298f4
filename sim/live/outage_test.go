package live

import (
	"math"
	"os"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestPredictionOfOutages: what is predicted for a fleet that loses Redis, or of which a process
// does, is what such a fleet does in virtual time: limiters and engine drive the same dispatch.
// Means are judged, by the tolerances of all predictions: when processes find Redis again is
// theirs to draw, and the first ones get the leases. So calls spread by a twentieth, and what is
// admitted in excess by a quarter. That spread is predicted, too, and so are the calls of the
// census, one in 40: while Redis fails, more of them are made.
func TestPredictionOfOutages(t *testing.T) {
	runs, spread := longform.Of(6, 24), longform.Of(2.0, 1)
	if testing.Short() { // a look at what is shared
		runs = 1
	}
	for _, name := range []string{"outage", "partition"}[:longform.Of(1, 2)] {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("../scenarios/" + name + ".yaml")
			if err != nil {
				t.Fatal(err)
			}
			s := read(t, string(text))
			m, x := virtual(t, s)
			predicted, err := Predict(t.Context(), s, m, x, 1, 2*runs)
			if err != nil {
				t.Fatal(err)
			}
			rows := Compare(m, predicted)
			inside, mean := make([]int, len(rows)), make([]float64, len(rows))
			for run := range runs {
				if run > 0 {
					m, _ = virtual(t, s)
				}
				if m.ByOutage == 0 {
					t.Fatal("the outage policy has decided nothing")
				}
				for i, row := range Compare(m, predicted) {
					mean[i] += row.Difference / float64(runs)
					if row.Inside {
						inside[i]++
					}
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
				t.Logf("%-20s predicted %9.4f, off by %8.4f, %d of %d runs in [%.4f %.4f]", row.Name,
					row.Predicted.Mean, mean[i], inside[i], runs, row.Predicted.Low, row.Predicted.High)
				if math.Abs(mean[i]) > spread*tolerance {
					t.Errorf("%s is off by %.4f, more than %.4f", row.Name, mean[i], spread*tolerance)
				}
				// Of 24 runs 22.8 are expected. Fewer than 19 come once in 5,000 times. Of 6 runs,
				// fewer than 3 come once in 11,000 times.
				if inside[i] < longform.Of(3, 19) {
					t.Errorf("%s: %d of %d runs are in the interval of 95 %%", row.Name, inside[i], runs)
				}
			}
		})
	}
}
