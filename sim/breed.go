package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
)

const (
	couples = 8  // parents of a generation
	brood   = 32 // their children
	turned  = 3  // knobs of a child, in the mean
	leading = 2  // parents that are turned knob by knob: the best may stand where it cannot go on
)

// breed lets the best of the trials have children, whose knobs are turned by large strides
// at first, and by smaller ones once a generation brings nothing better. When the smallest
// bring nothing either, each knob of the best is turned alone, and then those together that were
// better so. Trials get longer with the generations, also of the best so far: hundreds of policies
// that are judged by the same few plays get ever better at these alone.
func (s *search) breed(ctx context.Context) error {
	random := rand.New(rand.NewPCG(s.seed, 1))
	for level, n := 0, 1; s.budget.spent < exploring*s.budget.all; n++ {
		if err := s.prolong(ctx, s.least+n/(mostTimes/s.least)); err != nil {
			return err
		}
		parents, _ := s.fittest(couples)
		if err := s.generation(ctx, random, parents, level); err != nil {
			return err
		}
		fittest, bounds := s.fittest(couples)
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

// generation plays the children of a level.
func (s *search) generation(
	ctx context.Context, random *rand.Rand, parents []*candidate, level int,
) error {
	times := (s.times + 5) / 6 // of each: a single play tells little of a small turn
	if level == levels {
		heads := parents[:min(leading, len(parents))]
		if err := s.race(ctx, s.around(heads), times); err != nil {
			return err
		}
		return s.race(ctx, s.together(heads), times)
	}
	var children []choice
	for n := range brood {
		children = append(children, s.child(random, parents[n%len(parents)].choice(), level))
	}
	return s.race(ctx, children, times)
}

// prolong lets trials have more replications, and plays these of the best so far, and of those that
// show what constraints can be had.
func (s *search) prolong(ctx context.Context, times int) error {
	best, _ := s.fittest(2 * couples)
	leases := s.leases()
	best = append(best, most(leases, fairness), most(leases, utilisation))
	s.times = times
	_, err := s.play(ctx, s.short, choicesOf(best), s.times)
	return err
}

// leases are those of the trials that were played to their end, but for what others do.
func (s *search) leases() []*candidate {
	return slices.DeleteFunc(s.short.played(s.times), func(c *candidate) bool { return c.Classic })
}

// fittest are the best leases of the trials, by the bounds that can be told from them: one of those
// that do the same, which differ in knobs that change nothing.
func (s *search) fittest(most int) ([]*candidate, *constraints) {
	bounds, list := s.bounds(s.short.played(s.times)), s.leases()
	slices.SortStableFunc(list, bounds.order)
	var fittest []*candidate
	for _, c := range list {
		if len(fittest) < most && !slices.ContainsFunc(fittest, c.equals) {
			fittest = append(fittest, c)
		}
	}
	return fittest, bounds
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

// together are all choices with those turns of one of these that were better alone, from the two
// best to all of them: the pattern moves of Hooke and Jeeves (Journal of the ACM 8, 1961).
func (s *search) together(list []*candidate) (all []choice) {
	for _, c := range list {
		x := c.choice()
		for i, t := range s.gains(c) {
			if x = t.knob.back(x, t.to); i > 0 {
				all = append(all, x)
			}
		}
	}
	return all
}

// A turn is one of a knob, to another choice, which was better by so much of the price.
type turn struct {
	knob *knob
	to   choice
	gain float64
}

// gains are the best turn of each knob of a candidate, of those that were better, the best first.
func (s *search) gains(c *candidate) (turns []turn) {
	for i := range s.knobs {
		best := turn{knob: &s.knobs[i]}
		for _, x := range append(best.knob.turns(c.choice()), best.knob.back(c.choice(), s.first())) {
			d := s.short.known[x]
			times := min(len(c.variant.Results), len(d.variant.Results))
			bounds := s.bounds(s.short.until(times))
			if gain := bounds.price(c.until(times)) - bounds.price(d.until(times)); gain > best.gain {
				best.to, best.gain = x, gain
			}
		}
		if best.gain > 0 {
			turns = append(turns, best)
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return cmp.Compare(b.gain, a.gain) })
	return turns
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
