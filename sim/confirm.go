package main

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/seed13b07268/ration/lease"
)

const (
	missing, keeping = 4, 8 // finalists on either side of the constraints
	mostFinalists    = missing + keeping + 5
	lucky            = 32 // finalists that have the best price, if there is work for them
	medallists       = 4  // that are played the most
	doublings        = 5  // of their replications
)

// confirm plays finalists to the end, on other requests, and the better half of them twice
// as often, and so on. What is then recommended is no better with a knob turned back: what changes
// nothing, or costs calls, is not recommended.
func (s *search) confirm(ctx context.Context) error {
	choices, times := s.finalists(), s.replications
	for {
		list, err := s.play(ctx, s.whole, choices, times)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(c *candidate) bool { return c.Classic })
		slices.SortStableFunc(list, s.bounds(s.whole.list).order)
		list = list[:min(len(list), max(len(list)/2, medallists))]
		again := 0.0
		for _, c := range list {
			again += workOf(s.base, c.variant.Results[0]) * float64(times)
		}
		if s.exactly || times >= s.replications<<doublings || s.budget.spent+again > s.budget.all {
			break
		}
		choices, times = choicesOf(list), 2*times
	}
	for {
		t := tune(s.whole.list, s.limits)
		if t.best == nil {
			return nil
		}
		if len(t.best.variant.Results) < times {
			if _, err := s.play(ctx, s.whole, []choice{t.best.choice()}, times); err != nil {
				return err
			}
			continue
		}
		turned, err := s.play(ctx, s.whole, s.back(t.best), s.replications)
		if err != nil {
			return err
		}
		then := t.best.until(s.replications) // on as many requests
		turned = slices.DeleteFunc(turned, func(c *candidate) bool {
			simpler := c.changes < then.changes && c.equals(then)
			return !simpler && !t.Constraints.beats(c, then)
		})
		if _, err := s.play(ctx, s.whole, choicesOf(turned), times); err != nil {
			return err
		}
		if tune(s.whole.list, s.limits).best == t.best {
			return nil
		}
	}
}

// back are a candidate's choice with each knob alone turned back to the scenario's own.
func (s *search) back(c *candidate) (all []choice) {
	for i := range s.knobs {
		if x := s.knobs[i].back(c.choice(), s.first()); x != c.choice() {
			all = append(all, x)
		}
	}
	return all
}

// finalists are what was tried that keeps or misses the constraints by little: a trial may
// be wrong about them. Those with the best figures show what constraints can be had. With
// them are the scenario's own policy and what others do.
func (s *search) finalists() (all []choice) {
	room := (s.budget.all - s.budget.spent) / 2
	tried := s.short.until(s.least)
	bounds := s.bounds(tried)
	leases := slices.DeleteFunc(slices.Clone(tried), func(c *candidate) bool {
		return c.Classic
	})
	front := bounds.front(leases)
	brink := slices.IndexFunc(front, func(c *candidate) bool { return bounds.margin(c) >= 0 })
	if brink < 0 {
		brink = len(front)
	}
	list := slices.Clone(front[max(0, brink-missing):min(brink+keeping, len(front))])
	list = append(list, most(leases, fairness), most(leases, utilisation))
	batches := slices.DeleteFunc(tried, func(c *candidate) bool {
		return c.Policy.Mode != lease.Batches
	})
	if len(batches) > 0 {
		list = append(list, slices.MinFunc(batches, bounds.order))
	}
	fittest, _ := s.fittest(lucky)
	for _, c := range fittest { // the first of hundreds may have had luck
		room -= workOf(s.base, c.variant.Results[0]) * float64(s.replications)
		if room > 0 {
			list = append(list, c)
		}
	}
	return append(s.others()[:2], choicesOf(list)...)
}

// front are those that no other one has a larger margin than for as few calls, by their
// calls; of those that need about as many the last.
func (l *constraints) front(all []*candidate) (front []*candidate) {
	byCalls := slices.SortedStableFunc(slices.Values(all), func(a, b *candidate) int {
		return cmp.Compare(a.mean(calls), b.mean(calls))
	})
	from := 0.0 // calls of the first of those that need about as many
	for _, c := range byCalls {
		switch n := len(front); {
		case n > 0 && l.margin(c) <= l.margin(front[n-1]):
		case n > 0 && c.mean(calls) < near*from:
			front[n-1] = c
		default:
			front, from = append(front, c), c.mean(calls)
		}
	}
	return front
}

// margin is by how much a candidate keeps the constraints, below 0 if it misses them.
func (l *constraints) margin(c *candidate) float64 {
	if worst, allowed := worstExcess(c.variant); worst > allowed {
		return -1
	}
	m := math.Inf(1)
	for _, b := range minima {
		if x := *b.of(l); x > 0 || b.name != minFloors {
			m = min(m, c.mean(b.figure)-x)
		}
	}
	return m
}
