package report

import (
	"fmt"
	"math"
	"strings"
)

// sweepPanel is a chart of one figure as the template writes it.
type sweepPanel struct {
	scatter
	Note string
	Line string // of the means: a path, in pieces where one is not known
	Bars []bar
}

// panelTop is the room for bars above a scatter, which a panel has not.
const panelTop = 40.0

// bar is an interval around a mean.
type bar struct{ X, Y, Low, High, Label string }

func (v *view) addSweep() {
	if v.Sweep == nil || len(v.Sweep.Values) == 0 {
		v.Sweep = nil
		return
	}
	for _, c := range v.Sweep.Charts {
		if p, ok := newPanel(v.Sweep, c); ok {
			v.SweepPanels = append(v.SweepPanels, p)
		}
	}
	if len(v.SweepPanels) == 0 {
		v.Sweep = nil
	}
}

// newPanel places a figure, unless none of its means is known, or all are 0.
func newPanel(s *Sweep, c SweepChart) (p sweepPanel, ok bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for i := range s.Values {
		for _, y := range []float64{at(c.Mean, i), at(c.Low, i), at(c.High, i)} {
			if drawable(y) {
				low, high = min(low, y), max(high, y)
			}
		}
	}
	if low > high || low == 0 && high == 0 { // a line of nothing says nothing
		return p, false
	}
	y := newAxis(low, high, low > 0 && high > 20*low)
	x := axis{lo: -0.5, hi: float64(len(s.Values)) - 0.5}
	p.Dimension, p.Note = c.Name, c.Note
	for _, t := range y.ticks {
		p.Y = append(p.Y, tick{At: length(y.up(t)), Text: tickText(t)})
	}
	p.addNames(s.Values, x)
	p.Height = length(plainHeight - panelTop + p.below)

	var says []string
	joined := false
	for i, name := range s.Values {
		mean := at(c.Mean, i)
		if !drawable(mean) {
			joined = false
			continue
		}
		b := bar{X: length(x.across(float64(i))), Y: length(y.up(mean))}
		b.Label = name + ": " + format(mean)
		if l, h := at(c.Low, i), at(c.High, i); drawable(l) && drawable(h) && l < h {
			b.Low, b.High = length(y.up(l)), length(y.up(h))
			b.Label += fmt.Sprintf(" (%s to %s)", format(l), format(h))
		}
		p.Bars = append(p.Bars, b)
		says = append(says, b.Label)
		p.Line += map[bool]string{false: "M", true: "L"}[joined] + b.X + " " + b.Y
		joined = true
	}
	p.Says = fmt.Sprintf("%s by %s: %s.", c.Name, s.Over, strings.Join(says, "; "))
	return p, true
}
