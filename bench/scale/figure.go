package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const figureWidth, figureHeight = 10 * vg.Inch, 8 * vg.Inch

// draw writes the four panels into an SVG or a PNG file.
func (r *Report) draw(file string) error {
	panels := [][]*plot.Plot{
		{r.keysPanel(), r.holdersPanel()}, {r.goroutinesPanel(), r.distancePanel()},
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	tiles := draw.Tiles{
		Rows: 2, Cols: 2, PadX: 0.35 * vg.Inch, PadY: 0.3 * vg.Inch,
		PadTop: 0.15 * vg.Inch, PadBottom: 0.1 * vg.Inch,
		PadLeft: 0.1 * vg.Inch, PadRight: 0.2 * vg.Inch,
	}
	paint := func(c vg.CanvasSizer) {
		dc := draw.New(c)
		dc.FillPolygon(color.White,
			[]vg.Point{{}, {X: figureWidth}, {X: figureWidth, Y: figureHeight}, {Y: figureHeight}})
		canvases := plot.Align(panels, tiles, dc)
		for i := range panels {
			for j, p := range panels[i] {
				p.Draw(canvases[i][j])
			}
		}
	}
	switch filepath.Ext(file) {
	case ".svg":
		c := vgsvg.New(figureWidth, figureHeight)
		paint(c)
		_, err = c.WriteTo(out)
	case ".png":
		c := vgimg.PngCanvas{Canvas: vgimg.New(figureWidth, figureHeight)}
		paint(c)
		_, err = c.WriteTo(out)
	default:
		return fmt.Errorf("%s is neither an .svg nor a .png", file)
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// Colours that differ for colour-blind eyes, too (Okabe and Ito).
var (
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	grey   = color.RGBA{0x80, 0x80, 0x80, 0xff}
)

func panel(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.TextStyle.Font.Size, p.Title.Padding = 13, 8
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font.Size, a.Tick.Label.Font.Size = 11, 10
		a.Label.Padding = 4
	}
	p.Legend.Top, p.Legend.TextStyle.Font.Size, p.Legend.Padding = true, 10, 2
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(grid)
	return p
}

// line adds a line with points. A panel that was not measured stays empty.
func line(p *plot.Plot, name string, c color.Color, dashed bool, points plotter.XYs) {
	if len(points) == 0 {
		return
	}
	l, s, err := plotter.NewLinePoints(points)
	if err != nil {
		return // a figure that is not a number
	}
	l.Color, s.Color = c, c
	l.Width, s.Radius, s.Shape = 1.6, 2.6, draw.CircleGlyph{}
	if dashed {
		l.Dashes = []vg.Length{5, 3}
	}
	p.Add(l, s)
	p.Legend.Add(name, l, s)
}

// logarithmic makes an axis so, with a tick for each of the marks.
func logarithmic(a *plot.Axis, marks []float64, label func(float64) string) {
	a.Scale = plot.LogScale{}
	ticks := make(plot.ConstantTicks, 0, len(marks))
	for _, m := range marks {
		ticks = append(ticks, plot.Tick{Value: m, Label: label(m)})
	}
	a.Tick.Marker = ticks
	a.Min, a.Max = marks[0], marks[len(marks)-1]
}

func count(x float64) string {
	switch {
	case x >= 1e6:
		return strconv.FormatFloat(x/1e6, 'g', -1, 64) + "M"
	case x >= 1e3:
		return strconv.FormatFloat(x/1e3, 'g', -1, 64) + "k"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// fromZero makes an axis that begins at 0, with room above for the legend.
func fromZero(p *plot.Plot, room float64) {
	p.Y.Min = 0
	p.Y.Max = max(p.Y.Max, 1e-9) * room
	step := math.Pow(10, math.Floor(math.Log10(p.Y.Max/2)))
	for _, k := range []float64{5, 2} {
		if p.Y.Max/(k*step) >= 4 {
			step *= k
			break
		}
	}
	var ticks plot.ConstantTicks
	for y := 0.0; y <= p.Y.Max; y += step {
		ticks = append(ticks, plot.Tick{Value: y, Label: strconv.FormatFloat(y, 'g', -1, 64)})
	}
	p.Y.Tick.Marker = ticks
}

func (r *Report) keysPanel() *plot.Plot {
	p := panel("A warm decision, by keys in use", "keys", "ns per decision")
	var ration, control, pick plotter.XYs
	for _, x := range r.Keys {
		ration = append(ration, plotter.XY{X: float64(x.Keys), Y: x.Ration})
		control = append(control, plotter.XY{X: float64(x.Keys), Y: x.Map})
		pick = append(pick, plotter.XY{X: float64(x.Keys), Y: x.Pick})
	}
	line(p, "ration: Limiter.Allow", blue, false, ration)
	line(p, "map, RWMutex, rate.Limiter", orange, false, control)
	line(p, "of both: picking the key", grey, true, pick)
	fromZero(p, 1.1)
	logarithmic(&p.X, []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}, count)
	p.Legend.Left = true
	return p
}

func (r *Report) holdersPanel() *plot.Plot {
	p := panel("A script in the server, by holders of a key",
		"processes that hold a lease of the key", "µs of the server's CPU")
	var exchange, plain plotter.XYs
	for _, x := range r.Holders {
		exchange = append(exchange, plotter.XY{X: float64(x.Holders), Y: x.Exchange})
		plain = append(plain, plotter.XY{X: float64(x.Holders), Y: x.Plain})
	}
	line(p, "ration: an exchange", blue, false, exchange)
	line(p, "a plain token bucket", orange, false, plain)
	fromZero(p, 1.3)
	logarithmic(&p.X, []float64{1, 8, 64, 500, 2000}, count)
	p.Legend.Left = true
	return p
}

func (r *Report) goroutinesPanel() *plot.Plot {
	procs := 0
	for _, x := range r.Goroutines {
		procs = max(procs, x.Procs)
	}
	p := panel(fmt.Sprintf("Decisions by goroutines, on %d cores", procs), "goroutines",
		"million decisions/s")
	var hot, apart, shared, each plotter.XYs
	for _, x := range r.Goroutines {
		if n := float64(x.Goroutines); x.Procs == procs {
			hot = append(hot, plotter.XY{X: n, Y: x.Hot / 1e6})
			apart = append(apart, plotter.XY{X: n, Y: x.Apart / 1e6})
			shared = append(shared, plotter.XY{X: n, Y: x.Shared / 1e6})
			each = append(each, plotter.XY{X: n, Y: x.Each / 1e6})
		}
	}
	line(p, "ration: one hot key", blue, false, hot)
	line(p, "ration: a key each", green, false, apart)
	line(p, "one rate.Limiter", orange, false, shared)
	line(p, "a rate.Limiter each", grey, true, each)
	fromZero(p, 1.5)
	logarithmic(&p.X, []float64{1, 2, 4, 16, 64, 256}, count)
	return p
}

func (r *Report) distancePanel() *plot.Plot {
	p := panel("Time to a decision, by distance of Redis", "round trip, ms", "µs")
	var p50, p99, cold, plain plotter.XYs
	least, most := math.Inf(1), 0.0
	for _, x := range r.Distance {
		trip := float64(x.Plain) / 1e6
		least, most = min(least, trip), max(most, trip)
		p50 = append(p50, plotter.XY{X: trip, Y: float64(x.P50) / 1e3})
		p99 = append(p99, plotter.XY{X: trip, Y: float64(x.P99) / 1e3})
		cold = append(cold, plotter.XY{X: trip, Y: float64(x.Cold) / 1e3})
		plain = append(plain, plotter.XY{X: trip, Y: float64(x.Plain) / 1e3})
	}
	line(p, "ration: a new key's first, p50", green, false, cold)
	line(p, "a script each, p50", orange, true, plain)
	line(p, "ration: hot key, p99", blue, true, p99)
	line(p, "ration: hot key, p50", blue, false, p50)
	logarithmic(&p.Y, []float64{0.01, 0.1, 1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7}, count)
	logarithmic(&p.X, []float64{0.1, 1, 10, 100, 1000},
		func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) })
	if len(r.Distance) > 0 {
		p.X.Min, p.X.Max = min(0.1, least), max(most*1.2, 1)
		if p.X.Max < 1000 {
			p.X.Tick.Marker = p.X.Tick.Marker.(plot.ConstantTicks)[:4]
		}
	}
	p.Legend.Left = true
	return p
}
