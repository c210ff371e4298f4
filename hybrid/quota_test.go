package hybrid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
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

// TestQuotaDecision: what a Decision tells of a quota, with the store in this process and with
// a real Redis.
func TestQuotaDecision(t *testing.T) {
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		limit := hybrid.Quota(5, 3650*hybrid.Day) // the next boundary is in 2029
		a := newLimiter(t, store, hybrid.Config{Limit: limit, Timeout: patient})
		b := newLimiter(t, store, hybrid.Config{Limit: limit, Timeout: patient})
		d, err := a.Take(ctx, "k", 3)
		if err != nil || !d.Allowed || d.Remaining != 2 || d.ResetAfter <= 0 || d.ResetAfter > limit.Window || d.Limit != limit {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err = b.Take(ctx, "k", 3); err != nil || d.Allowed || d.Remaining != 2 || d.RetryAfter < d.ResetAfter-time.Second {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err = b.Take(ctx, "k", 2); err != nil || !d.Allowed || d.Remaining != 0 {
			t.Errorf("%+v, %v", d, err)
		}
		if _, err = b.Take(ctx, "k", 6); !errors.Is(err, hybrid.ErrExceedsBurst) || !strings.Contains(err.Error(), "5/87600h0m0s") {
			t.Error(err)
		}
		if d, err = a.Peek(ctx, "k"); err != nil || d.Remaining > 2 { // it has not heard of b
			t.Errorf("%+v, %v", d, err)
		}
		if err = a.Reset(ctx, "k"); err != nil {
			t.Error(err)
		}
		if d, err = a.Take(ctx, "k", 5); err != nil || !d.Allowed {
			t.Errorf("after Reset: %+v, %v", d, err)
		}
	})
}

// TestQuotaOutage: what each policy admits of a quota of 6000 a minute while the store is
// away, by two processes.
func TestQuotaOutage(t *testing.T) {
	for _, c := range []struct {
		policy hybrid.Outage
		lo, hi int // in 10 s
	}{
		{hybrid.Share, 850, 1002}, // an even part of the quota; two of them may round up
		{hybrid.Deny, 0, 0},
		{hybrid.Allow, 19_000, 20_000},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				config := hybrid.Config{Limit: hybrid.Quota(6000, hybrid.Minute), Outage: c.policy, Timeout: 50 * time.Millisecond}
				ls := []*hybrid.Limiter{newLimiter(t, store, config), newLimiter(t, store, config)}
				run := func(d time.Duration) (admitted int) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
						for _, l := range ls {
							if d, err := l.Take(ctx, "k", 1); err == nil && d.Allowed && d.Source == hybrid.OutagePolicy {
								admitted++
							}
						}
					}
					return admitted
				}
				time.Sleep(20 * time.Second) // the processes have counted each other
				run(time.Second)
				store.cut.Store(true)
				run(5 * time.Second) // leases end, and the outage is noticed
				if n := run(10 * time.Second); n < c.lo || n > c.hi {
					t.Errorf("%d admitted in 10 s, want %d to %d", n, c.lo, c.hi)
				}
			})
		})
	}
}

// TestQuotaBadInput: numbers that make no sense are errors that name the field and the value.
func TestQuotaBadInput(t *testing.T) {
	for want, limit := range map[string]hybrid.Limit{
		"Burst 0 ":             hybrid.Quota(0, hybrid.Day),
		"Burst -3 ":            hybrid.Quota(-3, hybrid.Day),
		"Burst 4294967297 ":    hybrid.Quota(1<<32+1, hybrid.Day),
		"Window 999ms ":        hybrid.Quota(1, 999*time.Millisecond),
		"Window 0s ":           hybrid.Quota(1, 0),
		"Window -1m0s ":        hybrid.Quota(1, -time.Minute),
		"Window 1.5s ":         hybrid.Quota(1, 1500*time.Millisecond),
		"Window 87600h0m1s ":   hybrid.Quota(1, 3650*hybrid.Day+time.Second),
		"Offset 14h0m1s ":      hybrid.Quota(1, hybrid.Day).In(14*time.Hour + time.Second),
		"Offset -15h0m0s ":     hybrid.Quota(1, hybrid.Day).In(-15 * time.Hour),
		"Offset 1ms ":          hybrid.Quota(1, hybrid.Day).In(time.Millisecond),
		"Rate 5 ":              {Rate: 5, Burst: 1, Kind: hybrid.KindQuota, Window: hybrid.Day},
		"Kind Kind(9) ":        {Rate: 5, Burst: 1, Kind: 9},
		"Window 24h0m0s or ":   {Rate: 5, Burst: 1, Window: hybrid.Day},
		"Offset 1h0m0s of a t": hybrid.PerSecond(5).In(time.Hour),
	} {
		_, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: limit})
		if !errors.Is(err, hybrid.ErrInvalidLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, does not say %q", limit, err, want)
		}
	}
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
