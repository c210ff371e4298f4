package hybrid_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// use counts slots that jobs have in use, and the most at once.
type use struct{ now, most atomic.Int64 }

func (u *use) begin(n int64) {
	now := u.now.Add(n)
	for most := u.most.Load(); now > most && !u.most.CompareAndSwap(most, now); {
		most = u.most.Load()
	}
}

func (u *use) end(n int64) { u.now.Add(-n) }

// TestSlots: eight processes with jobs of 50 ms, each begun 100 times a second, use 40 of 100
// slots on average. Hardly any job waits for the network.
func TestSlots(t *testing.T) {
	const d = 30 * time.Second
	for _, c := range []struct {
		name  string
		slots int64
		every time.Duration // a job of a process
		calls float64       // for each job, at most
	}{
		{"100 slots, 40 of them wanted", 100, 10 * time.Millisecond, 0.1},
		{"50 slots, 40 of them wanted", 50, 10 * time.Millisecond, 0.2},
		{"100 slots, 160 of them wanted", 100, 2500 * time.Microsecond, 0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				var used use
				var jobs, slow, waited atomic.Int64
				var group sync.WaitGroup
				var least atomic.Int64
				least.Store(1 << 40)
				start := time.Now()
				for i := range uint64(8) {
					l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(c.slots)})
					rng := rand.New(rand.NewPCG(i, 0))
					group.Go(func() {
						var mine atomic.Int64
						var own sync.WaitGroup
						waiting := make(chan struct{}, 100)
						for time.Since(start) < d {
							select {
							case waiting <- struct{}{}:
							default:
								time.Sleep(time.Millisecond)
								continue
							}
							own.Go(func() {
								began := time.Now()
								s, err := l.Acquire(ctx, "k", 1)
								if err != nil {
									t.Error(err)
									return
								}
								<-waiting
								if time.Since(began) > 0 {
									slow.Add(1)
								}
								waited.Add(int64(time.Since(began)))
								jobs.Add(1)
								mine.Add(1)
								used.begin(1)
								time.Sleep(50 * time.Millisecond)
								used.end(1)
								if err := s.Release(); err != nil {
									t.Error(err)
								}
							})
							time.Sleep(time.Duration(rng.ExpFloat64() * float64(c.every)))
						}
						own.Wait()
						least.Store(min(least.Load(), mine.Load()))
					})
				}
				group.Wait()
				calls := float64(store.trips.Load()) / float64(jobs.Load())
				t.Logf("%d jobs, %v waits on average, %.3f waited, %.3f calls a job, "+
					"at most %d at once, %d of the process with the fewest",
					jobs.Load(), time.Duration(waited.Load()/jobs.Load()),
					float64(slow.Load())/float64(jobs.Load()), calls, used.most.Load(), least.Load())
				if used.most.Load() > c.slots || calls > c.calls {
					t.Error("too many")
				}
			})
		})
	}
}
