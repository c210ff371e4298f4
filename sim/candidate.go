package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
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
	// utilisation and overshoot, and worse in the mean of none.
	OnFront     bool     `json:"on_front"`
	Fails       []string `json:"fails"` // constraints
	Recommended bool     `json:"recommended"`

	// Dear: it surely needs more calls than a call for each request.
	Dear bool `json:"dearer_than_per_request"`

	changes int // fields that differ from the scenario's own policy
	variant *variant
}

// classed reports whether the requests have classes.
func (c *candidate) classed() bool { return slices.ContainsFunc(c.variant.Results, classed) }

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
	text := fmt.Sprintf("%v, batch %d, refresh %v-%v, burst share %.4g",
		p.Mode, p.Batch, p.MinRefresh, p.MaxRefresh, p.BurstShare)
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

// candidate makes one of a choice.
func (s *search) candidate(x choice, of *scenario.Scenario) *candidate {
	mode := x.policy.Mode
	c := &candidate{
		Policy: x.policy, Outage: x.outage, Own: x == s.own,
		Classic: mode == lease.Batches || mode == lease.PerRequest,
		Label:   candidateLabel(x.policy, s.own.policy), changes: changes(s.own.policy, x.policy),
	}
	if len(s.knobs) > len(knobs) {
		c.Label += ", outage " + x.outage
	}
	if x.outage != s.own.outage {
		c.changes++
	}
	played := of.Clone()
	played.Policy, played.Outage = scenario.PolicyOf(x.policy), x.outage
	c.variant = &variant{Label: c.Label, Scenario: played}
	return c
}

// until is c as it was after so many replications.
func (c *candidate) until(times int) *candidate {
	then, v := *c, *c.variant
	v.Results = v.Results[:times]
	v.summarise()
	then.variant, then.Summary = &v, v.Summary
	return &then
}

func (c *candidate) choice() choice { return choice{c.Policy, c.Outage} }

func choicesOf(list []*candidate) (all []choice) {
	for _, c := range list {
		all = append(all, c.choice())
	}
	return all
}

func first(list []*candidate, is func(*candidate) bool) *candidate {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

// equals reports whether two candidates cannot be told apart by what they did, as far as
// both were played.
func (c *candidate) equals(d *candidate) bool {
	a, b := c.variant.Results, d.variant.Results
	n := min(len(a), len(b))
	return n > 0 && slices.EqualFunc(a[:n], b[:n], func(a, b *engine.Result) bool {
		return a.Calls == b.Calls && a.Admitted == b.Admitted && a.Fairness == b.Fairness &&
			a.Excess == b.Excess
	})
}

// steps below which a difference does not matter, whatever the statistics say.
var steps = map[string]func(a, b float64) float64{
	calls.name:       func(a, b float64) float64 { return 0.02 * min(a, b) },
	fairness.name:    func(a, b float64) float64 { return 5e-4 },
	utilisation.name: func(a, b float64) float64 { return 5e-4 },
	overshoot.name:   func(a, b float64) float64 { return 0.5 },
}

// better reports whether b is better than a in a figure, by enough to matter: in the mean of the
// paired differences, and whether that is sure by their 95 % interval.
func better(f figure, a, b *candidate) (mean, sure bool) {
	d := f.difference(a.variant, b.variant)
	mean = d.Mean*float64(f.better) > steps[f.name](a.mean(f), b.mean(f))
	return mean, mean && d.N >= 2 && d.Differs()
}

func surely(f figure, a, b *candidate) bool {
	_, sure := better(f, a, b)
	return sure
}

// alike reports whether two need about as many calls, and differ by no more than the
// slack in what they give.
func (c *candidate) alike(d *candidate) bool {
	return max(c.mean(calls), d.mean(calls)) <= near*min(c.mean(calls), d.mean(calls)) &&
		math.Abs(c.mean(fairness)-d.mean(fairness)) < slack &&
		math.Abs(c.mean(utilisation)-d.mean(utilisation)) < slack
}

// dominates reports whether a is surely better than b in one figure, and in no mean worse: where
// calls ran away once nothing is sure of them, and yet they cost what they cost.
func dominates(a, b *candidate) bool {
	if a == b {
		return false
	}
	wins := false
	for _, f := range []figure{calls, fairness, utilisation, overshoot} {
		if worse, _ := better(f, a, b); worse {
			return false
		}
		wins = wins || surely(f, b, a)
	}
	return wins
}
