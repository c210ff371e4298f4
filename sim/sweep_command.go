package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/seed13b07268/ration/sim/report"
)

const sweepHelp = `Usage: go run ./sim sweep -over PATH=VALUE,VALUE,... [flags] [scenario]

Plays a scenario with each value of one setting, on the same requests and faults
as far as the setting leaves them the same, and prints a line for each. A PATH
without a dot is a field of the policy, or else of the scenario.

  go run ./sim sweep -over batch=10,100,1000 -limit 100000/s
  go run ./sim sweep -over balance.skew=0,0.5,1,2
`

// sweepCommand is `sim sweep`.
func sweepCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newPlayed("sweep", sweepHelp, 1)
	over := s.set.String("over", "", "the setting and its values, `PATH=VALUE,VALUE,...`")
	if _, err := s.parse(ctx, args, stdout, stderr); err != nil {
		return err
	}
	path, list, ok := strings.Cut(*over, "=")
	if !ok || path == "" || list == "" {
		return usageError{fmt.Errorf(
			"invalid value %q for flag -over: want PATH= and values between commas", *over)}
	}
	d := s.document(args, sweepText)
	d.over = path
	for i, value := range splitSettings(list) {
		if err := d.vary(ctx, s, value, path+"="+value, stderr); err != nil {
			return mistake(fmt.Errorf("-over: %w", err))
		}
		for _, v := range d.Variants[:i] {
			if v.Scenario.Text() == d.Variants[i].Scenario.Text() {
				return usageError{fmt.Errorf("-over: %s=%s plays the same as %s", path, value, v.Label)}
			}
		}
	}
	return d.play(ctx, s, stdout, stderr, nil)
}

// sweepText prints a line for each value.
func sweepText(w io.Writer, d *document) {
	if d.Interrupted {
		fmt.Fprint(w, "INTERRUPTED: the figures are of what was simulated until then.\n\n")
	}
	t := sweepTable(d)
	fmt.Fprint(w, table(t.Head, t.Rows))
	fmt.Fprint(w, limitsByDefault(d.Variants))
}

// limitsByDefault tells the limits, where one that was chosen is another one than the others.
func limitsByDefault(variants []*variant) string {
	text, chosen, differ := "\nLimits by default:\n", false, false
	first := limitText(variants[0].Scenario.Limits()[0])
	for _, v := range variants {
		l := v.Scenario.Limits()[0]
		chosen, differ = chosen || l.Chosen != "", differ || limitText(l) != first
		text += fmt.Sprintf("  %s: %s\n", v.Label, limitText(l))
	}
	if !chosen || !differ {
		return ""
	}
	return text
}

// swept are the figures in the table of a sweep, with their heads.
func swept(variants []*variant) (list []figure, heads []string) {
	for _, f := range shown(variants...) {
		if f.head != "" {
			list, heads = append(list, f), append(heads, f.head)
		}
	}
	return list, heads
}

func sweepTable(d *document) report.Table {
	list, heads := swept(d.Variants)
	t := report.Table{Head: append([]string{d.over}, heads...)}
	for _, v := range d.Variants {
		row := []string{v.Label}
		for _, f := range list {
			row = append(row, f.text(v.Summary[f.name].Mean))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
