package main

import (
	"fmt"
	"slices"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
)

// A figure is one of the few numbers that a table shows; JSON and CSV have all.
type figure struct {
	name  string // in JSON
	title string
	note  string
	of    func(*engine.Result) float64
	text  func(float64) string

	// better is 1 if more of it is better, -1 if less is, 0 if neither.
	better int

	part bool // of a whole: 1 is all

	// always says that it is shown even if it is zero everywhere.
	always bool
}

func four(x float64) string { return fmt.Sprintf("%.4f", x) }

// figures in the order of the table.
var figures = []figure{
	{"utilisation", "utilisation", "tokens admitted / what an ideal central bucket admits of the same requests", func(r *engine.Result) float64 { return r.Utilisation }, percent, 1, true, true},
	{"fairness", "fairness", "Jain's index of the processes' admitted / fair share; 1 is even", func(r *engine.Result) float64 { return r.Fairness }, four, 1, true, true},
	{"fairness_p5", "fairness, worst seconds", "its 5th percentile over windows of 1 s", func(r *engine.Result) float64 { return r.FairnessP5 }, four, 1, true, true},
	{"worst_share", "worst process", "the smallest admitted / fair share", func(r *engine.Result) float64 { return r.WorstShare }, four, 1, true, true},
	{"excess", "worst excess", "tokens over Burst + Rate*T, worst window of any key", func(r *engine.Result) float64 { return max(r.Excess, 0) }, tokens, -1, false, true},
	{"calls_per_request", "Redis calls / request", "exchanges with Redis", func(r *engine.Result) float64 { return r.CallsPerRequest }, four, -1, false, true},
	{"calls_admitting", "  for an admission", "a request waited for it and was admitted", perRequest(func(r *engine.Result) int64 { return r.CallsAdmitting }), four, 0, false, true},
	{"calls_denying", "  for a denial", "a request waited for it and was denied", perRequest(func(r *engine.Result) int64 { return r.CallsDenying }), four, 0, false, true},
	{"calls_ahead", "  ahead of need", "nobody waited", perRequest(func(r *engine.Result) int64 { return r.CallsAhead }), four, 0, false, true},
	{"latency_p99_seconds", "decision, p99", "time to a verdict; 0 is from a lease", func(r *engine.Result) float64 { return r.LatencyP99 }, span, -1, false, true},
	{"latency_p999_seconds", "decision, p999", "", func(r *engine.Result) float64 { return r.LatencyP999 }, span, -1, false, true},
	{"starvation_seconds", "longest starvation", "from a process's first denial to its next admission", func(r *engine.Result) float64 { return r.Starvation }, span, -1, false, true},
	{"first_token_max_seconds", "first token, worst", "from a new process's first request to its first admission", func(r *engine.Result) float64 { return r.FirstTokenMax }, span, -1, false, false},
	{"settle_seconds", "settled after", "a shift of traffic or processes until shares are as fair as before", func(r *engine.Result) float64 { return r.Settle }, span, -1, false, false},
	{"unanswered", "no verdict", "part of the requests: Redis did not answer in time", func(r *engine.Result) float64 { return part(r.Unanswered, r.Requests) }, percent, -1, true, false},
	{"by_outage", "by the outage policy", "part of the requests", func(r *engine.Result) float64 { return part(r.ByOutage, r.Requests) }, percent, 0, true, false},
	{"above_burst", "above the burst", "part of the requests: can never be admitted", func(r *engine.Result) float64 { return part(r.AboveBurst, r.AboveBurst+r.Requests) }, percent, 0, true, false},
}

func perRequest(of func(*engine.Result) int64) func(*engine.Result) float64 {
	return func(r *engine.Result) float64 { return part(of(r), r.Requests) }
}

func part(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

func figureOf(name string) figure {
	for _, f := range figures {
		if f.name == name {
			return f
		}
	}
	panic("sim: no figure " + name)
}

// estimate is the mean with its 95 % interval, without what no replication can
// measure: less than 0, and more than 1 of a part.
func (f figure) estimate(x []float64) measure.Interval {
	i := measure.Estimate(x)
	i.Low = max(i.Low, 0)
	if f.part && len(x) > 0 {
		i.High = min(i.High, max(1, slices.Max(x))) // utilisation is above 1 where limits were exceeded
	}
	return i
}

// interval writes the 95 % interval of a figure.
func (f figure) interval(i measure.Interval) string {
	if i.N < 2 {
		return ""
	}
	return f.text(i.Low) + " to " + f.text(i.High)
}

// shown reports whether a figure has anything to say about any of them.
func (f figure) shown(variants ...*variant) bool {
	if f.always {
		return true
	}
	for _, v := range variants {
		for _, x := range v.values(f) {
			if x != 0 {
				return true
			}
		}
	}
	return false
}
