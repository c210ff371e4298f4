package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
)

const runHelp = `Usage: go run ./sim run [flags] [scenario]

Plays a scenario in virtual time, several times with different random numbers,
and prints the mean of what was measured and its 95 % interval.

  go run ./sim run on-off -batch 30
  go run ./sim run -trace access.log -limit 50/s -per-client
  go run ./sim run my.yaml -html report.html
`

// runCommand is `sim run`.
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings("run", runHelp)
	out := s.outputFlags()
	replications := s.replicationsFlag(10)
	c, err := s.parse(ctx, args, stdout)
	if err != nil {
		return err
	}
	if err := errors.Join(out.check(), atLeast("replications", *replications, 1)); err != nil {
		return usageError{err}
	}
	v := &variant{Label: c.Name, Scenario: c}
	err = play(ctx, []*variant{v}, s.seed, *replications, stderr)
	if len(v.Results) == 0 {
		return err
	}
	d := document{Command: "run", Seed: s.seed, Variants: []*variant{v}, Interrupted: err != nil, line: commandLine("run", args)}
	if err == nil {
		if err := d.warnOfDear(ctx); err != nil {
			return err
		}
	}
	return errors.Join(out.write(stdout, &d, runText), err)
}

// runText prints what `sim run` has found.
func runText(w io.Writer, d *document) {
	v := d.Variants[0]
	printScenario(w, v.Scenario)
	printInterrupted(w, d)
	var rows [][]string
	for _, f := range figures {
		if f.shown(v) {
			i := v.Summary[f.name]
			rows = append(rows, []string{f.title, f.text(i.Mean), f.interval(i)})
		}
	}
	lines := strings.Split(strings.TrimRight(table([]string{"", "mean of " + fmt.Sprint(len(v.Results)), "95 % interval"}, rows), "\n"), "\n")
	width := 0
	for _, line := range lines {
		width = max(width, len([]rune(line)))
	}
	for i, line := range lines {
		note := ""
		if i > 0 {
			note = "  " + noteOf(rows[i-1][0])
		}
		fmt.Fprintln(w, strings.TrimRight(line+strings.Repeat(" ", width-len([]rune(line)))+note, " "))
	}
	fmt.Fprintln(w)
	printPromise(w, v)
	printLosses(w, v)
	printProcesses(w, v)
	if isTerminal(w) {
		printPlot(w, v.Results[0])
	}
}

func noteOf(title string) string {
	for _, f := range figures {
		if f.title == title {
			return f.note
		}
	}
	return ""
}

func printInterrupted(w io.Writer, d *document) {
	if d.Interrupted {
		fmt.Fprintf(w, "INTERRUPTED: the figures are of what was simulated until then, %.4g s of it measured.\n\n", d.Variants[0].Results[0].Seconds)
	}
}

// printScenario says what is played.
func printScenario(w io.Writer, s *scenario.Scenario) {
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s%s\n", name, fmt.Sprintf(format, args...))
	}
	title := s.Name
	if s.About != "" {
		title += ": " + s.About
	}
	row("scenario", "%s", title)
	keys := ""
	if s.Keys > 1 {
		keys = fmt.Sprintf(", each of %s keys", thousands(s.Keys))
	}
	row("limit", "%s, burst %s%s", scenario.FormatRate(s.Limit.PerSecond), thousands(s.Burst), keys)
	row("fleet", "%s, requests %s", counted(s.Processes, "process", "processes"), balanceText(s))
	if r := s.Replay(); r != nil {
		row("load", "%s", fileName(s.Load.Trace.File))
		for _, note := range r.Notes {
			row("", "%s", note)
		}
	} else {
		row("load", "%s", loadText(s))
	}
	row("Redis", "%s", redisText(s))
	row("policy", "%s; outage %s", policyText(s.Policy), s.Outage)
	measured := "all of it measured"
	if s.Warmup > 0 {
		measured = fmt.Sprintf("the first %v of it not measured", s.Warmup)
	}
	row("time", "%v, %s\n", s.Duration, measured)
}

// fileName is the name of a file as people here know it: from this folder on, if
// it is in it.
func fileName(name string) string {
	if here, err := os.Getwd(); err == nil {
		if near, err := filepath.Rel(here, name); err == nil && filepath.IsLocal(near) {
			return near
		}
	}
	return name
}

func balanceText(s *scenario.Scenario) string {
	b := &s.Balance
	parts := []string{b.By}
	if r := s.Replay(); r != nil && r.Upstreams > 0 {
		return "where the log says"
	}
	if b.By == "own" {
		parts[0] = "of its own clients"
	}
	switch {
	case b.Weights != nil:
		parts = append(parts, fmt.Sprintf("weights %v", b.Weights))
	case b.Skew > 0:
		parts = append(parts, fmt.Sprintf("Zipf %.4g", b.Skew))
	}
	if b.Moves > 0 {
		parts = append(parts, fmt.Sprintf("moving on every %v", b.Moves))
	}
	if o := b.OnOff; o != nil {
		parts = append(parts, fmt.Sprintf("on for %v of %v", o.On, o.Period))
	}
	return strings.Join(parts, ", ")
}

func loadText(s *scenario.Scenario) string {
	l := &s.Load
	var parts []string
	switch {
	case l.Clients != nil:
		parts = append(parts, fmt.Sprintf("%s clients that think for %v", thousands(l.Clients.Count), l.Clients.Think))
	case !l.Rate.IsZero():
		parts = append(parts, scenario.FormatRate(l.Rate.PerSecond)+", "+l.Arrivals)
	default:
		parts = append(parts, fmt.Sprintf("%.4g x the limit, %s", l.Offered, l.Arrivals))
	}
	if l.Arrivals == "gamma" {
		parts = append(parts, fmt.Sprintf("cv %.4g", l.CV))
	}
	if l.Diurnal != nil {
		parts = append(parts, fmt.Sprintf("swinging from %.4g to %.4g every %v", l.Diurnal.Low, 2-l.Diurnal.Low, l.Diurnal.Period))
	}
	for _, f := range l.Flash {
		parts = append(parts, fmt.Sprintf("x %.4g at %v for %v", f.Times, f.At, f.For))
	}
	if l.Costs != nil {
		parts = append(parts, fmt.Sprintf("costs %v", l.Costs))
	} else if l.Cost > 1 {
		parts = append(parts, fmt.Sprintf("cost %d", l.Cost))
	}
	if l.Retry != nil {
		parts = append(parts, fmt.Sprintf("%d retries", l.Retry.Times))
	}
	return strings.Join(parts, ", ")
}

func redisText(s *scenario.Scenario) string {
	r := &s.Redis
	text := fmt.Sprintf("%v away", r.Latency)
	switch {
	case len(r.Trips()) > 0:
		text = fmt.Sprintf("%s measured round trips", thousands(len(r.Trips())))
	case r.P99 > 0:
		text += fmt.Sprintf(", p99 %v", r.P99)
	}
	text += fmt.Sprintf(", timeout %v", r.Timeout)
	if r.Lost > 0 || r.Repeated > 0 {
		text += fmt.Sprintf(", %.3g %% lost, %.3g %% repeated", 100*r.Lost, 100*r.Repeated)
	}
	for _, f := range s.Faults {
		text += fmt.Sprintf("; %s at %v", f.Kind, f.At)
		if f.Every > 0 {
			text += fmt.Sprintf(" every %v", f.Every)
		}
	}
	return text
}

func policyText(p scenario.Policy) string {
	text := fmt.Sprintf("%s, batch %d", p.Mode, p.Batch)
	switch p.Mode {
	case "per-request":
		return p.Mode
	case "batches":
		return text
	}
	text += fmt.Sprintf(", refresh %v to %v", p.MinRefresh, p.MaxRefresh)
	if usual := (lease.Policy{MinRefresh: p.MinRefresh, MaxRefresh: p.MaxRefresh}).Resolved().MaxHold; p.MaxHold != usual {
		text += fmt.Sprintf(", hold %v", p.MaxHold)
	}
	return text + fmt.Sprintf(", burst share %.4g, %s", p.BurstShare, p.Fairness)
}

// printPromise holds the worst excess against the promise.
func printPromise(w io.Writer, v *variant) {
	worst, allowed := worstExcess(v)
	fmt.Fprintf(w, "Excess: %s in the worst window, in tokens; promised: at most %s", tokens(worst), tokens(allowed))
	switch {
	case worst > allowed && v.byOutage():
		fmt.Fprint(w, ". What the outage policy admits is not under the promise.\n")
	case worst > allowed:
		fmt.Fprint(w, ". THE PROMISE IS BROKEN: please report this.\n")
	default:
		fmt.Fprint(w, ".\n")
	}
}

// byOutage reports whether the outage policy has decided anything.
func (v *variant) byOutage() bool {
	return slices.ContainsFunc(v.Results, func(r *engine.Result) bool { return r.ByOutage > 0 })
}

// worstExcess is that of all replications.
func worstExcess(v *variant) (worst, allowed float64) {
	for _, r := range v.Results {
		worst, allowed = max(worst, r.Excess), max(allowed, r.ExcessAllowed)
	}
	return worst, allowed
}

// loss is one way in which tokens get lost.
type loss struct {
	name, note string
	of         func(engine.Tokens) float64
}

var losses = []loss{
	{"pool full", "flowed by while Redis' part of the bucket was full", func(t engine.Tokens) float64 { return t.PoolSpilt }},
	{"lease full", "flowed by in processes whose part was full", func(t engine.Tokens) float64 { return t.Spilt }},
	{"expired", "in leases that ended", func(t engine.Tokens) float64 { return t.Expired }},
	{"crashed", "in leases of processes that crashed", func(t engine.Tokens) float64 { return t.Forfeited }},
	{"held back", "by a raised limit until it is in force, half a minute; negative: of a lowered one", func(t engine.Tokens) float64 { return t.HeldBack }},
	{"while asking", "flowed into leases that did not add it: exchanges under way, margins for clocks; negative: lent under a larger limit", func(t engine.Tokens) float64 { return t.Asking }},
	{"unclaimed", "granted to callers who had gone", func(t engine.Tokens) float64 { return t.Unclaimed }},
	{"refused", "handed back or missed, and no room for it", func(t engine.Tokens) float64 { return t.Refused }},
	{"messages", "in messages that were lost or late", func(t engine.Tokens) float64 { return t.Messages }},
	{"other", "negative: lent twice, by a state that was lost and the one after it", func(t engine.Tokens) float64 { return t.Other }},
}

// meanTokens is the mean of one part of the account over the replications.
func meanTokens(v *variant, of func(engine.Tokens) float64) float64 {
	sum := 0.0
	for _, r := range v.Results {
		sum += of(r.Tokens)
	}
	return sum / float64(len(v.Results))
}

// printLosses says where the tokens went that nobody got.
func printLosses(w io.Writer, v *variant) {
	mean := func(of func(engine.Tokens) float64) float64 { return meanTokens(v, of) }
	supply := mean(func(t engine.Tokens) float64 { return t.Supply })
	admitted := mean(func(t engine.Tokens) float64 { return t.Admitted })
	left := mean(func(t engine.Tokens) float64 { return t.Left })
	fmt.Fprintf(w, "Tokens: of %s, %s were admitted and %s are left", count(supply), count(admitted), count(left))
	for _, l := range losses {
		if x := mean(l.of); x >= 0.5 || x <= -0.5 {
			fmt.Fprintf(w, "; %s %s", l.name, count(x))
		}
	}
	fmt.Fprintf(w, ".\n        The ideal bucket was full for %s of them.\n", count(mean(func(t engine.Tokens) float64 { return t.IdealSpilt })))
}

func count(x float64) string { return thousands(int64(math.Round(x))) }

const mostRows = 20 // processes that are listed one by one

// printProcesses lists what processes got, or, of many, the best and the worst.
func printProcesses(w io.Writer, v *variant) {
	type share struct {
		name                    string
		offered, admitted, fair float64
	}
	var all []share
	for _, r := range v.Results {
		for i, p := range r.Processes {
			if i == len(all) {
				all = append(all, share{name: fmt.Sprint(i)})
			}
			n := float64(len(v.Results))
			all[i].offered += p.Offered / n
			all[i].admitted += p.Admitted / n
			all[i].fair += p.Fair / n
		}
	}
	all = slices.DeleteFunc(all, func(s share) bool { return s.offered == 0 })
	of := func(s share) float64 { return s.admitted / max(s.fair, 1e-9) }
	if len(all) > mostRows {
		slices.SortStableFunc(all, func(a, b share) int {
			return cmp.Compare(of(a), of(b))
		})
		all = append(all[:5:5], all[len(all)-5:]...)
		fmt.Fprintf(w, "\nThe five processes with the smallest and the largest part of their fair share:\n")
	}
	var rows [][]string
	for _, s := range all {
		rows = append(rows, []string{s.name, count(s.offered), count(s.admitted), count(s.fair), percent(of(s))})
	}
	fmt.Fprintf(w, "\n%s", table([]string{"process", "offered", "admitted", "fair share", "of it"}, rows))
}
