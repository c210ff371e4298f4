package hybrid_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

func TestWaitersShareOneExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if !l.Allow("cold") {
					t.Error("denied")
				}
			})
		}
		wg.Wait()
		if n := store.trips.Load(); n > 2 {
			t.Errorf("50 requests for a cold key took %d round trips", n)
		}
	})
}

// TestWaitInOrder: requests that wait are served first come first served, and
// at the limit's rate.
func TestWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(10)})
		var served [200]time.Time
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 200 {
			wg.Go(func() {
				if err := l.Wait(ctx, "k", 1+i%3); err != nil {
					t.Error(err)
				}
				served[i] = time.Now()
			})
			time.Sleep(100 * time.Microsecond)
		}
		wg.Wait()
		if !slices.IsSortedFunc(served[:], time.Time.Compare) {
			t.Errorf("served at %v", served)
		}
		if took := time.Since(start); took < 3880*time.Millisecond || took > 4300*time.Millisecond {
			t.Errorf("399 tokens at 100/s after a burst of 10 took %v", took)
		}
	})
}

// TestWaitAfterCalm: callers that begin to wait on a key that was calm have the whole rate in
// their first second, as on a new key: a small slice of before does not hold them up.
func TestWaitAfterCalm(t *testing.T) {
	for _, burst := range []int64{20, 50, 1000} {
		for _, callers := range []int{1, 3, 16} {
			for _, pause := range []time.Duration{100 * time.Millisecond, time.Second} {
				synctest.Test(t, func(t *testing.T) {
					store := remoteLine(200 * time.Microsecond)
					l := newLimiter(t, store,
						hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(burst)})
					for start := time.Now(); time.Since(start) < 20*time.Second; time.Sleep(pause) {
						l.Allow("k")
					}
					trips := store.trips.Load()
					second, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					var served atomic.Int64
					var wg sync.WaitGroup
					for range callers {
						wg.Go(func() {
							for l.Wait(second, "k", 1) == nil {
								served.Add(1)
							}
						})
					}
					wg.Wait()
					calls := store.trips.Load() - trips
					t.Logf("burst %d, %d callers, a request each %v before: %d served by %d calls",
						burst, callers, pause, served.Load(), calls)
					if n := served.Load(); n < 950 || calls > n/4 {
						t.Errorf("%d served at 1000/s by %d calls", n, calls)
					}
				})
			}
		}
	}
}

func TestWaitRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(10)})
		l.Wait(ctx, "k", 10)
		soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := l.Wait(soon, "k", 10); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
		later, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := l.Wait(later, "k", 10); err != nil {
			t.Error(err)
		}
		gone, cancel := context.WithCancel(ctx)
		time.AfterFunc(10*time.Millisecond, cancel)
		start = time.Now()
		if err := l.Wait(gone, "k", 10); !errors.Is(err, context.Canceled) ||
			time.Since(start) != 10*time.Millisecond {
			t.Errorf("cancelled: %v after %v", err, time.Since(start))
		}
	})
}

// TestAboveLimitInForce: while another process declares a lower limit, more than its
// Burst is refused at once, by Wait too, and others need not wait behind it.
func TestAboveLimitInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		old, raised := hybrid.PerSecond(100), hybrid.PerSecond(100).WithBurst(200)
		before := newLimiter(t, store, hybrid.Config{Limit: old})
		after := newLimiter(t, store, hybrid.Config{Limit: raised})
		before.Allow("k")
		trips := store.trips.Load()
		for start := time.Now(); time.Since(start) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
			if err := after.Wait(ctx, "k", 150); !errors.Is(err, hybrid.ErrExceedsBurst) ||
				!strings.Contains(err.Error(), old.String()) {
				t.Fatalf("150 tokens: %v", err)
			}
		}
		if n := store.trips.Load() - trips; n > 10*5 {
			t.Errorf("%d round trips in 10 s for what is not allowed", n)
		}
		if d, err := after.Take(ctx, "k", 50); err != nil || !d.Allowed || d.Limit != old {
			t.Errorf("50 tokens: %+v, %v", d, err)
		}
		time.Sleep(40 * time.Second)
		start := time.Now()
		err := after.Wait(ctx, "k", 150)
		if took := time.Since(start); err != nil || took > 600*time.Millisecond {
			t.Errorf(
				"150 tokens, when the other process has not been heard of for 50 s: %v after %v",
				err, took)
		}
	})
}

// TestExceedingLearns: a process that is denied for long hears within MaxRefresh that
// the limit in force was raised, or that its own has changed.
func TestExceedingLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		low, high := hybrid.Limit{Rate: 0.01, Burst: 5}, hybrid.Limit{Rate: 0.01, Burst: 20}
		var mine atomic.Pointer[hybrid.Limit]
		mine.Store(&high)
		a := newLimiter(t, store, hybrid.Config{Limit: low})
		b := newLimiter(t, store,
			hybrid.Config{LimitFor: func(string) hybrid.Limit { return *mine.Load() }})
		d, err := a.Take(ctx, "k", 5)
		t.Logf("a: %+v %v", d, err)
		d, err = b.Take(ctx, "k", 5)
		t.Logf("b takes 5: %+v %v", d, err)
		_, err = b.Take(ctx, "k", 6)
		t.Logf("b takes 6: %v", err)
		// The operator lowers b's own limit: it must notice.
		lowest := hybrid.Limit{Rate: 0.01, Burst: 2}
		mine.Store(&lowest)
		calls := store.trips.Load()
		for range 100 {
			_, err = b.Take(ctx, "k", 6)
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("after 10 s: %v, %d trips", err, store.trips.Load()-calls)
		if err == nil || !strings.Contains(err.Error(), "burst 2") {
			t.Errorf("10 s after the limit was lowered to a burst of 2: %v", err)
		}
	})
}

// TestRaisedInWait: a process that is alone and raises its limit has it at once, for
// requests in Wait as well.
func TestRaisedInWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Pointer[hybrid.Limit]
		low, high := hybrid.PerSecond(100), hybrid.PerSecond(100).WithBurst(200)
		limit.Store(&low)
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			LimitFor: func(string) hybrid.Limit { return *limit.Load() },
		})
		for range 100 {
			l.Allow("k")
			time.Sleep(5 * time.Millisecond)
		}
		if err := l.Wait(ctx, "k", 150); !errors.Is(err, hybrid.ErrExceedsBurst) {
			t.Fatalf("150 of %v: %v", low, err)
		}
		limit.Store(&high)
		time.Sleep(250 * time.Millisecond)
		l.Allow("k") // and is asked again
		start := time.Now()
		if err := l.Wait(ctx, "k", 150); err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("150 of %v: %v after %v", high, err, time.Since(start))
		}
	})
}
