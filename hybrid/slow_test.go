package hybrid_test

import (
	"context"
	"fmt"
	"runtime"
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

// crowded is a store whose latency can be set, and which knows how many exchanges
// were under way at a time.
type crowded struct {
	*hybrid.Memory
	latency     atomic.Int64
	flying, top atomic.Int64
}

func (c *crowded) Exchange(ctx context.Context, calls []*lease.Call) {
	n := c.flying.Add(int64(len(calls)))
	defer c.flying.Add(-int64(len(calls)))
	for top := c.top.Load(); n > top && !c.top.CompareAndSwap(top, n); {
		top = c.top.Load()
	}
	latency := time.Duration(c.latency.Load())
	time.Sleep(latency / 2)
	c.Memory.Exchange(ctx, calls)
	time.Sleep(latency / 2)
}

// TestSlowStore: the store's latency goes from 1 ms to 200 ms, to 5 s, and back,
// while 100,000 keys that nobody has asked for yet want an exchange each, and one key
// is hot. The hot key goes on by its lease as long as there is one, nobody waits for
// longer than the timeout, what is under way and the goroutines stay bounded, and
// when the store is back its latency stays what it was.
func TestSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &crowded{Memory: hybrid.NewMemory()}
		store.latency.Store(int64(time.Millisecond))
		const timeout = 250 * time.Millisecond
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000), Outage: hybrid.Deny})
		hot := l.Key("hot")
		run := func(d time.Duration) (local int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				start := time.Now()
				if hot.Allow() && time.Since(start) == 0 {
					local++
				}
				if took := time.Since(start); took > timeout {
					t.Errorf("a request of the hot key took %v", took)
				}
			}
			return local
		}
		run(2 * time.Second)
		store.latency.Store(int64(200 * time.Millisecond))
		if n := run(10 * time.Second); n < 995 { // by then it knows how long an exchange takes
			t.Errorf("at 200 ms, %d of 1000 requests of the hot key were decided here", n)
		}

		store.latency.Store(int64(5 * time.Second))
		keys := longform.Of(20_000, 100_000)
		var late atomic.Int64
		before := runtime.NumGoroutine()
		for i := range keys {
			go func() {
				start := time.Now()
				l.Allow(fmt.Sprint(i))
				if time.Since(start) > timeout {
					late.Add(1)
				}
			}()
		}
		time.Sleep(timeout / 2)
		if n := runtime.NumGoroutine() - before - keys; n > 40 {
			t.Errorf("%d goroutines beside the callers", n)
		}
		// A lease lasts for half a second after its renewal is asked for (lease.term): a quarter of
		// MaxRefresh and an exchange with its rate, and MaxRefresh with its tokens.
		n := run(350 * time.Millisecond)
		synctest.Wait()
		if late.Load() > 0 || n < 34 {
			t.Errorf("%d of %d waited longer than %v; the hot key decided %d of 35 while its "+
				"lease lasted", late.Load(), keys, timeout, n)
		}
		// 16 round trips, and one beside those that are overdue.
		if top := store.top.Load(); top > 17*256 {
			t.Errorf("%d exchanges were under way at a time", top)
		}
		run(20 * time.Second)
		if !l.Stats().Away {
			t.Error("Stats does not say that the store is away")
		}

		store.latency.Store(int64(time.Millisecond))
		run(6 * time.Second) // exchanges of before come back, and a probe
		store.top.Store(0)
		sent := l.Stats().Exchanges
		if n := run(5 * time.Second); n < 495 {
			t.Errorf("when the store is back, %d of 500 requests of the hot key were decided here",
				n)
		}
		if s := l.Stats(); s.Away || s.Exchanges-sent > 100 || store.top.Load() > 16 {
			t.Errorf("%+v: %d exchanges in 5 s, %d at a time: a herd", s, s.Exchanges-sent,
				store.top.Load())
		}
	})
}

// besieged is a server that others keep busy with scripts of 100 ms each, so that each
// round trip waits for some of them, and one in three for longer than its timeout.
type besieged struct {
	hybrid.Store
	is    atomic.Bool
	trips atomic.Int64
}

func (b *besieged) Exchange(ctx context.Context, calls []*lease.Call) {
	wait := time.Millisecond
	if b.is.Load() {
		wait = time.Duration(50+100*(b.trips.Add(1)%3)) * time.Millisecond
	}
	select {
	case <-time.After(wait):
		b.Store.Exchange(ctx, calls)
	case <-ctx.Done():
		for _, c := range calls {
			c.Err = ctx.Err()
		}
	}
}

// TestBesiegedStore: a store that answers two of three exchanges in time is slow, and not
// away. Each request has a verdict, by the outage policy where the ledger has none. Stats
// say so, and one log line each way.
func TestBesiegedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &besieged{Store: hybrid.NewMemory()}
		core, logs := observer.New(zap.InfoLevel)
		l := newLimiter(t, store,
			hybrid.Config{Limit: hybrid.PerSecond(1000), Logger: zap.New(core)})
		var wg sync.WaitGroup
		run := func(d time.Duration) (unknown, denied int64) {
			var u, n atomic.Int64
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				for _, key := range []string{"hot", fmt.Sprint("cold", time.Now().UnixNano())} {
					wg.Go(func() {
						switch d, err := l.Take(ctx, key, 1); {
						case err != nil:
							u.Add(1)
						case !d.Allowed:
							n.Add(1)
						}
					})
				}
			}
			wg.Wait()
			return u.Load(), n.Load()
		}
		run(5 * time.Second)
		store.is.Store(true)
		run(5 * time.Second)
		if s := l.Stats(); !s.Slow || s.Away {
			t.Errorf("%+v", s)
		}
		if unknown, denied := run(20 * time.Second); unknown > 0 || denied > 2000/2 {
			t.Errorf("of 2000 requests %d have no verdict, and %d were denied", unknown, denied)
		}
		if s := l.Stats(); !s.Slow || s.Away {
			t.Errorf("%+v", s)
		}
		store.is.Store(false)
		run(10 * time.Second)
		if s := l.Stats(); s.Slow || s.Away {
			t.Errorf("afterwards %+v", s)
		}
		for _, text := range []string{"store is slow", "no longer slow"} {
			if n := logs.FilterMessageSnippet(text).Len(); n != 1 {
				t.Errorf("%d log lines say %q: %v", n, text, logs.All())
			}
		}
		if n := logs.FilterMessageSnippet("does not answer").Len(); n > 1 {
			t.Errorf("%v", logs.All())
		}
	})
}

// TestSlowIsNotAway: a store that answers too late now and then admits no more under Allow than
// under Deny: what the limit does.
func TestSlowIsNotAway(t *testing.T) {
	for _, outage := range []hybrid.Outage{hybrid.Deny, hybrid.Allow} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &besieged{Store: hybrid.NewMemory()}
				limit := hybrid.PerSecond(100)
				l := newLimiter(t, store, hybrid.Config{
					Limit: limit, Outage: outage, Policy: lease.Policy{Mode: lease.PerRequest},
				})
				var wg sync.WaitGroup
				var admitted atomic.Int64
				run := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
						wg.Go(func() {
							d, err := l.Take(ctx, "k", 1)
							if err == nil && d.Allowed {
								admitted.Add(1)
							}
						})
						wg.Go(func() {
							d, err := l.TakeAll(ctx, hybrid.Ask{Key: "k", N: 1}, hybrid.Ask{Key: "other", N: 1})
							if err == nil && d.Allowed {
								admitted.Add(1)
							}
						})
					}
					wg.Wait()
				}
				run(time.Second)
				store.is.Store(true)
				admitted.Store(0)
				const long = 10
				run(long * time.Second)
				s := l.Stats()
				most := limit.Burst + int64(limit.Rate*(long+1))
				if n := admitted.Load(); n > most || s.Away {
					t.Errorf("admitted %d, and at most %d are allowed: %+v", n, most, s)
				}
			})
		})
	}
}

// TestCloseOfLapsed: many keys are handed back while the store has become slow. The leases of most
// of them end before their turn comes, and Close waits for nothing that is lost.
func TestCloseOfLapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &crowded{Memory: hybrid.NewMemory()}
		store.latency.Store(int64(time.Millisecond))
		const refresh = 100 * time.Millisecond
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000), Policy: hybrid.Policy{
			Mode: lease.Batches, Batch: 10, MaxRefresh: refresh, MaxHold: refresh,
		}})
		var wg sync.WaitGroup
		for key := range 1000 {
			wg.Go(func() { l.Take(ctx, fmt.Sprint(key), 1) })
		}
		wg.Wait()
		store.latency.Store(int64(200 * time.Millisecond))
		start := time.Now()
		deadline, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err := l.Close(deadline)
		// Two round trips: what waits behind those that have lapsed leaves at once.
		if err != nil || time.Since(start) > 600*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
