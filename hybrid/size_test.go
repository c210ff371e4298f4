package hybrid_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestLargeRequests: requests of many tokens get their part, alone and beside
// small ones, though a sub-bucket may be too small for them.
func TestLargeRequests(t *testing.T) {
	for _, c := range []struct {
		n     int
		limit hybrid.Limit
	}{
		{1400, hybrid.PerSecond(140_000).WithBurst(14_000)},
		{1400, hybrid.PerSecond(140_000).WithBurst(5_000)},
		{600, hybrid.PerSecond(10_000).WithBurst(1_000)},
		{7, hybrid.PerSecond(1_000).WithBurst(100)},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			a := newLimiter(t, store, hybrid.Config{Limit: c.limit})
			b := newLimiter(t, store, hybrid.Config{Limit: c.limit})
			every := time.Duration(float64(c.n) / c.limit.Rate * 1e9) // each offers all of it
			admitted := 0
			const d = 10 * time.Second
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
				for _, l := range []*hybrid.Limiter{a, b} {
					if l.AllowN("k", c.n) {
						admitted += c.n
					}
				}
			}
			most := float64(c.limit.Burst) + c.limit.Rate*d.Seconds()
			if got := float64(admitted); got < 0.85*most || got > most+1000 {
				t.Errorf("%d tokens a request at %v: admitted %.3f of Burst + Rate*T", c.n, c.limit,
					got/most)
			}
		})
	}
}

// TestMixedSizes: small and large requests side by side waste nothing.
func TestMixedSizes(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100)})
		var admitted atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for g := range 20 {
			wg.Go(func() {
				for i := 0; time.Since(start) < 20*time.Second; i++ {
					n := 1
					if (g+i)%2 == 0 {
						n = 20 + (7*g+13*i)%60
					}
					if l.AllowN("k", n) {
						admitted.Add(int64(n))
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if got := admitted.Load(); got < 18_000 || got > 20_350 {
			t.Errorf("%d tokens admitted of 20100", got)
		}
	})
}
