package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/seed13b07268/ration/sim/scenarios"
)

const scenariosHelp = `Usage: go run ./sim scenarios [name]

Lists the scenarios that come with sim, or prints one: the beginning of a
scenario file of your own.
`

// scenariosCommand is `sim scenarios`.
func scenariosCommand(_ context.Context, args []string, stdout, _ io.Writer) error {
	switch {
	case len(args) > 1:
		return usageError{fmt.Errorf("unexpected argument %q", args[1])}
	case len(args) == 1 && slices.Contains([]string{"-h", "-help", "--help"}, args[0]):
		fmt.Fprint(stdout, scenariosHelp)
		return flag.ErrHelp
	case len(args) == 1:
		text, err := scenarios.Text(args[0])
		if err != nil {
			return usageError{err}
		}
		_, err = io.WriteString(stdout, text)
		return err
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	for _, name := range scenarios.Names() {
		s, err := scenarios.Open(name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(w, "%s\t%s\n", name, s.About)
	}
	return w.Flush()
}
