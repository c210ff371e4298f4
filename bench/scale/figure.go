package main

import (
	"bytes"
	"fmt"
	"html"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

const figureWidth, figureHeight = 10 * vg.Inch, 12.5 * vg.Inch

// draw writes the six panels into an SVG or a PNG file.
func (r *Report) draw(file string) error {
	panels := [][]*plot.Plot{
		{r.keysPanel(), r.goroutinesPanel()}, {r.holdersPanel(), r.kindsPanel()},
		{r.distancePanel(), r.severalPanel()},
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	tiles := draw.Tiles{
		Rows: 3, Cols: 2, PadX: 0.35 * vg.Inch, PadY: 0.3 * vg.Inch,
		PadTop: 0.15 * vg.Inch, PadBottom: 0.1 * vg.Inch,
		PadLeft: 0.1 * vg.Inch, PadRight: 0.2 * vg.Inch,
	}
	paint := func(c vg.CanvasSizer) {
		dc := draw.New(c)
		dc.FillPolygon(color.White,
			[]vg.Point{{}, {X: figureWidth}, {X: figureWidth, Y: figureHeight}, {Y: figureHeight}})
		for row := range panels {
			for col, p := range panels[row] {
				p.Add(backing{})
				p.Draw(tiles.At(dc, col, row))
			}
		}
	}
	switch filepath.Ext(file) {
	case ".svg":
		c := vgsvg.New(figureWidth, figureHeight)
		paint(c)
		var text bytes.Buffer
		if _, err = c.WriteTo(&text); err == nil {
			_, err = out.WriteString(anyFont(text.String()))
		}
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

// sans is the font of all texts.
var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

var svgText = regexp.MustCompile(
	`<text ([^>]*)font-family:Liberation Sans;([^>]*font-size:([0-9.]+)px[^>]*)>([^<]*)<`)

// anyFont lets a browser that has not this font take another one without serifs, and make each
// text as wide as was reckoned with.
func anyFont(svg string) string {
	return svgText.ReplaceAllStringFunc(svg, func(text string) string {
		part := svgText.FindStringSubmatch(text)
		size, err := strconv.ParseFloat(part[3], 64)
		if err != nil {
			return text // it is a number
		}
		face := font.DefaultCache.Lookup(sans, font.Length(size))
		width := face.Width(html.UnescapeString(part[4]))
		return fmt.Sprintf("<text textLength=\"%.1f\" lengthAdjust=\"spacingAndGlyphs\" "+
			"%sfont-family:'Liberation Sans',Arial,sans-serif;%s>%s<",
			width.Points(), part[1], part[2], part[4])
	})
}

// Colours that differ for colour-blind eyes, too (Okabe and Ito).
var (
	blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	orange = color.RGBA{0xd5, 0x5e, 0x00, 0xff}
	green  = color.RGBA{0x00, 0x9e, 0x73, 0xff}
	purple = color.RGBA{0xaa, 0x4a, 0x88, 0xff}
	grey   = color.RGBA{0x80, 0x80, 0x80, 0xff}

	bound  = color.RGBA{0xa0, 0x10, 0x10, 0xff}
	beyond = color.NRGBA{0xc0, 0x20, 0x20, 0x1c}
)

func panel(title, x, y string) *plot.Plot {
	plot.DefaultFont = sans
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

// A limit is a line across a panel where x is, with its name beside it. If it bounds what can
// be, the panel is shaded beyond it, and the name stands there.
type limit struct {
	x      float64
	name   string
	bounds bool
}

func (l limit) Plot(c draw.Canvas, p *plot.Plot) {
	trX, _ := p.Transforms(&c)
	x := trX(l.x)
	stroke := draw.LineStyle{Color: bound, Width: 1, Dashes: []vg.Length{2, 2}}
	c.StrokeLine2(stroke, x, c.Min.Y, x, c.Max.Y)
	name := p.Legend.TextStyle
	name.Color, name.Rotation, name.XAlign = bound, math.Pi/2, draw.XRight
	at := vg.Point{X: x - 4, Y: c.Max.Y - 5}
	if l.bounds {
		c.FillPolygon(beyond, []vg.Point{{X: x, Y: c.Min.Y}, {X: x, Y: c.Max.Y}, c.Max,
			{X: c.Max.X, Y: c.Min.Y}})
		name.XAlign, at = draw.XLeft, vg.Point{X: x + 13, Y: c.Min.Y + 5}
	}
	c.FillText(name, at, l.name)
}

// backing keeps what is drawn before it out of the legend.
type backing struct{}

func (backing) Plot(c draw.Canvas, p *plot.Plot) {
	size, at := p.Legend.Rectangle(c).Size(), c.Min // its place is not that of the legend
	if !p.Legend.Left {
		at.X = c.Max.X - size.X
	}
	if p.Legend.Top {
		at.Y = c.Max.Y - size.Y
	}
	to := at.Add(size)
	c.FillPolygon(color.NRGBA{0xff, 0xff, 0xff, 0xd8},
		[]vg.Point{at, {X: at.X, Y: to.Y}, to, {X: to.X, Y: at.Y}})
}

// shade is what is above a line, as beyond a limit.
type shade plotter.XYs

func (s shade) Plot(c draw.Canvas, p *plot.Plot) {
	if len(s) == 0 {
		return
	}
	trX, trY := p.Transforms(&c)
	area := []vg.Point{{X: trX(s[0].X), Y: c.Max.Y}}
	for _, at := range s {
		area = append(area, vg.Point{X: trX(at.X), Y: trY(at.Y)})
	}
	c.FillPolygon(beyond, append(area, vg.Point{X: trX(s[len(s)-1].X), Y: c.Max.Y}))
}

// logScale is a plot.LogScale, but for the mean of both ends. There plot believes an axis has its
// label, which it draws in the middle, and would leave room for one at the side.
type logScale struct{ plot.LogScale }

func (s logScale) Normalize(least, most, x float64) float64 {
	if x == 0.5*(most+least) {
		return 0.5
	}
	return s.LogScale.Normalize(least, most, x)
}

// logarithmic makes an axis so, with a tick for each of the marks.
func logarithmic(a *plot.Axis, marks []float64, label func(float64) string) {
	a.Scale = logScale{}
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
	return number(x)
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

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
