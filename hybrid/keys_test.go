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
)

func TestManyKeysShareRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		var wg sync.WaitGroup
		const keys = 10_000
		for i := range keys {
			wg.Go(func() { l.Allow(fmt.Sprint(i)) })
		}
		wg.Wait()
		if n := store.trips.Load(); n > 200 {
			t.Errorf("%d keys took %d round trips", keys, n)
		}
	})
}

func TestMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(10), MaxKeys: 64})
		hot := l.Key("hot")
		hot.Allow()
		for i := range 5000 {
			if !l.Allow(fmt.Sprint("flood", i)) {
				t.Fatalf("key %d denied: every bucket is full", i)
			}
			if i%100 == 0 {
				hot.Allow()
			}
		}
		if s := l.Stats(); s.Keys > 64 {
			t.Errorf("%d keys in memory", s.Keys)
		}
		decided := func() (admitted, denied uint64) {
			s := l.Stats()
			return s.Lease.Admitted + s.Ledger.Admitted, s.Lease.Denied + s.Ledger.Denied
		}
		admitted, denied := decided()
		for i := range 20 { // a key outside the table: ten tokens, then no more
			if got := l.Allow("tail"); got != (i < 10) {
				t.Errorf("request %d of a key outside the table: %v", i, got)
			}
		}
		if a, d := decided(); a != admitted+10 || d != denied+10 {
			t.Errorf("Stats counts %d admitted and %d denied more", a-admitted, d-denied)
		}
		time.Sleep(time.Minute) // there is room again
		handle := l.Key("late")
		trips := store.trips.Load()
		for range 500 {
			handle.Allow()
			time.Sleep(20 * time.Millisecond)
		}
		if n := store.trips.Load() - trips; n > 100 {
			t.Errorf("%d round trips for 500 requests after there was room again", n)
		}
	})
}

// TestCloseReachesAll: also those who wait for a key outside the table.
func TestCloseReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerHour(1), MaxKeys: 1})
		errs := make(chan error)
		const keys = 300
		for i := range keys {
			l.Allow(fmt.Sprint(i))
			go func() { errs <- l.Wait(ctx, fmt.Sprint(i), 1) }()
		}
		synctest.Wait()
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for range keys {
			if err := <-errs; !errors.Is(err, hybrid.ErrClosed) {
				t.Fatal(err)
			}
		}
	})
}

// TestCancelledRequestsPinNothing: clients that go away leave no key behind.
func TestCancelledRequestsPinNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(10*time.Millisecond),
			hybrid.Config{Limit: hybrid.PerSecond(10)})
		for i := range 100 {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			if _, err := l.Take(short, fmt.Sprint(i), 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		time.Sleep(time.Minute)
		if s := l.Stats(); s.Keys != 0 {
			t.Errorf("%d keys after a minute", s.Keys)
		}
	})
}

// TestExceedsInAFullTable: a request that is too large is refused at once.
func TestExceedsInAFullTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerHour(10), MaxKeys: 1})
		for i := range 300 {
			go l.Wait(ctx, fmt.Sprint(i), 10)
			time.Sleep(10 * time.Millisecond)
		}
		for i := range 300 {
			if _, err := l.Take(ctx, fmt.Sprint("new", i), 11); !errors.Is(err, hybrid.ErrExceedsBurst) {
				t.Fatal(err)
			}
		}
	})
}

// TestSparseKeyIsLeased: a key asked for a few times a second is kept warm.
func TestSparseKeyIsLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		waited := 0
		for range 200 {
			start := time.Now()
			l.Allow("k")
			if time.Since(start) > 0 {
				waited++
			}
			time.Sleep(110 * time.Millisecond)
		}
		if waited > 10 || store.trips.Load() > 150 {
			t.Errorf("%d of 200 requests waited, %d round trips", waited, store.trips.Load())
		}
	})
}

// TestParkedKey: a key that is asked for every few seconds takes no room for an
// entry meanwhile, and still shares exchanges.
func TestParkedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		k, waited := l.Key("k"), 0
		for range 100 {
			start := time.Now()
			if !k.Allow() {
				t.Fatal("denied")
			}
			if time.Since(start) > 0 {
				waited++
			}
			time.Sleep(6 * time.Second)
			if n := l.Stats().Keys; n != 0 {
				t.Fatalf("%d keys in use after 6 s", n)
			}
		}
		if trips := store.trips.Load() - store.census.Load(); waited > 40 || trips > 40 {
			t.Errorf("%d of 100 requests waited, %d round trips", waited, trips)
		}
		if s := l.Stats(); s.Lease.Admitted+s.Ledger.Admitted != 100 {
			t.Errorf("counted %+v", s)
		}
	})
}

func TestIdleKeysAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(10)})
		k := l.Key("0")
		for i := range 1000 {
			l.Allow(fmt.Sprint(i))
		}
		k.Allow()
		time.Sleep(time.Minute)
		if s := l.Stats(); s.Keys != 0 {
			t.Errorf("%d keys after a minute", s.Keys)
		}
		if !k.Allow() {
			t.Error("a handle outlives its key's eviction")
		}
	})
}

// TestLimitFor: a changed limit is in force after the next exchange.
func TestLimitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rate atomic.Int64
		rate.Store(100)
		core, logs := observer.New(zap.WarnLevel)
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Logger: zap.New(core),
			LimitFor: func(key string) hybrid.Limit {
				if key == "bad" {
					return hybrid.Limit{}
				}
				return hybrid.PerSecond(float64(rate.Load()))
			},
		})
		count := func() (n int) {
			for range 2000 {
				if l.Allow("k") {
					n++
				}
				time.Sleep(time.Millisecond)
			}
			return n
		}
		count()
		for _, r := range []int64{500, 50} {
			rate.Store(r)
			for range 17 { // a raise takes half a minute
				count()
			}
			if n := count(); n < int(r)*2*95/100 || n > int(r)*2*105/100 {
				t.Errorf("%d admitted in 2 s at %d/s", n, r)
			}
		}
		rate.Store(-1)
		if n := count(); n < 95 || n > 105 {
			t.Errorf("%d admitted in 2 s: an invalid limit must leave 50/s", n)
		}
		if logs.Len() != 1 {
			t.Errorf("the invalid limit was logged %d times", logs.Len())
		}
		if _, err := l.Take(ctx, "bad", 1); !errors.Is(err, hybrid.ErrInvalidLimit) {
			t.Errorf("bad limit: %v", err)
		}
	})
}

// TestParkedAgainAndAgain: keys that are far fewer than MaxKeys stay parked between their
// requests, however often they were before.
func TestParkedAgainAndAgain(t *testing.T) {
	count := func(most int) (n uint64) {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, remoteLine(time.Millisecond),
				hybrid.Config{Limit: hybrid.PerSecond(1000), MaxKeys: most})
			for range 100 {
				for i := range 10 {
					l.Allow(fmt.Sprint(i))
				}
				time.Sleep(5 * time.Second)
			}
			n = l.Stats().Exchanges
		})
		return n
	}
	if few, many := count(20), count(1000); few > many*11/10 {
		t.Errorf("10 keys take %d exchanges with MaxKeys 20, %d with 1000", few, many)
	}
}

// TestCloseOfParkedKeys: Close hands back what parked keys still have, however many there are. It
// does not wait for a store that is away.
func TestCloseOfParkedKeys(t *testing.T) {
	for _, c := range []struct {
		name string
		keys int
		cut  bool
	}{{"some", 20, false}, {"many", 3000, false}, {"store away", 20, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, config := remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.Per(1000, year)}
				l, other := newLimiter(t, store, config), newLimiter(t, store, config)
				each := func(f func(i int, key string) (hybrid.Decision, error)) {
					var group sync.WaitGroup
					for i := range c.keys {
						group.Go(func() {
							if d, err := f(i, fmt.Sprint(i)); err != nil || !d.Allowed {
								t.Errorf("%+v, %v", d, err)
							}
						})
					}
					group.Wait()
				}
				want := make([]int64, c.keys)
				for range 2 {
					each(func(i int, key string) (d hybrid.Decision, err error) {
						d, err = l.Take(ctx, key, 1)
						want[i] = d.Held
						return d, err
					})
					time.Sleep(5 * time.Second)
				}
				if n := l.Stats().Keys; n != 0 || want[0] == 0 {
					t.Fatalf("%d keys are in use, and %d tokens of the first one on lease", n, want[0])
				}
				each(func(i int, key string) (d hybrid.Decision, err error) {
					d, err = other.Peek(ctx, key)
					want[i] += d.Remaining
					return d, err
				})
				store.cut.Store(c.cut)
				start := time.Now()
				if err := l.Close(ctx); err != nil || time.Since(start) > time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
				if c.cut {
					return
				}
				time.Sleep(time.Second) // what the other has heard is old then
				each(func(i int, key string) (hybrid.Decision, error) {
					d, err := other.Peek(ctx, key)
					if d.Remaining != want[i] {
						t.Errorf("%d are left of key %s, not %d", d.Remaining, key, want[i])
					}
					return d, err
				})
			})
		})
	}
}
