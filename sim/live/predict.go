package live

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// mostTrips is how many round trips a prediction draws from: enough for their
// 99.9th percentile.
const mostTrips = 10_000

// Predict plays a scenario in virtual time with the requests, the faults and
// the round trips that were measured, so many times; it begins and ends when the run did. The
// exchanges of the census that were measured are added.
// The times differ in which exchange meets which round trip, and in when processes
// renew and probe. (Other replications would have other requests: they would say
// what such a load costs, not what this one does.)
func Predict(ctx context.Context, s *scenario.Scenario, measured *engine.Result,
	extra Extra, seed uint64, times int) ([]*engine.Result, error) {
	c := s.Clone()
	c.BeginAt(extra.Began)
	c.Duration = min(c.Duration, c.Warmup+time.Duration(measured.Seconds*float64(time.Second)))
	trips := thin(extra.Trips, mostTrips)
	var predicted []*engine.Result
	for i := range times {
		if len(trips) > 0 {
			at := i * len(trips) / times
			c.Redis.SetTrips(slices.Concat(trips[at:], trips[:at]))
		}
		r, err := engine.RunAgain(ctx, c, seed, measured.Replication, i)
		if err != nil {
			return predicted, fmt.Errorf("live: predict: %w", err)
		}
		addCensus(r, extra.Census)
		predicted = append(predicted, r)
	}
	return predicted, nil
}

// addCensus counts exchanges that the engine leaves out.
func addCensus(r *engine.Result, n int64) {
	r.Calls += n
	r.CallsAhead += n
	if r.Requests > 0 {
		r.CallsPerRequest = float64(r.Calls) / float64(r.Requests)
	}
	if r.Seconds > 0 {
		r.CallsPerSecond = float64(r.Calls) / r.Seconds
	}
}

// thin keeps at most n values, spread evenly.
func thin(list []time.Duration, n int) []time.Duration {
	if len(list) <= n {
		return list
	}
	kept := make([]time.Duration, n)
	for i := range kept {
		kept[i] = list[i*len(list)/n]
	}
	return kept
}

// A Row compares one measure with its prediction.
type Row struct {
	Name     string  `json:"name"`
	Measured float64 `json:"measured"`

	// Predicted is the interval in which 95 of 100 single runs lie, not that of the mean.
	// Inside tells whether Measured does.
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
// is good for: to choose a policy.
var measures = []struct {
	name      string
	of        func(*engine.Result) float64
	relative  bool
	tolerance float64
	part      bool // of a whole: 1 is all
}{
	{"calls_per_request", func(r *engine.Result) float64 { return r.CallsPerRequest }, true, 0.1, false},
	{"utilisation", func(r *engine.Result) float64 { return r.Utilisation }, false, 0.01, true},
	{"fairness", func(r *engine.Result) float64 { return r.Fairness }, false, 0.01, true},
	{"fairness_p5", func(r *engine.Result) float64 { return r.FairnessP5 }, false, 0, true},
	{"worst_share", func(r *engine.Result) float64 { return r.WorstShare }, false, 0, true},
	{"key_fairness", func(r *engine.Result) float64 { return r.Keys.Fairness }, false, 0, true},
	{"worst_key", func(r *engine.Result) float64 { return r.Keys.Worst }, false, 0, true},
	{"latency_p99_seconds", func(r *engine.Result) float64 { return r.LatencyP99 }, true, 0, false},
	{"starvation_seconds", func(r *engine.Result) float64 { return r.Starvation }, true, 0, false},
	{"first_token_max_seconds", func(r *engine.Result) float64 { return r.FirstTokenMax }, true, 0, false},
	{"excess", func(r *engine.Result) float64 { return max(r.Excess, 0) }, false, 0, false},
}

// Compare puts predictions beside what was measured.
func Compare(measured *engine.Result, predicted []*engine.Result) (rows []Row) {
	for _, m := range measures {
		values := make([]float64, len(predicted))
		for i, r := range predicted {
			values[i] = m.of(r)
		}
		row := Row{Name: m.name, Measured: m.of(measured), Predicted: measure.Predict(values),
			Tolerance: m.tolerance}
		row.Predicted.Low = max(row.Predicted.Low, 0)
		if m.part { // utilisation is above 1 where limits were exceeded
			row.Predicted.High = min(row.Predicted.High, max(1, slices.Max(append(values, 0))))
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
