package report

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/simtest"
)

var (
	scatterElement = regexp.MustCompile(`(?s)<svg class="scatter".*?</svg>`)
	goodMark       = regexp.MustCompile(`<circle cx="([^"]*)" cy="([^"]*)" r="3">`)
	shortMark      = regexp.MustCompile(`<path d="M([^ ]*) (\S*)m0-4l4 7h-8z">`)
)

func scatters(t *testing.T, s Scatters) []string {
	t.Helper()
	return scatterElement.FindAllString(string(write(t, Page{Scatters: &s})), -1)
}

// What has no place is left out, and the reader is told.
func TestScatterLeavesOut(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	odd := []ScatterPoint{
		{X: nan, Y: 1}, {X: inf, Y: 1}, {X: -inf, Y: 1}, {X: 1, Y: nan, Short: true},
		{X: 1, Y: inf, Short: true}, {X: 1, Y: -inf}, {X: 1e200, Y: 1}, {X: 1, Y: math.MaxFloat64},
	}
	with := func(more ...ScatterPoint) []ScatterPoint { return append(slices.Clone(odd), more...) }
	out := string(write(t, Page{Scatters: &Scatters{Value: "lost (%)", Charts: []Scatter{
		{Dimension: "linear", Points: with(
			ScatterPoint{X: -1, Y: 2}, ScatterPoint{X: 0, Y: 3, Short: true})},
		{Dimension: "log", Log: true, Points: with(
			ScatterPoint{X: -1, Y: 2}, ScatterPoint{X: 0, Y: 3, Short: true},
			ScatterPoint{X: 10, Y: 2}, ScatterPoint{X: 1000, Y: 2, Short: true})},
		{Dimension: "names", Log: true, Names: []string{"a", "b"}, Points: []ScatterPoint{
			{X: -1, Y: 1}, {X: 2, Y: 1}, {X: 0.5, Y: 1}, {X: nan, Y: 1}, {X: 0, Y: 1}, {X: 1, Y: 1}}},
		{Dimension: "nothing", Points: odd},
	}}}))
	charts := scatterElement.FindAllString(out, -1)
	if len(charts) != 3 {
		t.Fatalf("%d charts, want 3: one has no point", len(charts))
	}
	for i, want := range []struct {
		good, short int
		says        string
	}{
		{1, 1, "lost (%) against linear: 1 of 2 fall short; 8 cannot be drawn, 2 of them short; " +
			"-1 to -0.8: 0 of 1 fall short; -0.2 to 0: 1 of 1 fall short."},
		{1, 1, "lost (%) against log: 1 of 2 fall short; 10 cannot be drawn, 3 of them short; " +
			"10 to 25.1: 0 of 1 fall short; 398 to 1k: 1 of 1 fall short."},
		{2, 0, "lost (%) against names: 0 of 2 fall short; 4 cannot be drawn, 0 of them short; " +
			"a: 0 of 1 fall short; b: 0 of 1 fall short."},
	} {
		good := len(goodMark.FindAllString(charts[i], -1))
		short := len(shortMark.FindAllString(charts[i], -1))
		if good != want.good || short != want.short {
			t.Errorf("chart %d: %d and %d marks, want %+v", i, good, short, want)
		}
		head := `role="img" aria-label="` + html.EscapeString(want.says) + `"`
		simtest.Has(t, fmt.Sprint("chart ", i), charts[i], head)
		if m := regexp.MustCompile(`NaN|Inf|style=`).FindString(charts[i]); m != "" {
			t.Errorf("chart %d has %s", i, m)
		}
	}
	simtest.Has(t, "the chart without points", out, "0 of 0 fall short; 8 cannot be drawn, 2 of them short")
}

func TestScatterHostileText(t *testing.T) {
	const evil = `</title></svg><script>x</script>"'<img src=x>`
	names := []string{evil, "a"}
	chart := Scatter{Dimension: evil, Names: names, Points: []ScatterPoint{{0, 1, evil, true}}}
	for _, svg := range scatters(t, Scatters{Value: evil, Charts: []Scatter{chart}}) {
		simtest.Lacks(t, "text as markup", svg, "<script", "<img")
		title := regexp.MustCompile(`h-8z"><title>(.*?)</title>`).FindStringSubmatch(svg)
		if title == nil || html.UnescapeString(title[1]) != evil {
			t.Errorf("tooltip %q, want %q", title, evil)
		}
	}
}

// Points of the same name and value lie side by side, within the name's place, and where
// they lay before.
func TestScatterJitter(t *testing.T) {
	chart := Scatter{Dimension: "outage", Names: []string{"none", "one"}}
	for i := range 40 {
		chart.Points = append(chart.Points, ScatterPoint{X: float64(i % 2), Y: 1})
	}
	s := Scatters{Charts: []Scatter{chart}}
	first := scatters(t, s)[0]
	if first != scatters(t, s)[0] {
		t.Error("the same points are drawn differently")
	}
	seen := map[string]bool{}
	for i, m := range goodMark.FindAllStringSubmatch(first, -1) {
		var x float64
		fmt.Sscan(m[1], &x)
		if middle := (plotLeft + plotRight) / 2; (x > middle) != (i%2 == 1) {
			t.Errorf("point %d at %v is not with its name", i, x)
		}
		seen[m[1]] = true
	}
	if len(seen) != 40 {
		t.Errorf("%d places of 40 points", len(seen))
	}
}

func TestScatterTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		log       bool
		want      string
	}{
		{0, 10.5, false, "0 2 4 6 8 10"},
		{0, 1, false, "0 0.2 0.4 0.6 0.8 1"},
		{-3, 12, false, "0 5 10"},
		{0, 0, false, "0 0.2 0.4 0.6 0.8 1"},
		{7, 7, false, "4 6 8 10"},
		{0, 1e6, false, "0 200k 400k 600k 800k 1M"},
		{1, 500, true, "1 2 5 10 20 50 100 200 500"},
		{10, 100_000, true, "10 100 1k 10k 100k"},
		{1e-4, 1e12, true, "0.001 1 1k 1M 1G 1T"},
		{50, 50, true, "20 50 100"},
		{3, 4.4, true, "3 3.5 4"},
	} {
		a := newAxis(c.low, c.high, c.log)
		var got []string
		for _, tick := range a.ticks {
			got = append(got, tickText(tick))
			if p := a.part(tick); !(p > -1e-6 && p < 1+1e-6) {
				t.Errorf("%v: %v is at %v of the axis", c, tick, p)
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v: got %v", c, got)
		}
	}
}

// However odd the values, every mark lies in the plot and no axis is full of ticks.
func FuzzAxis(f *testing.F) {
	f.Add(0.0, 0.0, false)
	f.Add(5e-324, 1e100, true)
	f.Add(-1e100, 1e100, false)
	f.Add(1.0, 1.0000000001, true)
	f.Fuzz(func(t *testing.T, low, high float64, log bool) {
		low, high = min(low, high), max(low, high)
		if !drawable(low) || !drawable(high) || log && low <= 0 {
			return // Scatters leaves such points out (TestScatterLeavesOut)
		}
		a := newAxis(low, high, log)
		if n := len(a.ticks); n < 2 || n > 10 {
			t.Errorf("%v to %v: ticks %v", low, high, a.ticks)
		}
		for _, v := range []float64{low, high} {
			if p := a.part(v); !(p >= 0 && p <= 1) {
				t.Errorf("%v to %v: %v is at %v", low, high, v, p)
			}
		}
	})
}

func TestWholePercent(t *testing.T) {
	for want, c := range map[string][2]int{
		"0 %": {0, 9}, "<1 %": {1, 999}, "33 %": {1, 3}, ">99 %": {998, 999}, "100 %": {9, 9},
	} {
		if got := wholePercent(c[0], c[1]); got != want {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
}

// Points at one place are told apart, and none is moved far.
func TestScatterApart(t *testing.T) {
	var points []ScatterPoint
	for i := range 30 {
		points = append(points, ScatterPoint{X: 1, Y: 0, Short: i < 5})
	}
	points = append(points, ScatterPoint{X: 9, Y: 8})
	svg := scatters(t, Scatters{Charts: []Scatter{{Dimension: "keys", Points: points}}})[0]
	seen := map[string]bool{}
	left, low := plotLeft+edge, plotBottom-edge // where X 1 and Y 0 are
	for _, marks := range [][][]string{
		goodMark.FindAllStringSubmatch(svg, -1), shortMark.FindAllStringSubmatch(svg, -1),
	} {
		for _, m := range marks {
			x, errX := strconv.ParseFloat(m[1], 64)
			y, errY := strconv.ParseFloat(m[2], 64)
			far := math.Hypot(x-left, y-low)
			if errX != nil || errY != nil || seen[m[1]+" "+m[2]] || far > 38 && far < 300 {
				t.Errorf("a mark at %s %s, %.0f from its place", m[1], m[2], far)
			}
			seen[m[1]+" "+m[2]] = true
		}
	}
	if len(seen) != 31 {
		t.Errorf("%d places of 31 points", len(seen))
	}
	if n := strings.Count(svg, `class="track"`); n != 1 {
		t.Errorf("%d bars, want that of the part where any fall short", n)
	}
}
