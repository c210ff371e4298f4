package hybrid_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestAdaptiveShare: the latency that one process measures sheds the jobs of all, and lets them
// come back.
func TestAdaptiveShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		shares := []*jobShare{newJobShare(100*time.Millisecond, 8), newJobShare(100*time.Millisecond, 8)}
		ctx, stop := context.WithCancel(context.Background())
		var running, most atomic.Int64
		var workers sync.WaitGroup
		for _, s := range shares {
			limiter := newLimiter(t, store, hybrid.Config{LimitFor: s.limit})
			for range 8 {
				workers.Go(func() { runJobs(ctx, limiter, &running, &most) })
			}
		}
		look := func(want int64) {
			t.Helper()
			time.Sleep(5 * time.Second)
			most.Store(0)
			time.Sleep(2 * time.Second)
			if n := most.Load(); n != want {
				t.Errorf("%d jobs at once, not %d", n, want)
			}
		}
		look(8)
		shares[0].observe(time.Second)
		look(4)
		shares[0].observe(time.Second)
		shares[0].observe(time.Second)
		look(1)
		for range 10 {
			shares[0].observe(time.Millisecond)
		}
		look(8)
		stop()
		workers.Wait()
	})
}

// runJobs runs one job after the other, of 50 ms each, until ctx ends. It keeps the most that have
// run at once.
func runJobs(ctx context.Context, limiter *hybrid.Limiter, running, most *atomic.Int64) {
	for ctx.Err() == nil {
		slot, err := limiter.Acquire(ctx, "batch", 1)
		if err != nil {
			continue
		}
		n := running.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(50 * time.Millisecond)
		running.Add(-1)
		slot.Release()
	}
}
