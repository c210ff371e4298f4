package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// report prints what was run and what was measured.
type report struct {
	figures
	plan  *plan
	flags *fleetFlags
	redis string // where the ledgers were
}

func (r *report) printSetting(w io.Writer) {
	spread := fmt.Sprintf("requests spread by Zipf %.4g", r.flags.skew)
	if r.flags.sticky {
		spread = "each client sticks to one"
	}
	policy := r.flags.policy.Resolved()
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-9s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("fleet", "%s, %s; Redis: %s", counted(r.flags.procs, "process", "es"), spread, r.redis)
	row("requests", "%s", r.plan.source)
	for _, note := range r.plan.notes {
		row("", "%s", note)
	}
	row("", "%s for %s, the last after %.1f s", counted(r.plan.schedule.requests(), "request", "s"),
		counted(len(r.plan.schedule.keys), "key", "s"), r.plan.schedule.last().Seconds())
	row("limit", "%s, burst %s, of each key", formatRate(r.plan.limit.Rate), thousands(r.plan.limit.Burst))
	row("policy", "%v, %v, batch %d, refresh %v to %v, timeout %v\n", policy.Mode, policy.Fairness,
		policy.Batch, policy.MinRefresh, policy.MaxRefresh, r.flags.timeout)
}

func counted(n int, noun, plural string) string {
	if n == 1 {
		plural = ""
	}
	return thousands(n) + " " + noun + plural
}

// Hints are given from here on.
const (
	hintAbove  = 0.01                  // of the requests, above the burst
	hintSilent = 0.01                  // of the requests, while the embedded Redis does not answer
	hintLate   = 10 * time.Millisecond // p99
)

func (r *report) printTable(w io.Writer) error {
	var out bytes.Buffer
	row := func(name, value, note string) {
		if note != "" {
			note = "  " + note
		}
		fmt.Fprintf(&out, "%-20s %10s%s\n", name, value, note)
	}
	if r.Interrupted {
		fmt.Fprintf(&out, "INTERRUPTED after %.1f s: the figures are of the time before.\n\n", r.Seconds)
	}
	row("requests", thousands(r.Requests), fmt.Sprintf("in %.1f s", r.Seconds))
	if r.AboveBurst > 0 {
		row("refused: above burst", thousands(r.AboveBurst), "cost more than the bucket ever holds; not counted below")
	}
	if r.NoVerdict > 0 {
		row("no verdict", thousands(r.NoVerdict), "Redis did not answer in time; -v tells why")
	}
	row("admitted", thousands(r.Admitted), "")
	row("ideal admits", thousands(r.Ideal), "an exact central bucket, of the same arrivals")
	if costs := r.TokensOffered != float64(r.Requests-r.AboveBurst); costs {
		row("tokens offered", thousands(int64(r.TokensOffered)), "")
		row("tokens admitted", thousands(int64(r.TokensAdmitted)), "")
		row("ideal admits tokens", thousands(int64(r.TokensIdeal)), "")
	}
	row("utilisation", percent(r.Utilisation), "tokens admitted / ideal")
	row("acceptance", percent(r.Acceptance), "tokens admitted / offered")
	row("Jain (acceptance)", fmt.Sprintf("%.4f", r.JainAccepted), "fairness over processes' admitted / offered; 1 is even")
	row("Jain (ideal)", fmt.Sprintf("%.4f", r.JainIdeal), "fairness over processes' admitted / ideal")
	row("worst excess", tokens(r.Excess), fmt.Sprintf("tokens over Burst + Rate*T, worst key and window; promised: at most Rate*Timeout = %s", tokens(r.Slack)))
	row("Redis calls", thousands(r.RedisCalls), fmt.Sprintf("%.3f per request", r.CallsPerRequest))
	if r.FailedCalls > 0 {
		row("failed calls", thousands(r.FailedCalls), "no answer in time")
	}
	if r.OutageDecisions > 0 {
		row("outage decisions", thousands(r.OutageDecisions), "made without Redis, by the outage policy; the promise above is not theirs")
	}
	row("round trips", thousands(r.RoundTrips), fmt.Sprintf("%s saved against one for each request", percent(r.TripsSaved)))
	row("fired late", milliseconds(r.LateP99), fmt.Sprintf("99th percentile; at most %s", milliseconds(r.LateMax)))
	out.WriteByte('\n')
	r.printProcesses(&out)
	r.printHints(&out)
	_, err := w.Write(out.Bytes())
	return err
}

func (r *report) printHints(w io.Writer) {
	if above := ratio(float64(r.AboveBurst), float64(r.Requests)); above >= hintAbove {
		fmt.Fprintf(w, "\nHint: %s of the requests cost more than the burst of %s. Raise -burst.\n", percent(above), thousands(r.plan.limit.Burst))
	}
	if r.LateP99 > hintLate.Seconds() {
		fmt.Fprint(w, "\nHint: this machine could not fire all requests in time. What came late came more evenly\n"+
			"than planned, which is easier to limit. Lower -speedup, -offered or -limit.\n")
	}
	silent := ratio(float64(r.NoVerdict)+float64(r.OutageDecisions), float64(r.Requests))
	if r.redis == embedded && (silent >= hintSilent || r.LateP99 > hintLate.Seconds()) {
		fmt.Fprint(w, "\nHint: the embedded Redis is too slow for this load, and what it does not answer in time\n"+
			"looks like an outage. Use a real one, -redis ADDR, or fewer -procs and keys.\n")
	}
}

const (
	mostRows  = 20 // processes that are listed one by one
	worstRows = 3
)

// printProcesses lists all processes, or, of many, the range and the worst.
func (r *report) printProcesses(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	line := func(name string, requests int, accepted, ofIdeal float64) {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t\n", name, thousands(requests), percent(accepted), percent(ofIdeal))
	}
	fmt.Fprint(tw, "process\trequests\taccepted\tof ideal\t\n")
	defer tw.Flush()
	if len(r.Processes) <= mostRows {
		for i, p := range r.Processes {
			line(fmt.Sprint(i), p.Requests, p.Acceptance, p.Utilisation)
		}
		return
	}
	var asked []int // processes with requests
	for i, p := range r.Processes {
		if p.Requests > 0 {
			asked = append(asked, i)
		}
	}
	if len(asked) == 0 {
		return
	}
	for _, rank := range []struct {
		name string
		at   int
	}{{"min", 0}, {"median", len(asked) / 2}, {"max", len(asked) - 1}} {
		line(rank.name, ranked(r, asked, rank.at, func(p share) int { return p.Requests }),
			ranked(r, asked, rank.at, func(p share) float64 { return p.Acceptance }),
			ranked(r, asked, rank.at, func(p share) float64 { return p.Utilisation }))
	}
	slices.SortFunc(asked, func(a, b int) int {
		return cmp.Compare(r.Processes[a].Acceptance, r.Processes[b].Acceptance)
	})
	for _, i := range asked[:min(worstRows, len(asked))] {
		p := r.Processes[i]
		line(fmt.Sprintf("worst: %d", i), p.Requests, p.Acceptance, p.Utilisation)
	}
}

// ranked is the value at a rank of one column, for itself.
func ranked[T cmp.Ordered](r *report, procs []int, rank int, of func(share) T) T {
	values := make([]T, len(procs))
	for i, p := range procs {
		values[i] = of(r.Processes[p])
	}
	slices.Sort(values)
	return values[rank]
}

func (r *report) printJSON(w io.Writer) error {
	policy := r.flags.policy.Resolved()
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		Source      string   `json:"source"`
		Notes       []string `json:"notes"`
		Redis       string   `json:"redis"`
		Procs       int      `json:"procs"`
		Skew        float64  `json:"skew"` // of no meaning if sticky
		Sticky      bool     `json:"sticky"`
		Seed        uint64   `json:"seed"`
		Keys        int      `json:"keys"`
		Speedup     float64  `json:"speedup"`
		LimitRate   float64  `json:"limit_rate"`
		LimitBurst  int64    `json:"limit_burst"`
		Mode        string   `json:"mode"`
		Fairness    string   `json:"fairness"`
		Batch       int64    `json:"batch"`
		MinRefresh  float64  `json:"min_refresh_seconds"`
		MaxRefresh  float64  `json:"max_refresh_seconds"`
		TimeoutSecs float64  `json:"timeout_seconds"`
		figures
	}{
		r.plan.source, r.plan.notes, r.redis, r.flags.procs, r.flags.skew, r.flags.sticky, r.flags.seed,
		len(r.plan.schedule.keys), r.plan.speedup, r.plan.limit.Rate, r.plan.limit.Burst,
		policy.Mode.String(), policy.Fairness.String(), policy.Batch,
		policy.MinRefresh.Seconds(), policy.MaxRefresh.Seconds(), r.flags.timeout.Seconds(), r.figures,
	})
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func milliseconds(seconds float64) string { return fmt.Sprintf("%.2f ms", 1000*seconds) }

// tokens is "none" also for what is smaller than a hundredth of a token, which
// may be the rounding of float64.
func tokens(n float64) string {
	switch {
	case n < 0.01:
		return "none"
	case n < 100:
		return fmt.Sprintf("%.2f", n)
	}
	return thousands(int64(math.Round(n)))
}
