package holds_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/holds"
)

// A far is a Store that is 1 ms away, and counts the batches.
type far struct {
	holds.Store
	batches atomic.Int64
}

func (f *far) Do(ctx context.Context, b holds.Batch) (holds.Reply, error) {
	f.batches.Add(1)
	time.Sleep(time.Millisecond)
	return f.Store.Do(ctx, b)
}

// TestCalls: callers at two replicas reserve at one and settle at the other. Calls that come
// together go together: there are at most as many batches for a job as measured here.
func TestCalls(t *testing.T) {
	for _, c := range []struct {
		callers int
		job     time.Duration
		most    float64 // batches for a request, of which a job has two
	}{
		{64, time.Millisecond, 0.04}, {64, 20 * time.Millisecond, 0.1}, {1, 20 * time.Millisecond, 1.1},
	} {
		synctest.Test(t, func(t *testing.T) {
			const jobs = 200
			ctx, cancel := context.WithCancel(t.Context())
			store := &far{Store: holds.NewMemory()}
			var replicas [2]*holds.Keeper
			var running sync.WaitGroup
			defer running.Wait()
			defer cancel()
			for i := range replicas {
				replicas[i] = keeper(holds.Config{Store: store})
				running.Go(func() { replicas[i].Run(ctx) })
			}
			var all sync.WaitGroup
			for i := range c.callers {
				all.Go(func() {
					time.Sleep(time.Duration(i) * 317 * time.Microsecond) // they come one by one
					for j := range jobs {
						job(t, replicas[(i+j)%2], replicas[(i+j+1)%2], c.job)
					}
				})
			}
			all.Wait()
			each := float64(store.batches.Load()) / float64(2*jobs*c.callers)
			t.Logf("%d callers, jobs of %v: %.3f calls a request", c.callers, c.job, each)
			if each > c.most {
				t.Errorf("%.3f calls a request, more than %v", each, c.most)
			}
		})
	}
}

// job reserves at one replica, works, and settles at another.
func job(t *testing.T, here, there *holds.Keeper, takes time.Duration) {
	h, err := here.Reserve(t.Context(), holds.Order{
		Owner: "o", Content: "c", Life: time.Minute, Estimate: []int{1},
		Take: func(context.Context) (holds.Tokens, string, error) { return new(tokens), "", nil },
	})
	if err != nil {
		t.Error(fmt.Errorf("reserve: %w", err))
	}
	time.Sleep(takes)
	if err := there.Settle(t.Context(), "o", h.ID, []int{1}); err != nil {
		t.Error(fmt.Errorf("settle: %w", err))
	}
}
