package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/report"
	"github.com/seed13b07268/ration/sim/scenario"
)

const compareHelp = `Usage: go run ./sim compare [-a SETTINGS] [-b SETTINGS] [flags] [scenario]

Plays a scenario with settings A and with settings B, on the same requests and
faults, and prints the differences of B to A: paired, replication by
replication, with their 95 % intervals. SETTINGS are PATH=VALUE, several
separated by commas; a name without a dot is a field of the policy.

  go run ./sim compare -b batch=400
  go run ./sim compare -a mode=batches -b mode=auto crashes
  go run ./sim compare -a redis.latency=1ms -b redis.latency=20ms
`

// compareCommand is `sim compare`.
func compareCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newPlayed("compare", compareHelp, 2)
	a := s.set.String("a", "", "`SETTINGS` of A (default those of the scenario)")
	b := s.set.String("b", "mode=batches",
		"`SETTINGS` of B: classic batches, first come first served, if none are given")
	if _, err := s.parse(ctx, args, stdout, stderr); err != nil {
		return err
	}
	d := s.document(args, compareText)
	for _, side := range []struct{ name, text string }{{"A", *a}, {"B", *b}} {
		label := side.name
		if side.text != "" {
			label += ": " + side.text
		}
		if err := d.vary(ctx, s, label, side.text, stderr); err != nil {
			return mistake(fmt.Errorf("-%s: %w", strings.ToLower(side.name), err))
		}
	}
	return d.play(ctx, s, stdout, stderr, func() {
		d.Differences = differences(d.Variants[0], d.Variants[1])
	})
}

// change returns a copy of the scenario with settings changed, resolved.
func change(
	ctx context.Context, s *scenario.Scenario, settings string, stderr io.Writer,
) (*scenario.Scenario, error) {
	c := s.Clone()
	for _, text := range splitSettings(settings) {
		a, err := parseAssignment(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		if own := "policy." + a.path; scenario.IsField(own) {
			a.path = own
		}
		if err := a.apply(c); err != nil {
			return nil, err
		}
	}
	return c, resolve(ctx, c, stderr)
}

// splitSettings splits at commas, but for those within brackets, as in
// load.costs=[1,5],batch=30.
func splitSettings(s string) (parts []string) {
	if s == "" {
		return nil
	}
	depth, from := 0, 0
	for i, r := range s {
		switch {
		case r == '[' || r == '{':
			depth++
		case r == ']' || r == '}':
			depth--
		case r == ',' && depth <= 0:
			parts = append(parts, s[from:i])
			from = i + 1
		}
	}
	return append(parts, s[from:])
}

// differences of b to a in each figure, over the replications that both have.
func differences(a, b *variant) map[string]measure.Interval {
	of := map[string]measure.Interval{}
	for _, f := range figures {
		of[f.name] = f.difference(a, b)
	}
	return of
}

// difference of b to a, paired: replication n of both met the same requests.
func (f figure) difference(a, b *variant) measure.Interval {
	var x []float64
	for i, j := 0, 0; i < len(a.Results) && j < len(b.Results); {
		ra, rb := a.Results[i], b.Results[j]
		switch {
		case ra.Replication < rb.Replication:
			i++
		case ra.Replication > rb.Replication:
			j++
		default:
			x = append(x, f.of(rb)-f.of(ra))
			i++
			j++
		}
	}
	return measure.Estimate(x)
}

// compareText prints what `sim compare` has found.
func compareText(w io.Writer, d *document) {
	a := d.Variants[0]
	printScenario(w, a.Scenario)
	printInterrupted(w, d)
	for _, v := range d.Variants {
		fmt.Fprintf(w, "%s; %s\n", v.Label, policyText(v.Scenario.Policy))
	}
	t := comparison(d)
	fmt.Fprintf(w, "\n%s", table(t.Head, t.Rows))
	for _, v := range d.Variants {
		fmt.Fprintf(w, "\n%s: excess: %s\n", v.Label[:1], promiseText(v))
		printLosses(w, v.Label[:1]+": ", v)
	}
	for _, v := range d.Variants {
		printBreakdowns(w, v.Label[:1]+": ", v.Results)
		printKeys(w, v.Label[:1]+": the", v.Results)
	}
}

// comparison is the table of the figures of both variants.
func comparison(d *document) report.Table {
	a, b := d.Variants[0], d.Variants[1]
	mean := "mean of " + fmt.Sprint(len(a.Results))
	t := report.Table{Head: []string{mean, "A", "B", "B - A", "95 % interval", "B is"}}
	for _, f := range shown(a, b) {
		diff := d.Differences[f.name]
		t.Rows = append(t.Rows, []string{
			f.title, f.text(a.Summary[f.name].Mean), f.text(b.Summary[f.name].Mean), f.signed(diff.Mean),
			f.signed(diff.Low) + " to " + f.signed(diff.High), f.verdict(diff)})
	}
	return t
}

// verdict says who is better, if the interval says so.
func (f figure) verdict(diff measure.Interval) string {
	switch {
	case diff.N < 2 || !diff.Differs():
		return "~"
	case f.better == 0:
		return "different"
	case (diff.Mean > 0) == (f.better > 0):
		return "better"
	}
	return "worse"
}

// signed writes a difference with its sign.
func (f figure) signed(x float64) string {
	switch text := f.text(max(x, -x)); {
	case text == f.text(0):
		return "0"
	case x < 0:
		return "-" + text
	default:
		return "+" + text
	}
}
