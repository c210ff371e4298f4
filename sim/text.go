package main

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
)

// thousands writes 1234567 as 1,234,567.
func thousands[T ~int | ~int64 | ~uint64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// counted writes 1 process, 2,000 processes.
func counted(n int, one, many string) string {
	if n == 1 {
		many = one
	}
	return thousands(n) + " " + many
}

// listed writes a; a and b; a, b and c.
func listed(all []string) string {
	last := len(all) - 1
	if last < 1 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

func percent(x float64) string { return fmt.Sprintf("%.2f %%", 100*x) }

// span writes seconds in a unit that suits them.
func span(seconds float64) string {
	switch d := math.Abs(seconds); {
	case d == 0:
		return "0"
	case d < 1e-3:
		return fmt.Sprintf("%.0f µs", seconds*1e6)
	case d < 1:
		return fmt.Sprintf("%.3g ms", seconds*1e3)
	}
	return fmt.Sprintf("%.3g s", seconds)
}

// tokens is "none" also for what is smaller than a hundredth of a token, which
// may be the rounding of float64.
func tokens(n float64) string {
	switch {
	case n < 0.01:
		return "none"
	case n < 100:
		return fmt.Sprintf("%.2f", n)
	}
	return thousands(int64(math.Round(n)))
}

func count(x float64) string { return thousands(int64(math.Round(x))) }

// brief writes three digits, or all of those before the point.
func brief(x float64) string {
	if x >= 100 {
		return count(x)
	}
	return fmt.Sprintf("%.3g", x)
}

// table aligns rows of cells in columns; the first one to the left, numbers to
// the right. A cell that has no head is a note at the end of its line.
func table(head []string, rows [][]string) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := 0
	for _, row := range append([][]string{head}, rows...) {
		width = max(width, len([]rune(row[0])))
	}
	for _, row := range append([][]string{head}, rows...) {
		first := row[0] + strings.Repeat(" ", width-len([]rune(row[0])))
		cells, notes := row[1:len(head)], row[len(head):]
		fmt.Fprintf(w, "%s\t%s\t  %s\n", first, strings.Join(cells, "\t"), strings.Join(notes, ""))
	}
	_ = w.Flush() // to memory
	var lines []string
	for line := range strings.Lines(out.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n") + "\n"
}
