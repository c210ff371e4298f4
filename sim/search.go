package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A search looks for the policy that needs the fewest calls under constraints, in three
// steps:
//
//   - Halving. Points spread over all knobs are played once, the better half of them twice,
//     the better half of these four times, and so on.
//   - Breeding. The best have children, which differ in a few knobs, by less and less, until
//     none is better. They are halved, too.
//   - Confirmation. Those nearest to the constraints are played to the end, on other
//     requests, and the best of them as often as there is work left, until it is no better
//     with a knob turned back.
//
// The first two play short trials, all of the same requests. What is judged and printed is
// of the last one.
type search struct {
	base   *scenario.Scenario
	own    choice
	knobs  []knob
	limits constraints
	seed   uint64

	short *trials // of halving and breeding
	least int     // replications of a trial at first
	times int     // and now
	whole *trials // of confirmation

	replications int  // of these, at least
	exactly      bool // so many, whatever it takes

	budget  *budget
	stopped string   // why breeding did
	idle    []string // knobs that change nothing
}

const (
	scattered = 128 // points of the halving

	exploring     = 0.6    // part of the work, for all but confirmation
	usualTrials   = 300    // for which there is so much
	mostTimes     = 8      // replications of a trial at first
	shortest      = 1. / 6 // trial, of what is measured
	trialRequests = 10_000 // their first replication: else the winner is judged by its luck
)

// newSearch prepares a search of a resolved scenario.
func newSearch(
	s *scenario.Scenario, limits constraints, seed uint64, replications int, exactly bool,
	effort float64,
) *search {
	own, _ := s.Policy.Lease() // resolved before
	x := &search{
		base: s, own: choice{own.Resolved(), s.Outage}, knobs: knobs, limits: limits, seed: seed,
		short: newTrials(s.Clone(), trialRequests), whole: newTrials(s, 0),
		replications: replications, exactly: exactly, budget: &budget{all: minute * effort},
	}
	if slices.ContainsFunc(s.Faults, func(f scenario.Fault) bool {
		return f.Kind == "outage" || f.Kind == "partition"
	}) {
		x.knobs = append(slices.Clone(knobs), ofOutage)
	}
	return x
}

// run searches, and returns what was played to the end; after an interrupt as far as it
// came, be it only trials.
func (s *search) run(ctx context.Context, stderr io.Writer) ([]*candidate, error) {
	defer showLine(stderr, s.budget.text)()
	for _, step := range []func(context.Context) error{s.measure, s.halve, s.breed, s.confirm} {
		if err := step(ctx); err != nil {
			if len(s.whole.list) > 0 {
				return s.whole.list, err
			}
			return s.short.list, err
		}
	}
	return s.whole.list, nil
}

// bring says what each knob of the recommended policy brings: it holds it against itself with each of
// them turned back to the scenario's own, on the same requests, and with the other fairness, which is
// the user's to choose.
func (s *search) bring(ctx context.Context, t *tuning) error {
	if t.best == nil {
		return nil
	}
	for i := range s.knobs {
		k := &s.knobs[i]
		back := k.back(t.best.choice(), s.first())
		if err := s.holdAgainst(ctx, t, back, k.name+" "+k.text(back)); err != nil {
			return err
		}
	}
	other := t.best.choice()
	if s.base.Classes != nil || other.policy.Mode == lease.Batches || other.policy.Mode == lease.PerRequest {
		return nil // fairness is of no effect
	}
	if other.policy.Fairness++; other.policy.Fairness > lease.MaxMin {
		other.policy.Fairness = lease.Proportional
	}
	return s.holdAgainst(ctx, t, other, "fairness "+other.policy.Fairness.String())
}

// holdAgainst says what the recommended policy brings over one that differs from it in a knob.
func (s *search) holdAgainst(ctx context.Context, t *tuning, c choice, knob string) error {
	if c == t.best.choice() {
		return nil
	}
	list, err := s.play(ctx, s.whole, []choice{c}, s.replications)
	if err != nil {
		return err
	}
	g := gainOver("it with "+knob, list[0], t.best)
	if list[0].equals(t.best) {
		g.text = "does just the same as it with " + knob
	}
	t.Gains = append(t.Gains, g)
	return nil
}

// measure plays the scenario's own policy once, to know what a trial may be: several
// replications of the scenario, or one of a part of it, where parts are alike.
func (s *search) measure(ctx context.Context) error {
	once := &job{scenario: s.base}
	if err := work(ctx, []*job{once}, s.seed, nil, func(*job) {}); err != nil {
		return err
	} else if !once.whole {
		return errInterrupted
	}
	work, part := workOf(s.base, once.result), 1.0
	room := exploring * s.budget.all / usualTrials / work
	s.least = max(1, min(int(room), mostTimes))
	s.times = s.least
	if room < 1 && s.stationary() {
		measured := float64(s.base.Duration - s.base.Warmup)
		part = max(room/2, shortest)
		s.short.scenario.Duration = s.base.Warmup + time.Duration(measured*part)
	}
	s.budget.atLeast(work * (part*scattered + float64(mostFinalists*s.replications)))
	return nil
}

// stationary reports whether a part of the scenario is like the whole.
func (s *search) stationary() bool {
	l, b := &s.base.Load, &s.base.Balance
	return len(s.base.Faults) == 0 && len(l.Flash) == 0 && l.Diurnal == nil && l.Trace == nil &&
		b.Moves == 0 && b.OnOff == nil
}

// first is where leases are looked for: the scenario's own policy, if it is one.
func (s *search) first() choice {
	c := s.own
	if c.policy.Mode == lease.Batches || c.policy.Mode == lease.PerRequest {
		c.policy.Mode = lease.Auto
	}
	return c
}

// others are the scenario's own policy and what others do: a call for each request, and
// classic batches, which have no classes.
func (s *search) others() []choice {
	each := s.own
	each.policy.Mode = lease.PerRequest
	all := []choice{s.own, each}
	if s.base.Classes != nil {
		return all
	}
	for _, batch := range []int64{10, 100, 1000} {
		c := s.own
		c.policy.Mode, c.policy.Batch = lease.Batches, batch
		all = append(all, c)
	}
	return all
}

// points are spread over all knobs, after the first with what may decide in an outage.
func (s *search) points() []choice {
	all := []choice{s.first()}
	for _, outage := range outages {
		if x := (choice{all[0].policy, outage}); len(s.knobs) > len(knobs) && x != all[0] {
			all = append(all, x)
		}
	}
	return append(all, spread(s.first(), s.knobs, scattered)...)
}

// halve plays points spread over all knobs, and what others do.
func (s *search) halve(ctx context.Context) error {
	if _, err := s.play(ctx, s.short, s.others(), s.times); err != nil {
		return err
	}
	return s.race(ctx, s.points(), 1)
}

// race plays choices once, the better half of them twice, the better half of these four times, and
// so on, until it is as often as trials are. So a bad one costs one play, and most are bad.
func (s *search) race(ctx context.Context, choices []choice, from int) error {
	seen := map[choice]bool{}
	choices = slices.DeleteFunc(choices, func(x choice) bool {
		c, twice := s.short.known[x], seen[x]
		seen[x] = true
		return twice || c != nil && len(c.variant.Results) >= s.times
	})
	for times := from; ; times = min(2*times, s.times) {
		list, err := s.play(ctx, s.short, choices, times)
		if err != nil || times == s.times {
			return err
		}
		slices.SortStableFunc(list, s.bounds(s.short.until(times)).order)
		choices = choicesOf(list[:(len(list)+1)/2])
	}
}

// bounds are the constraints, with those chosen that were not given, as far as can be
// told from these candidates.
func (s *search) bounds(of []*candidate) *constraints {
	t := &tuning{Constraints: s.limits, Candidates: of}
	t.choose()
	return &t.Constraints
}

// summary says how the search went.
func (s *search) summary() string {
	least, most := 0, 0
	for _, c := range s.whole.list {
		n := len(c.variant.Results)
		least, most = min(cmp.Or(least, n), n), max(most, n)
	}
	times := fmt.Sprint(least)
	if most > least {
		times += fmt.Sprintf(" to %d", most)
	}
	text := fmt.Sprintf("%s tried in short, %d played to the end, %s times each. "+
		"The search stopped because %s.",
		counted(len(s.short.list), "policy", "policies"), len(s.whole.list), times,
		cmp.Or(s.stopped, "it was interrupted"))
	if len(s.idle) > 0 {
		text += " Turned alone, these change nothing: " + strings.Join(s.idle, ", ") + "."
	}
	return text
}
