package main

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Plan is what a run measures.
type Plan struct {
	Rounds      int
	Quick       bool
	Rows        []Row
	Locals      []Local
	LocalLong   time.Duration
	Allocations bool
	Costs       []int // holders
	Memory      []Subject
	Idle        []time.Duration
}

var costHolders = []int{1, 8, 64}

// newPlan is everything, or what is named by only and subjects.
// The keys of the other peers are those of one of Memory's.
func newPlan(quick bool, rounds int, only, subjects *regexp.Regexp) Plan {
	others := pick(peers,
		controlName, "redis_rate", "ulule", "throttled", "go-zero", "slidingwindow")
	p := Plan{
		Rounds: rounds, Quick: quick, LocalLong: 120 * time.Millisecond,
		Memory: slices.Concat([]Subject{ration}, others, tables), Idle: idleTimes,
	}
	if quick {
		p.LocalLong = 25 * time.Millisecond
		p.Memory, p.Idle = []Subject{ration, rateMap}, idleTimes[:1]
	}
	kept := func(s Subject) bool { return subjects.MatchString(s.Name) }
	for _, row := range grid(quick) {
		row.Subjects = slices.DeleteFunc(slices.Clone(row.Subjects),
			func(s Subject) bool { return !kept(s) })
		if only.MatchString(row.Load.Name) && len(row.Subjects) > 0 {
			p.Rows = append(p.Rows, row)
		}
	}
	if only.MatchString("local") {
		for _, l := range locals {
			if subjects.MatchString(l.Name) {
				p.Locals = append(p.Locals, l)
			}
		}
		p.Allocations = kept(ration)
	}
	if only.MatchString("cost") {
		p.Costs = costHolders
	}
	p.Memory = slices.DeleteFunc(p.Memory,
		func(s Subject) bool { return !only.MatchString("memory") || !kept(s) })
	return p
}

func (p Plan) expectedLocal() time.Duration {
	return time.Duration(len(p.Locals)) * p.LocalLong * 13 / 2
}

const (
	expectedCost   = 200 * time.Millisecond
	expectedMemory = 3 * time.Second
)

func (p Plan) expected() time.Duration {
	each := p.expectedLocal() + time.Duration(len(p.Costs))*expectedCost
	for _, row := range p.Rows {
		each += row.expected()
	}
	all := time.Duration(p.Rounds) * each
	all += time.Duration(len(p.Memory)) * expectedMemory
	for _, s := range p.Memory {
		if s.Module == rationModule && len(p.Idle) > 0 {
			all += p.Idle[len(p.Idle)-1]
		}
	}
	return all
}

// run measures the plan until it is done or ctx ends. What has been measured
// until then is in the report, also beside an error.
func (b *bench) run(ctx context.Context, p Plan, progress *progress) (Report, error) {
	start := time.Now()
	r := Report{Machine: newMachine(b.server), Rounds: p.Rounds, Quick: p.Quick}
	err := b.runAll(ctx, p, progress, &r)
	progress.end()
	r.Interrupted = ctx.Err() != nil
	if r.Interrupted {
		err = nil // what was cut short is dropped, and may have failed for that
	}
	r.Took = time.Since(start).Round(time.Second).String()
	return r, err
}

func (b *bench) runAll(ctx context.Context, p Plan, progress *progress, r *Report) error {
	if err := b.roundTrip(r); err != nil {
		return err
	}
	if err := b.runLocals(ctx, p, progress, r); err != nil {
		return err
	}
	for _, row := range p.Rows {
		if err := b.runRow(ctx, p, row, progress, r); err != nil {
			return err
		}
	}
	for round := range p.Rounds {
		for _, n := range p.Costs {
			if ctx.Err() != nil {
				return nil
			}
			progress.step("cost of a script call", round+1, p.Rounds)
			c, err := b.measureCost(n)
			if err != nil {
				return err
			}
			if r.Costs == nil {
				r.Costs = map[int][]Cost{}
			}
			r.Costs[n] = append(r.Costs[n], c)
			progress.done(expectedCost)
		}
	}
	for _, s := range p.Memory {
		progress.step("memory: "+s.Name, 1, 1)
		m, err := b.measureMemory(s, p.Idle)
		if ctx.Err() != nil || err != nil {
			return err
		}
		r.Memory = append(r.Memory, m)
		progress.done(expectedMemory)
		if s.Module == rationModule && len(p.Idle) > 0 {
			progress.done(p.Idle[len(p.Idle)-1])
		}
	}
	return nil
}

func (b *bench) runLocals(ctx context.Context, p Plan, progress *progress, r *Report) error {
	for _, l := range p.Locals {
		r.Local = append(r.Local, LocalResult{Name: l.Name, Note: l.Note})
	}
	for round := range p.Rounds {
		for i, l := range p.Locals {
			progress.step("one key in the process", round+1, p.Rounds)
			s, err := b.measureLocal(l, p.LocalLong)
			if ctx.Err() != nil || err != nil {
				return err
			}
			r.Local[i].Samples = append(r.Local[i].Samples, s)
		}
		progress.done(p.expectedLocal())
	}
	if p.Allocations {
		var err error
		if r.Allocations, err = b.allocations(); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) runRow(ctx context.Context, p Plan, row Row, progress *progress, r *Report) error {
	results := make([]Result, len(row.Subjects))
	for i, s := range row.Subjects {
		results[i] = Result{
			Name: s.Name, Leases: s.Leases, Local: s.Local, Ours: s.Module == rationModule,
		}
	}
	var err error
rounds:
	for round := range p.Rounds {
		progress.step(row.Load.Name, round+1, p.Rounds)
		for i, s := range row.Subjects {
			if results[i].Refused != "" {
				continue
			}
			var sample Sample
			var refused string
			sample, refused, err = b.measure(s, row.Load)
			if ctx.Err() != nil || err != nil {
				break rounds
			}
			if refused != "" {
				results[i].Refused, results[i].Samples = refused, nil
				continue
			}
			results[i].Samples = append(results[i].Samples, sample)
		}
		progress.done(row.expected())
	}
	results = slices.DeleteFunc(results,
		func(x Result) bool { return len(x.Samples) == 0 && x.Refused == "" })
	if len(results) > 0 {
		r.Rows = append(r.Rows, RowResult{Load: row.Load, Control: row.Control, Results: results})
	}
	return err
}

// roundTrip measures what the proxy really adds up to.
func (b *bench) roundTrip(r *Report) error {
	if b.proxy == nil {
		return nil
	}
	client := redis.NewClient(&redis.Options{Addr: b.proxy.Addr, MaxRetries: -1})
	defer client.Close()
	var took []float64
	for range 200 {
		start := time.Now()
		if err := client.Ping(context.Background()).Err(); err != nil {
			return err
		}
		took = append(took, float64(time.Since(start))/float64(time.Microsecond))
	}
	r.RoundTrip = spread(took[20:])
	return nil
}
