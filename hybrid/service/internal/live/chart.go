package live

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A line of a chart has a value for each of its points, the oldest first: NaN where there is none.
type line struct {
	Name   string
	Style  int // 1 to 4: a colour and dashes
	Values []float64
	Path   string
	Now    string
}

// A chart is lines over one span. Its drawing has percentages and a nested viewBox that stretches,
// so that text has its size at each width.
type chart struct {
	ID, Title, Unit, About string
	Lines                  []line
	X, Y                   []tick
	Marks                  []tick
	Table                  [][]string // rows: the time, and a value of each line
	Empty                  bool
	Optional               bool // it is hidden while it is empty
}

// A tick is a mark of an axis. At is where, in percent of the drawing, or in its pixels for Y.
type tick struct {
	At, Text string
	Anchor   string
}

// The plot is from left to right, in percent, and from top to bottom, in pixels. The template has
// the same numbers.
const (
	plotLeft, plotWidth = 13.0, 85.0
	plotTop, plotHeight = 14.0, 170.0
)

// newChart draws lines from 0 up to a round number, or to top if that is above 0.
func newChart(c chart, at span, top float64) chart {
	c.Empty = true
	high := 0.0
	for _, l := range c.Lines {
		for _, v := range l.Values {
			if !math.IsNaN(v) {
				c.Empty = false
				high = max(high, v)
			}
		}
	}
	if top == 0 {
		top = high
	}
	ticks := roundTicks(top)
	top = ticks[len(ticks)-1]
	for _, v := range ticks {
		y := plotTop + plotHeight*(1-v/top)
		c.Y = append(c.Y, tick{At: decimal(y), Text: number(v)})
	}
	c.X = timeTicks(at)
	for i := range c.Lines {
		c.Lines[i].Path = path(c.Lines[i].Values, top)
		c.Lines[i].Now = "–"
		if n := len(c.Lines[i].Values); n > 0 {
			c.Lines[i].Now = number(c.Lines[i].Values[n-1])
		}
	}
	c.Table = table(c.Lines, at)
	return c
}

// A mark is a moment of a chart: that of a version of the rules.
type mark struct {
	At      time.Time
	Version int64
}

// mostMarks is how many a chart may have.
const mostMarks = 20

// String is how a query has it.
func (m mark) String() string { return fmt.Sprintf("%d.%d", m.At.UnixMilli(), m.Version) }

// marksOf reads marks of a query.
func marksOf(texts []string) (marks []mark, ok bool) {
	if len(texts) > mostMarks {
		return nil, false
	}
	for _, text := range texts {
		at, version, _ := strings.Cut(text, ".")
		ms, err1 := strconv.ParseInt(at, 10, 64)
		n, err2 := strconv.ParseInt(version, 10, 64)
		if err1 != nil || err2 != nil || n < 1 {
			return nil, false
		}
		marks = append(marks, mark{time.UnixMilli(ms), n})
	}
	return marks, true
}

// Span is how far back a chart of the span looks.
func (s span) length() time.Duration {
	if s == day {
		return 24 * time.Hour
	}
	return 5 * time.Minute
}

// mark adds those of the time that the chart is of, the newest first. One whose text would be on
// that of a newer one has none.
func (c *chart) mark(at span, now time.Time, marks []mark) {
	const apart = 0.08 // of the axis: a text on a phone
	last := math.Inf(-1)
	for _, m := range marks {
		part := float64(now.Sub(m.At)) / float64(at.length())
		if part < 0 || part > 1 {
			continue
		}
		t := tick{At: decimal(plotLeft+plotWidth*(1-part)) + "%"}
		if part-last >= apart {
			t.Text, last = fmt.Sprintf("v%d", m.Version), part
		}
		c.Marks = append(c.Marks, t)
	}
}

// roundTicks returns multiples of 1, 2 or 5 times a power of ten from 0 to high or a little
// above: three to six.
func roundTicks(high float64) []float64 {
	if !(high > 0) || math.IsInf(high, 0) {
		high = 1
	}
	power := math.Pow(10, math.Floor(math.Log10(high/5)))
	step := 10 * power
	for _, m := range []float64{5, 2, 1} {
		if 5*m*power >= high*(1-1e-9) {
			step = m * power
		}
	}
	var ticks []float64
	for i := range int(math.Ceil(high/step-1e-9)) + 1 {
		v, err := strconv.ParseFloat(strconv.FormatFloat(float64(i)*step, 'g', 10, 64), 64)
		if err == nil {
			ticks = append(ticks, v) // 0.3, and not 3 * 0.1
		}
	}
	return ticks
}

// timeTicks are the marks of the time axis.
func timeTicks(at span) []tick {
	unit, every, all := "min", 1, 5
	if at == day {
		unit, every, all = "h", 6, 24
	}
	var ticks []tick
	for ago := all; ago > 0; ago -= every {
		x := plotLeft + plotWidth*(1-float64(ago)/float64(all))
		ticks = append(ticks, tick{
			At: decimal(x) + "%", Text: "−" + strconv.Itoa(ago) + " " + unit, Anchor: "middle",
		})
	}
	return append(ticks, tick{At: decimal(plotLeft+plotWidth) + "%", Text: "now", Anchor: "end"})
}

// path draws values in a box of 1000 by 1000, and leaves gaps. A value alone is a dot.
func path(values []float64, top float64) string {
	var b strings.Builder
	open := false
	for i, v := range values {
		if math.IsNaN(v) {
			open = false
			continue
		}
		x := 1000 * (float64(i) + 0.5) / float64(len(values))
		y := 1000 * (1 - min(v/top, 1))
		alone := !open && (i+1 == len(values) || math.IsNaN(values[i+1]))
		b.WriteString(map[bool]string{true: "L", false: "M"}[open])
		b.WriteString(decimal(x) + " " + decimal(y))
		if alone {
			b.WriteString("h0")
		}
		open = true
	}
	return b.String()
}

// tableRows is how many rows the table of a chart has.
var tableRows = [spans]int{15, 24}

// table has the mean of each line by times, the newest first.
func table(lines []line, at span) [][]string {
	all, unit := 300, " s"
	if at == day {
		all, unit = 24, " h"
	}
	var rows [][]string
	for r := tableRows[at] - 1; r >= 0; r-- {
		row := []string{"−" + strconv.Itoa(all*(tableRows[at]-r)/tableRows[at]) + unit}
		for _, l := range lines {
			from := r * len(l.Values) / tableRows[at]
			to := (r + 1) * len(l.Values) / tableRows[at]
			row = append(row, number(mean(l.Values[from:to])))
		}
		rows = append(rows, row)
	}
	return rows
}

// mean of what is known, or NaN.
func mean(values []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / n // 0 / 0 is NaN
}

// decimal writes a coordinate.
func decimal(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// rate writes a number a second in the longest unit in which it is not tiny: 12.3/s, 3/hour.
func rate(v float64) string {
	name, seconds := "s", 1.0
	for _, u := range []struct {
		name    string
		seconds float64
	}{{"minute", 60}, {"hour", 3600}, {"day", 86_400}} {
		if !(v > 0 && v*seconds < 0.1) {
			break
		}
		name, seconds = u.name, u.seconds
	}
	return number(v*seconds) + "/" + name
}

// number writes a value of a chart or a tile in three digits: 0.05, 12.3, 1.23k. A value that is
// not known is a dash.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case a >= 1e15 || a > 0 && a < 5e-4:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, unit = v/1000, u
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64) + unit
}
