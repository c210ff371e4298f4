package hybrid_test

import (
	"context"
	"fmt"
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

// TestOverload: 500 keys whose slices want 2000 exchanges/s of a store that can do
// 1000, for ever. The store is not kept busy with what comes too late: of five
// requests about four are decided by leases all the same, and no other waits for
// longer than the timeout, or than two behind an exchange of its key. (All sent at once, one of
// three is. Jitter is random: runs had 158,000 to 165,000 of 200,000, the bound is between both.)
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, &slow{hybrid.NewMemory(), make(chan struct{}, 1)}, hybrid.Config{
			Limit: hybrid.PerSecond(10_000), Policy: hybrid.Policy{MaxHold: 250 * time.Millisecond},
		})
		const keys, d = 500, 10 * time.Second
		var longest atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range keys {
			wg.Go(func() {
				k := l.Key(fmt.Sprint(i))
				time.Sleep(time.Duration(i) * time.Millisecond)
				for time.Since(start) < d {
					asked := time.Now()
					k.Allow()
					if took := int64(time.Since(asked)); took > longest.Load() {
						longest.Store(took)
					}
					time.Sleep(25 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		s := l.Stats()
		t.Logf("the longest request took %v, %+v", time.Duration(longest.Load()), s)
		if time.Duration(longest.Load()) > 2*250*time.Millisecond {
			t.Errorf("a request took %v", time.Duration(longest.Load()))
		}
		if all := uint64(keys * d / (25 * time.Millisecond)); s.Lease.Admitted < all*2/3 ||
			s.Failed > s.Exchanges/4 {
			t.Errorf("%d of %d decided by leases; %d of %d exchanges failed", s.Lease.Admitted, all,
				s.Failed, s.Exchanges)
		}
	})
}
