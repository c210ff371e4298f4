package hybrid_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestPartOfSlots: three of ten slots are kept for critical jobs, as batch jobs take one of seven,
// too. Batch jobs always wait, in four processes. Critical jobs come at random to two of them, and
// to a process of their own, never more than three at once.
func TestPartOfSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const length = 20 * time.Second
		store := remoteLine(time.Millisecond)
		limits := limitsOf(map[string]hybrid.Limit{
			"jobs": hybrid.Slots(10), "jobs/batch": hybrid.Slots(7),
		})
		ctx, stop := context.WithTimeout(t.Context(), length)
		defer stop()
		var batch, all gauge
		var busy atomic.Int64
		run := func(l *hybrid.Limiter, asks []hybrid.Ask, random *rand.Rand) (waited time.Duration) {
			job, began := time.Duration(random.Int64N(int64(100*time.Millisecond))), time.Now()
			r, err := l.WaitReserveAll(ctx, asks...)
			waited = time.Since(began)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return waited
			}
			all.add(1)
			if len(asks) > 1 {
				batch.add(1)
				busy.Add(int64(job))
			}
			time.Sleep(job)
			if len(asks) > 1 {
				batch.add(-1)
			}
			all.add(-1)
			if err := r.Settle(1); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			return waited
		}
		var mu sync.Mutex
		var waits []time.Duration
		var workers sync.WaitGroup
		for i := range uint64(5) {
			l := newLimiter(t, store, hybrid.Config{LimitFor: limits})
			for w := range uint64(4) {
				if i == 4 {
					break // it has critical jobs only
				}
				random := rand.New(rand.NewPCG(i, w))
				workers.Go(func() {
					for ctx.Err() == nil {
						run(l, []hybrid.Ask{{Key: "jobs", N: 1}, {Key: "jobs/batch", N: 1}}, random)
					}
				})
			}
			if i < 2 {
				continue
			}
			random := rand.New(rand.NewPCG(i, 9))
			workers.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
					w := run(l, []hybrid.Ask{{Key: "jobs", N: 1}}, random)
					mu.Lock()
					waits = append(waits, w)
					mu.Unlock()
				}
			})
		}
		workers.Wait()
		n := len(waits)
		if n == 0 {
			t.Fatal("no critical job")
		}
		slices.Sort(waits)
		used := float64(busy.Load()) / float64(length)
		t.Logf("%d critical jobs waited %v at p99, %v at most; at most %d batch jobs of %d, %.2f in the mean",
			n, waits[n*99/100], waits[n-1], batch.most.Load(), all.most.Load(), used)
		// They would be 400 by themselves: three lines, a job in 150 ms. Nobody waits for a MaxRefresh.
		if n < 300 || waits[n*99/100] > 5*time.Millisecond || waits[n-1] > 250*time.Millisecond {
			t.Error("critical jobs wait though three slots are kept for them")
		}
		if batch.most.Load() != 7 || all.most.Load() != 10 || used < 6.7 {
			t.Errorf("at most %d jobs, %d of them batch; %.2f in the mean", all.most.Load(),
				batch.most.Load(), used)
		}
	})
}

// A gauge keeps the most that it has been.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) add(n int64) {
	for now := g.now.Add(n); ; {
		if most := g.most.Load(); now <= most || g.most.CompareAndSwap(most, now) {
			return
		}
	}
}

// TestPartOfSlotsThroughChanges: jobs want slots of two keys, of which another one is the smaller
// in each minute, and they name them in either order. Two that wait for each other would stop all.
func TestPartOfSlotsThroughChanges(t *testing.T) {
	longform.None(t)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		store := remoteLine(3 * time.Millisecond)
		turning := func(key string) hybrid.Limit {
			if odd := int(time.Since(began).Minutes())%2 == 1; odd == (key == "a") {
				return hybrid.Slots(2)
			}
			return hybrid.Slots(3)
		}
		ctx, stop := context.WithCancel(t.Context())
		var jobs atomic.Int64
		var workers sync.WaitGroup
		for i := range 4 {
			l := newLimiter(t, store, hybrid.Config{LimitFor: turning, Process: hybrid.NewProcess()})
			keys := []string{"a", "b"}
			if i%2 == 1 {
				keys = []string{"b", "a"}
			}
			for range 3 {
				workers.Go(func() {
					for {
						r, err := l.WaitReserveAll(ctx, one(keys...)...)
						if err != nil {
							return
						}
						time.Sleep(100 * time.Millisecond)
						r.Settle(1)
						jobs.Add(1)
					}
				})
			}
		}
		minutes := 5
		if testing.Short() {
			minutes = 2 // the race detector sees as much in them
		}
		for minute := range minutes {
			before := jobs.Load()
			time.Sleep(time.Minute)
			if n := jobs.Load() - before; n < 600 { // half of the 1200 of two slots
				t.Errorf("%d jobs in minute %d", n, minute)
			}
		}
		stop()
		workers.Wait()
	})
}
