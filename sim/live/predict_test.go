package live

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/engine"
)

// The printed interval keeps its word: about 95 of 100 runs lie in what ten simulations of
// the same requests predict. (In the interval of the mean lie 50.)
func TestPredictionCovers(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a thousand runs in one goroutine: too long with -short")
	}
	const trials, first = 120, 11
	s := read(t, base+"limit: 200/s")
	random := rand.New(rand.NewPCG(first, 0))
	inside := map[string]int{}
	for trial := range uint64(trials) {
		seed := first + trial // so that its predictions are others, too
		trips := make([]time.Duration, 997)
		for i := range trips {
			trips[i] = time.Millisecond/2 + time.Duration(random.ExpFloat64()*5e5)
		}
		c := s.Clone()
		c.Redis.SetTrips(trips)
		measured, err := engine.RunAgain(t.Context(), c, seed, 0, 100) // no prediction draws as it does
		if err != nil {
			t.Fatal(err)
		}
		random.Shuffle(len(trips), func(i, j int) { trips[i], trips[j] = trips[j], trips[i] })
		predicted, err := Predict(t.Context(), s, measured, Extra{Trips: trips}, seed, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range Compare(measured, predicted) {
			if row.Inside {
				inside[row.Name]++
			}
		}
	}
	for _, name := range []string{"calls_per_request", "utilisation", "fairness"} {
		part := float64(inside[name]) / trials
		t.Logf("%s: %.3f inside", name, part)
		if part < 0.95-0.06 || part > 0.95+0.05 { // three standard deviations
			t.Errorf("seed %d: %.3f of the runs lie in the interval of %s, want 0.95", first, part, name)
		}
	}
}
