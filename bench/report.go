package main

import "time"

// A Report is everything that a run has measured: what -json writes, and what
// the tables are made of.
type Report struct {
	Machine     Machine
	Rounds      int
	Quick       bool
	Interrupted bool
	Took        string

	RoundTrip Spread // µs, PING through the proxy

	Local       []LocalResult
	Allocations []Allocation
	Rows        []RowResult
	Costs       map[int][]Cost // by holders
	Memory      []Memory
}

// A LocalResult is all rounds of a Local.
type LocalResult struct {
	Name, Note string
	Samples    []LocalSample
}

// A RowResult is what became of a Row.
type RowResult struct {
	Load    Load
	Control string
	Results []Result
}

// A Result is all rounds of a subject under a load, or why there are none.
type Result struct {
	Name    string
	Leases  bool
	Local   bool
	Ours    bool
	Samples []Sample
	Refused string
}

// plain says that it is a peer that asks Redis for each decision.
func (r Result) plain() bool { return !r.Ours && !r.Leases && !r.Local && r.Refused == "" }

func (r Report) row(id string) (RowResult, bool) {
	for _, row := range r.Rows {
		if row.Load.ID == id {
			return row, true
		}
	}
	return RowResult{}, false
}

// result returns the zero Result, which has no samples, if there is none.
func (r RowResult) result(name string) Result {
	for _, x := range r.Results {
		if x.Name == name && x.Refused == "" {
			return x
		}
	}
	return Result{}
}

func (r Report) local(name string) []LocalSample {
	for _, l := range r.Local {
		if l.Name == name {
			return l.Samples
		}
	}
	return nil
}

// bestPlain is the fastest peer that asks each time, round by round.
func (r RowResult) bestPlain() []Sample {
	var best []Sample
	for _, x := range r.Results {
		if !x.plain() {
			continue
		}
		for i, s := range x.Samples {
			if i == len(best) {
				best = append(best, s)
			} else if s.Rate > best[i].Rate {
				best[i] = s
			}
		}
	}
	return best
}

// against is the ratio of rates in the same rounds.
func (r RowResult) against(name string, control []Sample) Spread {
	return ratios(r.result(name).Samples, rateOf, control, rateOf)
}

func rateOf(s Sample) float64 { return s.Rate }

// A Machine is where and how the figures came about.
type Machine struct {
	CPU, Kernel, Go, Redis, Command string
	Cores, Procs                    int
	Date                            time.Time
	Modules                         []Module
	NotMeasured                     []string
}

// A Module is a peer's version.
type Module struct{ Path, Version string }
