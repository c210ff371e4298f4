package hybrid_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// toil begins one job after the other, each of 50 ms, and counts them, until it is stopped.
func toil(t *testing.T, l *hybrid.Limiter, jobs *atomic.Int64, stop context.Context) {
	for {
		s, err := l.Acquire(stop, "k", 1)
		if err != nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
		jobs.Add(1)
		if err := s.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestSlotsCutOffInTurn: slots are kept for a large job of a process that is cut off. Others
// miss them for a second, though that process has another slot until its lease ends.
func TestSlotsCutOffInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		near, far := &line{Store: memory, rtt: time.Millisecond}, &line{Store: memory, rtt: time.Millisecond}
		config := hybrid.Config{Limit: hybrid.Slots(100)}
		a := newLimiter(t, far, config)
		acquire(t, a, 1)
		stop, cancel := context.WithCancel(ctx)
		var jobs atomic.Int64
		var group sync.WaitGroup
		for range 2 {
			l := newLimiter(t, near, config)
			for range 20 {
				group.Go(func() { toil(t, l, &jobs, stop) })
			}
		}
		time.Sleep(5 * time.Second)
		group.Go(func() {
			if _, err := a.Acquire(stop, "k", 99); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		time.Sleep(20 * time.Millisecond)
		far.cut.Store(true)
		time.Sleep(time.Second)
		before := jobs.Load()
		time.Sleep(time.Second)
		if n := jobs.Load() - before; n != 800 {
			t.Errorf("%d jobs in the second after that, want 800", n)
		}
		cancel()
		group.Wait()
	})
}

// TestSlotsPauseInOutage: what is on lease goes from job to job in an outage, also when there are
// pauses between them, for as long as the lease lives.
func TestSlotsPauseInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(4)})
		long := acquire(t, l, 1)
		job := func(length, pause time.Duration) error {
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			s, err := l.Acquire(soon, "k", 1)
			if err == nil {
				time.Sleep(length)
				err = s.Release()
				time.Sleep(pause)
			}
			return err
		}
		for range 200 {
			if err := job(20*time.Millisecond, 20*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		store.cut.Store(true)
		for start := time.Now(); time.Since(start) < 25*time.Second; {
			if err := job(100*time.Millisecond, 2*time.Second); err != nil {
				t.Fatalf("%v after the cut: %v", time.Since(start), err)
			}
		}
		if long.Context().Err() != nil {
			t.Error("the lease has ended")
		}
	})
}

// TestSlotsGathered: while a job waits for more slots than come free, others wait as well, and the
// longer they have waited, the more seldom they ask.
func TestSlotsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		config := hybrid.Config{Limit: hybrid.Slots(100)}
		a, b, c := newLimiter(t, store, config), newLimiter(t, store, config), newLimiter(t, store, config)
		long := acquire(t, b, 1)
		begun := make(chan *hybrid.Slot, 2)
		for _, x := range []struct {
			l *hybrid.Limiter
			n int
		}{{a, 100}, {c, 1}} {
			go func() {
				s, err := x.l.Acquire(ctx, "k", x.n)
				if err != nil {
					t.Error(err)
				}
				begun <- s
			}()
			time.Sleep(time.Second)
		}
		before := store.trips.Load()
		time.Sleep(time.Hour)
		if n := store.trips.Load() - before; len(begun) != 0 || n > 12*3600 {
			t.Errorf("%d jobs have begun, after %d calls in an hour", len(begun), n)
		}
		if err := long.Release(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := (<-begun).Release(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestSlotsEndWithLongRefreshes: contexts end in time also where MaxHold is hardly longer than
// the time between two exchanges.
func TestSlotsEndWithLongRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(1), Policy: hybrid.Policy{
			MaxRefresh: time.Minute, MaxHold: time.Minute,
		}})
		s, begun := acquire(t, l, 1), time.Now()
		store.cut.Store(true)
		<-s.Context().Done()
		if d := time.Since(begun); d < 220*time.Second || d > 225*time.Second+time.Millisecond {
			t.Errorf("the context has ended after %v, its lease is for 225 s", d)
		}
	})
}
