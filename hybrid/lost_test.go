package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestSlotsAfterLoss: a state that is lost lets as many slots again be in use at most. When
// all holders of before have come back and their jobs have ended there are no more than
// before, though each process begins its next job as soon as one has ended.
func TestSlotsAfterLoss(t *testing.T) {
	long(t)
	longform.None(t)
	const (
		hold = 2 * time.Second
		lost = 20 * time.Second
		end  = 60 * time.Second
	)
	for _, c := range []struct {
		slots           int64
		processes, jobs int // of each process at a time
	}{{1, 2, 2}, {3, 4, 1}, {3, 4, 3}, {24, 4, 24}} {
		name := fmt.Sprintf("%d slots, %d processes with %d jobs", c.slots, c.processes, c.jobs)
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := hybrid.NewMemory()
				config := hybrid.Config{Limit: hybrid.Slots(c.slots), Policy: hybrid.Policy{MaxHold: hold}}
				var used use
				var group sync.WaitGroup
				start := time.Now()
				for i := range c.processes {
					l := newLimiter(t, store, config)
					for j := range c.jobs {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
						group.Go(func() {
							for time.Since(start) < end {
								s := acquire(t, l, 1)
								used.begin(1)
								time.Sleep(time.Duration(rng.Int64N(int64(100 * time.Millisecond))))
								used.end(1)
								_ = s.Release()
							}
						})
					}
				}
				time.Sleep(lost)
				before := used.most.Swap(0)
				if err := store.Reset(ctx, "k"); err != nil {
					t.Error(err)
				}
				time.Sleep(hold + 100*time.Millisecond)
				then := used.most.Swap(0)
				group.Wait()
				after := used.most.Load()
				if max(before, after) > c.slots || then > 2*c.slots {
					t.Errorf("%d in use at most, then %d, and after that %d", before, then, after)
				}
			})
		})
	}
}

// A cutStore is a Store that a process can be cut off from.
type cutStore struct {
	hybrid.Store
	cut atomic.Bool
}

func (c *cutStore) Exchange(ctx context.Context, calls []*lease.Call) {
	if !c.cut.Load() {
		c.Store.Exchange(ctx, calls)
		return
	}
	for _, x := range calls {
		x.Err = errors.New("cut")
	}
}

// TestSlidingAfterLoss: as a state is lost, one of two processes is cut off. The other one has
// the whole limit when the first one comes back with its part. Windows that begin later have
// no more than ever.
func TestSlidingAfterLoss(t *testing.T) {
	const (
		n      = 100
		window = 10 * time.Second
		lost   = 60 * time.Second
		end    = 160 * time.Second
		later  = lost + window // three refreshes, each of a third of a window
	)
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		first := &cutStore{Store: store}
		var mu sync.Mutex
		var before, after slide
		var group sync.WaitGroup
		start := time.Now()
		for i, s := range []hybrid.Store{first, store} {
			l := newLimiter(t, s, hybrid.Config{Limit: hybrid.Sliding(n, window), Outage: hybrid.Deny})
			rng := rand.New(rand.NewPCG(uint64(i), 7))
			group.Go(func() {
				for time.Since(start) < end {
					if l.Allow("k") {
						mu.Lock()
						if at := time.Since(start); at < lost {
							before.add(at)
						} else if at > later {
							after.add(at)
						}
						mu.Unlock()
					}
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(window) / n / 3))
				}
			})
		}
		time.Sleep(lost)
		first.cut.Store(true)
		if err := store.Reset(ctx, "k"); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		first.cut.Store(false)
		group.Wait()
		if was, is := before.most(window), after.most(window); was > n || is > n {
			t.Errorf("%d of %d in the worst window, and %d after the loss", was, n, is)
		}
	})
}
