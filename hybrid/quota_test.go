package hybrid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
)

// TestQuota: eight processes use a quota up in each of its windows, and never more than it
// has. The clock of this test is that of the store.
func TestQuota(t *testing.T) {
	const quota, window = 2000, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(4 * time.Millisecond)
		config := hybrid.Config{Limit: hybrid.Quota(quota, window)}
		var admitted [5]atomic.Int64
		start := time.Now() // midnight, 1 January 2000
		var group sync.WaitGroup
		for i := range 8 {
			l := newLimiter(t, store, config)
			for caller := range uint64(4) {
				rng := rand.New(rand.NewPCG(uint64(i), caller))
				group.Go(func() {
					for time.Since(start) < 4*window {
						if l.Allow("k") {
							admitted[time.Since(start)/window].Add(1)
						}
						time.Sleep(time.Duration(rng.ExpFloat64() * float64(i+1) * float64(12*time.Millisecond)))
					}
				})
			}
		}
		group.Wait()
		for i := range 4 {
			if n := admitted[i].Load(); n > quota || n < quota*995/1000 {
				t.Errorf("window %d: admitted %d of %d", i, n, quota)
			}
		}
		if trips := store.trips.Load(); trips > 4*quota {
			t.Errorf("%d round trips for %d tokens", trips, 4*quota)
		}
	})
}

// TestQuotaWait: a caller waits for the boundary, and one whose deadline is before it does
// not.
func TestQuotaWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.Quota(5, hybrid.Minute)})
		time.Sleep(20 * time.Second)
		if !l.AllowN("k", 5) || l.Allow("k") {
			t.Fatal("not five tokens")
		}
		start := time.Now()
		soon, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		if err := l.Wait(soon, "k", 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 0 {
			t.Errorf("%v after %v, 40 s before the boundary", err, time.Since(start))
		}
		if err := l.Wait(ctx, "k", 1); err != nil || time.Since(start) < 39*time.Second || time.Since(start) > 41*time.Second {
			t.Errorf("%v after %v, 40 s before the boundary", err, time.Since(start))
		}
	})
}

// TestQuotaTry: what Try has fetched before the boundary is not used after it.
func TestQuotaTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.Quota(1, hybrid.Minute)})
		time.Sleep(time.Minute - 10*time.Millisecond)
		if _, err := l.Try("k", 1); !errors.Is(err, hybrid.ErrPending) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond) // the token is there, and its window has ended
		admitted := 0
		for range 20 {
			if d, err := l.Try("k", 1); err == nil && d.Allowed {
				admitted++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if admitted != 1 {
			t.Errorf("%d tokens of a quota of 1", admitted)
		}
	})
}

// TestQuotaExceeded: a request for a number of tokens that no quota can have is an error, and
// takes nothing.
func TestQuotaExceeded(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Quota(3, hybrid.Day)})
	for _, n := range []int{-1, 4} {
		if _, err := l.Take(ctx, "k", n); err == nil {
			t.Errorf("%d tokens of a quota of 3: no error", n)
		}
	}
	if d, err := l.Take(ctx, "k", 3); err != nil || !d.Allowed {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestKindChanges: LimitFor turns a key from a bucket to a quota while it is in use. Nothing
// but the quota counts from then on.
func TestKindChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		var quota atomic.Bool
		config := hybrid.Config{LimitFor: func(string) hybrid.Limit {
			if quota.Load() {
				return hybrid.Quota(1000, hybrid.Hour)
			}
			return hybrid.PerSecond(100)
		}}
		ls := []*hybrid.Limiter{newLimiter(t, store, config), newLimiter(t, store, config)}
		run := func(d time.Duration) (admitted int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				for _, l := range ls {
					if l.Allow("k") {
						admitted++
					}
				}
			}
			return admitted
		}
		if n := run(10 * time.Second); n < 950 || n > 1100 {
			t.Errorf("%d admitted in 10 s at 100/s", n)
		}
		quota.Store(true)
		run(time.Second) // until both have turned: 200 at most
		if n := run(30 * time.Second); n < 600 || n > 1000 {
			t.Errorf("%d admitted of a quota of 1000, 400/s of which were asked for in the second before", n)
		}
		if n := run(30 * time.Second); n != 0 {
			t.Errorf("%d admitted when the quota was used up", n)
		}
	})
}

// TestTwoKinds: a process that declares another kind of limit than the one in force is
// denied, and a log line says why.
func TestTwoKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		core, logs := observer.New(zap.WarnLevel)
		a := newLimiter(t, store, hybrid.Config{Limit: hybrid.Quota(100_000, hybrid.Hour)})
		b := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100), Logger: zap.New(core)})
		ofA, ofB := 0, 0
		for range 1300 {
			if a.Allow("k") {
				ofA++
			}
			if b.Allow("k") {
				ofB++
			}
			time.Sleep(50 * time.Millisecond)
		}
		if ofA != 1300 || ofB != 0 {
			t.Errorf("%d of 1300 admitted by the quota in force, and %d by the limit that is not in force", ofA, ofB)
		}
		lines := logs.FilterMessageSnippet("another limit than the declared one").All()
		if len(lines) != 1 || lines[0].ContextMap()["in force"] != "100000/hour" {
			t.Errorf("log lines: %+v", lines)
		}
	})
}

// TestClassesOfAQuota: four processes have more batch requests than a quota, and late in each
// window critical ones, more than their floor. These get all of the floor, and batch what there is
// besides. Both together use up the quota, and never more.
func TestClassesOfAQuota(t *testing.T) {
	const quota, window = 1000, 10 * time.Second
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(4 * time.Millisecond)
		config := hybrid.Config{Limit: hybrid.Quota(quota, window), Classes: classes}
		var admitted [3][2]atomic.Int64
		start := time.Now() // midnight, 1 January 2000
		var group sync.WaitGroup
		for i := range 4 {
			l := newLimiter(t, store, config)
			for place, class := range classes {
				asks, rng := as(t, l, class.Name), rand.New(rand.NewPCG(uint64(i), uint64(place)))
				group.Go(func() {
					for at := time.Since(start); at < 3*window; at = time.Since(start) {
						if (place > 0 || at%window > 7*time.Second) && asks.Allow("k") {
							admitted[time.Since(start)/window][place].Add(1)
						}
						time.Sleep(time.Duration(rng.ExpFloat64() * float64(8*time.Millisecond)))
					}
				})
			}
		}
		group.Wait()
		for i := range admitted {
			critical, batch := admitted[i][0].Load(), admitted[i][1].Load()
			if critical != quota/2 || batch != quota/2 {
				t.Errorf("window %d: admitted %d critical and %d batch requests", i, critical, batch)
			}
		}
	})
}

// TestClassesOfAQuotaAlone: what each class is told: how much is left for it, when to come again,
// and what it has after a charge.
func TestClassesOfAQuotaAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Limit: hybrid.Quota(100, hybrid.Hour), Classes: classes,
		})
		critical, batch := as(t, l, "critical"), as(t, l, "batch")
		if d, err := batch.Take(ctx, "k", 50); err != nil || !d.Allowed || d.Remaining != 0 {
			t.Fatalf("%+v, %v", d, err)
		}
		d, err := batch.Take(ctx, "k", 1)
		if err != nil || d.Allowed || d.RetryAfter < 59*time.Minute {
			t.Errorf("batch: %+v, %v", d, err)
		}
		if d, err := critical.Peek(ctx, "k"); err != nil || d.Remaining != 50 {
			t.Errorf("critical: %+v, %v", d, err)
		}
		time.Sleep(time.Minute) // what it was told is in doubt
		if d, err := batch.Peek(ctx, "k"); err != nil || d.RetryAfter < 57*time.Minute {
			t.Errorf("batch: %+v, %v", d, err)
		}
		if err := critical.Charge("k", 20); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if d, err := critical.Take(ctx, "k", 30); err != nil || !d.Allowed || d.Remaining != 0 {
			t.Errorf("critical: %+v, %v", d, err)
		}
	})
}
