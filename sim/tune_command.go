package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed13b07268/ration/sim/scenario"
)

const tuneHelp = `Usage: go run ./sim tune [flags] [scenario]

Searches for the policy with the fewest calls of Redis under the constraints: first
policies of all modes, then the best of them with a few knobs turned, all on the
same requests and faults; the best of these are judged on other requests. Prints
what that saves over the scenario's own policy, classic batches and a call for each
request, and what to paste. A policy keeps a constraint if the 95 % interval of its
mean does. Constraints that are not given are set half a hundredth below the best
lease; 0 is none.

  go run ./sim tune
  go run ./sim tune -max-calls 0.02 on-off
  go run ./sim tune -trace access.log -per-client -min-fairness 0.99 -html tune.html
`

// tuneCommand is `sim tune`.
func tuneCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newPlayed("tune", tuneHelp, 10)
	effort := s.set.Float64("effort", 1,
		"search `X` times as long as usual, which is up to a minute on two cores")
	var limits constraints
	limits.flags(s.set)
	c, err := s.parse(ctx, args, stdout, stderr)
	if err != nil {
		return err
	}
	err = errors.Join(limits.check(), inRange("effort", *effort, 0.01, 1000), limits.classed(c))
	if err != nil {
		return usageError{err}
	}
	s.set.Visit(func(f *flag.Flag) { limits.given = append(limits.given, "-"+f.Name) })
	if c.Warmup == 0 && c.Replay() == nil { // all of a log counts
		c.Warmup = sixth(c.Duration)
	}
	exactly := slices.Contains(limits.given, "-replications")
	search := newSearch(c, limits, s.seed, s.replications, exactly, *effort)
	played, err := search.run(ctx, stderr)
	d := s.document(args, tuneText)
	d.Interrupted = errors.Is(err, errInterrupted)
	played = slices.DeleteFunc(slices.Clone(played), func(x *candidate) bool {
		return len(x.variant.Results) == 0
	})
	if len(played) == 0 || err != nil && !d.Interrupted {
		return err
	}
	d.Tuning = tune(played, limits)
	d.Tuning.base, d.Tuning.Search = c, search.summary()
	d.Warnings = d.Tuning.Warnings
	if err == nil {
		err = search.bring(ctx, d.Tuning)
		d.Interrupted = errors.Is(err, errInterrupted)
	}
	if err != nil && !d.Interrupted {
		return err
	}
	for _, x := range d.Tuning.Candidates {
		d.Variants = append(d.Variants, x.variant)
	}
	return errors.Join(s.out.write(stdout, d), err)
}

// flags adds those that set the constraints.
func (l *constraints) flags(set *flag.FlagSet) {
	for _, b := range bounds {
		set.Float64Var(b.of(l), b.name[1:], 0, b.usage)
	}
}

func (l *constraints) check() (err error) {
	for _, b := range bounds {
		err = errors.Join(err, inRange(b.name[1:], *b.of(l), 0, b.most))
	}
	return err
}

// classed returns an error if floors are to be honoured of a scenario without classes.
func (l *constraints) classed(s *scenario.Scenario) error {
	if l.MinFloors > 0 && s.Classes == nil {
		return fmt.Errorf("invalid value \"%v\" for flag %s: the scenario has no classes",
			l.MinFloors, minFloors)
	}
	return nil
}

// tuneText prints what `sim tune` has found.
func tuneText(w io.Writer, d *document) {
	t := d.Tuning
	printScenario(w, t.base)
	if d.Interrupted {
		fmt.Fprint(w, "INTERRUPTED: the search has not come to its end.\n\n")
	}
	fmt.Fprintf(w, "%s\nThose that no other one beats, by calls of Redis:\n\n", t.Search)
	var rows [][]string
	shown, alike, once := t.shown()
	for _, c := range shown {
		rows = append(rows, c.row())
	}
	head := []string{"", "calls/request", "fairness", "utilisation", "overshoot", "fails"}
	fmt.Fprint(w, table(head, rows))
	fmt.Fprint(w, "\n* recommended, y yours, c what others do, - beaten by another one.\n")
	if alike > 0 {
		fmt.Fprintf(w, "Not listed: %d that can hardly be told from the recommended one.\n", alike)
	}
	if once > 0 {
		fmt.Fprintf(w, "Not listed: %d that were played once, which is too rarely to be beaten.\n",
			once)
	}
	if slices.ContainsFunc(shown, func(c *candidate) bool { return c.Dear }) {
		fmt.Fprint(w, "Those that fail in calls need more of them than a call for each request.\n")
	}
	judged := t.best == nil || t.best.Summary[calls.name].N >= telling
	t.constraintsText(w, judged)
	fmt.Fprintf(w, "\n\n%s\n", t.Verdict)
	if t.best != nil && judged {
		s := t.best.Summary
		fmt.Fprintf(w, "Over %d plays the 95 %% intervals are calls per request %s, fairness %s, "+
			"and utilisation %s.\n", s[calls.name].N, calls.interval(s[calls.name]),
			fairness.interval(s[fairness.name]), utilisation.interval(s[utilisation.name]))
	}
	for _, line := range t.gainsText() {
		fmt.Fprintf(w, "%s\n", line)
	}
	if t.best != nil {
		t.best.paste(w)
	}
}

// constraintsText says what a policy has to keep, and whether intervals judge that.
func (t *tuning) constraintsText(w io.Writer, judged bool) {
	l := t.Constraints
	fmt.Fprint(w, "\nConstraints: no excess above what is promised")
	for _, b := range slices.Concat(minima, bounds[:1]) {
		if x := *b.of(&l); x > 0 {
			fmt.Fprintf(w, ", "+b.text, x)
		}
	}
	if len(l.Chosen) > 0 {
		fmt.Fprintf(w, "\n(%s not given: %g below the best lease)",
			listed(l.Chosen), slack)
	}
	if judged {
		fmt.Fprint(w, "\nA policy keeps them if the 95 % interval of its mean does.")
	} else {
		fmt.Fprint(w, "\nA policy keeps them if its mean does: it was played too rarely for an interval.")
	}
}

// paste writes the policy as users paste it.
func (c *candidate) paste(w io.Writer) {
	fmt.Fprintf(w, "\nIn Go, in hybrid.Config:\n\n%s\n", indent(c.goText()))
	text, err := json.MarshalIndent(c.Policy, "    ", "  ")
	if err != nil {
		panic(fmt.Sprintf("sim: a policy cannot be written: %v", err))
	}
	fmt.Fprintf(w, "\nAs YAML, in a scenario:\n\n%s\n", indent(c.yamlText()))
	fmt.Fprintf(w, "\nAs JSON, of a hybrid.Policy (durations are nanoseconds):\n\n    %s\n", text)
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

// fewRows is how many candidates are listed of those that nothing can beat yet.
const fewRows = 10

// shown are the candidates worth a line: on the front, the scenario's own and what others
// do, but for those like the recommended one, which are counted. One that was played once
// is on the front whatever it did: after an interrupt the best of these fill ten rows, and
// the others are counted.
func (t *tuning) shown() (list []*candidate, alike, once int) {
	var unbeaten []*candidate
	for _, c := range t.Candidates {
		switch {
		case t.like(c):
			alike++
			continue
		case c.Recommended || c.Own || c.Classic:
		case c.OnFront && c.Summary[calls.name].N < 2:
			unbeaten = append(unbeaten, c)
		case !c.OnFront:
			continue
		}
		list = append(list, c)
	}
	slices.SortStableFunc(unbeaten, t.Constraints.order)
	room := max(0, fewRows-len(list)+len(unbeaten))
	rest := unbeaten[min(room, len(unbeaten)):]
	list = slices.DeleteFunc(list, func(c *candidate) bool { return slices.Contains(rest, c) })
	return list, alike, len(rest)
}

// like reports whether a lease can hardly be told from the recommended one.
func (t *tuning) like(c *candidate) bool {
	return t.best != nil && c != t.best && !c.Own && !c.Classic &&
		len(c.Fails) == 0 && c.alike(t.best)
}

// row is a candidate's line in the table.
func (c *candidate) row() []string {
	mark, kind := " ", " "
	switch {
	case c.Recommended:
		mark = "*"
	case !c.OnFront:
		mark = "-"
	}
	switch {
	case c.Own:
		kind = "y"
	case c.Classic:
		kind = "c"
	}
	return []string{mark + kind + " " + c.Label, four(c.mean(calls)), four(c.mean(fairness)),
		percent(c.mean(utilisation)), tokens(c.mean(overshoot)), strings.Join(c.remarks(), " ")}
}

// remarks are the constraints that a candidate fails, and whether it is dear.
func (c *candidate) remarks() []string {
	all := slices.Clone(c.Fails)
	if c.Dear {
		all = append(all, "calls")
	}
	return all
}
