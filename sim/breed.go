package main

import (
	"context"
	"math/rand/v2"
	"slices"
)

const (
	couples = 8  // parents of a generation
	brood   = 32 // their children
	turned  = 3  // knobs of a child, in the mean
	leading = 5  // parents that are turned knob by knob: the best may stand where it cannot go on
)

// breed lets the best of the trials have children, whose knobs are turned by large strides
// at first, and by smaller ones once a generation brings nothing better. When the smallest
// bring nothing either, each knob of the five best is turned alone.
func (s *search) breed(ctx context.Context) error {
	random := rand.New(rand.NewPCG(s.seed, 1))
	for level := 0; s.budget.spent < exploring*s.budget.all; {
		parents, _ := s.fittest()
		var children []choice
		if level == levels {
			children = s.around(parents[:min(leading, len(parents))])
		} else {
			for n := range brood {
				parent := parents[n%len(parents)].choice()
				children = append(children, s.child(random, parent, level))
			}
		}
		if err := s.race(ctx, children); err != nil {
			return err
		}
		fittest, bounds := s.fittest()
		s.budget.best(len(s.short.list), fittest[0].mean(calls))
		switch {
		case bounds.beats(fittest[0], parents[0]):
			level = min(level, levels-1)
		case level < levels:
			level++
		default:
			s.stopped = "neither a turn of one knob nor of several needs fewer calls"
			s.idle = s.unmoved(parents[0])
			return nil
		}
	}
	s.stopped = "the work that it may take is done (-effort allows more)"
	return nil
}

// fittest are the best leases of the trials, by the bounds that can be told from them.
func (s *search) fittest() ([]*candidate, *constraints) {
	list := s.short.played(s.times)
	bounds := s.bounds(list)
	list = slices.DeleteFunc(list, func(c *candidate) bool { return c.Classic })
	slices.SortStableFunc(list, bounds.order)
	return list[:min(len(list), couples)], bounds
}

// child is a choice with a few knobs turned, or set to the scenario's own.
func (s *search) child(random *rand.Rand, c choice, level int) choice {
	for i := range s.knobs {
		k := &s.knobs[i]
		if random.IntN(len(s.knobs)) >= turned {
			continue
		}
		by := 1 + random.IntN(k.strides[level])
		switch random.IntN(5) {
		case 0:
			c = k.back(c, s.first())
		case 1, 2:
			c, _ = k.turn(c, by)
		default:
			c, _ = k.turn(c, -by)
		}
	}
	return c
}

// around are all choices with one knob of these turned, or set to the scenario's own.
func (s *search) around(list []*candidate) (all []choice) {
	for _, c := range choicesOf(list) {
		for i := range s.knobs {
			k := &s.knobs[i]
			all = append(append(all, k.turns(c)...), k.back(c, s.first()))
		}
	}
	return all
}

// unmoved are the knobs of a candidate whose turns change nothing.
func (s *search) unmoved(c *candidate) (names []string) {
	for i := range s.knobs {
		k := &s.knobs[i]
		moves := func(x choice) bool { return !s.short.known[x].equals(c) }
		if !slices.ContainsFunc(k.turns(c.choice()), moves) {
			names = append(names, k.name)
		}
	}
	return names
}
