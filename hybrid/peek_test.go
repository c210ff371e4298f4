package hybrid_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// TestPeek: it tells what is left in the store, also of a key that others use, takes
// nothing, and asks no more often than once in MaxRefresh.
func TestPeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		c := hybrid.Config{Limit: hybrid.PerHour(10), Outage: hybrid.Deny}
		a, b := newLimiter(t, store, c), newLimiter(t, store, c)
		a.AllowN("k", 4)
		start, trips := time.Now(), store.trips.Load()
		for range 1000 {
			d, err := b.Peek(ctx, "k")
			if err != nil || !d.Allowed || d.Remaining != 6 || d.Limit != c.Limit || d.RetryAfter != 0 {
				t.Fatalf("%+v, %v", d, err)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if n, most := store.trips.Load()-trips, int64(time.Since(start)/maxRefresh)+8; n > most {
			t.Errorf("%d round trips, at most %d", n, most)
		}
		a.AllowN("k", 6)
		time.Sleep(maxRefresh)
		if d, err := b.Key("k").Peek(ctx); err != nil || d.Allowed || d.Remaining != 0 || d.RetryAfter < time.Millisecond {
			t.Errorf("empty: %+v, %v", d, err)
		}

		gone, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := b.Peek(gone, "new"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a context that ends: %v", err)
		}
		store.cut.Store(true)
		time.Sleep(maxRefresh)
		begun := time.Now()
		if _, err := b.Peek(ctx, "newer"); !errors.Is(err, hybrid.ErrUnavailable) || time.Since(begun) > 250*time.Millisecond {
			t.Errorf("a failed round trip: %v after %v", err, time.Since(begun))
		}
		for !b.Stats().Away {
			b.Allow("k")
			time.Sleep(maxRefresh)
		}
		if d, err := b.Peek(ctx, "k"); err != nil || d.Allowed || d.Source != hybrid.OutagePolicy {
			t.Errorf("in an outage: %+v, %v", d, err)
		}
		b.Close(ctx)
		if _, err := b.Peek(ctx, "k"); !errors.Is(err, hybrid.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestPeekInOutage: Peek says what the next Take then does, by a lease that goes on and by
// each policy.
func TestPeekInOutage(t *testing.T) {
	for _, outage := range []hybrid.Outage{hybrid.Share, hybrid.Deny, hybrid.Allow} {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			l := newLimiter(t, store, hybrid.Config{
				Limit: hybrid.PerMinute(6000), Timeout: 10 * time.Millisecond, Outage: outage,
			})
			for range 100 { // a calm key has tokens for half a minute
				l.Allow("calm")
				time.Sleep(100 * time.Millisecond)
			}
			store.cut.Store(true)
			for !l.Stats().Away {
				l.Allow("other")
				time.Sleep(10 * time.Millisecond)
			}
			sources := map[hybrid.Source]int{}
			for range 100 {
				seen, err := l.Peek(ctx, "calm")
				if err != nil {
					t.Fatal(err)
				}
				d, err := l.Take(ctx, "calm", 1)
				if err != nil || seen.Allowed != d.Allowed || seen.Source != d.Source || seen.RetryAfter != d.RetryAfter {
					t.Fatalf("%v: Peek %+v, Take %+v, %v", outage, seen, d, err)
				}
				sources[d.Source]++
				time.Sleep(10 * time.Millisecond)
			}
			if sources[hybrid.Lease] == 0 || sources[hybrid.OutagePolicy] == 0 {
				t.Errorf("%v: by %v", outage, sources)
			}
		})
	}
}

// TestPeekOfFailingKey: where a key's node is down or refuses it, and the store answers others,
// Peek says what the next Take then does, and waits no longer than that.
func TestPeekOfFailingKey(t *testing.T) {
	for name, err := range map[string]error{"down": nil, "refused": lease.ErrRefused} {
		for _, outage := range []hybrid.Outage{hybrid.Share, hybrid.Deny, hybrid.Allow} {
			synctest.Test(t, func(t *testing.T) {
				up, down := remoteLine(time.Millisecond), &refusing{line: remoteLine(time.Millisecond)}
				l := newLimiter(t, split{"down", down, up}, hybrid.Config{
					Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond, Outage: outage,
				})
				run := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
						l.Allow("up")
						l.Allow("down")
					}
				}
				run(2 * time.Second)
				down.with.Store(&err)
				down.cut.Store(err == nil)
				run(2 * time.Second)
				if l.Stats().Away {
					t.Fatal("away, though the store answers others")
				}
				for range 100 {
					l.Allow("up")
					start := time.Now()
					seen, err := l.Peek(ctx, "down")
					if err != nil {
						t.Fatalf("%s, %v: %v", name, outage, err)
					}
					d, err := l.Take(ctx, "down", 1)
					same := seen.Allowed == d.Allowed && seen.RetryAfter == d.RetryAfter
					took := time.Since(start)
					if err != nil || !same || seen.Source != hybrid.OutagePolicy || took > 0 {
						t.Fatalf("%s, %v: Peek %+v, Take %+v, %v after %v",
							name, outage, seen, d, err, took)
					}
					time.Sleep(7 * time.Millisecond)
				}
				down.with.Store(nil)
				down.cut.Store(false)
				for range 100 { // Peek alone finds out that it answers
					l.Peek(ctx, "down")
					time.Sleep(20 * time.Millisecond)
				}
				if d, err := l.Peek(ctx, "down"); err != nil || d.Source == hybrid.OutagePolicy {
					t.Errorf("%s, %v: afterwards %+v, %v", name, outage, d, err)
				}
			})
		}
	}
}

// TestPeekOfRefusedKey: a key that was answered for a moment ago, and is refused now, is told
// of as Take decides.
func TestPeekOfRefusedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &refusing{line: remoteLine(time.Millisecond)}
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(10), Outage: hybrid.Deny})
		if !l.AllowN("k", 5) {
			t.Fatal("denied")
		}
		err := lease.ErrRefused
		store.with.Store(&err)
		l.Allow("k")
		seen, err := l.Peek(ctx, "k")
		d, failed := l.Take(ctx, "k", 1)
		if err != nil || failed != nil || seen.Source != d.Source || seen.Allowed != d.Allowed {
			t.Errorf("Peek %+v, %v; Take %+v, %v", seen, err, d, failed)
		}
	})
}

// TestPeekOfClosed: a Peek ends with its Limiter, where that does not wait for the store.
func TestPeekOfClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &crowded{Memory: hybrid.NewMemory()}
		store.latency.Store(int64(100 * time.Millisecond))
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(10)})
		ended, cancel := context.WithCancel(ctx)
		cancel()
		time.AfterFunc(50*time.Millisecond, func() { l.Close(ended) })
		start := time.Now()
		d, err := l.Peek(ctx, "k")
		if took := time.Since(start); !errors.Is(err, hybrid.ErrClosed) || took != 50*time.Millisecond {
			t.Errorf("%+v, %v after %v", d, err, took)
		}
		time.Sleep(time.Second) // until the exchange returns
	})
}

// TestPeekOfReset: a key that is reset while a Peek waits is asked for anew.
func TestPeekOfReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &crowded{Memory: hybrid.NewMemory()}
		store.latency.Store(int64(100 * time.Millisecond))
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(10)})
		time.AfterFunc(50*time.Millisecond, func() { l.Reset(ctx, "k") })
		start := time.Now()
		d, err := l.Peek(ctx, "k")
		if took := time.Since(start); err != nil || d.Remaining != 10 || took != 150*time.Millisecond {
			t.Errorf("%+v, %v after %v", d, err, took)
		}
	})
}

// refusing is a line that can be told to answer with an error.
type refusing struct {
	*line
	with atomic.Pointer[error]
}

func (r *refusing) Exchange(ctx context.Context, calls []*lease.Call) {
	r.line.Exchange(ctx, calls)
	if err := r.with.Load(); err != nil && *err != nil {
		for _, c := range calls {
			c.Err = *err
		}
	}
}

// TestReset: it makes a bucket full, for this process at once, also where requests wait.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(10), Namespace: "n"})
		k := l.Key("k")
		for range 3 {
			if !k.AllowN(10) || k.Allow() {
				t.Fatal("not one Burst")
			}
			served := make(chan error)
			go func() { served <- k.Wait(ctx, 2) }()
			synctest.Wait()
			start := time.Now()
			if err := k.Reset(ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-served; err != nil || time.Since(start) > time.Second {
				t.Errorf("a Wait is served %v after a reset: %v", time.Since(start), err)
			}
			if d, err := k.Peek(ctx); err != nil || d.Remaining != 8 {
				t.Errorf("2 of 10 taken since: %+v, %v", d, err)
			}
			if err := l.Reset(ctx, "k"); err != nil {
				t.Fatal(err)
			}
		}
		keys := l.Stats().Keys
		if err := l.Reset(ctx, "never used"); err != nil || l.Stats().Keys != keys {
			t.Errorf("a key that nobody uses: %v", err)
		}

		// A key in steady use: one Burst more at most, and what is out refills.
		limit := hybrid.PerSecond(1000).WithBurst(200)
		busy := newLimiter(t, store, hybrid.Config{Limit: limit})
		count := func(d time.Duration) (n int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond / 2) {
				if busy.Allow("busy") {
					n++
				}
			}
			return n
		}
		count(2 * time.Second)
		busy.Reset(ctx, "busy")
		if n := count(2 * time.Second); n < 1900 || n > 2000+2*200 {
			t.Errorf("%d admitted in the 2 s after a reset at %v", n, limit)
		}

		other := newLimiter(t, remoteLine(0), hybrid.Config{Limit: limit})
		if err := other.Reset(ctx, "k"); err == nil {
			t.Error("a store that cannot reset has")
		}
		l.Close(ctx)
		if err := l.Reset(ctx, "k"); !errors.Is(err, hybrid.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}
