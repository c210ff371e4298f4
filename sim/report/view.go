package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
)

// view is what the template sees: the page, and what was worked out of it.
type view struct {
	Page
	Security, Style, Library, Script, Data template.HTML

	Named []string // of the variants, in the charts

	TimelineGrid grid
	Averaged     int     // steps in a point of the timeline, if more than 1
	Events       []event // in the order of time

	SharesGrid grid

	FrontGrid                            grid
	HasFairness, HasUtilisation          bool
	Asked                                []string
	HasClassic, HasFails, HasRecommended bool

	BarViews []barView

	Threshold     string // of the scatters; empty: none
	ScatterCharts []scatter

	SweepPanels []sweepPanel

	Grids, First []grid
}

type event struct{ When, Text string }

// data is what page.js reads: parts of a Page, as they are drawn.
type data struct {
	Variants []string
	Timeline *Timeline
	Shares   *columns
	Front    *Front
}

// columns are what processes have.
type columns struct {
	Names         []string
	Offered, Fair []float64
	Admitted      [][]float64 // of each variant
}

// maxPoints is more than a screen's width can tell apart.
const maxPoints = 600

func (v *view) addTimeline(d *data) {
	t := v.Timeline
	if t == nil {
		return
	}
	steps := max(len(t.Offered), len(t.Ideal), len(t.Limit))
	for _, a := range t.Admitted {
		steps = max(steps, len(a))
	}
	if steps == 0 {
		v.Timeline = nil
		return
	}
	n := (steps + maxPoints - 1) / maxPoints
	drawn := &Timeline{
		Step: t.Step * float64(n), Offered: means(t.Offered, n), Ideal: means(t.Ideal, n),
		Limit: means(t.Limit, n),
	}
	for _, a := range t.Admitted {
		drawn.Admitted = append(drawn.Admitted, means(a, n))
	}
	if n > 1 {
		v.Averaged = n
	}
	d.Variants, d.Timeline = v.Named, drawn
	v.addEvents(drawn, float64(steps)*t.Step)
	table := Table{Title: "Tokens a second over time", Head: []string{"from (s)"}}
	var columns [][]float64
	add := func(name string, values []float64) {
		if len(values) > 0 {
			table.Head = append(table.Head, name)
			columns = append(columns, values)
		}
	}
	add("offered", drawn.Offered)
	add("limit", drawn.Limit)
	add("ideal", drawn.Ideal)
	for i, a := range drawn.Admitted {
		add(v.Named[i], a)
	}
	table.addRows((steps+n-1)/n, drawn.Step, columns)
	v.TimelineGrid = newGrid(table)
}

func at(values []float64, i int) float64 {
	if i >= len(values) {
		return math.NaN()
	}
	return values[i]
}

// means returns the mean of each n values that follow each other, of those that
// are finite.
func means(values []float64, n int) []float64 {
	if n == 1 {
		return values
	}
	var out []float64
	for group := range slices.Chunk(values, n) {
		sum, count := 0.0, 0.0
		for _, v := range group {
			if finite(v) {
				sum += v
				count++
			}
		}
		out = append(out, sum/count) // NaN if there is none
	}
	return out
}

func (v *view) addShares(d *data) {
	if v.Shares == nil || len(v.Shares.Processes) == 0 {
		v.Shares = nil
		return
	}
	processes := slices.Clone(v.Shares.Processes)
	slices.SortStableFunc(processes, func(a, b Process) int { return cmp.Compare(b.Fair, a.Fair) })
	table := Table{Title: "Tokens of each process", Head: []string{"process", "offered", "fair share"}}
	for _, name := range v.Named {
		table.Head = append(table.Head, name, "of the fair share")
	}
	s := &columns{Admitted: make([][]float64, len(v.Named))}
	for _, p := range processes {
		// The table and the chart are to say the same.
		p.Offered, p.Fair = rounded(p.Offered, digits), rounded(p.Fair, digits)
		s.Names = append(s.Names, p.Name)
		s.Offered, s.Fair = append(s.Offered, p.Offered), append(s.Fair, p.Fair)
		row := []string{p.Name, format(p.Offered), format(p.Fair)}
		for i, a := range p.Admitted {
			a = rounded(a, digits)
			s.Admitted[i] = append(s.Admitted[i], a)
			row = append(row, format(a), cmp.Or(percent(a, p.Fair), "-"))
		}
		table.Rows = append(table.Rows, row)
	}
	d.Variants, d.Shares = v.Named, s
	v.SharesGrid = newGrid(table)
}

// addRows adds n rows, each a step after the one before.
func (t *Table) addRows(n int, step float64, columns [][]float64) {
	for i := range n {
		row := []string{strconv.FormatFloat(rounded(float64(i)*step, 6), 'f', -1, 64)}
		for _, c := range columns {
			row = append(row, format(at(c, i)))
		}
		t.Rows = append(t.Rows, row)
	}
}

// addEvents adds what has happened until the last moment.
func (v *view) addEvents(drawn *Timeline, last float64) {
	events := slices.DeleteFunc(slices.Clone(v.Timeline.Events), func(e Event) bool { return !finite(e.At) })
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	for _, e := range events {
		told := event{When: format(e.At) + " s", Text: e.Text}
		if !(e.Until > e.At) {
			e.Until = e.At
		} else {
			e.Until = min(e.Until, max(e.At, last))
			told.When = format(e.At) + " to " + format(e.Until) + " s"
		}
		v.Events = append(v.Events, told)
		drawn.Events = append(drawn.Events, e)
	}
}

// ask adds a bound that was asked for, if it is one.
func (v *view) ask(text string, bound float64) {
	if finite(bound) && bound > 0 {
		v.Asked = append(v.Asked, fmt.Sprintf(text, format(bound)))
	}
}

func (v *view) addFront(d *data) {
	if v.Front == nil || len(v.Front.Points) == 0 {
		v.Front = nil
		return
	}
	v.ask("at most %s calls a request", v.Front.MaxCalls)
	v.ask("a fairness of at least %s", v.Front.MinFairness)
	v.ask("a utilisation of at least %s", v.Front.MinUtilisation)

	points := slices.Clone(v.Front.Points)
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Calls, b.Calls) })
	table := Table{
		Title: "Every mark",
		Head: []string{"policy", "calls/request", "fairness", "utilisation", "overshoot (tokens)",
			"on the front", "qualifies"},
	}
	word := map[bool]string{true: "yes", false: "no"}
	for i, p := range points {
		v.HasFairness = v.HasFairness || finite(p.Calls) && finite(p.Fairness)
		v.HasUtilisation = v.HasUtilisation || finite(p.Calls) && finite(p.Utilisation)
		v.HasClassic = v.HasClassic || p.Classic
		v.HasFails = v.HasFails || !p.Qualifies
		v.HasRecommended = v.HasRecommended || p.Recommended
		table.Rows = append(table.Rows, []string{p.Label, format(p.Calls), format(p.Fairness),
			format(p.Utilisation), format(p.Overshoot), word[p.OnFront], word[p.Qualifies]})
		if p.Recommended {
			table.Marked = append(table.Marked, i)
		}
	}
	f := *v.Front
	f.Points = points
	d.Front = &f
	v.FrontGrid = newGrid(table)
}

// barView is Bars as the template writes them.
type barView struct {
	Bars
	Rows, Kept []barRow
	None       []string // items of nothing
}

type barRow struct {
	Name, Note string
	Values     []barValue
}

type barValue struct {
	Variant string // empty if there is but one
	Class   string
	Width   string // of 100; empty: there is nothing to draw
	Text    string
	Part    string // of the whole of the variant
}

func (v *view) addBars() {
	for _, b := range v.Bars {
		out := barView{Bars: b}
		all, longest := b.sums(len(v.Named))
		for _, item := range b.Items {
			row := barRow{Name: item.Name, Note: item.Note}
			for i, x := range item.Values {
				value := barValue{
					Class: [2]string{"a", "b"}[i], Text: format(x), Part: percent(x, all[i]),
				}
				if len(v.Variants) > 1 {
					value.Variant = v.Variants[i]
				}
				if finite(x) && x > 0 && !item.Kept {
					value.Width = strconv.FormatFloat(100*x/longest, 'f', 2, 64)
				}
				row.Values = append(row.Values, value)
			}
			switch {
			case item.Kept:
				out.Kept = append(out.Kept, row)
			case slices.ContainsFunc(item.Values, func(x float64) bool { return x != 0 }):
				out.Rows = append(out.Rows, row)
			default: // a bar of nothing says nothing
				out.None = append(out.None, item.Name)
			}
		}
		if len(b.Items) > 0 {
			v.BarViews = append(v.BarViews, out)
		}
	}
}

// sums are the whole of each variant, and the longest bar.
func (b Bars) sums(variants int) (all []float64, longest float64) {
	all = make([]float64, variants)
	for _, item := range b.Items {
		for i, x := range item.Values {
			if finite(x) && !item.Again {
				all[i] += x
			}
			if finite(x) && !item.Kept {
				longest = max(longest, x)
			}
		}
	}
	return all, longest
}

// grid is a table as the template writes it.
type grid struct {
	Title, Note string
	Head        []cell
	Rows        []gridRow
}

type gridRow struct {
	Marked bool
	Cells  []cell
}

type cell struct {
	Text    string
	Numeric bool
}

func newGrid(t Table) grid {
	columns := len(t.Head)
	if columns == 0 {
		for _, row := range t.Rows {
			columns = max(columns, len(row))
		}
	}
	numeric := isNumeric(columns, t.Rows)
	cells := func(row []string) []cell {
		out := make([]cell, columns)
		for c := range out {
			out[c].Numeric = numeric[c]
			if c < len(row) {
				out[c].Text = row[c]
			}
		}
		return out
	}
	g := grid{Title: t.Title, Note: t.Note}
	if len(t.Head) > 0 {
		g.Head = cells(t.Head)
	}
	for i, row := range t.Rows {
		g.Rows = append(g.Rows, gridRow{Marked: slices.Contains(t.Marked, i), Cells: cells(row)})
	}
	return g
}
