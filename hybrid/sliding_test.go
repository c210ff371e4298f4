package hybrid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// slide is what was admitted, by time.
type slide struct {
	mu    sync.Mutex
	times []time.Duration
}

func (s *slide) add(at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, at)
}

// most is the most in any window.
func (s *slide) most(window time.Duration) (most int) {
	first := 0
	for i, at := range s.times {
		for s.times[first] < at-window {
			first++
		}
		most = max(most, i+1-first)
	}
	return most
}

// TestSliding: ten processes that want twice as much as there is use a sliding window up, never
// admit more in any window, and ask seldom. The clock of this test is that of the store.
func TestSliding(t *testing.T) {
	const limit, window, windows, load = 1000, time.Minute, 20, 2.0
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		config := hybrid.Config{Limit: hybrid.Sliding(limit, window)}
		var admitted slide
		requests := 0
		start := time.Now()
		var group sync.WaitGroup
		var mu sync.Mutex
		for i := range 10 {
			l := newLimiter(t, store, config)
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			group.Go(func() {
				n := 0
				for ; time.Since(start) < windows*window; n++ {
					if l.Allow("k") {
						admitted.add(time.Since(start))
					}
					time.Sleep(time.Duration(rng.ExpFloat64() * float64(window) * 10 / limit / load))
				}
				mu.Lock()
				defer mu.Unlock()
				requests += n
			})
		}
		group.Wait()
		used := float64(len(admitted.times)) / (windows * limit)
		calls := float64(store.trips.Load()) / float64(requests)
		t.Logf("admitted %.4f of the limit, %d in the worst window, %.3f calls a request", used,
			admitted.most(window), calls)
		if most := admitted.most(window); most > limit || used < 0.97 || calls > 0.1 {
			t.Errorf("admitted %.4f of the limit, %d in the worst window, %.3f calls a request", used, most,
				calls)
		}
	})
}

// TestSlidingWait: a caller waits until what this process has spent leaves its window, and one
// whose deadline is before that does not.
func TestSlidingWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.Sliding(5, time.Minute)})
		if !l.AllowN("k", 5) || l.Allow("k") {
			t.Fatal("not five tokens")
		}
		start := time.Now()
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		if err := l.Wait(soon, "k", 1); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(start) > 0 {
			t.Errorf("%v after %v, a minute too early", err, time.Since(start))
		}
		if err := l.Wait(ctx, "k", 1); err != nil || time.Since(start) < time.Minute ||
			time.Since(start) > 63*time.Second {
			t.Errorf("%v after %v, not a minute and a pane or two", err, time.Since(start))
		}
	})
}

// TestSlidingReserve: what comes back of a reservation can be spent again at once, and the rest
// counts from when it was settled.
func TestSlidingReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.Sliding(10, time.Minute)})
		r, err := l.Reserve(ctx, "k", 10)
		if err != nil || !r.Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
		time.Sleep(30 * time.Second) // the process renews the lease meanwhile
		if l.Allow("k") {
			t.Error("all is reserved, and a token was admitted")
		}
		if err := r.Settle(4); err != nil {
			t.Error(err)
		}
		if !l.AllowN("k", 6) || l.Allow("k") {
			t.Error("six tokens have come back, and no more")
		}
		time.Sleep(45 * time.Second) // 75 s after the reservation, 45 after it was settled
		if l.Allow("k") {
			t.Error("what was settled counts for a minute from then on")
		}
		time.Sleep(50 * time.Second) // the process had not used it for a while, and has handed it over
		if !l.AllowN("k", 10) {
			t.Error("all has left the window, and is not there")
		}
	})
}

// TestSlidingTakeAll: a request that a bucket denies takes nothing of a sliding window, and the
// other way round.
func TestSlidingTakeAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := hybrid.Config{LimitFor: func(key string) hybrid.Limit {
			if key == "window" {
				return hybrid.Sliding(20, time.Minute)
			}
			return hybrid.PerHour(5)
		}}
		l := newLimiter(t, remoteLine(time.Millisecond), config)
		admitted := 0
		for range 100 {
			if l.AllowAll("window", "bucket") {
				admitted++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if admitted != 5 {
			t.Errorf("%d admitted, the bucket has 5", admitted)
		}
		time.Sleep(15 * time.Second)
		for range 100 {
			if l.Allow("window") {
				admitted++
			}
		}
		if admitted != 20 {
			t.Errorf("%d admitted of 20 in the window", admitted)
		}
		if d, err := l.TakeAll(ctx, hybrid.Ask{Key: "window", N: 1},
			hybrid.Ask{Key: "other", N: 1}); err != nil || d.Allowed || d.Denied != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		if !l.AllowN("other", 5) {
			t.Error("what the window denied has cost the bucket something")
		}
	})
}
