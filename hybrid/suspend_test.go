package hybrid_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// asleep is longer than the leases of these tests live, and awake is for how long after
// it a pocket may go on.
const (
	asleep = time.Minute
	awake  = time.Millisecond
)

// TestSuspend: after a sleep, for which the monotonic clock stood still, the next decision
// is by no lease of before. Nobody has looked at the clocks by then.
func TestSuspend(t *testing.T) {
	for name, happens := range map[string]func(*hybrid.Limiter){
		"boot-time clock": func(l *hybrid.Limiter) { l.Suspend(asleep) },
		"wall clock":      func(l *hybrid.Limiter) { l.WithoutBootTime(); l.Suspend(asleep) },
		"an hour, twice":  func(l *hybrid.Limiter) { l.Suspend(time.Hour); l.Take(ctx, "other", 1); l.Suspend(time.Hour) },
	} {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
			for _, calm := range []bool{true, false} {
				key := fmt.Sprint("calm ", calm)
				for range 2000 {
					if l.Allow(key); !calm {
						l.AllowN(key, 2)
					}
					time.Sleep(5 * time.Millisecond)
				}
				if d, err := l.Take(ctx, key, 1); err != nil || d.Source != hybrid.Lease {
					t.Fatalf("%s: no lease: %+v, %v", name, d, err)
				}
				for store.flying.Load() > 0 { // it would be overdue after a sleep
					time.Sleep(100 * time.Microsecond)
				}
				happens(l)
				if d, err := l.Take(ctx, key, 1); err != nil || d.Source != hybrid.Ledger {
					t.Errorf("%s, %s: after a sleep %+v, %v", name, key, d, err)
				}
				time.Sleep(time.Second)
				if d, err := l.Take(ctx, key, 1); err != nil || !d.Allowed {
					t.Errorf("%s, %s: later %+v, %v", name, key, d, err)
				}
			}
		})
	}
}

// TestSuspendPockets: what requests of a hot key may take without its lock ends within a
// millisecond after a sleep.
func TestSuspendPockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Microsecond)
		l := newLimiter(t, store, hybrid.Config{
			Limit: hybrid.PerSecond(1e9), Timeout: 10 * time.Millisecond, Outage: hybrid.Deny,
		})
		k := l.Key("k")
		for range 20_000 {
			k.Allow()
			if runtime.Gosched(); store.flying.Load() > 0 {
				time.Sleep(10 * time.Microsecond)
			}
		}
		before := l.Stats().Lease.Admitted
		k.Allow()
		if l.Stats().Lease.Admitted != before+1 {
			t.Fatal("no lease")
		}
		l.Suspend(asleep)
		store.cut.Store(true)
		time.Sleep(awake)
		before = l.Stats().Lease.Admitted
		for range 3 {
			if k.Allow() {
				t.Error("admitted by the lease of before a sleep")
			}
		}
		if s := l.Stats(); s.Lease.Admitted != before {
			t.Errorf("%d admitted by it", s.Lease.Admitted-before)
		}
	})
}

// TestStepIsNoSleep: where the boot-time clock is known, a step of the wall clock ends no
// lease.
func TestStepIsNoSleep(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there is no boot-time clock on " + runtime.GOOS)
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerSecond(1000)})
		use := func() {
			for range 400 {
				l.Allow("k")
				time.Sleep(5 * time.Millisecond)
			}
		}
		use()
		for _, d := range []time.Duration{time.Hour, -2 * time.Hour} {
			l.Step(d)
			if d, err := l.Take(ctx, "k", 1); err != nil || d.Source != hybrid.Lease {
				t.Errorf("after a step: %+v, %v", d, err)
			}
			use()
		}
		l.Suspend(asleep)
		if l.Take(ctx, "k", 1); l.Slept() < asleep-time.Millisecond ||
			l.Slept() > asleep+time.Second {
			t.Errorf("slept for %v of %v after the steps", l.Slept(), asleep)
		}
	})
}

// TestRealClocks: the real clocks of this machine tell a sleep to the millisecond, and
// none where there was none.
func TestRealClocks(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerHour(1e6)})
	for range 100_000 {
		l.AllowN("k", 2)
	}
	if s := l.Slept(); s != 0 {
		t.Fatalf("%v slept in a loop", s)
	}
	total := time.Duration(0)
	for range 5 {
		l.Suspend(time.Hour)
		total += time.Hour
		if l.AllowN("k", 2); l.Slept() < total-time.Millisecond*50 ||
			l.Slept() > total+50*time.Millisecond {
			t.Errorf("slept for %v, found %v", total, l.Slept())
		}
	}
}
