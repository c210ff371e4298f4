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
const classNote = "tokens, and the fair share by floors and weights; of what is within the floor, " +
	"the part honoured in windows of 2 s, and what the worst one lacks of the limit"

// classRows tell what each class got, in the mean, and what its floor lacked in the worst window.
func classRows(results []*engine.Result) report.Table {
	t := report.Table{Head: []string{"class", "offered", "admitted", "fair share", "of it",
		"within floor", "honoured", "lacks at worst", "decision p99"}}
	for i, c := range results[0].Classes {
		mean := func(of func(*engine.ClassShare) float64) (sum float64) {
			for _, r := range results {
				sum += of(&r.Classes[i]) / float64(len(results))
			}
			return sum
		}
		worst := 0.0
		for _, r := range results {
			worst = max(worst, r.Classes[i].Lack)
		}
		within, honoured, lacks := "-", "-", "-"
		if w := mean(func(c *engine.ClassShare) float64 { return c.Within }); w > 0 {
			within, lacks = count(w), percent(worst)
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

// printClasses tells of each class, where requests have some.
func printClasses(w io.Writer, whose string, results []*engine.Result) {
	if t := classRows(results); t.Rows != nil {
		fmt.Fprintf(w, "\n%sclasses: %s:\n\n%s", whose, classNote, table(t.Head, t.Rows))
	}
}

// classTables are those of a page.
func classTables(played []*variant) (all []report.Table) {
	for _, v := range played {
		t := classRows(v.Results)
		if t.Rows == nil {
			continue
		}
		t.Title = "Classes"
		if len(played) > 1 {
			t.Title += ", " + v.Label
		}
		t.Note = "In the mean: " + classNote + "."
		all = append(all, t)
	}
	return all
}

// floors is what of the floors of a replication was honoured, of the class that fared worst.
func floors(r *engine.Result) float64 {
	least := 1.0
	for i := range r.Classes {
		least = min(least, r.Classes[i].Honoured)
	}
	return least
}
