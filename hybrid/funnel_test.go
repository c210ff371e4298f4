package hybrid_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestFunnel: Wait with a Burst of 1 is a leaky bucket as a queue. Callers of four processes
// leave one by one, an interval of the Rate and about a round trip apart. It prints the figures
// of docs/which-limit.md.
func TestFunnel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, callers = 100, 3
		store := remoteLine(time.Millisecond)
		var mu sync.Mutex
		var left []time.Duration
		var group sync.WaitGroup
		start := time.Now()
		for range 4 {
			l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(rate).WithBurst(1)})
			for range callers {
				group.Go(func() {
					for time.Since(start) < 20*time.Second {
						if err := l.Wait(ctx, "k", 1); err != nil {
							t.Error(err)
						}
						mu.Lock()
						left = append(left, time.Since(start))
						mu.Unlock()
					}
				})
			}
		}
		group.Wait()
		slices.Sort(left)
		left = left[len(left)/10:] // at first all come at once
		var gaps []time.Duration
		for i := 1; i < len(left); i++ {
			gaps = append(gaps, left[i]-left[i-1])
		}
		slices.Sort(gaps)
		at := func(part float64) time.Duration { return gaps[int(part*float64(len(gaps)-1))] }
		per := float64(len(gaps)) / (left[len(left)-1] - left[0]).Seconds()
		t.Logf("%.1f/s; gaps: least %v, 5 %% below %v, median %v, 95 %% below %v, most %v; %d round trips for %d",
			per, gaps[0], at(0.05), at(0.5), at(0.95), gaps[len(gaps)-1], store.trips.Load(), len(left))
		if per < 85 || gaps[0] < 10*time.Millisecond || at(0.99) > 13*time.Millisecond {
			t.Errorf("want 85/s at least, and gaps of 10 ms to 13 ms")
		}
	})
}
