package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seed13b07268/ration/sim/scenario"
)

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

var (
	calls       = figureOf("calls_per_request")
	fairness    = figureOf("fairness")
	utilisation = figureOf("utilisation")
	honoured    = figureOf("floors")
	overshoot   = figureOf("excess")
)

func (c *candidate) mean(f figure) float64 { return c.Summary[f.name].Mean }

// tune judges candidates that have been played. It leaves the list as it is.
func tune(all []*candidate, limits constraints) *tuning {
	for _, c := range all {
		c.Summary, c.Recommended = c.variant.Summary, false
	}
	all = distinct(all)
	t := &tuning{
		Constraints: limits, Candidates: all,
		Binding: []string{}, Warnings: []string{}, Gains: []gain{},
	}
	slices.SortStableFunc(all, func(a, b *candidate) int {
		return cmp.Compare(a.mean(calls), b.mean(calls))
	})
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
	slices.SortStableFunc(byChanges, func(a, b *candidate) int {
		return cmp.Compare(a.changes, b.changes)
	})
	var kept []*candidate
	for _, c := range byChanges {
		if !slices.ContainsFunc(kept, c.equals) {
			kept = append(kept, c)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c *candidate) bool {
		return !slices.Contains(kept, c)
	})
}

// recommend picks the candidate with the fewest calls among those that keep all constraints and
// were played most: what was played less may have had luck. Among those that need about as few it
// is the fairest and fullest, if that is worth the change.
func (t *tuning) recommend() {
	most, fit := 0, []*candidate(nil)
	for _, c := range t.Candidates {
		if len(c.Fails) == 0 {
			most, fit = max(most, len(c.variant.Results)), append(fit, c)
		}
	}
	fit = slices.DeleteFunc(fit, func(c *candidate) bool { return len(c.variant.Results) < most })
	if len(fit) == 0 {
		t.Verdict = t.nothing()
		return
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
	without := t.bind(fit[0])
	t.Verdict = fmt.Sprintf("%s: %s calls per request, fairness %s, utilisation %s.", t.best.Label,
		four(t.best.mean(calls)), four(t.best.mean(fairness)), percent(t.best.mean(utilisation)))
	if len(t.Binding) == 0 {
		t.Verdict += " No constraint binds: " +
			"the search found nothing that needs clearly fewer calls."
	} else {
		binds := "binds"
		if len(t.Binding) > 1 {
			binds = "bind"
		}
		t.Verdict += fmt.Sprintf(" %s %s: without %s, fewer calls would do.",
			listed(t.Binding), binds, without)
	}
	if t.callsBind() {
		t.Binding = append(t.Binding, maxCalls)
		t.Verdict += " " + maxCalls + " binds what was chosen: " +
			"with more calls, fairness or utilisation would be higher."
	}
}

// callsBind reports whether a better candidate needs too many calls, so that the
// constraints that were not given are lower than without that one.
func (t *tuning) callsBind() bool {
	better := func(c *candidate) bool {
		return slices.Equal(c.Fails, []string{maxCalls}) &&
			(surely(fairness, t.best, c) || surely(utilisation, t.best, c))
	}
	return len(t.Constraints.Chosen) > 0 && slices.ContainsFunc(t.Candidates, better)
}

// bind finds the constraints without which fewer calls would do, and says without how many
// of them.
func (t *tuning) bind(fewest *candidate) (without string) {
	for _, name := range []string{minFairness, minUtil, minFloors, promise} {
		if slices.ContainsFunc(t.Candidates, func(c *candidate) bool {
			return slices.Equal(c.Fails, []string{name}) && surely(calls, fewest, c)
		}) {
			t.Binding = append(t.Binding, name)
		}
	}
	switch len(t.Binding) {
	case 0:
	case 1:
		return "it"
	default:
		return "any one of them"
	}
	for _, c := range t.Candidates { // or several together
		if len(c.Fails) > 1 && surely(calls, fewest, c) {
			t.Binding = append(t.Binding, strings.Join(c.Fails, " with "))
			return "them"
		}
	}
	return ""
}

// nothing says why no candidate qualifies, and what each constraint could be.
func (t *tuning) nothing() string {
	const tooFew = " %s %.4g is too few: with the others kept, %.4g is what is needed (%s)."
	const tooMuch = " %s %.4g is too much: with the others kept, %.4f is the most (%s)."
	text := "No candidate keeps all constraints."
	for _, b := range bounds {
		var only []*candidate // fail in nothing else
		for _, c := range t.Candidates {
			if slices.Equal(c.Fails, []string{b.name}) {
				only = append(only, c)
			}
		}
		switch x := *b.of(&t.Constraints); {
		case len(only) == 0:
		case b.name == maxCalls: // the first has the fewest
			text += fmt.Sprintf(tooFew, b.name, x, only[0].mean(calls), only[0].Label)
		default:
			best := most(only, b.figure)
			text += fmt.Sprintf(tooMuch, b.name, x, best.sure(b.figure), best.Label)
		}
	}
	return text
}

// most is the one that surely has most of a figure.
func most(all []*candidate, f figure) *candidate {
	return slices.MaxFunc(all, func(a, b *candidate) int {
		return cmp.Compare(a.sure(f), b.sure(f))
	})
}
