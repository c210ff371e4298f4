package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/report"
	"github.com/seed13b07268/ration/sim/scenario"
)

// classText writes a class as it is read.
func classText(c *scenario.Class) string {
	text := fmt.Sprintf("%s %.4g %% of the requests", c.Name, 100*c.Share)
	if c.Floor > 0 {
		text += fmt.Sprintf(", floor %.4g", c.Floor)
	}
	if c.Weight > 0 {
		text += fmt.Sprintf(", weight %.4g", c.Weight)
	}
	if o := c.OnOff; o != nil {
		text += fmt.Sprintf(", on for %v of %v", o.On, o.Period)
	}
	return text
}

// classesText writes all classes, the highest first.
func classesText(s *scenario.Scenario) string {
	var list []string
	for i := range s.Classes {
		list = append(list, classText(&s.Classes[i]))
	}
	return strings.Join(list, "; ")
}

// classNote says what the columns of classRows mean.
const classNote = "tokens, and the fair share by floors and weights (of a quota: by floors, and in " +
	"order of arrival); of what is within the floor, " +
	"the part honoured in windows of 2 s, and what the worst one lacks of the limit"

// classRows tell what each class got, in the mean, and what its floor lacked in the worst window.
func classRows(results []*engine.Result) report.Table {
	t := report.Table{Head: []string{"class", "offered", "admitted", "fair share", "of it",
		"within floor", "honoured", "lacks at worst", "decision p99"}}
	for i, c := range results[0].Classes {
		mean, most := over(results, func(r *engine.Result) *engine.ClassShare { return &r.Classes[i] })
		within, honoured, lacks := "-", "-", "-"
		if w := mean(func(c *engine.ClassShare) float64 { return c.Within }); w > 0 {
			within, lacks = count(w), percent(most(func(c *engine.ClassShare) float64 { return c.Lack }))
			honoured = percent(mean(func(c *engine.ClassShare) float64 { return c.Honoured }))
		}
		admitted := mean(func(c *engine.ClassShare) float64 { return c.Admitted })
		fair := mean(func(c *engine.ClassShare) float64 { return c.Fair })
		of := "-"
		if fair > 0 {
			of = percent(admitted / fair)
		}
		t.Rows = append(t.Rows, []string{
			c.Name, count(mean(func(c *engine.ClassShare) float64 { return c.Offered })), count(admitted),
			count(fair), of, within, honoured, lacks,
			span(mean(func(c *engine.ClassShare) float64 { return c.LatencyP99 })),
		})
	}
	return t
}

// over are the mean and the most of a figure of a part of each result.
func over[P any](
	results []*engine.Result, part func(*engine.Result) *P,
) (mean, most func(func(*P) float64) float64) {
	mean = func(of func(*P) float64) (sum float64) {
		for _, r := range results {
			sum += of(part(r)) / float64(len(results))
		}
		return sum
	}
	most = func(of func(*P) float64) (x float64) {
		for _, r := range results {
			x = max(x, of(part(r)))
		}
		return x
	}
	return mean, most
}

// breakdowns are the tables of each limit, where there are several, and of each class.
var breakdowns = []struct {
	of, note string
	rows     func([]*engine.Result) report.Table
}{{"limits", limitNote, limitRows}, {"classes", classNote, classRows}}

// printBreakdowns prints those that results have.
func printBreakdowns(w io.Writer, whose string, results []*engine.Result) {
	for _, b := range breakdowns {
		if t := b.rows(results); t.Rows != nil {
			fmt.Fprintf(w, "\n%s%s: %s:\n\n%s", whose, b.of, b.note, table(t.Head, t.Rows))
		}
	}
}

// breakdownTables are those of a page.
func breakdownTables(played []*variant) (all []report.Table) {
	for _, b := range breakdowns {
		for _, v := range played {
			t := b.rows(v.Results)
			if t.Rows == nil {
				continue
			}
			t.Title = strings.ToUpper(b.of[:1]) + b.of[1:]
			if len(played) > 1 {
				t.Title += ", " + v.Label
			}
			t.Note = "In the mean: " + b.note + "."
			all = append(all, t)
		}
	}
	return all
}
