package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The parts of a scatter chart, in units of its viewBox.
const (
	plotLeft, plotRight = 44.0, 370.0
	plotTop, plotBottom = 50.0, 220.0
	edge                = 6.0   // keeps marks off the frame of the plot
	plainHeight         = 242.0 // of a chart whose names are not slanted

	barBase, barHeight = 38.0, 20.0 // of the bars above the plot
	letter             = 7.0        // mean width
	longestName        = 14         // letters of a slanted name
)

// scatter is a chart as the template writes it.
type scatter struct {
	Dimension string
	Counts    string // how many fall short
	Says      string // the chart in words
	Height    string
	Slanted   bool   // the names below
	Threshold string // its height; empty: not drawn
	X, Y      []tick
	Good      []mark
	Short     []mark // drawn last: they matter more
	Parts     []part

	below float64 // room for slanted names
}

type tick struct{ At, Text, Title string }

type mark struct {
	X, Y, Label string
	x, y        float64
}

// part is a fifth of the axis, or one of its names.
type part struct {
	X, Middle, Width, Y, Height string // of its bar
	Text, Title                 string
	share                       float64
}

func (v *view) addScatters() {
	if v.Scatters == nil || len(v.Scatters.Charts) == 0 {
		v.Scatters = nil
		return
	}
	s := v.Scatters
	// One vertical axis for all charts, so that they can be compared.
	low, high := 0.0, 0.0
	include := func(y float64) { low, high = min(low, y), max(high, y) }
	if drawable(s.Threshold) {
		v.Threshold = format(s.Threshold)
		include(s.Threshold)
	}
	for _, c := range s.Charts {
		for _, p := range c.Points {
			if c.fits(p) {
				include(p.Y)
			}
		}
	}
	y := newAxis(low, high, false)
	for _, c := range s.Charts {
		v.ScatterCharts = append(v.ScatterCharts, newScatter(s, c, y))
	}

	// Bars up to 100 % would not show a few percent, so the largest share has the longest.
	largest := 0.0
	for _, c := range v.ScatterCharts {
		for _, p := range c.Parts {
			largest = max(largest, p.share)
		}
	}
	for _, c := range v.ScatterCharts {
		for i := range c.Parts {
			p := &c.Parts[i]
			if p.share > 0 { // an empty bar says nothing
				height := barHeight * p.share / largest
				p.Y, p.Height = length(barBase-height), length(height)
			}
		}
	}
}

// drawable tells whether v can be placed: beyond 1e100 a difference might not be finite.
func drawable(v float64) bool { return math.Abs(v) <= 1e100 }

// fits tells whether p has a place in the chart.
func (c Scatter) fits(p ScatterPoint) bool {
	switch {
	case !drawable(p.X) || !drawable(p.Y):
		return false
	case len(c.Names) > 0:
		return p.X >= 0 && p.X < float64(len(c.Names)) && p.X == math.Trunc(p.X)
	}
	return !c.Log || p.X > 0
}

func newScatter(s *Scatters, c Scatter, y axis) scatter {
	out := scatter{Dimension: c.Dimension, Height: length(plainHeight)}
	x := c.axis()
	all, short := out.addMarks(c, x, y)
	if len(out.Good)+len(out.Short) == 0 {
		return out
	}
	if drawable(s.Threshold) {
		out.Threshold = length(y.up(s.Threshold))
	}
	out.addTicks(x, y)
	if len(c.Names) > 0 {
		out.addNames(c.Names, x)
		out.Height = length(plainHeight + out.below)
	}
	out.addParts(c, x, all, short)
	says := []string{fmt.Sprintf("%s against %s: %s", s.Value, c.Dimension, out.Counts)}
	for _, bar := range out.Parts {
		says = append(says, bar.Title)
	}
	out.Says = strings.Join(says, "; ") + "."
	return out
}

// addMarks adds the points. It returns how many are in each part of the axis, and how many of these
// fall short.
func (out *scatter) addMarks(c Scatter, x, y axis) (all, short []int) {
	parts := 5
	if len(c.Names) > 0 {
		parts = len(c.Names)
	}
	all, short = make([]int, parts), make([]int, parts)
	missing, missingShort := 0, 0
	for i, p := range c.Points {
		if !c.fits(p) {
			missing++
			if p.Short {
				missingShort++
			}
			continue
		}
		n := min(int(x.part(p.X)*float64(parts)), parts-1)
		all[n]++
		if len(c.Names) > 0 {
			// Multiples of the golden ratio fill the width evenly, and always alike.
			_, f := math.Modf(float64(i) * math.Phi)
			p.X += 0.8 * (f - 0.5)
		}
		m := mark{Label: p.Label, x: x.across(p.X), y: y.up(p.Y)}
		if p.Short {
			short[n]++
			out.Short = append(out.Short, m)
		} else {
			out.Good = append(out.Good, m)
		}
	}
	var taken [][2]float64
	for _, marks := range [][]mark{out.Short, out.Good} { // what matters more is moved less
		for i := range marks {
			taken = append(taken, marks[i].beside(taken))
		}
	}
	drawn := len(out.Good) + len(out.Short)
	out.Counts = fmt.Sprintf("%d of %d fall short", len(out.Short), drawn)
	if missing > 0 {
		out.Counts += fmt.Sprintf("; %d cannot be drawn, %d of them short", missing, missingShort)
	}
	return all, short
}

// addTicks adds the numbers beside the axes.
func (out *scatter) addTicks(x, y axis) {
	for _, t := range y.ticks {
		out.Y = append(out.Y, tick{At: length(y.up(t)), Text: tickText(t)})
	}
	free := 0.0 // from where on the axis has room for a number
	for _, t := range x.ticks {
		text, at := tickText(t), x.across(t)
		if half := letter * float64(len(text)) / 2; at-half >= free {
			out.X = append(out.X, tick{At: length(at), Text: text})
			free = at + half + letter/2
		}
	}
}

// addParts adds a bar for each part of the axis that has points.
func (out *scatter) addParts(c Scatter, x axis, all, short []int) {
	parts := len(all)
	width := (plotRight - plotLeft - 2*edge) / float64(parts)
	for n := range all {
		if all[n] == 0 {
			continue
		}
		left := plotLeft + edge + float64(n)*width
		name := fmt.Sprintf("%s to %s", bound(x.value(n, parts)), bound(x.value(n+1, parts)))
		if len(c.Names) > 0 {
			name = c.Names[n]
		}
		bar := part{
			X: length(left + 1), Middle: length(left + width/2), Width: length(max(1, width-2)),
			share: float64(short[n]) / float64(all[n]),
			Title: fmt.Sprintf("%s: %d of %d fall short", name, short[n], all[n]),
		}
		if text := wholePercent(short[n], all[n]); float64(len(text))*letter < width {
			bar.Text = text
		}
		out.Parts = append(out.Parts, bar)
	}
}

// beside places a mark as near to where it belongs as it lies on no other, on a spiral, but
// no farther than a tenth of the plot.
func (m *mark) beside(taken [][2]float64) [2]float64 {
	const width, tries, golden = 5.5, 120, 2.39996 // golden is an angle
	hidden := func(at [2]float64) bool {
		return at[0] < plotLeft || at[0] > plotRight || at[1] < plotTop || at[1] > plotBottom ||
			slices.ContainsFunc(taken, func(other [2]float64) bool {
				x, y := at[0]-other[0], at[1]-other[1]
				return float64(x*x)+float64(y*y) < width*width
			})
	}
	own := [2]float64{m.x, m.y}
	at := own
	for n := 1; n <= tries && hidden(at); n++ {
		at = own // if no place is free
		if n < tries {
			far, turn := 0.62*width*math.Sqrt(float64(n)), golden*float64(n)
			at = [2]float64{m.x + float64(far*math.Cos(turn)), m.y + float64(far*math.Sin(turn))}
		}
	}
	m.X, m.Y = length(at[0]), length(at[1])
	return at
}

// addNames writes names below the plot, slanted if one is wider than its place.
func (s *scatter) addNames(names []string, x axis) {
	longest := 0
	for _, name := range names {
		longest = max(longest, utf8.RuneCountInString(name))
	}
	if place := (plotRight - plotLeft) / float64(len(names)); letter*float64(longest) > place {
		s.Slanted = true
		longest = min(longest, longestName)
		s.below = letter * float64(longest) * math.Sqrt2 / 2
	}
	for i, name := range names {
		text := name
		if r := []rune(name); len(r) > longest {
			text = string(r[:longest-1]) + "…"
		}
		s.X = append(s.X, tick{At: length(x.across(float64(i))), Text: text, Title: name})
	}
}

func (c Scatter) axis() axis {
	if n := len(c.Names); n > 0 {
		return axis{lo: -0.5, hi: float64(n) - 0.5}
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range c.Points {
		if c.fits(p) {
			low, high = min(low, p.X), max(high, p.X)
		}
	}
	return newAxis(low, high, c.Log) // not used if there is no point
}

// wholePercent does not write 0 % or 100 % of what is nearly so.
func wholePercent(n, all int) string {
	p := math.Round(100 * float64(n) / float64(all))
	switch {
	case n == 0 || n == all:
	case p == 0:
		return "<1 %"
	case p == 100:
		return ">99 %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// length writes a length: a tenth of a unit is less than a screen shows, and short.
func length(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

func (a axis) across(v float64) float64 {
	return plotLeft + edge + a.part(v)*(plotRight-plotLeft-2*edge)
}

func (a axis) up(v float64) float64 {
	return plotBottom - edge - a.part(v)*(plotBottom-plotTop-2*edge)
}
