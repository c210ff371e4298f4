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
has a limit of its own; -per-client=false is one for all.

  go run ./sim whatif decisions.jsonl
  go run ./sim whatif decisions.jsonl -limit 20/s -burst 100 -procs 4
  go run ./sim whatif access.log -limit 1000/day -at-most 1%
`

// whatIfCommand is `sim whatif`.
func whatIfCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings("whatif", whatIfHelp, "trace", "keys", "classes", "offered", "skew")
	s.log = true
	atMost := 0.001
	s.set.Func("at-most", "suggest limits that deny no key more than the part `P` of its requests "+
		"(default 0.1%)", func(value string) (err error) {
		atMost, err = parsePart(value)
		return err
	})
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
	if s.sets("limit") {
		printScenario(stdout, c)
	} else {
		notes := strings.Join(c.Replay().Notes, "\n")
		fmt.Fprintf(stdout, "%s\n%s\n\n", fileName(c.Load.Trace.File), notes)
	}
	if err := t.printFates(ctx, s, stdout, stderr); err != nil {
		return err
	}
	return t.printLeast(ctx, s, atMost, stdout)
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
	}
	err := resolve(ctx, again, stderr)
	return again, err
}

// printFates says what was done, and what another limit does.
func (t *traffic) printFates(ctx context.Context, s *settings, w, stderr io.Writer) error {
	head := []string{"", "requests", "denied", "of them", "keys denied", "worst key"}
	var rows [][]string
	row := func(name string, f ideal.Fates) {
		all, keys, worst := f.Sum()
		rows = append(rows, []string{
			name, thousands(all.Requests), thousands(all.Denied), percent(all.Part()),
			fmt.Sprintf("%s of %s", thousands(keys), thousands(len(f))), percent(f[worst].Part()),
		})
	}
	row("what was done", t.done)
	if !t.known {
		rows[0] = []string{"the log", rows[0][1], "-", "-", "-", "-"}
	}
	if !s.sets("limit") {
		fmt.Fprintf(w, "%s\n", table(head, rows))
		return nil
	}
	would, err := t.under(ctx, t.limit)
	if err != nil {
		return err
	}
	row("an ideal limit", would)
	t.scenario.BeginAt(t.begins)
	v := &variant{Scenario: t.scenario}
	if err := play(ctx, []*variant{v}, s.seed, 1, stderr); err != nil {
		return err
	}
	r := v.Results[0]
	all := ideal.Fate{Requests: r.Requests, Denied: r.Denied}
	rows = append(rows, []string{processesText(t.scenario), thousands(all.Requests),
		thousands(all.Denied), percent(all.Part()), "", ""})
	fmt.Fprintf(w, "%s", table(head, rows))
	fmt.Fprintf(w, "  %s share the limit with %.4g calls of Redis for each request; "+
		"no verdict for %s.\n",
		processesText(t.scenario), r.CallsPerRequest, thousands(r.Unanswered))
	if t.charges > 0 {
		fmt.Fprintf(w, "  %s, which the processes' limit may deny as if they were requests.\n",
			counted(int(t.charges), "charge", "charges"))
	}
	t.printWorst(w, would)
	return nil
}

// printWorst lists the keys that an ideal limit denies most.
func (t *traffic) printWorst(w io.Writer, would ideal.Fates) {
	order := make([]int, len(would))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(would[b].Part(), would[a].Part()),
			cmp.Compare(would[b].Requests, would[a].Requests))
	})
	var rows [][]string
	for _, i := range order[:min(len(order), 10)] {
		if would[i].Denied == 0 {
			break
		}
		done := "-"
		if t.known {
			done = thousands(t.done[i].Denied)
		}
		rows = append(rows, []string{
			t.scenario.KeyName(i), thousands(would[i].Requests), done, thousands(would[i].Denied),
			percent(would[i].Part()),
		})
	}
	if len(would) > 1 && rows != nil {
		head := []string{"key", "requests", "denied then", "by the limit", "of them"}
		fmt.Fprintf(w, "\nThe keys of which an ideal limit denies most:\n\n%s", table(head, rows))
	}
	fmt.Fprintln(w)
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
	x := suggestion{limit: func(n int64) lease.Limit {
		l.Burst = n
		return l
	}}
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
	x := suggestion{limit: func(n int64) lease.Limit {
		l.Burst = n
		return l
	}}
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

// printLeast suggests the smallest limits that deny no key more than a part of its requests.
func (t *traffic) printLeast(ctx context.Context, s *settings, atMost float64, w io.Writer) error {
	all := suggestions(s, t.limit)
	texts, errs := make([]string, len(all)), make([]error, len(all))
	var tries sync.WaitGroup
	for i, x := range all {
		tries.Go(func() { texts[i], errs[i] = t.suggest(ctx, x, atMost) })
	}
	tries.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(w, "The smallest limits that deny no key more than %.4g %% of its requests, "+
		"as rules:\n\n%s",
		100*atMost, strings.Join(texts, ""))
	return nil
}

// suggest finds the smallest of some limits, and says what it does.
func (t *traffic) suggest(ctx context.Context, x suggestion, atMost float64) (string, error) {
	n, err := t.least(ctx, atMost, x.limit)
	if err != nil {
		return "", err
	}
	if n > 0 && n < 100 && x.finer != nil {
		return t.suggest(ctx, *x.finer, atMost)
	}
	if n == 0 {
		return fmt.Sprintf("  # none like %s: requests are larger than its burst\n", x.limit(1)), nil
	}
	would, err := t.under(ctx, x.limit(n))
	if err != nil {
		return "", err
	}
	all, keys, worst := would.Sum()
	text := fmt.Sprintf("  # denies %s of %s, of %s; %s at most of a key\n",
		counted(int(all.Denied), "request", "requests"), thousands(all.Requests),
		counted(keys, "key", "keys"), percent(would[worst].Part()))
	if x.rule == nil {
		return text + fmt.Sprintf("  # %s, for which rules have no unit\n", x.limit(n)), nil
	}
	return text + "  - key: key\n    rate_limit: " + x.rule(n) + "\n", nil
}
