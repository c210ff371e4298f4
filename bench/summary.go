package main

import (
	"io"
	"strconv"
)

// WriteSummary prints what a README has room for: how ration compares under
// each load with the fastest limiter that asks Redis each time, and one line of
// what it loses for each load in which it loses anything.
func (r Report) WriteSummary(w io.Writer) error {
	m := &sheet{w: w}
	m.line("From `%s` in bench/ (%s, %d cores; Redis %s); [all rows](bench/RESULTS.md).",
		r.Machine.Command, r.Machine.CPU, r.Machine.Cores, r.Machine.Redis)
	m.header("load", "ration, decisions/s", "best plain Redis limiter", "ratio", "p99 µs, ration",
		"p99 µs, plain", "Redis calls per decision")
	p99 := func(s Sample) float64 { return s.P99 }
	for _, row := range r.Rows {
		us, best := row.result(ration.Name).Samples, row.bestPlain()
		if len(us) == 0 || len(best) == 0 {
			continue
		}
		m.row(row.Load.Name, over(us, rateOf).String(), over(best, rateOf).String(),
			row.against(ration.Name, best).String(),
			over(us, p99).String(), over(best, p99).String(), number(over(us, callsOf).Median))
	}
	one := func(s LocalSample) float64 { return s.One }
	if key, rate := r.local(keyName), r.local(rateName); len(key) > 0 && len(rate) > 0 {
		m.line("")
		m.line("One warm decision: %s ns by `Key.Allow`, %s ns by `rate.Limiter.Allow`.",
			over(key, one), over(rate, one))
	}
	m.line("")
	m.line("What we lose: the largest loss under each load, %s in all.",
		plural(len(r.Losses()), "figure", "figures"))
	m.header("load", "figure", "ration", "best", "who")
	for _, l := range worstOfEach(r.Losses()) {
		m.row(l.Where, l.Figure, l.Ours.String(), l.Theirs.String(), l.Peer)
	}
	return m.err
}

// worstOfEach keeps, of the losses at one place, the one with the largest
// factor.
func worstOfEach(losses []Loss) []Loss {
	var worst []Loss
	at := map[string]int{}
	for _, l := range losses {
		i, seen := at[l.Where]
		switch {
		case !seen:
			at[l.Where] = len(worst)
			worst = append(worst, l)
		case l.factor() > worst[i].factor():
			worst[i] = l
		}
	}
	return worst
}

// factor is how many times worse it is.
func (l Loss) factor() float64 {
	a, b := l.Ours.Median, l.Theirs.Median
	return max(a, b) / max(min(a, b), 1e-9)
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + more
}
