package live

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// Predict plays a scenario in virtual time, so many times, with the faults of the run and what
// the machine did to it: requests come when they were fired, round trips take what they took
// then, and processes wake as late as requests came then. It begins and ends when the run did.
// The times differ in which of the round trips of about its time an exchange meets, and in when
// processes renew and probe. (Other replications would have other requests: they would
// say what such a load costs, not what this one does.)
func Predict(ctx context.Context, s *scenario.Scenario, measured *engine.Result,
	extra Extra, seed uint64, times int) ([]*engine.Result, error) {
	c := s.Clone()
	c.Begins = extra.Began
	c.Duration = min(c.Duration, c.Warmup+time.Duration(measured.Seconds*float64(time.Second)))
	var predicted []*engine.Result
	random := rand.New(rand.NewPCG(seed, uint64(measured.Replication)))
	for i := range times {
		r, err := engine.RunAgain(ctx, c, seed, measured.Replication, i, extra.course(random))
		if err != nil {
			return predicted, fmt.Errorf("live: predict: %w", err)
		}
		predicted = append(predicted, r)
	}
	return predicted, nil
}

// Undisturbed is the run as it would have been if the machine had done nothing to it.
func (x Extra) Undisturbed() Extra {
	fired := slices.Clone(x.fired)
	for i := range fired {
		fired[i].Fired = fired[i].At
	}
	slices.SortStableFunc(fired, func(a, b shot) int { return cmp.Compare(a.At, b.At) })
	return Extra{fired: fired, Began: x.Began}
}

// alike is among how many round trips of about the same time an exchange draws: enough that a
// long one does not meet all exchanges until the next, few enough that they are of the moment.
const alike = 16

// course is that of the run.
func (x *Extra) course(random *rand.Rand) (c engine.Course) {
	c.Trip = near(x.Trips, alike, random)
	if len(x.Delays) > 0 {
		c.Late = x.late
	}
	if n := len(x.gathered); n > 0 {
		c.Gather = x.gathered[n/2]
	}
	if rest := x.fired; rest != nil {
		c.Requests = func(q *workload.Request) bool {
			if len(rest) == 0 {
				return false
			}
			*q = rest[0].Request
			q.At, rest = rest[0].Fired, rest[1:]
			return true
		}
	}
	return c
}

// near returns what draws, from a list in the order of time, one of so many around the first that
// began at a time or later. It is nil for an empty list.
func near(list []Lapse, around int, random *rand.Rand) func(at time.Duration) time.Duration {
	if len(list) == 0 {
		return nil
	}
	return func(at time.Duration) time.Duration {
		i := since(list, at) + random.IntN(around) - around/2
		return list[min(max(i, 0), len(list)-1)].Took
	}
}

// since is how many of a list in the order of time began before at.
func since(list []Lapse, at time.Duration) int {
	i, _ := slices.BinarySearchFunc(list, at, func(l Lapse, at time.Duration) int {
		return cmp.Compare(l.At, at)
	})
	return i
}

// late is by how much a process wakes too late that is due at a time: as much as the next request
// came, and not before the last one that was due before it. Who wakes in the midst of a time in
// which the machine did nothing renews ahead of the requests that come at its end together: the
// calls of a busy machine were predicted a tenth too high.
func (x *Extra) late(at time.Duration) time.Duration {
	next := since(x.Delays, at)
	late := x.Delays[min(next, len(x.Delays)-1)].Took
	if next > 0 {
		before := x.Delays[next-1]
		late = max(late, before.At+before.Took-at)
	}
	return late
}

// A Row compares one measure with its prediction.
type Row struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`

	// Predicted is the interval in which 95 of 100 single runs lie, not that of the mean: of
	// measure.Predictions simulations or more. Inside tells whether Measured does.
	Predicted measure.Interval `json:"predicted"`
	Inside    bool             `json:"inside"`

	// Difference is Measured - Predicted.Mean; a Relative one is divided by
	// the latter.
	Difference float64 `json:"difference"`
	Relative   bool    `json:"relative"`
	Tolerance  float64 `json:"tolerance,omitempty"` // 0: the measure is not judged
	OK         bool    `json:"ok"`
}

// measures are those that are compared, by their JSON names. The tolerances are what a prediction
// is good for: to choose a policy. The discrepancy is by how much the simulation is off beyond
// chance, a standard deviation that TestDiscrepancy has found (ADR 70).
var measures = []struct {
	name      string
	of        func(*engine.Result) float64
	relative  bool
	tolerance float64
	part      bool // of a whole: 1 is all

	discrepancy float64 // relative, or not, as the tolerance is
}{
	{"calls_per_request", func(r *engine.Result) float64 { return r.CallsPerRequest }, true, 0.1,
		false, 0.01},
	{"utilisation", func(r *engine.Result) float64 { return r.Utilisation }, false, 0.01, true, 0},
	{"fairness", func(r *engine.Result) float64 { return r.Fairness }, false, 0.01, true, 0},
	{"fairness_p5", func(r *engine.Result) float64 { return r.FairnessP5 }, false, 0, true, 0},
	{"worst_share", func(r *engine.Result) float64 { return r.WorstShare }, false, 0, true, 0},
	{"floors", (*engine.Result).Floors, false, 0.01, true, 0},
	{"key_fairness", func(r *engine.Result) float64 { return r.Keys.Fairness }, false, 0, true, 0},
	{"worst_key", func(r *engine.Result) float64 { return r.Keys.Worst }, false, 0, true, 0},
	{"latency_p99_seconds", func(r *engine.Result) float64 { return r.LatencyP99 }, true, 0, false, 0},
	{"starvation_seconds", func(r *engine.Result) float64 { return r.Starvation }, true, 0, false, 0},
	{"first_token_max_seconds", func(r *engine.Result) float64 { return r.FirstTokenMax }, true, 0,
		false, 0},
	{"excess", func(r *engine.Result) float64 { return max(r.Excess, 0) }, false, 0, false, 0},
}

// known is how much of what the machine has done to a measure a simulation is good for: the rest
// of it is a standard deviation of the prediction.
const known = 0.5

// Compare puts predictions beside what was measured. By as much as they differ from predictions of
// the run undisturbed, the machine has moved a measure. Without such, it has done nothing.
func Compare(measured *engine.Result, predicted, undisturbed []*engine.Result) (rows []Row) {
	for _, m := range measures {
		values, mean := valuesOf(predicted, m.of)
		row := Row{Name: m.name, Measured: m.of(measured), Tolerance: m.tolerance}
		discrepancy := m.discrepancy
		if m.relative {
			discrepancy *= mean
		}
		if _, quiet := valuesOf(undisturbed, m.of); len(undisturbed) > 0 {
			discrepancy = math.Hypot(discrepancy, (1-known)*(mean-quiet))
		}
		row.Predicted = measure.Predict(values, discrepancy)
		row.Predicted.Low = max(row.Predicted.Low, 0)
		if m.part && slices.Max(append(values, 0)) <= 1 {
			// Where limits are exceeded utilisation is above 1.
			row.Predicted.High = min(row.Predicted.High, 1)
		}
		row.Inside = row.Predicted.Low <= row.Measured && row.Measured <= row.Predicted.High
		row.Difference = row.Measured - row.Predicted.Mean
		if row.Relative = m.relative && row.Predicted.Mean != 0; row.Relative {
			row.Difference /= row.Predicted.Mean
		}
		row.OK = m.tolerance == 0 || math.Abs(row.Difference) <= m.tolerance
		rows = append(rows, row)
	}
	return rows
}

// valuesOf are the values of a measure in results, and their mean.
func valuesOf(results []*engine.Result, of func(*engine.Result) float64) ([]float64, float64) {
	values := make([]float64, len(results))
	for i, r := range results {
		values[i] = of(r)
	}
	return values, measure.Estimate(values).Mean
}
