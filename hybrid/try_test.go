package hybrid_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestTryNeverBlocks: whatever the store and LimitFor do.
func TestTryNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(100 * time.Millisecond)
		release := make(chan struct{})
		l := newLimiter(t, store, hybrid.Config{LimitFor: func(key string) hybrid.Limit {
			if key == "hangs" {
				<-release
			}
			return hybrid.PerSecond(1000)
		}})
		pending := map[string]int{}
		for i := range 3000 {
			store.cut.Store(i > 1000 && i < 2000)
			for _, key := range []string{"k", "hangs"} {
				start := time.Now()
				d, err := l.Try(key, 1)
				if took := time.Since(start); took > 0 {
					t.Fatalf("Try took %v", took)
				}
				switch {
				case errors.Is(err, hybrid.ErrPending):
					pending[key]++
				case errors.Is(err, hybrid.ErrUnavailable):
				case err != nil || d.Limit != hybrid.PerSecond(1000):
					t.Fatalf("%+v, %v", d, err)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		if pending["hangs"] != 3000 || pending["k"] == 0 || pending["k"] > 150 {
			t.Errorf("of 3000 pending: %v", pending)
		}
		close(release)
		synctest.Wait()
		for range 2 {
			l.Try("hangs", 1)
			time.Sleep(150 * time.Millisecond)
		}
		if d, err := l.Try("hangs", 1); err != nil || !d.Allowed {
			t.Errorf("the key of a call that has come back: %+v, %v", d, err)
		}
	})
}

// TestTrySmallLimits: a limit that is too small for leases is had in full by requests that
// never wait, and no more than it, if they come again soon. What a Try has asked for
// is gone a timeout later.
func TestTrySmallLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 250 * time.Millisecond
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerMinute(6), Timeout: timeout})
		try := func(n int) bool {
			d, err := l.Try("k", n)
			if err != nil && !errors.Is(err, hybrid.ErrPending) {
				t.Fatal(err)
			}
			return d.Allowed
		}
		admitted := 0
		for range 12_000 { // 10 min
			if try(1) {
				admitted++
			}
			time.Sleep(50 * time.Millisecond)
		}
		if admitted < 60 || admitted > 66 {
			t.Errorf("%d admitted in 10 min at 6/min", admitted)
		}
		time.Sleep(time.Minute) // 6 are there
		for _, c := range []struct {
			after   time.Duration
			allowed bool
		}{{timeout - time.Millisecond, true}, {timeout, false}} {
			if try(3) {
				t.Fatal("a cold key is allowed")
			}
			time.Sleep(c.after)
			if got := try(3); got != c.allowed {
				t.Errorf("%v after it was asked for: %v", c.after, got)
			}
			time.Sleep(2 * time.Minute)
		}
	})
}

// TestTryOfReset: a key that the store refuses is reset between a Try's look and its verdict.
func TestTryOfReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(10)})
		l.Allow("k")
		if d, err := l.TryOfReset(ctx, "k", 1); !errors.Is(err, hybrid.ErrPending) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
