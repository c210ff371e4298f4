package hybrid_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
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
// slots on average. Hardly any job waits for the network while there are many more slots than
// that. No process has many fewer jobs than others.
func TestSlots(t *testing.T) {
	longform.None(t)
	long(t)
	const d = 30 * time.Second
	for _, c := range []struct {
		name  string
		slots int64
		every time.Duration // a job of a process
		calls float64       // for each job, at most
		slow  float64       // the part of jobs that wait, at most
		wait  time.Duration // of a job on average, at most
	}{
		{"100 slots, 40 of them wanted", 100, 10 * time.Millisecond, 0.1, 0.03, 100 * time.Microsecond},
		{"50 slots, 40 of them wanted", 50, 10 * time.Millisecond, 1.5, 0.9, 10 * time.Millisecond},
		{"100 slots, 160 of them wanted", 100, 2500 * time.Microsecond, 0.1, 1, 500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				var used use
				var jobs, slow, waited atomic.Int64
				var group sync.WaitGroup
				var each [8]atomic.Int64 // jobs of a process
				start := time.Now()
				for i := range uint64(8) {
					l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(c.slots)})
					rng := rand.New(rand.NewPCG(i, 0))
					group.Go(func() {
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
								each[i].Add(1)
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
					})
				}
				group.Wait()
				n := float64(jobs.Load())
				least := n
				for i := range each {
					least = min(least, float64(each[i].Load()))
				}
				calls, late := float64(store.trips.Load())/n, float64(slow.Load())/n
				wait := time.Duration(waited.Load() / jobs.Load())
				t.Logf("%.0f jobs, %v waits on average, %.3f waited, %.3f calls a job, "+
					"at most %d at once, %.0f of the process with the fewest",
					n, wait, late, calls, used.most.Load(), least)
				if used.most.Load() > c.slots || calls > c.calls || late > c.slow || wait > c.wait {
					t.Error("too many")
				}
				// Slots are whole ones: in about one run of ten a process works with 10 of its 12.5
				// all the time, which is 0.794 of an equal part.
				if least < 0.75*n/8 {
					t.Error("a process has too few")
				}
			})
		})
	}
}
