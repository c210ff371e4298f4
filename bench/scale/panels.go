package main

import (
	"fmt"
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/seed13b07268/ration/hybrid"
)

// The limits that the panels draw and that no package exports.
const (
	maxHolders = 65_535                 // of a key (TestLimits)
	timeout    = 250 * time.Millisecond // Config.Timeout by default (TestLimits)
	maxKeys    = 1_000_000              // Config.MaxKeys by default
)

// storeTime is the part of timeout that an exchange may take.
const storeTime = timeout / 8 * 7

func (r *Report) keysPanel() *plot.Plot {
	p := panel("More keys: slower, as memory is", "keys in use, asked for in turn",
		"ns per decision")
	var ration, control plotter.XYs
	for _, x := range r.Keys {
		ration = append(ration, plotter.XY{X: float64(x.Keys), Y: x.Ration})
		control = append(control, plotter.XY{X: float64(x.Keys), Y: x.Map})
	}
	logarithmic(&p.X, []float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6}, count)
	logarithmic(&p.Y, []float64{10, 100, 1e3, 1e4, 1e5}, count)
	p.X.Max = 2.5e6
	if n := len(r.Keys); n > 0 {
		each := r.Keys[n-1].RationBytes
		for _, c := range r.Caches {
			p.Add(limit{x: c.Bytes / each, name: fmt.Sprintf("L%d cache full", c.Level)})
		}
		p.Add(limit{
			x: maxKeys, bounds: true,
			name: fmt.Sprintf("MaxKeys by default: %.1f GB", maxKeys*each/1e9),
		})
	}
	line(p, "ration: Limiter.Allow", blue, false, ration)
	line(p, "map, RWMutex, rate.Limiter", orange, false, control)
	p.Legend.Top, p.Legend.Left = false, true
	return p
}

func (r *Report) holdersPanel() *plot.Plot {
	p := panel("More holders of a key: the same, up to a core",
		"processes that hold a lease of the key", "µs of Redis' CPU per exchange")
	var exchange, plain plotter.XYs
	for _, x := range r.Holders {
		exchange = append(exchange, plotter.XY{X: float64(x.Holders), Y: x.Alone[0]})
		plain = append(plain, plotter.XY{X: float64(x.Holders), Y: x.PlainAlone})
	}
	var below, above plotter.XYs
	for _, x := range r.Renewals {
		below = append(below, plotter.XY{X: float64(x.Processes), Y: 1e6 / x.Calls})
		above = append(above, plotter.XY{X: float64(x.Processes), Y: 1e6 / x.Overload})
	}
	logarithmic(&p.X, []float64{1, 10, 100, 1e3, 1e4, 1e5}, count)
	logarithmic(&p.Y, []float64{1, 10, 100, 1e3, 1e4, 1e5}, count)
	p.X.Max = 2e5
	p.Add(limit{x: maxHolders, name: "a key has 65,535 at most", bounds: true})
	p.Add(shade(below))
	line(p, "limit: a core of Redis, below the rate", bound, false, below)
	line(p, "limit: a core of Redis, at twice the rate", bound, true, above)
	line(p, "ration: an exchange", blue, false, exchange)
	line(p, "a plain token bucket's script", orange, false, plain)
	return p
}

func (r *Report) kindsPanel() *plot.Plot {
	p := panel("Other kinds: alike, a sliding window somewhat more",
		"processes that hold a lease of the key",
		"µs of Redis' CPU per exchange")
	lines := make([]plotter.XYs, len(leased))
	var plain plotter.XYs
	for _, x := range r.Holders {
		n := float64(x.Holders)
		for i, y := range x.Alone {
			lines[i] = append(lines[i], plotter.XY{X: n, Y: y})
		}
		plain = append(plain, plotter.XY{X: n, Y: x.PlainAlone})
	}
	p.Add(limit{x: maxHolders, name: "a key has 65,535 at most", bounds: true})
	for i, c := range []color.Color{blue, green, purple, grey} {
		line(p, "ration: "+leased[i].name, c, i == 3, lines[i])
	}
	line(p, "a plain token bucket", orange, false, plain)
	fromZero(p, 1.6)
	logarithmic(&p.X, []float64{1, 10, 100, 1e3, 1e4, 1e5}, count)
	p.X.Max = 2e5
	p.Legend.Left = true
	return p
}

func (r *Report) goroutinesPanel() *plot.Plot {
	procs := 0
	for _, x := range r.Goroutines {
		procs = max(procs, x.Procs)
	}
	p := panel("More goroutines: bounded by the cores", "goroutines",
		"million decisions/s, all together")
	var hot, apart, shared, each, clock plotter.XYs
	for _, x := range r.Goroutines {
		if n := float64(x.Goroutines); x.Procs == procs {
			hot = append(hot, plotter.XY{X: n, Y: x.Hot / 1e6})
			apart = append(apart, plotter.XY{X: n, Y: x.Apart / 1e6})
			shared = append(shared, plotter.XY{X: n, Y: x.Shared / 1e6})
			each = append(each, plotter.XY{X: n, Y: x.Each / 1e6})
			clock = append(clock, plotter.XY{X: n, Y: x.Clock / 1e6})
		}
	}
	if procs > 0 {
		p.Add(limit{x: float64(procs), name: fmt.Sprintf("%d cores", procs)})
	}
	p.Add(shade(clock))
	line(p, "limit: all cores read the clock", bound, true, clock)
	line(p, "ration: one hot key", blue, false, hot)
	line(p, "ration: a key each", green, false, apart)
	line(p, "one rate.Limiter", orange, false, shared)
	line(p, "a rate.Limiter each", grey, true, each)
	fromZero(p, 1.6)
	logarithmic(&p.X, []float64{1, 10, 100, 1000}, count)
	return p
}

func (r *Report) distancePanel() *plot.Plot {
	p := panel("Redis further away: only a new key waits", "round trip that is added, ms",
		"time to a decision, ms")
	var p50, p99, cold, plain plotter.XYs
	for _, x := range r.Distance {
		at := func(d time.Duration) plotter.XY {
			return plotter.XY{X: float64(x.Added) / 1e6, Y: float64(d) / 1e6}
		}
		p50, p99 = append(p50, at(x.P50)), append(p99, at(x.P99))
		cold, plain = append(cold, at(x.Cold)), append(plain, at(x.Plain))
	}
	p.Add(limit{
		x: float64(storeTime) / 1e6, bounds: true,
		name: fmt.Sprintf("Timeout by default, %v", timeout),
	})
	line(p, "ration: a new key's first, p50", green, false, cold)
	line(p, "a script for each, p50", orange, true, plain)
	line(p, "ration: hot key, p99", blue, true, p99)
	line(p, "ration: hot key, p50", blue, false, p50)
	logarithmic(&p.X, []float64{0.1, 1, 10, 100}, number)
	logarithmic(&p.Y, []float64{1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1000, 1e4}, number)
	p.X.Max = 400
	p.Legend.Left = true
	return p
}

func (r *Report) severalPanel() *plot.Plot {
	p := panel("Several limits for a request: a step, then their sum",
		"limits that a request has to pass", "ns per decision")
	colours := []color.Color{blue, green, purple, orange}
	p.Add(limit{x: hybrid.MaxAsks, name: "MaxAsks", bounds: true})
	for _, x := range r.Kinds {
		if x.Kind == slotsRow {
			line(p, "ration: "+x.Kind, grey, false, plotter.XYs{{X: 1, Y: x.One}})
			continue
		}
		points := plotter.XYs{{X: 1, Y: x.One}}
		for j, n := range several {
			if n > 1 {
				points = append(points, plotter.XY{X: float64(n), Y: x.All[j]})
			}
		}
		name := "ration: " + x.Kind
		if x.Kind == controlRow {
			name = x.Kind
		}
		line(p, name, colours[0], false, points)
		colours = colours[1:]
	}
	logarithmic(&p.X, []float64{1, 2, 4, 8, 16}, number)
	logarithmic(&p.Y, []float64{10, 100, 1e3, 1e4, 1e5}, count)
	p.X.Max = 20
	p.Legend.Left = true
	return p
}
