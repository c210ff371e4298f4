package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A search looks for the policy that needs the fewest calls under constraints, in two
// parts. Trials are short plays: of a coarse grid first, then around the best, by turning
// one knob after the other, until no turn is better. Those that did best are then played
// to the end, and what is judged and printed is of these plays.
//
// How long it goes on counts in work, not in time: the same command finds the same policy
// on every machine.
type search struct {
	base   *scenario.Scenario
	own    choice
	limits constraints
	seed   uint64

	trial        *scenario.Scenario // short
	times        int                // replications of a trial
	replications int                // of what is played to the end
	exactly      bool               // so many, whatever it takes

	tried    []*candidate // by trials, in their order
	finished []*candidate // by plays to the end
	known    map[choice]*candidate
	ended    map[choice]*candidate

	work, spent float64
	progress    *searchProgress
	stopped     string   // why the search did
	idle        []string // knobs that change nothing
}

// A choice is what a candidate decides.
type choice struct {
	policy lease.Policy
	outage string
}

const (
	// minute is the work that two cores do in less than half a minute: a request that a
	// lease decides is 1.
	minute = 3e8

	perCall    = 18.0  // work of an exchange
	cellsAlike = 1000. // keys of processes that fit a cache; each so many more are work for each request
	mostCells  = 10.   // times that

	trialsPart    = 0.6 // of all work is for trials, at most
	usualTrials   = 400
	mostTimes     = 6 // replications of a trial
	shortest      = 1. / 6
	trialRequests = 10_000 // the first replication of trials: other requests than at the end
	leastFinal    = 3      // replications of what is played to the end
	better        = 0.005
	spreads       = 64
	semifinalists = 16        // of those looked at
	climbs        = 3         // from those that did best
	paired        = 5         // knobs, that are turned two at once
	farApart      = 3.        // coarse turns, between two beginnings of climbs
	ladder, rungs = 5, 2      // finalists: so many with each of so many margins
	sureEnough    = slack / 4 // half an interval
	mostConfirmed = 4.        // times as many replications
	polishings    = 4
	polishedRound = 6
)

// workOf is what a play took.
func workOf(s *scenario.Scenario, r *engine.Result) float64 {
	cells := float64(s.Keys) * float64(s.Processes)
	each := 1 + min(cells/cellsAlike, mostCells)
	return (float64(r.Requests)*each + float64(r.Calls)*perCall) * s.Duration.Seconds() / max(r.Seconds, 1e-3)
}

// newSearch prepares a search of a resolved scenario.
func newSearch(s *scenario.Scenario, limits constraints, seed uint64, replications int, exactly bool, effort float64) *search {
	own, _ := s.Policy.Lease() // resolved before
	return &search{
		base: s, own: choice{own.Resolved(), s.Outage}, limits: limits, seed: seed,
		replications: replications, exactly: exactly, work: minute * effort,
		known: map[choice]*candidate{}, ended: map[choice]*candidate{},
	}
}

// run searches, and returns what was played to the end; after an interrupt as far as it
// came, be it only trials.
func (s *search) run(ctx context.Context, stderr io.Writer) ([]*candidate, error) {
	s.progress = &searchProgress{work: s.work}
	defer showLine(stderr, s.progress.text)()
	for _, step := range []func(context.Context) error{s.pilot, s.explore, s.finals, s.confirm, s.polish} {
		err := step(ctx)
		if err == nil && ctx.Err() != nil {
			err = errInterrupted
		}
		if err != nil {
			if len(s.finished) > 0 {
				return s.finished, err
			}
			return s.tried, err
		}
	}
	return s.finished, nil
}

// pilot plays the scenario's own policy once, to know how much work a trial may be.
func (s *search) pilot(ctx context.Context) error {
	s.trial = s.base.Clone() // another one than base, though it may be as long
	once := &job{scenario: s.base}
	if err := work(ctx, []*job{once}, s.seed, nil, func(*job) {}); err != nil || !once.whole {
		return err
	}
	each := workOf(s.base, once.result)
	room := trialsPart * s.work / usualTrials
	s.times = max(1, min(int(room/each), mostTimes))
	if each > room && s.stationary() {
		measured := s.base.Duration - s.base.Warmup
		s.trial.Duration = s.base.Warmup + time.Duration(float64(measured)*max(room/each, shortest))
	}
	return nil
}

// stationary reports whether a part of the scenario is like the whole.
func (s *search) stationary() bool {
	l, b := &s.base.Load, &s.base.Balance
	return len(s.base.Faults) == 0 && len(l.Flash) == 0 && l.Diurnal == nil && l.Trace == nil && b.Moves == 0 && b.OnOff == nil
}

// grid are the choices that are tried first: leases of all sizes, classic batches, a call
// for each request, and the scenario's own policy. What the outage policy is matters, and
// varies, only where Redis may be away.
func (s *search) grid() (all []choice) {
	own := s.own.policy
	var policies []lease.Policy
	add := func(mode lease.Mode, batch int64, refresh, hold time.Duration, share float64) {
		p := own
		p.Mode, p.Batch, p.MaxRefresh, p.BurstShare = mode, batch, refresh, share
		p.MinRefresh = min(p.MinRefresh, refresh/5)
		p.MaxHold = max(hold, refresh)
		policies = append(policies, p)
	}
	policies = append(policies, own)
	for _, refresh := range []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second, 4 * time.Second} {
		for _, batch := range []int64{20, 100, 1000} {
			for _, share := range []float64{0.25, 0.5, 0.8} {
				add(lease.Auto, batch, refresh, own.MaxHold, share)
			}
		}
		for _, hold := range []time.Duration{refresh, 2 * time.Minute} {
			add(lease.Auto, 100, refresh, hold, 0.5)
		}
		add(lease.Shares, 100, refresh, own.MaxHold, 0.5)
	}
	for _, batch := range []int64{10, 100, 1000} {
		classic := own
		classic.Mode, classic.Batch = lease.Batches, batch
		policies = append(policies, classic)
	}
	each := own
	each.Mode = lease.PerRequest
	policies = append(policies, each)
	for _, p := range policies {
		for _, outage := range s.outages() {
			if c := (choice{p, outage}); !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	return all
}

func (s *search) outages() []string {
	for _, f := range s.base.Faults {
		if f.Kind == "outage" || f.Kind == "partition" {
			return []string{"share", "deny", "allow"}
		}
	}
	return []string{s.own.outage}
}

// candidate makes one of a choice.
func (s *search) candidate(x choice, of *scenario.Scenario) *candidate {
	c := &candidate{Policy: x.policy, Outage: x.outage, Classic: x.policy.Mode == lease.Batches || x.policy.Mode == lease.PerRequest}
	c.Label = candidateLabel(x.policy, s.own.policy)
	if len(s.outages()) > 1 {
		c.Label += ", outage " + x.outage
	}
	c.Own = x == s.own
	c.changes = changes(s.own.policy, x.policy)
	if x.outage != s.own.outage {
		c.changes++
	}
	played := of.Clone()
	played.Policy, played.Outage = scenario.PolicyOf(x.policy), x.outage
	c.variant = &variant{Label: c.Label, Scenario: played}
	return c
}

// plays plays those choices that are not known yet, and returns them all.
func (s *search) plays(ctx context.Context, choices []choice, of *scenario.Scenario, times int, known map[choice]*candidate) (all []*candidate, err error) {
	var fresh []*candidate
	var jobs []*job
	for _, x := range choices {
		if known[x] != nil {
			continue
		}
		c := s.candidate(x, of)
		known[x] = c
		fresh = append(fresh, c)
		for n := range times {
			if of == s.trial { // else the winner of the trials would be judged by its luck in them
				n += trialRequests
			}
			jobs = append(jobs, &job{scenario: c.variant.Scenario, replication: n})
		}
	}
	if err := s.do(ctx, jobs, of == s.trial); err != nil {
		return nil, err
	}
	for i, c := range fresh {
		c.adopt(jobs[i*times : (i+1)*times])
		if len(c.variant.Results) == 0 { // interrupted
			delete(known, choice{c.Policy, c.Outage})
		}
	}
	for _, x := range choices {
		if c := known[x]; c != nil {
			all = append(all, c)
		}
	}
	return all, nil
}

// do does jobs. Of hundreds of trials it keeps only what is judged.
func (s *search) do(ctx context.Context, jobs []*job, trials bool) error {
	return work(ctx, jobs, s.seed, nil, func(j *job) {
		s.spent += workOf(j.scenario, j.result)
		if trials {
			j.result.Timeline, j.result.Processes = engine.Timeline{}, nil
		}
		s.progress.set(s.spent)
	})
}

// adopt adds what was played.
func (c *candidate) adopt(jobs []*job) {
	for _, j := range jobs {
		if j.whole {
			c.variant.Results = append(c.variant.Results, j.result)
		}
	}
	c.variant.summarise()
	c.Summary = c.variant.Summary
}

// try plays trials.
func (s *search) try(ctx context.Context, choices []choice) ([]*candidate, error) {
	before := len(s.known)
	all, err := s.plays(ctx, choices, s.trial, s.times, s.known)
	if len(s.known) > before {
		for _, c := range all {
			if !slices.Contains(s.tried, c) {
				s.tried = append(s.tried, c)
			}
		}
	}
	if len(s.tried) > 0 {
		s.progress.best(len(s.tried), slices.MinFunc(s.tried, s.bounds(s.tried).order).mean(calls))
	}
	return all, err
}

// finish plays to the end.
func (s *search) finish(ctx context.Context, choices []choice) error {
	all, err := s.plays(ctx, choices, s.base, s.replications, s.ended)
	for _, c := range all {
		if !slices.Contains(s.finished, c) {
			s.finished = append(s.finished, c)
		}
	}
	return err
}

// bounds are the constraints, with those chosen that were not given, as far as can be
// told from these candidates.
func (s *search) bounds(of []*candidate) *constraints {
	t := &tuning{Constraints: s.limits, Candidates: of}
	t.choose()
	return &t.Constraints
}

// order puts those first that keep the constraints, by their calls, then those that miss
// them by least.
func (l *constraints) order(a, b *candidate) int {
	return cmp.Or(cmp.Compare(l.shortfall(a), l.shortfall(b)), cmp.Compare(a.mean(calls), b.mean(calls)), cmp.Compare(a.changes, b.changes))
}

// shortfall is by how much a candidate misses the constraints, 0 if it keeps them.
func (l *constraints) shortfall(c *candidate) float64 {
	miss := (c.lacks(fairness, l.MinFairness) + c.lacks(utilisation, l.MinUtilisation)) / slack
	if l.MaxCalls > 0 {
		miss += max(c.mean(calls)/l.MaxCalls-1, 0)
	}
	if worst, allowed := worstExcess(c.variant); worst > allowed {
		miss += 1 + (worst-allowed)/max(allowed, 1)
	}
	return miss
}

// beats reports whether a is better than b by enough to go there.
func (l *constraints) beats(a, b *candidate) bool {
	if x, y := l.shortfall(a), l.shortfall(b); x > 0 || y > 0 {
		return x < y*(1-better)
	}
	return a.mean(calls) < b.mean(calls)*(1-better)
}

// explore looks at the grid and at choices spread over all knobs, once each, tries those
// that did best, and climbs from the best leases of these that are far from each other.
func (s *search) explore(ctx context.Context) error {
	looked, err := s.plays(ctx, append(s.grid(), s.spread()...), s.trial, 1, map[choice]*candidate{})
	if err != nil {
		return err
	}
	slices.SortStableFunc(looked, s.bounds(looked).order)
	var choices []choice
	for i, c := range looked {
		if i < semifinalists || c.Classic || c.Own {
			choices = append(choices, choice{c.Policy, c.Outage})
		}
	}
	tried, err := s.try(ctx, choices)
	if err != nil {
		return err
	}
	leases := slices.DeleteFunc(slices.Clone(tried), func(c *candidate) bool { return c.Classic })
	slices.SortStableFunc(leases, s.bounds(s.tried).order)
	for i := 0; i < min(climbs, len(leases)); i++ {
		from := leases[i]
		idle, err := s.climb(ctx, from)
		if err != nil {
			return err
		}
		if i == 0 {
			s.idle = idle
		}
		leases = slices.DeleteFunc(leases, func(c *candidate) bool {
			return slices.Index(leases, c) > i && distance(c.Policy, from.Policy) < farApart
		})
	}
	for s.stopped == "" {
		at := slices.MinFunc(s.tried, s.bounds(s.tried).order)
		tried, err := s.try(ctx, s.pairs(at))
		if err != nil {
			return err
		}
		bounds := s.bounds(s.tried)
		if tried = append(tried, at); !bounds.beats(slices.MinFunc(tried, bounds.order), at) {
			s.stopped = "no turn of a knob, by 12 % or a twentieth, and no coarse turn of two needs fewer calls"
		} else if _, err := s.climb(ctx, slices.MinFunc(tried, bounds.order)); err != nil {
			return err
		}
	}
	return nil
}

// distance is by how many coarse turns two policies differ.
func distance(a, b lease.Policy) (turns float64) {
	for i := range knobs {
		k := &knobs[i]
		x, _ := slices.BinarySearch(k.marks, k.get(a))
		y, _ := slices.BinarySearch(k.marks, k.get(b))
		turns += math.Abs(float64(x-y)) / float64(k.strides[0])
	}
	return turns
}

// spread are leases with knobs anywhere: a sequence of Halton's, which leaves no large hole.
func (s *search) spread() (all []choice) {
	bases := []int{2, 3, 5, 7, 11, 13, 17, 19}
	for n := range spreads {
		p := s.own.policy
		p.Mode = lease.Auto
		for i := range knobs {
			k := &knobs[i]
			low, _ := slices.BinarySearch(k.marks, k.least)
			high, _ := slices.BinarySearch(k.marks, k.most)
			k.set(&p, k.marks[low+int(halton(n+1, bases[i])*float64(high-low+1))])
		}
		p.MinRefresh = min(p.MinRefresh, p.MaxRefresh)
		p.MaxHold = max(p.MaxHold, p.MaxRefresh)
		all = append(all, choice{p, s.own.outage})
	}
	return all
}

// halton is the n-th number of the sequence of a base, 0 to 1.
func halton(n, base int) (x float64) {
	for part := 1 / float64(base); n > 0; n, part = n/base, part/float64(base) {
		x += part * float64(n%base)
	}
	return x
}

// climb turns knobs from a candidate on, coarsely first, until no turn is better, and
// returns those that change nothing.
func (s *search) climb(ctx context.Context, at *candidate) (idle []string, err error) {
	for level := 0; level < levels; {
		if s.spent > trialsPart*s.work {
			s.stopped = "the work of a minute is done (-effort does more)"
			return idle, nil
		}
		turns, err := s.around(ctx, at, level, &idle)
		if err != nil {
			return nil, err
		}
		bounds := s.bounds(s.tried)
		turns = slices.DeleteFunc(turns, func(t turned) bool { return !bounds.beats(t.to, at) })
		if len(turns) == 0 {
			level++
			continue
		}
		slices.SortStableFunc(turns, func(a, b turned) int { return bounds.order(a.to, b.to) })
		further, err := s.try(ctx, leaps(at, turns, level))
		if err != nil {
			return nil, err
		}
		at = slices.MinFunc(append(further, turns[0].to), s.bounds(s.tried).order)
	}
	return idle, nil
}

// turned is a candidate with one knob turned.
type turned struct {
	knob *knob // nil: the outage policy or the mode
	by   int
	to   *candidate
}

// around tries all turns of one knob. Those that change nothing are not turned again.
func (s *search) around(ctx context.Context, at *candidate, level int, idle *[]string) (turns []turned, err error) {
	var choices []choice
	add := func(k *knob, by int, x choice) {
		turns, choices = append(turns, turned{k, by, nil}), append(choices, x)
	}
	for i := range knobs {
		k := &knobs[i]
		if slices.Contains(*idle, k.name) {
			continue
		}
		for _, by := range []int{k.strides[level], -k.strides[level]} {
			if p, ok := k.turn(at.Policy, by); ok {
				add(k, by, choice{p, at.Outage})
			}
		}
	}
	for _, mode := range []lease.Mode{lease.Auto, lease.Shares} {
		p := at.Policy
		if p.Mode = mode; p != at.Policy {
			add(nil, 0, choice{p, at.Outage})
		}
	}
	for _, outage := range s.outages() {
		if outage != at.Outage {
			add(nil, 0, choice{at.Policy, outage})
		}
	}
	all, err := s.try(ctx, choices)
	if err != nil || len(all) < len(turns) {
		return nil, cmp.Or(err, errInterrupted)
	}
	same := map[string]bool{}
	for i := range turns {
		turns[i].to = all[i]
		if k := turns[i].knob; k != nil {
			alike := all[i].equals(at)
			if old, ok := same[k.name]; ok {
				alike = alike && old
			}
			same[k.name] = alike
		}
	}
	for _, k := range knobs {
		if same[k.name] {
			*idle = append(*idle, k.name)
		}
	}
	return turns, nil
}

// pairs are all coarse turns of two of the knobs that matter most.
func (s *search) pairs(at *candidate) (all []choice) {
	var active []*knob
	for i := range knobs {
		if k := &knobs[i]; !slices.Contains(s.idle, k.name) && len(active) < paired {
			active = append(active, k)
		}
	}
	for i, a := range active {
		for _, b := range active[:i] {
			for _, signs := range [][2]int{{1, 1}, {1, -1}, {-1, 1}, {-1, -1}} {
				p, ok := a.turn(at.Policy, signs[0]*a.strides[0])
				q, both := b.turn(p, signs[1]*b.strides[0])
				if ok && both {
					all = append(all, choice{q, at.Outage})
				}
			}
		}
	}
	return all
}

// leaps are the best turn once more, and all that are better together. Turns are in the
// order of merit.
func leaps(at *candidate, turns []turned, level int) (all []choice) {
	together := choice{at.Policy, at.Outage}
	var done []string
	for _, t := range turns {
		if t.knob == nil || slices.Contains(done, t.knob.name) {
			continue
		}
		if len(done) == 0 {
			if p, ok := t.knob.turn(at.Policy, 2*t.by); ok {
				all = append(all, choice{p, at.Outage})
			}
		}
		together.policy, _ = t.knob.turn(together.policy, t.by)
		if done = append(done, t.knob.name); len(done) == 2 {
			all = append(all, together)
		}
	}
	if len(done) > 2 {
		all = append(all, together)
	}
	return all
}

// finals plays to the end those that did best in their trials, those that show what each
// constraint costs, what others do, and the scenario's own policy.
func (s *search) finals(ctx context.Context) error {
	bounds := s.bounds(s.tried)
	ranked := slices.Clone(s.tried)
	slices.SortStableFunc(ranked, bounds.order)
	var list []*candidate
	add := func(c *candidate) {
		if c != nil && !slices.ContainsFunc(list, c.equals) {
			list = append(list, c)
		}
	}
	for _, c := range s.tried {
		if c.Own || c.Policy.Mode == lease.PerRequest {
			list = append(list, c)
		}
	}
	add(first(ranked, func(c *candidate) bool { return c.Policy.Mode == lease.Batches }))
	musts := len(list)
	// What barely keeps a constraint in its trials may miss it on other requests.
	for n := range ladder {
		tight := *bounds
		tight.MinFairness += slack * float64(n) / ladder
		tight.MinUtilisation += slack * float64(n) / ladder
		slices.SortStableFunc(ranked, tight.order)
		for _, c := range ranked {
			if !c.Classic && len(list) < musts+(n+1)*rungs {
				add(c)
			}
		}
	}
	byCalls := slices.SortedFunc(slices.Values(s.tried), func(a, b *candidate) int { return cmp.Compare(a.mean(calls), b.mean(calls)) })
	for _, name := range []string{maxCalls, minFairness, minUtil, promise} {
		add(first(byCalls, func(c *candidate) bool { return slices.Equal(bounds.fails(c), []string{name}) }))
	}
	for _, f := range []figure{fairness, utilisation} {
		leases := slices.DeleteFunc(slices.Clone(ranked), func(c *candidate) bool { return c.Classic })
		add(slices.MaxFunc(leases, func(a, b *candidate) int { return cmp.Compare(a.mean(f), b.mean(f)) }))
	}
	s.fitReplications(list)
	var choices []choice
	for _, c := range list {
		choices = append(choices, choice{c.Policy, c.Outage})
	}
	return s.finish(ctx, choices)
}

func first(list []*candidate, is func(*candidate) bool) *candidate {
	if i := slices.IndexFunc(list, is); i >= 0 {
		return list[i]
	}
	return nil
}

// fitReplications lets the work that is left do for these candidates, and some more.
func (s *search) fitReplications(list []*candidate) {
	if s.exactly {
		return
	}
	each := 0.0
	for _, c := range list {
		for _, r := range c.variant.Results[:1] {
			each += workOf(c.variant.Scenario, r)
		}
	}
	each *= float64(s.base.Duration) / float64(s.trial.Duration)
	left := 0.7 * (s.work - s.spent) / max(each, 1)
	s.replications = max(min(leastFinal, s.replications), min(int(left), s.replications))
}

// confirm plays again what was played to the end, up to a few times as often, where the
// best keeps the constraints by less than chance may be.
func (s *search) confirm(ctx context.Context) error {
	at := slices.MinFunc(s.finished, s.bounds(s.finished).order)
	half := 0.0
	for _, f := range []figure{fairness, utilisation} {
		half = max(half, (at.Summary[f.name].High-at.Summary[f.name].Low)/2)
	}
	times := int(float64(s.replications) * min(math.Pow(half/sureEnough, 2), mostConfirmed))
	each := 0.0
	for _, c := range s.finished {
		for _, r := range c.variant.Results[:min(1, len(c.variant.Results))] {
			each += workOf(s.base, r)
		}
	}
	times = min(times, s.replications+int(0.5*(s.work-s.spent)/max(each, 1)))
	if s.exactly || times <= s.replications {
		return nil
	}
	var jobs []*job
	for _, c := range s.finished {
		for n := s.replications; n < times; n++ {
			jobs = append(jobs, &job{scenario: c.variant.Scenario, replication: n})
		}
	}
	if err := s.do(ctx, jobs, false); err != nil || ctx.Err() != nil {
		return err
	}
	for i, c := range s.finished {
		c.adopt(jobs[i*(times-s.replications) : (i+1)*(times-s.replications)])
	}
	s.replications = times
	return nil
}

// polish plays to the end what may still be better than the best of those that were: its
// knobs set back to the scenario's own policy, and turns that were about as cheap in
// their trials. A short play and a long one need not agree where a constraint binds.
func (s *search) polish(ctx context.Context) error {
	for range polishings {
		if s.spent > s.work && !s.exactly {
			return nil
		}
		bounds := s.bounds(s.finished)
		at := slices.MinFunc(s.finished, bounds.order)
		if at.Classic || bounds.shortfall(at) > 0 {
			return nil
		}
		before := len(s.finished)
		if err := s.polishRound(ctx, at); err != nil {
			return err
		}
		if len(s.finished) == before {
			return nil
		}
	}
	return nil
}

func (s *search) polishRound(ctx context.Context, at *candidate) error {
	if err := s.backs(ctx, at); err != nil {
		return err
	}
	was := s.known[choice{at.Policy, at.Outage}]
	var idle []string
	if _, err := s.around(ctx, was, levels-1, &idle); err != nil {
		return err
	}
	// What a trial says of others is as far off as what it said of this one.
	bounds := *s.bounds(s.finished)
	bounds.MinFairness += was.mean(fairness) - at.mean(fairness)
	bounds.MinUtilisation += was.mean(utilisation) - at.mean(utilisation)
	list := slices.Clone(s.tried)
	slices.SortStableFunc(list, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(bounds.shortfall(a), bounds.shortfall(b)), cmp.Compare(s.merit(a), s.merit(b)))
	})
	var choices []choice
	for _, c := range list {
		x := choice{c.Policy, c.Outage}
		if s.ended[x] == nil && !c.equals(was) && c.mean(calls) < near*was.mean(calls) && len(choices) < polishedRound {
			choices = append(choices, x)
		}
	}
	if set := s.plainest(was); s.ended[set] == nil {
		choices = append(choices, set)
	}
	unseen := s.unseen(at)
	s.idle = idle
	return s.finish(ctx, append(choices, unseen...))
}

// merit is calls, with a bonus for each knob that is left as it was.
func (s *search) merit(c *candidate) float64 {
	return c.mean(calls) * (1 + (near-1)/float64(len(knobs))*float64(c.changes))
}

// plainest is what was tried that did the same and changes least.
func (s *search) plainest(c *candidate) choice {
	for _, d := range s.tried {
		if d.changes < c.changes && d.equals(c) {
			c = d
		}
	}
	return choice{c.Policy, c.Outage}
}

// backs tries a candidate with each of its knobs set back to the scenario's own policy,
// and with all those at once that change nothing.
func (s *search) backs(ctx context.Context, at *candidate) error {
	choices := []choice{{at.Policy, at.Outage}}
	var turned []*knob
	for i := range knobs {
		k, p := &knobs[i], at.Policy
		k.set(&p, k.get(s.own.policy))
		if p != at.Policy && p.Validate() == nil {
			choices, turned = append(choices, choice{p, at.Outage}), append(turned, k)
		}
	}
	tried, err := s.try(ctx, choices)
	if err != nil || len(tried) < len(choices) {
		return cmp.Or(err, errInterrupted)
	}
	together := at.Policy
	for i, k := range turned {
		if tried[i+1].equals(tried[0]) {
			k.set(&together, k.get(s.own.policy))
		}
	}
	if together.Validate() == nil {
		_, err = s.try(ctx, []choice{{together, at.Outage}})
	}
	return err
}

// unseen are coarse turns of the knobs that changed nothing, where trials may have been
// too short to show it.
func (s *search) unseen(at *candidate) (all []choice) {
	if s.trial.Duration == s.base.Duration {
		return nil
	}
	for i := range knobs {
		if k := &knobs[i]; slices.Contains(s.idle, k.name) {
			for _, by := range []int{k.strides[0], -k.strides[0]} {
				if p, ok := k.turn(at.Policy, by); ok {
					all = append(all, choice{p, at.Outage})
				}
			}
		}
	}
	return all
}

// equals reports whether two candidates cannot be told apart by what they did.
func (c *candidate) equals(d *candidate) bool {
	return slices.EqualFunc(c.variant.Results, d.variant.Results, func(a, b *engine.Result) bool {
		return a.Calls == b.Calls && a.Admitted == b.Admitted && a.Fairness == b.Fairness && a.Excess == b.Excess
	})
}

// summary says how the search went.
func (s *search) summary() string {
	text := fmt.Sprintf("%s tried in short, %d played to the end, %d times each. The search stopped because %s.",
		counted(len(s.tried), "policy", "policies"), len(s.finished), s.replications, cmp.Or(s.stopped, "it was interrupted"))
	if len(s.idle) > 0 {
		text += " Turned a little, these change nothing: " + strings.Join(s.idle, ", ") + "."
	}
	return text
}

// searchProgress is what is shown of a search meanwhile.
type searchProgress struct {
	mu          sync.Mutex
	work, spent float64
	tried       int
	fewest      float64 // calls per request
}

func (p *searchProgress) set(spent float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.spent = spent
}

func (p *searchProgress) best(tried int, fewest float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried, p.fewest = tried, fewest
}

// text is a line. The search may end before all its work is done.
func (p *searchProgress) text(elapsed time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := "tuning"
	if p.tried > 0 {
		text += fmt.Sprintf("  %s, best %.4f calls/request", counted(p.tried, "policy", "policies"), p.fewest)
	}
	if p.spent > 0 {
		left := max(0, p.work/p.spent-1) * float64(elapsed)
		text += fmt.Sprintf("  at most %v left", time.Duration(left).Round(time.Second))
	}
	return text
}
