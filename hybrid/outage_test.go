package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

func TestCloseWhenCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Second) // longer than the timeout
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100)})
		go l.Allow("k")
		synctest.Wait()
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := l.Close(soon); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 50*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Minute) // the store call ends some time
	})
}

// TestOutage: the store goes away under load and comes back.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		policy hybrid.Outage
		lo, hi int // admitted in 10 s of outage by two processes, 100/s over all
	}{
		{hybrid.Share, 850, 1002}, // two of them may round up
		{hybrid.Deny, 0, 0},
		{hybrid.Allow, 19000, 20000},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				core, logs := observer.New(zap.InfoLevel)
				config := hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(100), Outage: c.policy, Timeout: 50 * time.Millisecond, Logger: zap.New(core)}
				limiters := []*hybrid.Limiter{newLimiter(t, store, config), newLimiter(t, store, config)}
				slowest := time.Duration(0)
				run := func(d time.Duration) (admitted, outage int) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
						for _, l := range limiters {
							start := time.Now()
							d, err := l.Take(ctx, "k", 1)
							slowest = max(slowest, time.Since(start))
							if err == nil && d.Allowed {
								admitted++
								if d.Source == hybrid.OutagePolicy {
									outage++
								}
							}
						}
					}
					return
				}
				run(3 * time.Second)
				store.cut.Store(true)
				run(time.Second) // until it is noticed, and leases have run out
				before := store.trips.Load()
				admitted, outage := run(10 * time.Second)
				if admitted != outage || admitted < c.lo || admitted > c.hi {
					t.Errorf("%d admitted, %d by the outage policy, want %d to %d", admitted, outage, c.lo, c.hi)
				}
				if probes := store.trips.Load() - before; probes > 2*10*4 {
					t.Errorf("%d probes in 10 s by two processes", probes)
				}
				if !limiters[0].Stats().Away {
					t.Error("Stats does not say so")
				}
				store.cut.Store(false)
				run(3 * time.Second)
				admitted, outage = run(10 * time.Second)
				if outage > 0 || admitted < 980 || admitted > 1100 {
					t.Errorf("afterwards %d admitted, %d by the outage policy", admitted, outage)
				}
				if slowest > config.Timeout {
					t.Errorf("a request waited %v", slowest)
				}
				if n := len(logs.All()); n != 4 {
					t.Errorf("%d log lines, want one each way from each: %v", n, logs.All())
				}
			})
		})
	}
}

// TestShareBesideLease: a lease that goes on to refill in an outage is a part of
// this process's share, not something beside it.
func TestShareBesideLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100), Timeout: 50 * time.Millisecond})
		const every = time.Second / 230
		for range 1150 { // so little that the slice is lent for 5 s
			l.Allow("k")
			time.Sleep(every)
		}
		store.cut.Store(true)
		for i := 0; !l.Stats().Away; i++ {
			l.Allow(fmt.Sprint(i))
			l.Allow("k")
			time.Sleep(every)
		}
		for range 3 {
			admitted := 0
			for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Second / 4000) {
				for i := range 20 { // these are as many to probe
					l.Allow(fmt.Sprint("x", i))
				}
				if l.Allow("k") {
					admitted++
				}
			}
			if admitted < 2850 || admitted > 3100 {
				t.Errorf("%d admitted in 3 s of an outage at 1000/s", admitted)
			}
		}
	})
}

// TestStartInOutage: who never heard from the store does not know its share.
func TestStartInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		store.cut.Store(true)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100)})
		for range 1000 {
			if l.Allow("k") {
				t.Fatal("admitted")
			}
			time.Sleep(10 * time.Millisecond)
		}
		store.cut.Store(false)
		time.Sleep(2 * time.Second)
		l.Allow("k")
		time.Sleep(2 * time.Second)
		if !l.Allow("k") {
			t.Errorf("denied after the store came back: %+v", l.Stats())
		}
	})
}

// TestOneKeysOutage: a key whose node is down is decided by the outage policy
// though the store answers others, and recovers by itself.
func TestOneKeysOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, down := remoteLine(time.Millisecond), remoteLine(time.Millisecond)
		store := split{"down", down, up}
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond})
		run := func(d time.Duration) (outage, errs int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				l.Allow("up")
				d, err := l.Take(ctx, "down", 1)
				if err != nil {
					errs++
				} else if d.Source == hybrid.OutagePolicy {
					outage++
				}
			}
			return
		}
		run(2 * time.Second)
		down.cut.Store(true)
		run(2 * time.Second)
		if outage, errs := run(5 * time.Second); outage < 100 || errs > 0 {
			t.Errorf("%d decided by the outage policy, %d errors", outage, errs)
		}
		down.cut.Store(false)
		run(2 * time.Second)
		if outage, errs := run(5 * time.Second); outage+errs > 0 || l.Stats().Away {
			t.Errorf("afterwards %d decided by the outage policy, %d errors", outage, errs)
		}
	})
}

// split sends one key to a store of its own.
type split struct {
	key         string
	its, others hybrid.Store
}

func (s split) Exchange(ctx context.Context, calls []*lease.Call) {
	for _, c := range calls {
		if c.Key == s.key {
			s.its.Exchange(ctx, []*lease.Call{c})
		} else {
			s.others.Exchange(ctx, []*lease.Call{c})
		}
	}
}
