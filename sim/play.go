package main

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A variant is one way to play a scenario, with what came of it.
type variant struct {
	Label    string             `json:"label"`
	Scenario *scenario.Scenario `json:"scenario"`

	// Summary is the mean of each headline figure over the replications.
	Summary map[string]measure.Interval `json:"summary"`
	Results []*engine.Result            `json:"results"`
}

// timelines is of how many replications the timeline is kept: it is most of a
// Result's memory.
const timelines = 10

// A job is one replication of a scenario.
type job struct {
	scenario    *scenario.Scenario
	replication int

	result *engine.Result // nil, or not complete, after an interrupt
	whole  bool

	stores  bool  // see what Redis has at the end
	holders []int // of each key there
}

// play plays the replication.
func (j *job) play(ctx context.Context, seed uint64, played *atomic.Int64) (err error) {
	if j.stores {
		j.result, j.holders, err = engine.RunStored(ctx, j.scenario, seed, j.replication, played)
	} else {
		j.result, err = engine.RunWatched(ctx, j.scenario, seed, j.replication, played)
	}
	return err
}

// work does jobs on all cores, in their order, and calls done after each that is
// complete, one at a time. When ctx ends the others are left undone: that is no error.
func work(ctx context.Context, jobs []*job, seed uint64, played *atomic.Int64,
	done func(*job)) error {
	var mu sync.Mutex
	var failed error
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		workers.Go(func() {
			for n := next.Add(1); int(n) <= len(jobs) && ctx.Err() == nil; n = next.Add(1) {
				j := jobs[n-1]
				err := j.play(ctx, seed, played)
				mu.Lock()
				j.whole = err == nil
				if j.replication >= timelines && j.result != nil {
					j.result.Timeline = engine.Timeline{}
				}
				if err == nil {
					done(j)
				} else if !errors.Is(err, ctx.Err()) {
					failed = errors.Join(failed, err)
				}
				mu.Unlock()
			}
		})
	}
	workers.Wait()
	return failed
}

// play plays all variants, each replication of them, on all cores. Replication
// n of each meets the same requests and faults. When ctx ends, those that are
// complete are kept, and of one that has none the replication that was under
// way; the error is then errInterrupted.
func play(ctx context.Context, variants []*variant, seed uint64, replications int,
	stderr io.Writer) error {
	var played atomic.Int64 // simulated time
	all := 0.0
	var jobs []*job
	// all variants' first ones first: then an interrupt finds something of each
	for n := range replications {
		for _, v := range variants {
			jobs = append(jobs, &job{scenario: v.Scenario, replication: n})
			all += float64(v.Scenario.Duration)
		}
	}
	stop := showBar(stderr, "simulating", all, &played)
	err := work(ctx, jobs, seed, &played, func(*job) {})
	stop()
	if err != nil {
		return err
	}
	for i, v := range variants {
		var part *engine.Result
		for n := range replications {
			switch j := jobs[n*len(variants)+i]; {
			case j.whole:
				v.Results = append(v.Results, j.result)
			case j.result != nil && j.result.Requests > 0 && part == nil:
				part = j.result
			}
		}
		if len(v.Results) == 0 && part != nil {
			v.Results = append(v.Results, part)
		}
		v.summarise()
	}
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

func (v *variant) summarise() {
	v.Summary = map[string]measure.Interval{}
	for _, f := range figures {
		v.Summary[f.name] = f.estimate(v.values(f))
	}
}

// values are those of a figure in each replication.
func (v *variant) values(f figure) []float64 {
	x := make([]float64, len(v.Results))
	for i, r := range v.Results {
		x[i] = f.of(r)
	}
	return x
}
