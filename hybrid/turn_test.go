package hybrid_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestDeniedAfterATurn: what was used of a limit counts under its next window until the old one
// ends. A process that is denied is told when something comes, and has it then, whether it goes on
// asking or waits.
func TestDeniedAfterATurn(t *testing.T) {
	minute := hybrid.Quota(100, hybrid.Minute)
	for _, c := range []struct {
		from, to hybrid.Limit
		n        int
		comes    time.Duration // after 40 s, at which 100 are used
	}{
		{minute, hybrid.Quota(100, hybrid.Hour), 1, 20 * time.Second},
		{minute, hybrid.Sliding(100, hybrid.Hour), 1, 20 * time.Second},
		{minute, minute.In(time.Second), 1, 20 * time.Second},
		{minute.In(time.Second), minute, 1, 20 * time.Second},
		{hybrid.Quota(100, hybrid.Hour), minute, 1, 59*time.Minute + 20*time.Second},
		{hybrid.PerMinute(100), hybrid.Quota(100, hybrid.Hour), 50, 30 * time.Second},
	} {
		for _, waits := range []bool{false, true} {
			t.Run(c.from.String()+" to "+c.to.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					time.Sleep(40 * time.Second)
					var limit atomic.Value
					limit.Store(c.from)
					store := remoteLine(time.Millisecond)
					l := newLimiter(t, store, hybrid.Config{
						LimitFor: func(string) hybrid.Limit { return limit.Load().(hybrid.Limit) },
					})
					start := time.Now()
					if !l.AllowN("k", 100) || l.AllowN("k", c.n) {
						t.Fatal("not 100")
					}
					limit.Store(c.to)
					for range 40 {
						time.Sleep(100 * time.Millisecond)
						l.AllowN("k", c.n) // until it has turned, and is denied by the new limit
					}
					d, err := l.Take(ctx, "k", c.n)
					told := time.Since(start) + d.RetryAfter
					if err != nil || d.Allowed || told < c.comes-time.Second || told > c.comes+time.Second {
						t.Errorf("%+v, %v: told %v after the start, not %v", d, err, told, c.comes)
					}
					if d.ResetAfter < d.RetryAfter-time.Second {
						t.Errorf("%+v: full before something comes", d)
					}
					calls := store.trips.Load() - store.census.Load()
					if waits {
						err = l.Wait(ctx, "k", c.n)
					} else {
						for !l.AllowN("k", c.n) && time.Since(start) < c.comes+time.Minute {
							time.Sleep(100 * time.Millisecond)
						}
					}
					took := time.Since(start)
					if err != nil || took < c.comes-time.Second || took > c.comes+time.Second {
						t.Errorf("%v: %v after the start, not %v", err, took, c.comes)
					}
					calls = store.trips.Load() - store.census.Load() - calls
					if most := int64(took/(26*time.Second)) + 4; calls > most {
						t.Errorf("%d exchanges in %v", calls, took)
					}
				})
			})
		}
	}
}

// TestSummerTime: a quota whose days begin at 0:00 of a zone has them so after a change of its
// offset, also for a process that was denied before it.
func TestSummerTime(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		at := func(day, h, m int) time.Time { return time.Date(2027, 3, day, h, m, 0, 0, zone) }
		time.Sleep(time.Until(at(28, 1, 30)))
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{LimitFor: func(string) hybrid.Limit {
			_, seconds := time.Now().In(zone).Zone()
			return hybrid.Quota(100, hybrid.Day).In(time.Duration(seconds) * time.Second)
		}})
		admitted := map[int]int{}
		for time.Now().Before(at(29, 2, 0)) {
			if l.Allow("k") {
				admitted[time.Now().In(zone).Day()*100+time.Now().In(zone).Hour()]++
			}
			time.Sleep(200 * time.Millisecond)
			if time.Now().After(at(28, 3, 10)) && time.Now().Before(at(28, 23, 50)) {
				time.Sleep(time.Until(at(28, 23, 50)))
			}
		}
		// The day that the offset of winter began lasts until 1:00 in summer.
		if len(admitted) != 2 || admitted[2801] != 100 || admitted[2901] != 100 {
			t.Errorf("by day and hour: %v", admitted)
		}
	})
}

// TestQuotaHearsOfRefund: a process that was denied a quota until its window ends hears within
// MaxHold of what comes back before, whether it goes on asking or waits. It asks for that once in
// about MaxHold. A caller is told the end of the window.
func TestQuotaHearsOfRefund(t *testing.T) {
	for _, classed := range []bool{false, true} {
		for _, waits := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				config := hybrid.Config{Limit: hybrid.Quota(100, hybrid.Day)}
				if classed {
					config.Classes = []hybrid.Class{{Name: "all"}}
				}
				a, b := newLimiter(t, store, config), newLimiter(t, store, config)
				if !a.AllowN("k", 100) || b.Allow("k") {
					t.Fatal("not 100")
				}
				calls := store.trips.Load() - store.census.Load()
				for range 6000 {
					if time.Sleep(100 * time.Millisecond); a.Allow("k") || b.Allow("k") {
						t.Fatal("101")
					}
				}
				if calls = store.trips.Load() - store.census.Load() - calls; calls < 40 || calls > 46 {
					t.Errorf("%d exchanges of two processes in ten minutes", calls)
				}
				if d, err := b.Take(ctx, "k", 1); err != nil || d.RetryAfter < 23*time.Hour {
					t.Errorf("%+v, %v", d, err)
				}
				heard := make(chan error, 1)
				if waits {
					go func() { heard <- b.Wait(ctx, "k", 1) }()
					for range 600 {
						time.Sleep(100 * time.Millisecond)
						a.Allow("k")
					}
				}
				if n, err := a.Refund("k", 10); n != 10 || err != nil {
					t.Fatal(n, err)
				}
				for start := time.Now(); !waits && !b.Allow("k"); time.Sleep(100 * time.Millisecond) {
					if time.Since(start) > 31*time.Second {
						t.Fatal("it does not hear of the refund")
					}
				}
				select {
				case err := <-heard:
					if err != nil || !waits {
						t.Error(err)
					}
				case <-time.After(31 * time.Second):
					if waits {
						t.Error("a caller that waits does not hear of the refund")
					}
				}
			})
		}
	}
}
