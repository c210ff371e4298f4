package main

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A candidate is a policy that tune tries.
type candidate struct {
	Label  string       `json:"label"`
	Policy lease.Policy `json:"policy"`
	Outage string       `json:"outage"`

	// Classic is what others do: batches, first come first served, or a call
	// for each request. Own is the policy of the scenario.
	Classic bool `json:"classic"`
	Own     bool `json:"own"`

	Summary map[string]measure.Interval `json:"summary"`

	// OnFront: no other candidate is surely better in one of calls, fairness,
	// utilisation and overshoot, and surely worse in none.
	OnFront     bool     `json:"on_front"`
	Fails       []string `json:"fails"` // constraints
	Recommended bool     `json:"recommended"`

	// Dear: it surely needs more calls than a call for each request.
	Dear bool `json:"dearer_than_per_request"`

	changes int // fields that differ from the scenario's own policy
	variant *variant
}

// changes counts the fields in which b differs from a.
func changes(a, b lease.Policy) (n int) {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !x.Field(i).Equal(y.Field(i)) {
			n++
		}
	}
	return n
}

// candidateLabel names a policy by what it has, as far as it differs from own also by
// what rarely matters.
func candidateLabel(p, own lease.Policy) string {
	switch p.Mode {
	case lease.PerRequest:
		return "a call for each request"
	case lease.Batches:
		return fmt.Sprintf("classic batches of %d", p.Batch)
	}
	text := fmt.Sprintf("%v, batch %d, refresh %v-%v, burst share %.4g", p.Mode, p.Batch, p.MinRefresh, p.MaxRefresh, p.BurstShare)
	if p.MaxHold != own.MaxHold {
		text += fmt.Sprintf(", hold %v", p.MaxHold)
	}
	if p.Smallest != own.Smallest {
		text += fmt.Sprintf(", smallest %d", p.Smallest)
	}
	if p.Reserve != own.Reserve {
		text += fmt.Sprintf(", reserve %.4g", p.Reserve)
	}
	if p.Headroom != own.Headroom {
		text += fmt.Sprintf(", headroom %.4g", p.Headroom)
	}
	return text
}

// constraints are what a recommended policy must keep.
type constraints struct {
	MaxCalls       float64 `json:"max_calls"` // 0 is none
	MinFairness    float64 `json:"min_fairness"`
	MinUtilisation float64 `json:"min_utilisation"`

	// Chosen are those that were not given: half a hundredth below the best
	// lease that keeps the others. (Not below the classic policies: their last
	// per cent costs ten times as many calls, which nobody means who says
	// nothing.)
	Chosen []string `json:"chosen"`

	given []string // flags on the command line: 0 may be meant
}

// tuning is what tune makes of its candidates.
type tuning struct {
	Constraints constraints  `json:"constraints"`
	Candidates  []*candidate `json:"candidates"` // by calls per request
	Search      string       `json:"search"`     // how far it went, and why it stopped
	Binding     []string     `json:"binding"`
	Verdict     string       `json:"verdict"`
	Gains       []gain       `json:"gains"`
	Warnings    []string     `json:"-"` // the document has them
	best        *candidate
	base        *scenario.Scenario // as it was given
}

// worth is by how much each field that a candidate changes in the scenario's own
// policy must make fairness and utilisation better, to be worth it.
const worth = 0.001

// near is how many times the fewest calls count as about as few.
const near = 1.02

// slack is how far below the best a constraint is set that was not given.
const slack = 0.005

// telling is how many values an interval needs that is not mostly ignorance.
const telling = 5

const (
	maxCalls    = "-max-calls"
	minFairness = "-min-fairness"
	minUtil     = "-min-util"
	promise     = "the envelope" // the worst excess is above what is promised
)

var (
	calls       = figureOf("calls_per_request")
	fairness    = figureOf("fairness")
	utilisation = figureOf("utilisation")
	overshoot   = figureOf("excess")
)

func (c *candidate) mean(f figure) float64 { return c.Summary[f.name].Mean }

// tune judges candidates that have been played.
func tune(all []*candidate, limits constraints) *tuning {
	for _, c := range all {
		c.Summary = c.variant.Summary
	}
	all = distinct(all)
	t := &tuning{Constraints: limits, Candidates: all, Binding: []string{}, Warnings: []string{}, Gains: []gain{}}
	slices.SortStableFunc(all, func(a, b *candidate) int { return cmp.Compare(a.mean(calls), b.mean(calls)) })
	for _, c := range all {
		c.OnFront = !slices.ContainsFunc(all, func(x *candidate) bool { return dominates(x, c) })
	}
	t.choose()
	for _, c := range all {
		c.Fails = t.Constraints.fails(c)
	}
	t.recommend()
	t.compare()
	return t
}

// distinct leaves out those that did just what another one did which changes less in the
// scenario's own policy.
func distinct(all []*candidate) []*candidate {
	byChanges := slices.Clone(all)
	slices.SortStableFunc(byChanges, func(a, b *candidate) int { return cmp.Compare(a.changes, b.changes) })
	var kept []*candidate
	for _, c := range byChanges {
		if !slices.ContainsFunc(kept, c.equals) {
			kept = append(kept, c)
		}
	}
	return slices.DeleteFunc(all, func(c *candidate) bool { return !slices.Contains(kept, c) })
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
		if lease > 0 {
			return lease
		}
		return any
	}
	if limits.MinUtilisation == 0 && !slices.Contains(limits.given, minUtil) {
		if m := best(utilisation); m > 0 {
			limits.Chosen = append(limits.Chosen, minUtil)
			limits.MinUtilisation = scenario.Round(math.Floor((m-slack)*1e4)/1e4, 4)
		}
	}
	if limits.MinFairness == 0 && !slices.Contains(limits.given, minFairness) {
		if m := best(fairness); m > 0 {
			limits.Chosen = append(limits.Chosen, minFairness)
			limits.MinFairness = scenario.Round(math.Floor((m-slack)*1e4)/1e4, 4)
		}
	}
}

// fails are the constraints that a candidate does not keep.
func (l *constraints) fails(c *candidate) []string {
	fails := []string{}
	if l.MaxCalls > 0 && c.mean(calls) > l.MaxCalls {
		fails = append(fails, maxCalls)
	}
	if c.lacks(fairness, l.MinFairness) > 0 {
		fails = append(fails, minFairness)
	}
	if c.lacks(utilisation, l.MinUtilisation) > 0 {
		fails = append(fails, minUtil)
	}
	if worst, allowed := worstExcess(c.variant); worst > allowed {
		fails = append(fails, promise)
	}
	return fails
}

// lacks is by how much a candidate misses a bound: in the mean, or by more than half the
// slack at the lower end of its 95 % interval, where that says something. Some policies are
// fair in most runs and unfair in a few, and the cheapest of hundreds is one with luck.
func (c *candidate) lacks(f figure, bound float64) float64 {
	i := c.Summary[f.name]
	miss := max(bound-i.Mean, 0)
	if i.N >= telling {
		miss = max(miss, bound-slack/2-i.Low)
	}
	return miss
}

// recommend picks the candidate with the fewest calls among those that keep
// all constraints; among those that need about as few, the fairest and fullest,
// if that is worth the change.
func (t *tuning) recommend() {
	var fit []*candidate
	for _, c := range t.Candidates {
		if len(c.Fails) == 0 {
			fit = append(fit, c)
		}
	}
	if len(fit) == 0 {
		t.Verdict = t.nothing()
		return
	}
	if front := slices.DeleteFunc(slices.Clone(fit), func(c *candidate) bool {
		return slices.ContainsFunc(fit, func(x *candidate) bool { return dominates(x, c) })
	}); len(front) > 0 {
		fit = front
	}
	t.best = fit[0] // Candidates are in the order of calls
	merit := func(c *candidate) float64 {
		return c.mean(fairness) + c.mean(utilisation) - worth*float64(c.changes)
	}
	for _, c := range fit {
		if c.mean(calls) <= near*fit[0].mean(calls) && merit(c) > merit(t.best) {
			t.best = c
		}
	}
	t.best.Recommended = true
	t.bind(fit[0])
	t.Verdict = fmt.Sprintf("%s: %s calls per request, fairness %s, utilisation %s.", t.best.Label,
		four(t.best.mean(calls)), four(t.best.mean(fairness)), percent(t.best.mean(utilisation)))
	if len(t.Binding) == 0 {
		t.Verdict += " No constraint binds: the search found nothing that needs clearly fewer calls."
	} else {
		it := "it"
		if len(t.Binding) > 1 {
			it = "either"
		}
		t.Verdict += fmt.Sprintf(" What binds is %s: without %s, fewer calls would do.", strings.Join(t.Binding, " and "), it)
	}
	if t.callsBind() {
		t.Binding = append(t.Binding, maxCalls)
		t.Verdict += " " + maxCalls + " binds what was chosen: with more calls, fairness or utilisation would be higher."
	}
}

// callsBind reports whether a better candidate needs too many calls, so that the
// constraints that were not given are lower than without that one.
func (t *tuning) callsBind() bool {
	return len(t.Constraints.Chosen) > 0 && slices.ContainsFunc(t.Candidates, func(c *candidate) bool {
		return slices.Equal(c.Fails, []string{maxCalls}) && (surely(fairness, t.best, c) || surely(utilisation, t.best, c))
	})
}

// bind finds the constraints without which fewer calls would do.
func (t *tuning) bind(fewest *candidate) {
	for _, name := range []string{minFairness, minUtil, promise} {
		if slices.ContainsFunc(t.Candidates, func(c *candidate) bool {
			return slices.Equal(c.Fails, []string{name}) && surely(calls, fewest, c)
		}) {
			t.Binding = append(t.Binding, name)
		}
	}
	if len(t.Binding) > 0 {
		return
	}
	for _, c := range t.Candidates { // or several together
		if len(c.Fails) > 1 && surely(calls, fewest, c) {
			t.Binding = append(t.Binding, strings.Join(c.Fails, " with "))
			return
		}
	}
}

// nothing says why no candidate qualifies, and what each constraint could be.
func (t *tuning) nothing() string {
	text := "No candidate keeps all constraints."
	l := &t.Constraints
	for _, name := range []string{maxCalls, minFairness, minUtil} {
		var only []*candidate // fail in nothing else
		for _, c := range t.Candidates {
			if slices.Equal(c.Fails, []string{name}) {
				only = append(only, c)
			}
		}
		if len(only) == 0 {
			continue
		}
		switch name {
		case maxCalls: // the first has the fewest
			text += fmt.Sprintf(" %s %.4g is too few: with the others kept, %.4g is what is needed (%s).", name, l.MaxCalls, only[0].mean(calls), only[0].Label)
		case minFairness:
			best := slices.MaxFunc(only, func(a, b *candidate) int { return cmp.Compare(a.mean(fairness), b.mean(fairness)) })
			text += fmt.Sprintf(" %s %.4g is too much: with the others kept, %.4f is the most (%s).", name, l.MinFairness, best.mean(fairness), best.Label)
		case minUtil:
			best := slices.MaxFunc(only, func(a, b *candidate) int { return cmp.Compare(a.mean(utilisation), b.mean(utilisation)) })
			text += fmt.Sprintf(" %s %.4g is too much: with the others kept, %.4f is the most (%s).", name, l.MinUtilisation, best.mean(utilisation), best.Label)
		}
	}
	return text
}

// steps below which a difference does not matter, whatever the statistics say.
var steps = map[string]func(a, b float64) float64{
	calls.name:       func(a, b float64) float64 { return 0.02 * min(a, b) },
	fairness.name:    func(a, b float64) float64 { return 5e-4 },
	utilisation.name: func(a, b float64) float64 { return 5e-4 },
	overshoot.name:   func(a, b float64) float64 { return 0.5 },
}

// surely reports whether b is better than a in a figure: by the 95 % interval
// of the paired differences, and by enough to matter.
func surely(f figure, a, b *candidate) bool {
	d := f.difference(a.variant, b.variant)
	gain := d.Mean * float64(f.better)
	return d.N >= 2 && d.Differs() && gain > steps[f.name](a.mean(f), b.mean(f))
}

// alike reports whether two need about as many calls, and differ by no more than the
// slack in what they give.
func (c *candidate) alike(d *candidate) bool {
	return max(c.mean(calls), d.mean(calls)) <= near*min(c.mean(calls), d.mean(calls)) &&
		math.Abs(c.mean(fairness)-d.mean(fairness)) < slack && math.Abs(c.mean(utilisation)-d.mean(utilisation)) < slack
}

// dominates reports whether a is surely better than b in one figure and surely
// worse in none.
func dominates(a, b *candidate) bool {
	if a == b {
		return false
	}
	better := false
	for _, f := range []figure{calls, fairness, utilisation, overshoot} {
		if surely(f, a, b) {
			return false
		}
		better = better || surely(f, b, a)
	}
	return better
}

// goText is the recommended policy as it is pasted into a program: the fields
// that are not defaults.
func (c *candidate) goText() string {
	defaults := lease.Policy{}.Resolved()
	p := c.Policy
	var fields []string
	add := func(differs bool, name, format string, args ...any) {
		if differs {
			fields = append(fields, name+": "+fmt.Sprintf(format, args...))
		}
	}
	modes := map[lease.Mode]string{lease.Batches: "lease.Batches", lease.Shares: "lease.Shares", lease.PerRequest: "lease.PerRequest"}
	add(p.Mode != defaults.Mode, "Mode", "%s", modes[p.Mode])
	add(p.Fairness != defaults.Fairness, "Fairness", "lease.MaxMin")
	add(p.Batch != defaults.Batch, "Batch", "%d", p.Batch)
	add(p.MinRefresh != defaults.MinRefresh, "MinRefresh", "%s", goDuration(p.MinRefresh))
	add(p.MaxRefresh != defaults.MaxRefresh, "MaxRefresh", "%s", goDuration(p.MaxRefresh))
	add(p.MaxHold != lease.Policy{MinRefresh: p.MinRefresh, MaxRefresh: p.MaxRefresh}.Resolved().MaxHold, "MaxHold", "%s", goDuration(p.MaxHold))
	add(p.Headroom != defaults.Headroom, "Headroom", "%v", p.Headroom)
	add(p.BurstShare != defaults.BurstShare, "BurstShare", "%v", p.BurstShare)
	add(p.Smallest != defaults.Smallest, "Smallest", "%d", p.Smallest)
	add(p.Reserve != defaults.Reserve, "Reserve", "%v", p.Reserve)
	text := "Policy: hybrid.Policy{" + strings.Join(fields, ", ") + "},"
	if outages := map[string]string{"deny": "hybrid.Deny", "allow": "hybrid.Allow"}; outages[c.Outage] != "" {
		text += "\nOutage: " + outages[c.Outage] + ","
	}
	return text
}

func goDuration(d time.Duration) string {
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}, {time.Millisecond, "time.Millisecond"}, {time.Microsecond, "time.Microsecond"}} {
		if d%u.unit == 0 {
			if d == u.unit {
				return u.name
			}
			return fmt.Sprintf("%d * %s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d", d)
}
