package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// trials are the candidates that one scenario was played with, all with the same requests.
type trials struct {
	scenario *scenario.Scenario
	first    int // replication, from which on they are played
	known    map[choice]*candidate
	list     []*candidate // in the order in which they came up
}

func newTrials(s *scenario.Scenario, first int) *trials {
	return &trials{scenario: s, first: first, known: map[choice]*candidate{}}
}

// A budget is work that is to be done. It counts requests and calls, not seconds: the same
// command finds the same policy on every machine.
type budget struct {
	mu         sync.Mutex
	all, spent float64
	tried      int
	fewest     float64 // calls per request
}

const (
	// minute is the work that two cores do in about half a minute: a request that a lease
	// decides is 1.
	minute = 3e8

	perCall = 18.0 // work of an exchange

	// cellsAlike are keys of processes that fit a cache. Each so many more are as much work
	// again for a request, up to mostCells times.
	cellsAlike = 1000.
	mostCells  = 10.
)

// workOf is what a play took.
func workOf(s *scenario.Scenario, r *engine.Result) float64 {
	cells := float64(s.AllKeys()) * float64(s.Processes)
	each := 1 + min(cells/cellsAlike, mostCells)
	work := float64(r.Requests)*each + float64(r.Calls)*perCall
	return work * s.Duration.Seconds() / max(r.Seconds, 1e-3)
}

// play brings choices to so many replications each, and returns their candidates.
func (s *search) play(
	ctx context.Context, t *trials, choices []choice, times int,
) ([]*candidate, error) {
	var all []*candidate
	var jobs []*job
	owner := map[*job]*candidate{}
	for _, x := range choices {
		c := t.known[x]
		if c == nil {
			c = s.candidate(x, t.scenario)
			t.known[x] = c
			t.list = append(t.list, c)
		}
		if all = append(all, c); slices.Contains(all[:len(all)-1], c) {
			continue
		}
		for n := len(c.variant.Results); n < times; n++ {
			j := &job{scenario: c.variant.Scenario, replication: t.first + n}
			jobs, owner[j] = append(jobs, j), c
		}
	}
	err := work(ctx, jobs, s.seed, nil, func(j *job) {
		if t == s.short { // hundreds of trials
			j.result.Timeline, j.result.Processes = engine.Timeline{}, nil
			j.result.Keys, j.result.Latencies = measure.Keys{}, nil
		}
		s.budget.spend(workOf(j.scenario, j.result))
	})
	for _, j := range jobs {
		if v := owner[j].variant; j.whole {
			v.Results = append(v.Results, j.result)
			v.summarise()
			owner[j].Summary = v.Summary
		}
	}
	if err == nil && ctx.Err() != nil {
		err = errInterrupted
	}
	return all, err
}

// played are the candidates with as many replications.
func (t *trials) played(times int) []*candidate {
	return slices.DeleteFunc(slices.Clone(t.list), func(c *candidate) bool {
		return len(c.variant.Results) < times
	})
}

// until are these as they were after so many: alike, since bounds that were found with other requests
// might all be missed.
func (t *trials) until(times int) (all []*candidate) {
	for _, c := range t.played(times) {
		all = append(all, c.until(times))
	}
	return all
}

func (b *budget) spend(work float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += work
}

// atLeast allows the work of the steps that are never cut short: of a long log, or of many
// replications.
func (b *budget) atLeast(work float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = max(b.all, work)
}

func (b *budget) best(tried int, fewest float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tried, b.fewest = tried, fewest
}

// text is the line of progress. A search may end before all its work is done.
func (b *budget) text(elapsed time.Duration) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := "tuning"
	if b.tried > 0 {
		text += fmt.Sprintf("  %s, best %.4f calls/request",
			counted(b.tried, "policy", "policies"), b.fewest)
	}
	if b.spent > 0 {
		left := max(0, b.all/b.spent-1) * float64(elapsed)
		text += fmt.Sprintf("  at most %v left", time.Duration(left).Round(time.Second))
	}
	return text
}
