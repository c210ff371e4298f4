package hybrid_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A serial store answers one pipeline after the other, behind a round trip that varies.
type serial struct {
	*hybrid.Memory
	trip, jitter, each time.Duration // jitter is the mean of an exponential distribution
	turn               chan struct{} // a mutex would stop the bubble's time

	mu     sync.Mutex
	random *rand.Rand
}

func (s *serial) Exchange(ctx context.Context, calls []*lease.Call) {
	s.mu.Lock()
	half := (s.trip + time.Duration(float64(s.jitter)*s.random.ExpFloat64())) / 2
	s.mu.Unlock()
	time.Sleep(half)
	s.turn <- struct{}{}
	time.Sleep(time.Duration(len(calls)) * s.each)
	s.Memory.Exchange(ctx, calls)
	<-s.turn
	time.Sleep(half)
}

// TestQueueing: callers of many keys keep a store busy, each asking again after a pause. Those who
// wait do not stand behind renewals, and where the store is far away renewals are not held up by
// round trips that vary.
func TestQueueing(t *testing.T) {
	const us, ms = time.Microsecond, time.Millisecond
	for _, c := range []struct {
		keys, callers      int
		pause              time.Duration // mean, exponential
		trip, jitter, each time.Duration
		most               time.Duration // p999 of a decision; 0: any
		least              float64       // part that leases decide
	}{
		{20_000, 64, 100 * us, 200 * us, 0, 30 * us, 5 * ms, 0.98},
		{20_000, 64, 100 * us, 200 * us, 0, 100 * us, 13 * ms, 0.9},
		{20_000, 64, 200 * us, ms, 2 * ms, 10 * us, 8 * ms, 0.97},
		{5_000, 4_000, 50 * ms, 150 * ms, 0, 10 * us, 0, 0.93},
		{5_000, 4_000, 50 * ms, 150 * ms, 5 * ms, 10 * us, 0, 0.912},
	} {
		name := fmt.Sprintf("%v away, jitter %v, exchanges of %v", c.trip, c.jitter, c.each)
		t.Run(name, func(t *testing.T) {
			if c.each < 100*us && c.callers == 64 {
				longform.Only(t, "most decisions")
			}
			synctest.Test(t, func(t *testing.T) {
				const d = 4 * time.Second
				store := &serial{
					Memory: hybrid.NewMemory(), trip: c.trip, jitter: c.jitter, each: c.each,
					turn: make(chan struct{}, 1), random: rand.New(rand.NewPCG(1, 1)),
				}
				l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
				took := make([][]time.Duration, c.callers)
				var callers sync.WaitGroup
				begin := time.Now()
				for i := range took {
					callers.Go(func() {
						random := rand.New(rand.NewPCG(2, uint64(i)))
						for time.Since(begin) < d {
							asked := time.Now()
							l.Allow(fmt.Sprint(random.IntN(c.keys)))
							if asked.Sub(begin) > d/8 {
								took[i] = append(took[i], time.Since(asked))
							}
							time.Sleep(time.Duration(float64(c.pause) * random.ExpFloat64()))
						}
					})
				}
				callers.Wait()
				all := slices.Concat(took...)
				slices.Sort(all)
				s := l.Stats()
				byLeases := float64(s.Lease.Admitted) / float64(s.Lease.Admitted+s.Ledger.Admitted)
				p99, p999 := all[len(all)*99/100], all[len(all)*999/1000]
				t.Logf("%d decisions, %.4f by leases, p99 %v, p999 %v, %d exchanges",
					len(all), byLeases, p99.Round(us), p999.Round(us), s.Exchanges)
				if c.most > 0 && p999 > c.most {
					t.Errorf("p999 is %v, want at most %v", p999, c.most)
				}
				if byLeases < c.least {
					t.Errorf("leases decide %.4f, want at least %g", byLeases, c.least)
				}
			})
		})
	}
}
