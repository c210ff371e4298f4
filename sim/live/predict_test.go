package live

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/simtest"
)

// covering are the measures whose intervals are held to their word.
var covering = []string{"calls_per_request", "utilisation", "fairness"}

// A tally counts the runs that lie in the interval of a measure.
type tally struct {
	inside map[string]int
	all    int
}

func (c *tally) see(rows []Row) {
	c.all++
	for _, row := range rows {
		if row.Inside {
			c.inside[row.Name]++
		}
	}
}

// judge wants at least 95 of 100 runs inside, as far as so many can tell. Too wide an interval is
// what measure.TestPredictCovers finds.
func (c *tally) judge(t *testing.T) {
	off := 3 * math.Sqrt(0.95*0.05/float64(c.all))
	for _, name := range covering {
		part := float64(c.inside[name]) / float64(c.all)
		t.Logf("%s: %.3f of %d runs lie in the interval", name, part, c.all)
		if part < 0.95-off {
			t.Errorf("%s: want 0.95, less %.3f at most", name, off)
		}
	}
}

// The printed interval keeps its word: about 95 of 100 runs lie in what simulations of
// the same requests predict. (In the interval of the mean lie 50.)
func TestPredictionCovers(t *testing.T) {
	longform.Only(t, "plays five thousand runs in one goroutine")
	const first, trials = uint64(11), uint64(120)
	s := read(t, base+"limit: 200/s")
	random := rand.New(rand.NewPCG(first, 0))
	count := tally{inside: map[string]int{}}
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
		predicted, err := Predict(t.Context(), s, measured, Extra{Trips: trips}, seed, measure.Predictions)
		simtest.OK(t, err)
		// A machine is off by as much as was found.
		measured.CallsPerRequest *= 1 + measures[0].discrepancy*random.NormFloat64()
		count.see(Compare(measured, predicted, nil))
	}
	count.judge(t)
}

// So do the runs of limiters, which draw anew each time.
func TestPredictionCoversLimiters(t *testing.T) {
	longform.Only(t, "plays thousands of runs")
	const trials = 12
	count := tally{inside: map[string]int{}}
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
			predicted, err := Predict(t.Context(), s, m, x, seed, measure.Predictions)
			simtest.OK(t, err)
			rows := Compare(m, predicted, nil)
			count.see(rows)
			for _, row := range rows {
				if !row.Inside && slices.Contains(covering, row.Name) {
					t.Logf("%s: %s %.4f, predicted %.4f to %.4f", text, row.Name, row.Measured,
						row.Predicted.Low, row.Predicted.High)
				}
			}
		}
	}
	count.judge(t)
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
	if width := moved.Predicted.High - moved.Predicted.Mean; !moved.Inside || width < 1.95*0.01 {
		t.Errorf("calls twice as many as undisturbed are predicted by %+v", moved)
	}
}
