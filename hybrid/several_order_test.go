package hybrid_test

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestWaitAllThroughChanges has fleets that want the same pair of keys while their limits
// change, so that the slower one of both is another one. Requests that queue in the order
// before, and hold a key, must not wait for those in the order after it.
func TestWaitAllThroughChanges(t *testing.T) {
	rates := func(a, b float64) hybrid.Config {
		return hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{
			"a": hybrid.PerSecond(a).WithBurst(1), "b": hybrid.PerSecond(b).WithBurst(1),
		})}
	}
	bubble := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // where the time of synctest begins
	minutes := func() int { return int(time.Since(bubble).Minutes()) }
	first := rates(1, 1.25)
	turning := hybrid.Config{LimitFor: func(key string) hybrid.Limit {
		if minutes()%2 == 1 {
			return rates(1.25, 1).LimitFor(key)
		}
		return first.LimitFor(key)
	}}
	raised := hybrid.Config{LimitFor: func(key string) hybrid.Limit {
		if minutes() >= 3 {
			return rates(2, 1.25).LimitFor(key)
		}
		return first.LimitFor(key)
	}}
	eight := func(c hybrid.Config) []hybrid.Config { return []hybrid.Config{c, c, c, c, c, c, c, c} }
	for _, c := range []struct {
		name    string
		fleet   []hybrid.Config
		callers int // of each process
	}{
		{"never", eight(first), 2},
		{"each minute", eight(turning), 2},
		{"once", eight(raised), 2},
		{"two disagree", []hybrid.Config{first, rates(1.25, 1)}, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(3 * time.Millisecond)
				stop, cancel := context.WithCancel(ctx)
				var pairs atomic.Int64
				var wait sync.WaitGroup
				for i, config := range c.fleet {
					config.Process = hybrid.NewProcess()
					config.SlogLogger = slog.New(slog.DiscardHandler)
					l := newLimiter(t, store, config)
					for range c.callers {
						wait.Go(func() {
							keys := []string{"a", "b"}
							if i%2 == 1 {
								keys = []string{"b", "a"}
							}
							for l.WaitAll(stop, one(keys...)...) == nil {
								pairs.Add(1)
							}
						})
					}
				}
				for minute := range longform.Of(4, 12) {
					before := pairs.Load()
					time.Sleep(time.Minute)
					if n := pairs.Load() - before; n < 15 {
						t.Errorf("%d pairs in minute %d, of 60", n, minute)
					}
				}
				cancel()
				wait.Wait()
			})
		})
	}
}

// TestWaitAllBesideWindows waits for a slow bucket and another limit, while callers of single
// keys keep both exhausted. The slower limit is the one that is held.
func TestWaitAllBesideWindows(t *testing.T) {
	for _, kind := range []hybrid.Limit{
		hybrid.Quota(10, 10*time.Second), hybrid.Sliding(10, 10*time.Second),
		hybrid.PerSecond(1).WithBurst(10),
	} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := map[string]hybrid.Limit{"fast": kind, "slow": hybrid.Per(1, 20*time.Second)}
				l := newLimiter(t, remoteLine(2*time.Millisecond),
					hybrid.Config{LimitFor: limitsOf(limits)})
				stop, cancel := context.WithCancel(ctx)
				var wait sync.WaitGroup
				for key := range limits {
					for range 4 {
						wait.Go(func() {
							for l.Wait(stop, key, 1) == nil {
							}
						})
					}
				}
				for range 5 {
					soon, done := context.WithTimeout(ctx, 4*time.Minute)
					if err := l.WaitAll(soon, one("fast", "slow")...); err != nil {
						t.Error(err)
					}
					done()
				}
				cancel()
				wait.Wait()
			})
		})
	}
}

// TestPeekInDebt: a charge above the Burst is paid before the next admission, and Peek says
// when that is.
func TestPeekInDebt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(5 * time.Millisecond)
		fleet := processes(t, 2, store, hybrid.Config{Limit: hybrid.PerMinute(10)})
		if err := fleet[0].Charge("k", 30); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for i, l := range fleet { // 20 tokens of debt and one more, at one in 6 s
			d, err := l.Peek(ctx, "k")
			if err != nil || d.Allowed || (d.RetryAfter-125*time.Second).Abs() > 2*time.Second {
				t.Errorf("process %d: %+v, %v; want a RetryAfter of 2m5s", i, d, err)
			}
		}
	})
}

// TestSeveralSumsLarge: what is asked of one key in several Asks is told as it is.
func TestSeveralSumsLarge(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(10)})
	most := hybrid.Ask{Key: "b", N: math.MaxInt}
	_, err := l.TakeAll(ctx, most, most)
	if err == nil || strings.Contains(err.Error(), "-") {
		t.Errorf("error %v", err)
	}
}
