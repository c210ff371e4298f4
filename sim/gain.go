package main

import (
	"fmt"
	"math"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/measure"
)

// A gain is what the recommended policy has over another one, on the same requests.
type gain struct {
	Over  string `json:"over"` // whose policy it is
	Label string `json:"label"`

	// Calls is the part of its calls that is saved, below 0 if more are needed. The others
	// are paired differences, above 0 if the recommended policy has more.
	Calls       float64          `json:"calls_saved"`
	Utilisation measure.Interval `json:"utilisation"`
	Fairness    measure.Interval `json:"fairness"`

	text string
}

// compare says what is gained over the scenario's own policy, over classic batches and
// over a call for each request, and warns of policies that cost more than the last.
func (t *tuning) compare() {
	own := first(t.Candidates, func(c *candidate) bool { return c.Own })
	each, batches := t.in(lease.PerRequest), t.in(lease.Batches)
	for _, x := range []struct {
		over string
		c    *candidate
	}{{"your policy", own}, {"classic batches", batches}, {"a call for each request", each}} {
		if t.best != nil && x.c != nil {
			t.Gains = append(t.Gains, gainOver(x.over, x.c, t.best))
		}
	}
	if each == nil {
		return
	}
	for _, c := range t.Candidates {
		c.Dear = c != each && surely(calls, c, each)
	}
	for _, x := range []struct {
		whose string
		c     *candidate
	}{{"The recommended policy", t.best}, {"Your policy", own}} {
		if x.c != nil && x.c.Dear {
			t.Warnings = append(t.Warnings, dearText(x.whose, x.c.mean(calls), each.mean(calls)))
		}
	}
}

// in is the first candidate in a mode, or nil.
func (t *tuning) in(mode lease.Mode) *candidate {
	return first(t.Candidates, func(c *candidate) bool { return c.Policy.Mode == mode })
}

func gainOver(over string, c, best *candidate) gain {
	g := gain{
		Over: over, Label: c.Label,
		Utilisation: utilisation.difference(c.variant, best.variant),
		Fairness:    fairness.difference(c.variant, best.variant),
	}
	n := min(len(c.variant.Results), len(best.variant.Results))
	if than := c.until(n).mean(calls); than > 0 {
		g.Calls = 1 - best.until(n).mean(calls)/than
	}
	if c == best {
		g.text = fmt.Sprintf("is %s", over)
		return g
	}
	subject := over
	if c.Classic && c.Policy.Mode == lease.Batches {
		subject = c.Label
	}
	text := []string{fmt.Sprintf("needs %s %s (%s a request)", g.callsText(), subject,
		four(c.mean(calls)))}
	for _, x := range []struct {
		verb string
		sign float64
	}{{"costs", -1}, {"gains", 1}} {
		if points := g.points(x.sign); len(points) > 0 {
			text = append(text, x.verb+" "+listed(points))
		}
	}
	if len(text) == 1 {
		text[0] += ", with as much utilisation and fairness"
	}
	g.text = listed(text)
	return g
}

// callsText is how many calls, up to the policy that they are held against.
func (g *gain) callsText() string {
	switch part := math.Round(100 * g.Calls); {
	case part == 100: // not all of them
		return fmt.Sprintf("%.1f %% fewer calls than", math.Floor(1000*g.Calls)/10)
	case part > 0:
		return fmt.Sprintf("%.0f %% fewer calls than", part)
	case part < 0:
		return fmt.Sprintf("%.0f %% more calls than", -part)
	}
	return "as many calls as"
}

// points are the figures in which a gain has the sign, in hundredths.
func (g *gain) points(sign float64) (text []string) {
	for _, f := range []struct {
		name string
		by   float64
	}{{"utilisation", g.Utilisation.Mean}, {"fairness", g.Fairness.Mean}} {
		if by := fmt.Sprintf("%.1f", 100*sign*f.by); sign*f.by > 0 && by != "0.0" {
			text = append(text, fmt.Sprintf("%s points of %s", by, f.name))
		}
	}
	return text
}

// gainsText is a sentence for each.
func (t *tuning) gainsText() (lines []string) {
	for _, g := range t.Gains {
		lines = append(lines, "It "+g.text+".")
	}
	return lines
}
