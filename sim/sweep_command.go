package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

const sweepHelp = `Usage: go run ./sim sweep -over PATH=VALUE,VALUE,... [flags] [scenario]

Plays a scenario with each value of one setting, on the same requests and faults
as far as the setting leaves them the same, and prints a line for each. A PATH
without a dot is a field of the policy, or else of the scenario.

  go run ./sim sweep -over batch=10,100,1000 -limit 100000/s
  go run ./sim sweep -over balance.skew=0,0.5,1,2
`

// sweepColumns are the figures in the table of a sweep.
var sweepColumns = []struct{ figure, head string }{
	{"calls_per_request", "calls/request"}, {"utilisation", "utilisation"}, {"fairness", "fairness"},
	{"fairness_p5", "worst seconds"}, {"worst_share", "worst process"}, {"excess", "excess"},
	{"latency_p99_seconds", "p99"}, {"settle_seconds", "settled"},
}

// sweepCommand is `sim sweep`.
func sweepCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newSettings("sweep", sweepHelp)
	out := s.outputFlags()
	replications := s.replicationsFlag(10)
	over := s.set.String("over", "", "the setting and its values, `PATH=VALUE,VALUE,...`")
	if _, err := s.parse(ctx, args, stdout); err != nil {
		return err
	}
	path, list, ok := strings.Cut(*over, "=")
	if !ok || path == "" || list == "" {
		return usageError{fmt.Errorf("invalid value %q for flag -over: want PATH= and values between commas", *over)}
	}
	if err := errors.Join(out.check(), atLeast("replications", *replications, 1)); err != nil {
		return usageError{err}
	}
	var variants []*variant
	for _, value := range splitSettings(list) {
		changed, err := change(ctx, s.written, path+"="+value)
		if err != nil {
			return mistake(fmt.Errorf("-over: %w", err))
		}
		variants = append(variants, &variant{Label: value, Scenario: changed})
	}
	err := play(ctx, variants, s.seed, *replications, stderr)
	d := document{Command: "sweep", Seed: s.seed, Variants: variants, Interrupted: err != nil, line: commandLine("sweep", args), over: path}
	d.Variants = slices.DeleteFunc(variants, func(v *variant) bool { return len(v.Results) == 0 }) // after an interrupt
	if len(d.Variants) == 0 {
		return err
	}
	if err == nil {
		if err := d.warnOfDear(ctx); err != nil {
			return err
		}
	}
	return errors.Join(out.write(stdout, &d, sweepText), err)
}

// sweepText prints a line for each value.
func sweepText(w io.Writer, d *document) {
	t := sweepTable(d.over, d.Variants)
	if d.Interrupted {
		fmt.Fprint(w, "INTERRUPTED: the figures are of what was simulated until then.\n\n")
	}
	fmt.Fprint(w, table(t.head, t.rows))
}

// grid is a table before it is drawn.
type grid struct {
	head []string
	rows [][]string
}

func sweepTable(path string, variants []*variant) (t grid) {
	t.head = []string{path}
	for _, c := range sweepColumns {
		if figureOf(c.figure).shown(variants...) {
			t.head = append(t.head, c.head)
		}
	}
	for _, v := range variants {
		row := []string{v.Label}
		for _, c := range sweepColumns {
			if f := figureOf(c.figure); f.shown(variants...) {
				row = append(row, f.text(v.Summary[f.name].Mean))
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}
