package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"time"
)

func printMachine(ctx context.Context, w io.Writer, s *server) error {
	version, err := s.version()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d cores, %s %s/%s, %s.", runtime.NumCPU(), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, version)
	for _, place := range []string{near, far} {
		trip, err := s.roundTrip(ctx, place)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, " A PING that is %s takes %s.", place, duration(float64(trip)))
	}
	_, err = fmt.Fprintln(w)
	return err
}

// A column is a figure in a table.
type column struct {
	figure int
	name   string
	format func(float64) string
	more   bool    // is better
	slack  float64 // by which part two must differ for one to lose
}

var columns = []column{
	{rate, "decisions/s", number, true, 0.2},
	{calls, "calls each", fraction, false, 0.05},
	{p50, "p50", duration, false, 0.2},
	{p99, "p99", duration, false, 0.2},
	{size, "bytes a key", whole, false, 0.05},
	{used, "of the ideal", percent, true, 0.005},
	{most, "most, of n", fraction, false, 0.005},
	{stall, "stalls, p99", duration, false, math.Inf(1)},
}

func printKind(w io.Writer, k kind, rows []row) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\n**%s**\n\n| load | Redis | limiter |", k.name)
	for _, c := range columns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 3+len(columns)) + "\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |", r.load, r.place, r.subject)
		for _, c := range columns {
			b.WriteString(" " + cell(c, r) + " |")
		}
		b.WriteString("\n")
	}
	for _, r := range rows {
		if r.refused != "" {
			fmt.Fprintf(&b, "\nRefused: %s, %s, %s: %s.\n", r.subject, r.load, r.place, r.refused)
		}
	}
	printLosses(&b, rows)
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(c column, r row) string {
	if r.refused != "" {
		return "refused"
	}
	if math.IsNaN(r.figures[c.figure]) {
		return ""
	}
	return c.format(r.figures[c.figure])
}

func number(x float64) string {
	switch {
	case x >= 999_500:
		return fmt.Sprintf("%.3gM", x/1e6)
	case x >= 9_995:
		return fmt.Sprintf("%.3gk", x/1e3)
	}
	return whole(x)
}

func whole(x float64) string   { return fmt.Sprintf("%.0f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

func fraction(x float64) string {
	if x < 0.001 {
		return fmt.Sprintf("%.1g", x)
	}
	return fmt.Sprintf("%.3f", x)
}

// duration writes ns with three digits.
func duration(x float64) string {
	switch d := time.Duration(x); {
	case d < time.Microsecond:
		return fmt.Sprintf("%.3g ns", x)
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", x/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", x/1e6)
	}
	return fmt.Sprintf("%.3g s", x/1e9)
}
