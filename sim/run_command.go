package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/report"
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
	s := newPlayed("run", runHelp, 1)
	c, err := s.parse(ctx, args, stdout, stderr)
	if err != nil {
		return err
	}
	d := s.document(args, runText, &variant{Label: c.Name, Scenario: c})
	return d.play(ctx, s, stdout, stderr, nil)
}

// runText prints what `sim run` has found.
func runText(w io.Writer, d *document) {
	v := d.Variants[0]
	printScenario(w, v.Scenario)
	printInterrupted(w, d)
	var rows [][]string
	for _, f := range shown(v) {
		i := v.Summary[f.name]
		rows = append(rows, []string{f.title, f.text(i.Mean), f.interval(i), f.note})
	}
	head := []string{"", "mean of " + fmt.Sprint(len(v.Results)), "95 % interval"}
	fmt.Fprintf(w, "%s\n", table(head, rows))
	fmt.Fprintf(w, "Excess: %s\n", promiseText(v))
	printLosses(w, "", v)
	printBreakdowns(w, "", v.Results)
	printKeys(w, "The", v.Results)
	printProcesses(w, v)
}

func printInterrupted(w io.Writer, d *document) {
	if d.Interrupted {
		measured := fmt.Sprintf("%.4g s of it measured", d.Variants[0].Results[0].Seconds)
		if d.Variants[0].Results[0].Seconds == 0 {
			measured = "all of it warm-up"
		}
		fmt.Fprintf(w, "INTERRUPTED: the figures are of what was simulated until then, %s.\n\n", measured)
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
	if kept := s.Inherited; kept != "" {
		row("", "of it: %s", kept)
	}
	for i, l := range s.Limits() {
		name := "limit"
		if i > 0 {
			name = "  and"
		}
		text := limitText(l)
		if n := s.LargestCost(); n > l.Limit.Burst && !l.Limit.Kind.Jobs() {
			text += fmt.Sprintf("; requests of up to %s tokens are above it, and denied", thousands(n))
		}
		row(name, "%s", text)
	}
	if s.Classes != nil {
		row("classes", "%s", classesText(s))
	}
	row("fleet", "%s, requests %s", processesText(s), balanceText(s))
	if r := s.Replay(); r != nil {
		row("load", "%s", fileName(s.Load.Trace.File))
		for _, note := range r.Notes {
			row("", "%s", note)
		}
	} else {
		row("load", "%s", loadText(s))
	}
	row("Redis", "%s", redisText(s))
	eager := ""
	if s.Eager > 0 {
		eager = fmt.Sprintf("; eager %d", s.Eager)
	}
	row("policy", "%s; outage %s%s", policyText(s.Policy), s.Outage, eager)
	measured := "all of it measured"
	if s.Warmup > 0 {
		measured = fmt.Sprintf("the first %v of it not measured", s.Warmup)
	}
	row("time", "%v, %s\n", s.Duration, measured)
}

// limitText writes a limit as it is read, the burst of a bucket, and its keys.
func limitText(l scenario.Limited) string {
	text := cmp.Or(l.Rate, scenario.FormatLimit(l.Limit))
	if scenario.HasRate(l.Limit) {
		text += ", burst " + thousands(l.Limit.Burst)
		if l.Chosen != "" {
			text += " (by default: " + l.Chosen + ")"
		}
	}
	if l.Number > 1 {
		text += fmt.Sprintf(", each of %s keys", thousands(l.Number))
	}
	if l.Name != scenario.AloneName {
		text = l.Name + ": " + text
	}
	return text
}

func processesText(s *scenario.Scenario) string {
	return counted(s.Processes, "process", "processes")
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
	if b.Apart {
		parts = append(parts, "each class at others")
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
		parts = append(parts, fmt.Sprintf("%s clients that think for %v",
			thousands(l.Clients.Count), l.Clients.Think))
	case !l.Rate.IsZero():
		parts = append(parts, scenario.FormatRate(l.Rate.PerSecond)+", "+l.Arrivals)
	default:
		parts = append(parts, fmt.Sprintf("%.4g x the limit, %s", l.Offered, l.Arrivals))
	}
	if l.Arrivals == "gamma" {
		parts = append(parts, fmt.Sprintf("cv %.4g", l.CV))
	}
	if l.Diurnal != nil {
		parts = append(parts, fmt.Sprintf("swinging from %.4g to %.4g every %v",
			l.Diurnal.Low, 2-l.Diurnal.Low, l.Diurnal.Period))
	}
	for _, f := range l.Flash {
		parts = append(parts, fmt.Sprintf("x %.4g at %v for %v", f.Times, f.At, f.For))
	}
	if l.Costs != nil {
		parts = append(parts, fmt.Sprintf("costs %v", l.Costs))
	} else if l.Cost > 1 {
		parts = append(parts, fmt.Sprintf("cost %d", l.Cost))
	}
	if h := l.Hold; h != nil {
		parts = append(parts, fmt.Sprintf("jobs of %v, %s", h.Mean, h.Times))
		if h.CV > 0 {
			parts = append(parts, fmt.Sprintf("cv %.4g", h.CV))
		}
	}
	if l.Patience > 0 {
		parts = append(parts, fmt.Sprintf("waiting for up to %v", l.Patience))
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
		if f.At >= s.Duration {
			text += ", after the end"
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
	usual := lease.Policy{MinRefresh: p.MinRefresh, MaxRefresh: p.MaxRefresh}.Resolved()
	if p.MaxHold != usual.MaxHold {
		text += fmt.Sprintf(", hold %v", p.MaxHold)
	}
	return text + fmt.Sprintf(", burst share %.4g, %s", p.BurstShare, p.Fairness)
}

// promiseText holds the worst excess against the promise.
func promiseText(v *variant) string {
	worst, allowed := worstExcess(v)
	text := fmt.Sprintf("%s in the worst window; promised: at most %s",
		tokens(worst), tokens(allowed))
	switch {
	case worst > allowed && v.byOutage():
		return text + ". What the outage policy admits is not under the promise."
	case worst > allowed:
		return text + ". THE PROMISE IS BROKEN: please report this."
	}
	return text + "."
}

// byOutage reports whether the outage policy has admitted anything, also in the warm-up.
func (v *variant) byOutage() bool {
	return slices.ContainsFunc(v.Results, func(r *engine.Result) bool { return r.Excused })
}

// worstExcess is that of all replications.
func worstExcess(v *variant) (worst, allowed float64) {
	for _, r := range v.Results {
		worst, allowed = max(worst, r.Excess), max(allowed, r.ExcessAllowed)
	}
	return worst, allowed
}

// mean is that of something of each replication.
func (v *variant) mean(of func(*engine.Result) float64) float64 {
	sum := 0.0
	for _, r := range v.Results {
		sum += of(r)
	}
	return sum / float64(len(v.Results))
}

// meanTokens is the mean of one part of the account over the replications.
func (v *variant) meanTokens(of func(engine.Tokens) float64) float64 {
	return v.mean(func(r *engine.Result) float64 { return of(r.Tokens) })
}

// printLosses says where the tokens went that nobody got, and an ideal limit's beside them.
func printLosses(w io.Writer, whose string, v *variant) {
	supply, admitted, left := v.meanTokens(func(t engine.Tokens) float64 { return t.Supply }),
		v.meanTokens(func(t engine.Tokens) float64 { return t.Admitted }),
		v.meanTokens(func(t engine.Tokens) float64 { return t.Left })
	var lost []string
	for _, l := range engine.Losses {
		if x := v.meanTokens(l.Of); x >= 0.5 || x <= -0.5 {
			lost = append(lost, l.Name+" "+count(x))
		}
	}
	fmt.Fprintf(w, "%sTokens: of %s, %s admitted, %s left, %s lost", whose,
		count(supply), count(admitted), count(left), count(supply-admitted-left))
	if lost != nil {
		fmt.Fprintf(w, ": %s", strings.Join(lost, ", "))
	}
	fmt.Fprintf(w, ".\n  an ideal limit: %s\n", idealText(v, supply))
	byOutage := v.mean(func(r *engine.Result) float64 { return r.TokensAdmitted }) - admitted
	if v.byOutage() && byOutage >= 0.5 {
		fmt.Fprintf(w, "  the outage policy admitted %s beside.\n", count(byOutage))
	}
}

// idealText says what an ideal limit makes of the same supply. It needs none of what comes back
// without a message.
func idealText(v *variant, supply float64) string {
	each := float64(len(v.Scenario.Limits())) // has its part of the supply, and a request takes of all
	admitted := each * v.mean(func(r *engine.Result) float64 { return r.TokensIdeal })
	spilt := v.meanTokens(func(t engine.Tokens) float64 { return t.IdealSpilt })
	text := count(admitted) + " admitted"
	if left := supply - admitted - spilt; left > -0.5 {
		text += fmt.Sprintf(", %s left, %s lost as nobody wanted them", count(max(left, 0)), count(spilt))
	}
	return text + "."
}

// worstKeys are those with the smallest part of what they should have had, in any of the
// replications.
func worstKeys(results []*engine.Result, most int) report.Table {
	var all []measure.KeyShare
	for _, r := range results {
		all = append(all, r.Keys.List...)
	}
	slices.SortStableFunc(all, func(a, b measure.KeyShare) int {
		return cmp.Compare(a.Part(), b.Part())
	})
	t := report.Table{Head: []string{"key", "offered", "admitted", "ideal", "of it"}}
	seen := map[int]bool{}
	for _, k := range all {
		if len(t.Rows) < most && !seen[k.Key] {
			seen[k.Key] = true
			t.Rows = append(t.Rows, []string{
				k.Name, count(k.Offered), count(k.Admitted), count(k.Ideal), percent(k.Part())})
		}
	}
	return t
}

// limitRows tell what each of several limits did to the requests, in the mean.
func limitRows(results []*engine.Result) report.Table {
	t := report.Table{Head: []string{"limit", "denies", "an ideal one", "used", "calls/request",
		"worst excess"}}
	for i, l := range results[0].Limits {
		mean, most := over(results, func(r *engine.Result) *engine.LimitShare { return &r.Limits[i] })
		t.Rows = append(t.Rows, []string{
			l.Name + ", " + l.Limit,
			count(mean(func(l *engine.LimitShare) float64 { return float64(l.Denied) })),
			count(mean(func(l *engine.LimitShare) float64 { return float64(l.IdealDenied) })),
			percent(mean(func(l *engine.LimitShare) float64 { return l.Used })),
			known(mean(func(l *engine.LimitShare) float64 { return l.CallsPerRequest })),
			tokens(most(func(l *engine.LimitShare) float64 { return l.Excess })),
		})
	}
	return t
}

// known writes a number of calls for each request, if it is known.
func known(x float64) string {
	if x == 0 {
		return "-"
	}
	return four(x)
}

// limitNote says what the columns of limitRows mean.
const limitNote = "requests that each limit denies, perhaps among others; the part that is used " +
	"of what it lets through at most"

// printKeys lists the keys that fared worst, where there are several.
func printKeys(w io.Writer, the string, results []*engine.Result) {
	if !slices.ContainsFunc(results, manyKeys) {
		return
	}
	t := worstKeys(results, 5)
	fmt.Fprintf(w, "\n%s keys that got least of what an ideal limit admits of them, "+
		"in any run:\n\n%s",
		the, table(t.Head, t.Rows))
}

// fleet is what each process got of each of the variants, in the mean.
func fleet(variants ...*variant) (all []report.Process) {
	for i := range variants[0].Results[0].Processes {
		mean := func(v *variant, of func(measure.Share) float64) float64 {
			return v.mean(func(r *engine.Result) float64 {
				if i >= len(r.Processes) {
					return 0
				}
				return of(r.Processes[i])
			})
		}
		p := report.Process{
			Name:    fmt.Sprint(i),
			Offered: mean(variants[0], func(s measure.Share) float64 { return s.Offered }),
			Fair:    mean(variants[0], func(s measure.Share) float64 { return s.Fair }),
		}
		for _, v := range variants {
			got := mean(v, func(s measure.Share) float64 { return s.Admitted })
			p.Admitted = append(p.Admitted, got)
		}
		if p.Offered > 0 {
			all = append(all, p)
		}
	}
	return all
}

const mostRows = 20 // processes that are listed one by one

// printProcesses lists what processes got, or, of many, the best and the worst.
func printProcesses(w io.Writer, v *variant) {
	all := fleet(v)
	of := func(p report.Process) float64 { return p.Admitted[0] / max(p.Fair, 1e-9) }
	if len(all) > mostRows {
		slices.SortStableFunc(all, func(a, b report.Process) int { return cmp.Compare(of(a), of(b)) })
		all = append(all[:5:5], all[len(all)-5:]...)
		fmt.Fprintf(w,
			"\nThe five processes with the smallest and the largest part of their fair share:\n")
	}
	var rows [][]string
	for _, p := range all {
		rows = append(rows, []string{
			p.Name, count(p.Offered), count(p.Admitted[0]), count(p.Fair), percent(of(p))})
	}
	head := []string{"process", "offered", "admitted", "fair share", "of it"}
	fmt.Fprintf(w, "\n%s", table(head, rows))
}
