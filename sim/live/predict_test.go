package live

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/simtest"
)

// The printed interval keeps its word: about 95 of 100 runs lie in what ten simulations of
// the same requests predict. (In the interval of the mean lie 50.)
func TestPredictionCovers(t *testing.T) {
	longform.Only(t, "plays a thousand runs in one goroutine")
	const first, trials = uint64(11), uint64(120)
	s := read(t, base+"limit: 200/s")
	random := rand.New(rand.NewPCG(first, 0))
	inside := map[string]int{}
	for trial := range trials {
		seed := first + trial // so that its predictions are others, too
		trips := make([]Lapse, 997)
		for i := range trips {
			trips[i].At = time.Duration(i) * s.Duration / time.Duration(len(trips))
			trips[i].Took = time.Millisecond/2 + time.Duration(random.ExpFloat64()*5e5)
		}
		course := engine.Course{Trip: near(trips, alike, random)} // no prediction draws as it does
		measured, err := engine.RunAgain(t.Context(), s, seed, 0, 100, course)
		simtest.OK(t, err)
		predicted, err := Predict(t.Context(), s, measured, Extra{Trips: trips}, seed, 10)
		simtest.OK(t, err)
		// A machine is off by as much as was found.
		measured.CallsPerRequest *= 1 + measures[0].discrepancy*random.NormFloat64()
		for _, row := range Compare(measured, predicted, nil) {
			if row.Inside {
				inside[row.Name]++
			}
		}
	}
	for _, name := range []string{"calls_per_request", "utilisation", "fairness"} {
		part := float64(inside[name]) / float64(trials)
		t.Logf("%s: %.3f inside", name, part)
		if part < 0.95-0.06 || part > 0.95+0.05 { // three standard deviations
			t.Errorf("seed %d: %.3f of the runs lie in the interval of %s, want 0.95", first, part, name)
		}
	}
}

// So do the runs of limiters, which draw anew each time.
func TestPredictionCoversLimiters(t *testing.T) {
	longform.Only(t, "plays hundreds of runs")
	const trials = 4
	inside, all := 0, 0
	for _, text := range []string{
		"limit: 200/s", "limit: 200/s\nbalance: {skew: 1, moves: 2s}",
		"limit: 200/s\nbalance: {by: own, on_off: {on: 300ms, period: 1s}}",
		"limit: 200/s\nload: {arrivals: gamma, cv: 3}", "limit: 200/s\nredis: {latency: 20ms, timeout: 250ms}",
		"limit: 20/s\nkeys: 10\nkey_skew: 1", "limit: quota 800/4s", "limit: 800 in any 4s",
	} {
		s := read(t, "duration: 12s\nwarmup: 2s\nprocesses: 6\n"+text)
		for trial := range uint64(trials) {
			seed := 1 + trial // other requests, too: those of one seed may all be misjudged alike
			m, x := virtualLate(t, s, seed, 1)
			predicted, err := Predict(t.Context(), s, m, x, seed, 10)
			simtest.OK(t, err)
			row := Compare(m, predicted, nil)[0] // calls
			if all++; row.Inside {
				inside++
				continue
			}
			t.Logf("%s: %.4f calls, predicted %.4f to %.4f", text, row.Measured, row.Predicted.Low, row.Predicted.High)
		}
	}
	t.Logf("%d of %d runs lie in the interval of calls", inside, all)
	if part := float64(inside) / float64(all); part < 0.95-0.12 { // three standard deviations
		t.Errorf("want 95 %%")
	}
}

// A process that is due while the machine does nothing wakes among the requests that come at the
// end of that time, in the order of their own.
func TestNobodyWakesWhileTheMachineIsStopped(t *testing.T) {
	const ms = time.Millisecond
	x := Extra{Delays: []Lapse{{10 * ms, ms}, {20 * ms, 9 * ms}, {24 * ms, 5 * ms}, {40 * ms, 2 * ms}}}
	for _, c := range []struct{ due, want time.Duration }{
		{5 * ms, 6 * ms}, {10 * ms, 11 * ms},
		{21 * ms, 29 * ms}, // all of these come then
		{25 * ms, 29 * ms}, // the next one is late by less
		{30 * ms, 32 * ms}, {50 * ms, 52 * ms},
	} {
		if woke := c.due + x.late(c.due); woke != c.want {
			t.Errorf("due at %v, it wakes at %v, want %v", c.due, woke, c.want)
		}
	}
}

// Where the machine has moved a measure, half of that is a standard deviation of the prediction.
func TestDisturbedRunsAreLessKnown(t *testing.T) {
	needing := func(calls ...float64) (list []*engine.Result) {
		for _, x := range calls {
			list = append(list, &engine.Result{CallsPerRequest: x})
		}
		return list
	}
	predicted := needing(0.039, 0.040, 0.041)
	rows := func(undisturbed []*engine.Result) Row {
		return Compare(&engine.Result{CallsPerRequest: 0.03}, predicted, undisturbed)[0]
	}
	alone, same, moved := rows(nil), rows(predicted), rows(needing(0.019, 0.020, 0.021))
	if alone != same || alone.Inside {
		t.Errorf("not disturbed: %+v, without a comparison %+v", same, alone)
	}
	if width := moved.Predicted.High - moved.Predicted.Mean; !moved.Inside || width < 2*0.01 {
		t.Errorf("calls twice as many as undisturbed are predicted by %+v", moved)
	}
}
