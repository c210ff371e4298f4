package hybrid_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// slow is a store that takes a millisecond for each exchange, one pipeline after
// the other.
type slow struct {
	*hybrid.Memory
	turn chan struct{} // a mutex would stop the bubble's time
}

func (s *slow) Exchange(ctx context.Context, calls []*lease.Call) {
	s.turn <- struct{}{}
	time.Sleep(time.Duration(len(calls)) * time.Millisecond)
	s.Memory.Exchange(ctx, calls)
	<-s.turn
}

// TestOverload: 3000 keys whose leases want 12,000 exchanges/s of a store that can do
// 1000. Whoever waits is answered in time, nothing is sent in vain, and nearly as many
// requests are decided as the store has exchanges to give.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, &slow{hybrid.NewMemory(), make(chan struct{}, 1)}, hybrid.Config{
			Limit: hybrid.PerSecond(10_000), Policy: hybrid.Policy{MaxHold: 250 * time.Millisecond},
		})
		const keys, callers, d = 3000, 50, 20 * time.Second
		var decided, failed atomic.Int64
		var longest atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for g := range callers {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(g)))
				for time.Since(start) < d {
					asked := time.Now()
					r, err := l.Take(ctx, fmt.Sprint(random.IntN(keys)), 1)
					if decided.Add(1); err != nil || !r.Allowed {
						failed.Add(1)
					}
					if took := int64(time.Since(asked)); took > longest.Load() {
						longest.Store(took)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Wait()
		s := l.Stats()
		t.Logf("%d decided, %d not admitted, longest %v, %+v", decided.Load(), failed.Load(), time.Duration(longest.Load()), s)
		if failed.Load() > 0 || s.Failed > 0 || time.Duration(longest.Load()) > 200*time.Millisecond {
			t.Errorf("%d not admitted, %d exchanges failed, the longest request took %v", failed.Load(), s.Failed, time.Duration(longest.Load()))
		}
		if most := uint64(d / time.Millisecond); s.Exchanges < most*9/10 || uint64(decided.Load()) < most*8/10 {
			t.Errorf("%d exchanges of %d, %d decided", s.Exchanges, most, decided.Load())
		}
	})
}
