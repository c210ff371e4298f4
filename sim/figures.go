package main

import (
	"fmt"
	"slices"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/size"
)

// A figure is one of the few numbers that a table shows; JSON and CSV have all.
type figure struct {
	name  string // in JSON
	title string
	head  string // in the table of a sweep, "" if it is not there
	note  string
	of    func(*engine.Result) float64
	text  func(float64) string

	// better is 1 if more of it is better, -1 if less is, 0 if neither.
	better int

	part bool // of a whole: 1 is all

	// tells whether a replication has something to say about it; nil is always.
	tells func(*engine.Result) bool
}

func four(x float64) string { return fmt.Sprintf("%.4f", x) }

// costly reports whether requests take other than a token each.
func costly(r *engine.Result) bool {
	return r.TokensDecided != float64(r.Admitted+r.Denied+r.Unanswered)
}

func manyKeys(r *engine.Result) bool { return r.Keys.Asked > 1 }

// classed reports whether requests have classes.
func classed(r *engine.Result) bool { return len(r.Classes) > 0 }

// figures in the order of the table.
var figures = []figure{
	{name: "admitted", title: "requests admitted", head: "admitted",
		of: func(r *engine.Result) float64 { return float64(r.Admitted) }, text: count},
	{name: "denied", title: "requests denied", head: "denied",
		of: func(r *engine.Result) float64 { return float64(r.Denied) }, text: count},
	{name: "ideal_denied", title: "  by an ideal limit", head: "ideal",
		note: "one central limit denies so many of the same requests",
		of:   func(r *engine.Result) float64 { return float64(r.IdealDenied) }, text: count},
	{name: "tokens_admitted", title: "tokens admitted", tells: costly,
		of: func(r *engine.Result) float64 { return r.TokensAdmitted }, text: count},
	{name: "tokens_denied", title: "tokens denied", tells: costly,
		of: func(r *engine.Result) float64 { return r.TokensDenied }, text: count},
	{name: "utilisation", title: "utilisation", head: "utilisation",
		note: "tokens admitted / what an ideal central limit admits of the same requests",
		of:   func(r *engine.Result) float64 { return r.Utilisation },
		text: percent, better: 1, part: true},
	{name: "fairness", title: "fairness", head: "fairness",
		note: "Jain's index of the processes' admitted / fair share; 1 is even",
		of:   func(r *engine.Result) float64 { return r.Fairness }, text: four, better: 1, part: true},
	{name: "fairness_p5", title: "fairness, worst seconds", head: "worst seconds",
		note: "its 5th percentile over windows of 1 s",
		of:   func(r *engine.Result) float64 { return r.FairnessP5 }, text: four, better: 1, part: true},
	{name: "worst_share", title: "worst process", head: "worst process", note: "the smallest admitted / fair share",
		of: func(r *engine.Result) float64 { return r.WorstShare }, text: four, better: 1, part: true},
	{name: "floors", title: "floors honoured", head: "floors honoured",
		note: "admitted of what is within the floor, in windows of 2 s, worst class",
		of:   (*engine.Result).Floors, text: percent, better: 1, part: true, tells: classed},
	{name: "key_fairness", title: "fairness over keys", head: "over keys",
		note: "Jain's index of the keys' admitted / what an ideal limit admits of each",
		of:   func(r *engine.Result) float64 { return r.Keys.Fairness },
		text: four, better: 1, part: true, tells: manyKeys},
	{name: "worst_key", title: "worst key", head: "worst key",
		note: "the smallest admitted / what an ideal limit admits of it",
		of:   func(r *engine.Result) float64 { return r.Keys.Worst },
		text: four, better: 1, part: true, tells: manyKeys},
	{name: "excess", title: "worst excess", head: "excess",
		note: "tokens over what the limit promises, worst window of any key",
		of:   func(r *engine.Result) float64 { return max(r.Excess, 0) }, text: tokens, better: -1},
	{name: "calls_per_request", title: "Redis calls / request", head: "calls/request", note: "exchanges with Redis",
		of: func(r *engine.Result) float64 { return r.CallsPerRequest }, text: four, better: -1},
	perRequest("calls_admitting", "  for an admission", "a request waited for it and was admitted",
		func(r *engine.Result) int64 { return r.CallsAdmitting }),
	perRequest("calls_denying", "  for a denial", "a request waited for it and was denied",
		func(r *engine.Result) int64 { return r.CallsDenying }),
	perRequest("calls_ahead", "  ahead of need", "nobody waited",
		func(r *engine.Result) int64 { return r.CallsAhead }),
	{name: "calls_per_second", title: "Redis calls / s", head: "calls/s", note: "mean over the time measured",
		of: func(r *engine.Result) float64 { return r.CallsPerSecond }, text: brief, better: -1},
	{name: "redis_cpu", title: "Redis CPU", note: "of a core, at the measured 31 µs a call",
		of:   func(r *engine.Result) float64 { return r.CallsPerSecond * size.Exchange.Seconds() },
		text: func(x float64) string { return brief(100*x) + " %" }, better: -1},
	{name: "latency_p50_seconds", title: "decision, p50", note: "time to a verdict; 0 is from a lease",
		of: func(r *engine.Result) float64 { return r.LatencyP50 }, text: span, better: -1},
	{name: "latency_p90_seconds", title: "decision, p90",
		of: func(r *engine.Result) float64 { return r.LatencyP90 }, text: span, better: -1},
	{name: "latency_p99_seconds", title: "decision, p99", head: "p99", note: "of 100 requests one takes longer",
		of: func(r *engine.Result) float64 { return r.LatencyP99 }, text: span, better: -1},
	{name: "latency_p999_seconds", title: "decision, p999",
		of: func(r *engine.Result) float64 { return r.LatencyP999 }, text: span, better: -1},
	{name: "starvation_seconds", title: "longest starvation",
		note: "from a process's first denial to its last one before an admission",
		of:   func(r *engine.Result) float64 { return r.Starvation }, text: span, better: -1},
	{name: "first_token_max_seconds", title: "first token, worst",
		note: "from a new process's first request to its first admission",
		of:   func(r *engine.Result) float64 { return r.FirstTokenMax }, text: span, better: -1,
		tells: func(r *engine.Result) bool { return r.FirstTokenMax != 0 }},
	{name: "settle_seconds", title: "settled after", head: "settled",
		note: "a shift of traffic or processes until shares are as fair as before",
		of:   func(r *engine.Result) float64 { return r.Settle }, text: span, better: -1,
		tells: func(r *engine.Result) bool { return r.Settle != 0 }},
	{name: "unanswered", title: "no verdict", head: "no verdict",
		note: "part of the requests: Redis did not answer in time",
		of:   func(r *engine.Result) float64 { return measure.Ratio(r.Unanswered, r.Requests) },
		text: percent, better: -1, part: true,
		tells: func(r *engine.Result) bool { return measure.Ratio(r.Unanswered, r.Requests) >= 0.0001 }},
	{name: "pending", title: "still waiting", head: "still waiting",
		note: "part of the requests, at the end: neither admitted nor denied",
		of:   func(r *engine.Result) float64 { return measure.Ratio(r.Pending, r.Requests) },
		text: percent, part: true,
		tells: func(r *engine.Result) bool { return measure.Ratio(r.Pending, r.Requests) >= 0.001 }},
	{name: "by_outage", title: "by the outage policy", note: "part of the requests",
		of:   func(r *engine.Result) float64 { return measure.Ratio(r.ByOutage, r.Requests) },
		text: percent, part: true, tells: func(r *engine.Result) bool { return r.ByOutage > 0 }},
	{name: "above_burst", title: "above the burst", head: "above the burst",
		note: "part of the requests, among those denied: can never be admitted",
		of:   func(r *engine.Result) float64 { return measure.Ratio(r.AboveBurst, r.Requests) },
		text: percent, part: true, tells: func(r *engine.Result) bool { return r.AboveBurst > 0 }},
}

func perRequest(name, title, note string, of func(*engine.Result) int64) figure {
	return figure{name: name, title: title, note: note, text: four,
		of: func(r *engine.Result) float64 { return measure.Ratio(of(r), r.Requests) }}
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
	if f.part && len(x) > 0 { // utilisation is above 1 where limits were exceeded
		i.High = min(i.High, max(1, slices.Max(x)))
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

// shown are the figures that have anything to say about any of them.
func shown(variants ...*variant) []figure {
	return slices.DeleteFunc(slices.Clone(figures), func(f figure) bool {
		return f.tells != nil && !slices.ContainsFunc(variants, func(v *variant) bool {
			return slices.ContainsFunc(v.Results, f.tells)
		})
	})
}
