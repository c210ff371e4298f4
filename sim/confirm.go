package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/seed13b07268/ration/lease"
)

const (
	missing, keeping = 4, 8 // finalists on either side of the constraints
	mostFinalists    = missing + keeping + 5
	medallists       = 4 // that are played the most
	doublings        = 5 // of their replications
	equalTimes       = 3 // replications in which two policies do the same
)

// confirm plays finalists to the end, on other requests, and the better half of them twice
// as often, and so on. What is then recommended is played as often as any: it may be one
// that had luck when it was played less.
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
		best := tune(s.whole.list, s.limits).best
		if best != nil && len(best.variant.Results) >= times {
			var err error
			if best, err = s.simpler(ctx, best); err != nil {
				return err
			}
		}
		if best == nil {
			return nil
		}
		if _, err := s.play(ctx, s.whole, []choice{best.choice()}, times); err != nil {
			return err
		}
	}
}

// simpler is a candidate that does just the same with more knobs as in the scenario's own
// policy: what changes nothing is not recommended. It is nil if there is none that was not
// played to the end.
func (s *search) simpler(ctx context.Context, c *candidate) (*candidate, error) {
	trials := newTrials(s.base, s.whole.first)
	for i := range s.knobs {
		back := s.knobs[i].back(c.choice(), s.first())
		list, err := s.play(ctx, trials, []choice{back}, equalTimes)
		if err != nil {
			return nil, err
		}
		if list[0].changes < c.changes && list[0].equals(c) {
			c = list[0]
		}
	}
	if s.whole.known[c.choice()] != nil {
		return nil, nil
	}
	return c, nil
}

// finalists are what was tried that keeps or misses the constraints by little: a trial may
// be wrong about them. Those with the best figures show what constraints can be had. With
// them are the scenario's own policy and what others do.
func (s *search) finalists() (all []choice) {
	tried := s.short.played(s.times)
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
	m := min(c.mean(fairness)-l.MinFairness, c.mean(utilisation)-l.MinUtilisation)
	if l.MinFloors > 0 {
		m = min(m, c.mean(honoured)-l.MinFloors)
	}
	return m
}
