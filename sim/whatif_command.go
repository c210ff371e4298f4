package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/sim/scenario"
)

const whatIfHelp = `Usage: go run ./sim whatif [flags] FILE

Says what another limit would have done to the traffic of a log, beside what was done if the log is
a record of decisions (hybrid.Config.Record), and suggests the smallest limits. Each key of the log
has a limit of its own; -per-client=false is one for all. A bucket's burst is the NUMBER of its
limit if none is given, as in a rule; other commands take ten requests for each process at least.

  go run ./sim whatif decisions.jsonl
  go run ./sim whatif decisions.jsonl -limit 20/s -burst 100 -procs 4
  go run ./sim whatif access.log -limit 1000/day -at-most 1%
`

// A whatIf is what the command has found.
type whatIf struct {
	Schema  int      `json:"schema"`
	Command string   `json:"command"`
	Log     string   `json:"log"`
	Notes   []string `json:"notes"` // of the log

	// Scenario is the *scenario.Scenario that is played, nil without another limit.
	Scenario any `json:"scenario"`

	Fates      []fate  `json:"fates"` // by the log, and, of another limit, ideal and of processes
	Calls      float64 `json:"calls_per_request"`
	Unanswered int64   `json:"unanswered"`
	Charges    int64   `json:"charges"` // that the processes' limit may deny
	Keys       []fate  `json:"keys"`    // of which the ideal limit denies most

	AtMost      float64     `json:"at_most"` // part of a key's requests
	Suggestions []suggested `json:"suggestions"`
}

// A fate is what became of requests; Then of a key is what the log says that was denied.
type fate struct {
	Name     string  `json:"name"`
	Known    bool    `json:"known"` // the log says what was denied
	Requests int64   `json:"requests"`
	Denied   int64   `json:"denied"`
	Then     int64   `json:"then"`
	Part     float64 `json:"part"`

	Keys       int     `json:"keys,omitempty"`
	KeysDenied int     `json:"keys_denied,omitempty"`
	WorstKey   float64 `json:"worst_key,omitempty"` // part of its requests
}

func fateOf(name string, f ideal.Fates) fate {
	all, denied, worst := f.Sum()
	return fate{Name: name, Known: true, Requests: all.Requests, Denied: all.Denied, Part: all.Part(),
		Keys: len(f), KeysDenied: denied, WorstKey: f[worst].Part()}
}

// whatIfCommand is `sim whatif`.
func whatIfCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings("whatif", whatIfHelp, "trace", "keys", "classes", "offered", "skew")
	s.log = true
	w := whatIf{Schema: schema, Command: "whatif", AtMost: 0.001}
	s.set.Func("at-most", "suggest limits that deny no key more than the part `P` of its requests "+
		"(default 0.1%)", func(value string) (err error) {
		w.AtMost, err = parsePart(value)
		return err
	})
	asJSON := s.set.Bool("json", false, "print everything as one JSON object")
	c, err := s.parse(ctx, args, stdout, stderr)
	if err != nil {
		return err
	}
	if c.LimitOf().Kind.Jobs() {
		return usageError{errors.New("slots: a log does not tell how long jobs hold them")}
	}
	if c, err = s.recorded(ctx, c, stderr); err != nil {
		return mistake(err)
	}
	t, err := newTraffic(ctx, c)
	if err != nil {
		return err
	}
	w.Log, w.Notes = fileName(c.Load.Trace.File), c.Replay().Notes
	if err := t.fates(ctx, s, &w, stderr); err != nil {
		return err
	}
	if !*asJSON {
		w.printFates(stdout, c, s.sets("limit"))
	}
	if w.Suggestions, err = t.suggestAll(ctx, s, w.AtMost); err != nil {
		return err
	}
	if *asJSON {
		return writeJSON(stdout, w)
	}
	w.printSuggestions(stdout)
	return nil
}

// parsePart reads 0.1% or 0.001.
func parsePart(s string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x >= 0 && x < 1) {
		return 0, errors.New("want a part such as 0.1% or 0.001, from 0 to below 1")
	}
	return x, nil
}

// recorded is the scenario with a limit for each key of its log, unless the command line says
// otherwise. The log is not read again.
func (s *settings) recorded(
	ctx context.Context, c *scenario.Scenario, stderr io.Writer,
) (*scenario.Scenario, error) {
	again := s.written.Clone()
	if c.Replay().Clients > 1 && !s.sets("load.trace.per_client") {
		again.Load.Trace.PerClient = true
	}
	if !s.sets("limit") { // nor is one of half the log's rate chosen
		again.SetLimit(c.LimitOf())
	} else if l := again.Limit.Limit; scenario.HasRate(l) && again.Burst == 0 {
		again.Burst = l.Burst // as that of a rule, and of hybrid.PerMinute
	}
	err := resolve(ctx, again, stderr)
	return again, err
}

// fates finds what was done, and what another limit does.
func (t *traffic) fates(ctx context.Context, s *settings, w *whatIf, stderr io.Writer) error {
	done := fateOf("what was done", t.done)
	if !t.known {
		done = fate{Name: "the log", Requests: done.Requests}
	}
	w.Fates = []fate{done}
	if !s.sets("limit") {
		return nil
	}
	would, err := t.under(ctx, t.limit)
	if err != nil {
		return err
	}
	t.scenario.Begins = t.begins
	v := &variant{Scenario: t.scenario}
	if err := play(ctx, []*variant{v}, s.seed, 1, stderr); err != nil {
		return err
	}
	r := v.Results[0]
	all := ideal.Fate{Requests: r.Requests, Denied: r.Denied} // of processes
	w.Scenario = t.scenario
	w.Fates = append(w.Fates, fateOf("an ideal limit", would), fate{Name: processesText(t.scenario),
		Known: true, Requests: all.Requests, Denied: all.Denied, Part: all.Part()})
	w.Calls, w.Unanswered, w.Charges = r.CallsPerRequest, r.Unanswered, t.charges
	if len(would) > 1 {
		w.Keys = t.worst(would)
	}
	return nil
}

// worst are the keys that an ideal limit denies most.
func (t *traffic) worst(would ideal.Fates) (list []fate) {
	order := make([]int, len(would))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(would[b].Part(), would[a].Part()),
			cmp.Compare(would[b].Requests, would[a].Requests))
	})
	for _, i := range order[:min(len(order), 10)] {
		if would[i].Denied > 0 {
			list = append(list, fate{t.scenario.KeyName(i), t.known, would[i].Requests, would[i].Denied,
				t.done[i].Denied, would[i].Part(), 0, 0, 0})
		}
	}
	return list
}

// printFates writes what was done, and what another limit does, for people.
func (w *whatIf) printFates(out io.Writer, c *scenario.Scenario, limited bool) {
	if limited {
		printScenario(out, c)
	} else {
		fmt.Fprintf(out, "%s\n%s\n\n", w.Log, strings.Join(w.Notes, "\n"))
	}
	var rows [][]string
	for _, f := range w.Fates {
		row := []string{f.Name, thousands(f.Requests), "-", "-", "-", "-"}
		if f.Known {
			row = []string{f.Name, thousands(f.Requests), thousands(f.Denied), percent(f.Part), "", ""}
		}
		if f.Keys > 0 {
			row[4] = fmt.Sprintf("%s of %s", thousands(f.KeysDenied), thousands(f.Keys))
			row[5] = percent(f.WorstKey)
		}
		rows = append(rows, row)
	}
	fmt.Fprint(out, table([]string{"", "requests", "denied", "of them", "keys denied", "worst key"}, rows))
	if limited {
		fmt.Fprintf(out, "  %s share the limit with %.4g calls of Redis for each request; no verdict for %s.\n",
			processesText(c), w.Calls, thousands(w.Unanswered))
		if w.Charges > 0 {
			fmt.Fprintf(out, "  %s, which the processes' limit may deny as if they were requests.\n",
				counted(int(w.Charges), "charge", "charges"))
		}
	}
	rows = nil
	for _, k := range w.Keys {
		then := "-"
		if k.Known {
			then = thousands(k.Then)
		}
		rows = append(rows, []string{
			k.Name, thousands(k.Requests), then, thousands(k.Denied), percent(k.Part)})
	}
	if rows != nil {
		head := []string{"key", "requests", "denied then", "by the limit", "of them"}
		fmt.Fprintf(out, "\nThe keys of which an ideal limit denies most:\n\n%s", table(head, rows))
	}
	fmt.Fprintln(out)
}

// printSuggestions writes them as rules.
func (w *whatIf) printSuggestions(out io.Writer) {
	fmt.Fprintf(out, "The smallest limits that deny no key more than %.4g %% of its requests, as rules:\n\n",
		100*w.AtMost)
	for i := range w.Suggestions {
		fmt.Fprint(out, w.Suggestions[i].text())
	}
}

// A suggestion is limits of which the smallest number is looked for.
type suggestion struct {
	limit func(n int64) lease.Limit
	rule  func(n int64) string // of hybrid/rules; nil if these cannot have the limit
	finer *suggestion          // where the number is below a hundred, or nil
}

// units of rules, and whether they are buckets there.
var units = []struct {
	name   string
	window time.Duration
	bucket bool
}{
	{"second", time.Second, true}, {"minute", time.Minute, true}, {"hour", time.Hour, true},
	{"day", lease.Day, false}, {"week", lease.Week, false}, {"month", lease.Month, false},
}

// suggestions are buckets and a quota for a user who has named no limit, else what differs in one
// number from the limit.
func suggestions(s *settings, l lease.Limit) (all []suggestion) {
	bucket := scenario.HasRate(l)
	for _, u := range units[:4] {
		if s.sets("limit") || u.bucket && s.sets("burst") {
			continue
		}
		all = append(all, suggestion{
			func(n int64) lease.Limit {
				if u.bucket {
					return lease.Per(float64(n), u.window)
				}
				return lease.Limit{Kind: lease.KindQuota, Burst: n, Window: u.window}
			},
			func(n int64) string { return fmt.Sprintf("{unit: %s, requests_per_unit: %d}", u.name, n) }, nil,
		})
	}
	switch {
	case bucket && s.sets("limit"):
		all = append(all, atRate(l), *atBurst(l))
	case bucket && s.sets("burst"):
		all = append(all, *atBurst(l))
	case !bucket:
		all = append(all, sameWindow(l))
	}
	return all
}

// atRate are buckets of the limit's rate, by their burst.
func atRate(l lease.Limit) suggestion {
	x := suggestion{limit: l.WithBurst}
	for _, u := range slices.Backward(units[:3]) {
		if number := l.Rate * u.window.Seconds(); math.Abs(number-math.Round(number)) < 1e-9*number {
			x.rule = func(n int64) string {
				return fmt.Sprintf("{unit: %s, requests_per_unit: %.0f, burst: %d}", u.name, number, n)
			}
		}
	}
	return x
}

// atBurst are buckets of the limit's burst, by their rate.
func atBurst(l lease.Limit) (x *suggestion) {
	for _, u := range slices.Backward(units[:3]) {
		x = &suggestion{
			func(n int64) lease.Limit { return lease.Per(float64(n), u.window).WithBurst(l.Burst) },
			func(n int64) string {
				return fmt.Sprintf("{unit: %s, requests_per_unit: %d, burst: %d}", u.name, n, l.Burst)
			}, x,
		}
	}
	return x
}

// sameWindow are quotas or sliding windows like the limit, by their number.
func sameWindow(l lease.Limit) suggestion {
	x := suggestion{limit: l.WithBurst}
	for _, u := range units {
		if u.window == l.Window {
			x.rule = func(n int64) string {
				kind, _, _ := strings.Cut(l.Kind.String(), " ") // sliding window
				text := fmt.Sprintf("{unit: %s, requests_per_unit: %d, kind: %s", u.name, n, kind)
				if l.Offset != 0 {
					text += fmt.Sprintf(", offset: %v", l.Offset)
				}
				return text + "}"
			}
		}
	}
	return x
}

// A suggested is the smallest of some limits, and what it does.
type suggested struct {
	Limit      string  `json:"limit"`
	Suffices   bool    `json:"suffices"` // or none like it does
	Rule       string  `json:"rule"`     // "" if rules cannot have it
	Requests   int64   `json:"requests"`
	Denied     int64   `json:"denied"`
	KeysDenied int     `json:"keys_denied"`
	WorstKey   float64 `json:"worst_key"`
}

func (x *suggested) text() string {
	if !x.Suffices {
		return fmt.Sprintf("  # none like %s: more than its burst is asked for at once\n", x.Limit)
	}
	text := fmt.Sprintf("  # denies %s of %s, of %s; %s at most of a key\n",
		counted(int(x.Denied), "request", "requests"), thousands(x.Requests),
		counted(x.KeysDenied, "key", "keys"), percent(x.WorstKey))
	if x.Rule == "" {
		return text + fmt.Sprintf("  # %s, for which rules have no unit\n", x.Limit)
	}
	return text + "  - key: key\n    rate_limit: " + x.Rule + "\n"
}

// suggestAll finds the smallest limits that deny no key more than a part of its requests.
func (t *traffic) suggestAll(ctx context.Context, s *settings, atMost float64) ([]suggested, error) {
	all := suggestions(s, t.limit)
	found, errs := make([]suggested, len(all)), make([]error, len(all))
	var tries sync.WaitGroup
	for i, x := range all {
		tries.Go(func() { found[i], errs[i] = t.suggest(ctx, x, atMost) })
	}
	tries.Wait()
	return found, errors.Join(errs...)
}

// suggest finds the smallest of some limits.
func (t *traffic) suggest(ctx context.Context, x suggestion, atMost float64) (found suggested, err error) {
	n, err := t.least(ctx, atMost, x.limit)
	if err != nil {
		return found, err
	}
	if n > 0 && n < 100 && x.finer != nil {
		return t.suggest(ctx, *x.finer, atMost)
	}
	if found = (suggested{Limit: x.limit(max(n, 1)).String(), Suffices: n > 0}); n == 0 {
		return found, nil
	}
	would, err := t.under(ctx, x.limit(n))
	if err != nil {
		return found, err
	}
	f := fateOf("", would)
	found.Requests, found.Denied, found.KeysDenied, found.WorstKey = f.Requests, f.Denied, f.KeysDenied, f.WorstKey
	if x.rule != nil {
		found.Rule = x.rule(n)
	}
	return found, nil
}
