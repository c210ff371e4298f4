package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
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

// TestCloseTwice: a second Close beside the first waits, too, as long as it may.
func TestCloseTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(100*time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(100)})
		l.Allow("k")
		go l.Close(ctx)
		synctest.Wait()
		soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := l.Close(soon); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := l.Close(ctx); err != nil || time.Since(start) < 50*time.Millisecond {
			t.Errorf("%v after %v, before anything was handed back", err, time.Since(start))
		}
		if err := l.Close(soon); err != nil {
			t.Errorf("when all has ended: %v", err)
		}
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
	long(t)
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
		for range longform.Of(1, 3) {
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

// TestStartInOutage: a process that never heard from the store does not know its share,
// unless it has a hint, and says so. Then it hears from it.
func TestStartInOutage(t *testing.T) {
	for processes, want := range map[int]int{0: 0, 2: 500, 5: 200} {
		t.Run(fmt.Sprint(processes), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				store.cut.Store(true)
				core, logs := observer.New(zap.InfoLevel)
				l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100), Processes: processes, Logger: zap.New(core)})
				all := []*hybrid.Limiter{l}
				admitted(all, "k", time.Second, 5*time.Millisecond)
				if n := admitted(all, "k", 10*time.Second, 5*time.Millisecond); n < want*99/100 || n > want+1 {
					t.Errorf("%d admitted in 10 s of an outage at 100/s", n)
				}
				if n := logs.FilterMessageSnippet("Config.Processes").Len(); n != 1 && processes == 0 || n != 0 && processes > 0 {
					t.Errorf("%d log lines of how many processes there are", n)
				}
				store.cut.Store(false)
				time.Sleep(2 * time.Second)
				l.Allow("k")
				time.Sleep(20 * time.Second) // until the census is taken, and the lease of an entry that was forgotten has ended
				if !l.Allow("k") {
					t.Errorf("denied after the store came back: %+v", l.Stats())
				}
				store.cut.Store(true)
				admitted(all, "k", 2*time.Second, 5*time.Millisecond)
				if n := admitted(all, "k", 10*time.Second, 5*time.Millisecond); n < 990 || n > 1001 {
					t.Errorf("%d admitted in 10 s of a later outage at 100/s, by the only process", n)
				}
			})
		})
	}
}

// TestSecondLimiterInOutage: a Limiter that is made while the store is away goes by how many
// processes another one of its process has heard of, also when that one is closed.
func TestSecondLimiterInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		config := hybrid.Config{Limit: hybrid.PerSecond(100), Process: hybrid.NewProcess()}
		first := newLimiter(t, store, config)
		admitted([]*hybrid.Limiter{first}, "k", 15*time.Second, 5*time.Millisecond)
		store.cut.Store(true)
		admitted([]*hybrid.Limiter{first}, "k", 2*time.Second, 5*time.Millisecond)
		second := newLimiter(t, store, config)
		first.Close(ctx)
		admitted([]*hybrid.Limiter{second}, "k", time.Second, 5*time.Millisecond)
		n := admitted([]*hybrid.Limiter{second}, "k", 10*time.Second, 5*time.Millisecond)
		if n < 990 || n > 1001 {
			t.Errorf("%d admitted in 10 s of an outage at 100/s, by the only process", n)
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

// TestWaitOfFailingKey: who waits for a key whose node goes down is decided by the outage
// policy, as those are who come later.
func TestWaitOfFailingKey(t *testing.T) {
	for name, others := range map[string]bool{"the store answers others": true, "no others": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up, down := remoteLine(time.Millisecond), remoteLine(time.Millisecond)
				l := newLimiter(t, split{"down", down, up}, hybrid.Config{Limit: hybrid.PerSecond(100), Outage: hybrid.Allow, Timeout: 50 * time.Millisecond})
				l.Allow("up")
				down.cut.Store(true)
				var wg sync.WaitGroup
				wg.Go(func() {
					start := time.Now()
					c, cancel := context.WithTimeout(ctx, time.Minute)
					defer cancel()
					if err := l.Wait(c, "down", 1); err != nil || time.Since(start) > 5*time.Second {
						t.Errorf("waited %v under Allow: %v", time.Since(start), err)
					}
				})
				for range 12_000 {
					if others {
						l.Take(ctx, fmt.Sprint("up", time.Now().UnixMilli()), 1)
					}
					time.Sleep(5 * time.Millisecond)
				}
				if d, err := l.Take(ctx, "down", 1); err != nil || !d.Allowed {
					t.Errorf("%+v %v", d, err)
				}
				wg.Wait()
			})
		})
	}
}

// counted counts round trips.
type counted struct {
	hybrid.Store
	trips atomic.Int64
}

func (c *counted) Exchange(ctx context.Context, calls []*lease.Call) {
	c.trips.Add(1)
	c.Store.Exchange(ctx, calls)
}

// TestFlappingStore: a store that has answered one probe, of a key that is not asked for
// again, and then nothing any more, is away, and is tried by one probe in an interval.
func TestFlappingStore(t *testing.T) {
	long(t)
	synctest.Test(t, func(t *testing.T) {
		rare, store := remoteLine(time.Millisecond), remoteLine(time.Millisecond)
		both := &counted{Store: split{"rare", rare, store}}
		l := newLimiter(t, both, hybrid.Config{Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond, Policy: hybrid.Policy{Mode: lease.PerRequest}})
		ask := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				for k := range longform.Of(30, 300) {
					go l.Allow(fmt.Sprint("k", k))
				}
			}
		}
		ask(2 * time.Second)
		store.cut.Store(true)
		ask(5 * time.Second)
		for i := 0; i < 1000 && l.Stats().Away; i++ {
			l.Allow("rare")
			time.Sleep(50 * time.Millisecond)
		}
		ask(5 * time.Second) // until that answer is an old one
		n := both.trips.Load()
		ask(20 * time.Second)
		if trips := both.trips.Load() - n; trips > 20*4 || !l.Stats().Away {
			t.Errorf("%d round trips in 20 s, %+v", trips, l.Stats())
		}
	})
}

// TestProbeOfBusyKey: a crowd that asks for a key whose lease still refills does not keep
// its probes from leaving.
func TestProbeOfBusyKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100), Timeout: 50 * time.Millisecond, Policy: hybrid.Policy{MaxRefresh: 4 * time.Second}})
		crowd := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				for range 20 {
					go l.Allow("k")
				}
			}
		}
		crowd(10 * time.Second)
		store.cut.Store(true)
		for i := range 300 {
			l.Allow(fmt.Sprint("x", i))
			time.Sleep(time.Millisecond)
		}
		store.cut.Store(false)
		back := time.Now()
		for l.Stats().Away {
			crowd(10 * time.Millisecond)
		}
		if took := time.Since(back); took > 1500*time.Millisecond {
			t.Errorf("noticed after %v, %d trips", took, store.trips.Load())
		}
	})
}
