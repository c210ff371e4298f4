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

// play plays all variants, each replication of them, on all cores. Replication
// n of each meets the same requests and faults. When ctx ends, those that are
// complete are kept, and of one that has none the replication that was under
// way; the error is then errInterrupted.
func play(ctx context.Context, variants []*variant, seed uint64, replications int, stderr io.Writer) error {
	type job struct{ variant, replication int }
	jobs := make(chan job)
	results := make([][]*engine.Result, len(variants))
	partial := make([]*engine.Result, len(variants))
	for i := range results {
		results[i] = make([]*engine.Result, replications)
	}
	var played atomic.Int64 // simulated time
	all := 0.0
	for _, v := range variants {
		all += float64(replications) * float64(v.Scenario.Duration)
	}
	stop := showBar(stderr, "simulating", all, &played)

	var mu sync.Mutex
	var failed error
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				r, err := engine.RunWatched(ctx, variants[j.variant].Scenario, seed, j.replication, &played)
				mu.Lock()
				switch {
				case err == nil:
					results[j.variant][j.replication] = r
					if j.replication >= timelines {
						r.Timeline = engine.Timeline{}
					}
				case r != nil && r.Requests > 0 && partial[j.variant] == nil:
					partial[j.variant] = r
				}
				if err != nil && !errors.Is(err, ctx.Err()) {
					failed = errors.Join(failed, err)
				}
				mu.Unlock()
			}
		})
	}
feed:
	for n := range replications { // all variants' first ones first: then an interrupt finds something of each
		for v := range variants {
			select {
			case jobs <- job{v, n}:
			case <-ctx.Done():
				break feed
			}
		}
	}
	close(jobs)
	workers.Wait()
	stop()
	if failed != nil {
		return failed
	}
	for i, v := range variants {
		for _, r := range results[i] {
			if r != nil {
				v.Results = append(v.Results, r)
			}
		}
		if len(v.Results) == 0 && partial[i] != nil {
			v.Results = append(v.Results, partial[i])
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
