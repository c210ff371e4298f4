package main

import (
	"cmp"
	"math"
	"slices"

	"github.com/seed13b07268/ration/sim/scenario"
)

// constraints are what a recommended policy must keep.
type constraints struct {
	MaxCalls       float64 `json:"max_calls"` // 0 is none
	MinFairness    float64 `json:"min_fairness"`
	MinUtilisation float64 `json:"min_utilisation"`
	MinFloors      float64 `json:"min_floors,omitempty"` // only with classes

	// Chosen are those that were not given: half a hundredth below the best
	// lease that keeps the others. (Not below the classic policies: their last
	// per cent costs ten times as many calls, which nobody means who says
	// nothing.)
	Chosen []string `json:"chosen"`

	given []string // flags on the command line: 0 may be meant
}

// slack is how far below the best a constraint is set that was not given.
const slack = 0.005

// steep is how many times in a slack the price of a constraint grows e times.
const steep = 20

// telling is how many values an interval needs that is not mostly ignorance.
const telling = 10

const (
	maxCalls    = "-max-calls"
	minFairness = "-min-fairness"
	minUtil     = "-min-util"
	minFloors   = "-min-floors"
	promise     = "the envelope" // the worst excess is above what is promised
)

// A bound is one of the constraints: so much of a figure at least, or so many calls at most.
type bound struct {
	name, usage string // of its flag
	figure      figure
	of          func(*constraints) *float64
	most        float64 // that can be asked for
	text        string
}

var (
	ofCalls = bound{maxCalls, "at most `X` calls of Redis per request", calls,
		func(l *constraints) *float64 { return &l.MaxCalls }, 1e6, "at most %.4g calls per request"}
	ofFairness = bound{minFairness, "Jain's index of admitted / fair share at least `X`, 0 to 1",
		fairness, func(l *constraints) *float64 { return &l.MinFairness }, 1, "fairness at least %.4g"}
	ofUtil = bound{minUtil, "utilisation at least `X`, 0 to 1", utilisation,
		func(l *constraints) *float64 { return &l.MinUtilisation }, 1, "utilisation at least %.4g"}
	ofFloors = bound{minFloors,
		"the part of floors that is honoured, of the class that fares worst, at least `X`, 0 to 1",
		honoured, func(l *constraints) *float64 { return &l.MinFloors }, 1,
		"floors honoured to at least %.4g"}

	bounds = []bound{ofCalls, ofFairness, ofUtil, ofFloors}
	minima = bounds[1:]
)

// missed reports whether a candidate misses the bound, or may miss it.
func (b *bound) missed(l *constraints, c *candidate) bool {
	x := *b.of(l)
	if b.name == maxCalls {
		return x > 0 && c.mean(calls) > x
	}
	return x > 0 && c.sure(b.figure) < x
}

// choose sets the constraints that were not given.
func (t *tuning) choose() {
	limits := &t.Constraints
	limits.Chosen = []string{}
	best := func(f figure) float64 {
		var lease, any float64
		for _, c := range t.Candidates {
			if len(limits.fails(c)) > 0 {
				continue
			}
			any = max(any, c.mean(f))
			if !c.Classic {
				lease = max(lease, c.mean(f))
			}
		}
		return cmp.Or(lease, any)
	}
	for _, b := range []bound{ofUtil, ofFairness, ofFloors} {
		x := b.of(limits)
		if *x != 0 || slices.Contains(limits.given, b.name) ||
			b.name == minFloors && !slices.ContainsFunc(t.Candidates, (*candidate).classed) {
			continue
		}
		if m := best(b.figure); m > 0 {
			limits.Chosen = append(limits.Chosen, b.name)
			*x = scenario.Round(math.Floor((m-slack)*1e4)/1e4, 4)
		}
	}
}

// fails are the constraints that a candidate does not keep.
func (l *constraints) fails(c *candidate) []string {
	fails := []string{}
	for _, b := range bounds {
		if b.missed(l, c) {
			fails = append(fails, b.name)
		}
	}
	if worst, allowed := worstExcess(c.variant); worst > allowed {
		fails = append(fails, promise)
	}
	return fails
}

// sure is a figure that a candidate surely has: the lower end of its 95 % interval. That of
// few values is mostly ignorance, and the mean stands for it.
func (c *candidate) sure(f figure) float64 {
	if i := c.Summary[f.name]; i.N >= telling {
		return i.Low
	}
	return c.mean(f)
}

// price is the logarithm of a candidate's calls, and more, the less it keeps of the
// constraints: at a constraint, a hundredth of the slack is worth a hundredth of the calls.
// That is smooth, so that one turn may gain room which another one spends.
func (l *constraints) price(c *candidate) float64 {
	p := math.Log(c.mean(calls))
	for _, b := range minima {
		if x := *b.of(l); x > 0 {
			p += dearth((x - c.mean(b.figure)) / slack)
		}
	}
	if l.MaxCalls > 0 {
		p += dearth(steep * (c.mean(calls)/l.MaxCalls - 1))
	}
	if worst, allowed := worstExcess(c.variant); worst > allowed {
		p += 100 * (1 + (worst-allowed)/max(allowed, 1)) // anything but that
	}
	return p
}

// dearth is the price of a figure that misses its bound by so many times the slack: an
// exponential, of which only three terms count where it would grow out of hand.
func dearth(miss float64) float64 {
	x := steep * miss
	if x < 0 {
		return math.Exp(x) / steep
	}
	return (1 + x + x*x/2) / steep
}

// order puts the best first.
func (l *constraints) order(a, b *candidate) int {
	return cmp.Or(cmp.Compare(l.price(a), l.price(b)), cmp.Compare(a.changes, b.changes))
}

// beats reports whether a is better than b by more than a two-hundredth of the calls.
func (l *constraints) beats(a, b *candidate) bool { return l.price(a) < l.price(b)-0.005 }
