package hybrid_test

import (
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// TestUnlimitedAndBlocked: keys with these limits never ask the store, away or not, and
// their Decisions have fields that can be shown.
func TestUnlimitedAndBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{MaxKeys: 2, LimitFor: func(key string) hybrid.Limit {
			switch key[0] {
			case 'u':
				return hybrid.Unlimited
			case 'b':
				return hybrid.Blocked
			}
			return hybrid.PerSecond(100)
		}})
		look := func(when string) {
			t.Helper()
			for _, key := range []string{"u", "b", "u without room"} {
				k, open := l.Key(key), key[0] == 'u'
				trips, start := store.trips.Load()-store.census.Load(), time.Now()
				for range 1000 {
					if k.Allow() != open || k.AllowN(math.MaxInt) != open {
						t.Fatalf("%s: %s: allowed %v", when, key, !open)
					}
				}
				want := hybrid.Decision{
					Allowed: true, Remaining: 999_999_999_999_999, Held: 999_999_999_999_999,
					Limit: hybrid.Unlimited,
				}
				if !open {
					want = hybrid.Decision{RetryAfter: time.Minute, Limit: hybrid.Blocked}
				}
				if d, err := k.Take(ctx, math.MaxInt); d != want || err != nil {
					t.Errorf("%s: %s: %+v, %v", when, key, d, err)
				}
				if err := k.Wait(ctx, 1); open && err != nil ||
					!open && !errors.Is(err, hybrid.ErrExceedsBurst) {
					t.Errorf("%s: %s: wait %v", when, key, err)
				}
				if asked := store.trips.Load() - store.census.Load() - trips; asked != 0 ||
					time.Since(start) != 0 {
					t.Errorf("%s: %s: %d round trips, %v", when, key, asked, time.Since(start))
				}
			}
		}
		look("at first")
		store.cut.Store(true)
		for range 100 {
			l.Allow("other")
			time.Sleep(10 * time.Millisecond)
		}
		if !l.Stats().Away {
			t.Fatal("not away")
		}
		look("in an outage")
	})
}

// TestBecomesUnlimited: a limit may change to these and back, also while requests wait.
func TestBecomesUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Pointer[hybrid.Limit]
		set := func(l hybrid.Limit) { limit.Store(&l) }
		bucket := hybrid.PerSecond(100)
		set(bucket)
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{LimitFor: func(string) hybrid.Limit { return *limit.Load() }})
		count := func() (n int) {
			for range 2000 {
				if l.Allow("k") {
					n++
				}
				time.Sleep(time.Millisecond)
			}
			return n
		}
		for _, c := range []struct {
			limit       hybrid.Limit
			least, most int
		}{
			{bucket, 190, 310}, {hybrid.Unlimited, 2000, 2000}, {bucket, 190, 310},
			{hybrid.Blocked, 0, 0}, {bucket, 190, 310}, {hybrid.Blocked, 0, 0},
			{hybrid.Unlimited, 2000, 2000},
		} {
			set(c.limit)
			for range 300 {
				l.Allow("k")
				time.Sleep(time.Millisecond)
			}
			if n := count(); n < c.least || n > c.most {
				t.Errorf("%d of 2000 in 2 s: %v", n, c.limit)
			}
		}
		for _, c := range []struct {
			becomes hybrid.Limit
			want    error
		}{{hybrid.Unlimited, nil}, {hybrid.Blocked, hybrid.ErrExceedsBurst}} {
			set(hybrid.PerHour(1))
			time.Sleep(maxRefresh)
			for l.Allow("k") {
				time.Sleep(maxRefresh)
			}
			time.AfterFunc(time.Second, func() { set(c.becomes) })
			start := time.Now()
			if err := l.Wait(ctx, "k", 1); !errors.Is(err, c.want) ||
				time.Since(start) > time.Second+2*maxRefresh {
				t.Errorf("a Wait while it becomes %v: %v after %v", c.becomes, err,
					time.Since(start))
			}
		}
	})
}

// TestNoTokens: no token may always be taken, and asks nobody.
func TestNoTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(1)})
		for _, what := range []string{"new", "empty"} {
			trips := store.trips.Load()
			d, err := l.Take(ctx, "k", 0)
			if want := 1 - trips; err != nil || !d.Allowed || d.Remaining != want ||
				d.Limit != hybrid.PerHour(1) {
				t.Errorf("%s: %+v, %v", what, d, err)
			}
			if !l.AllowN("k", 0) || !l.Key("k").AllowN(0) || l.Wait(ctx, "k", 0) != nil {
				t.Errorf("%s: no token is denied", what)
			}
			if l.AllowN("k", -1) || l.Wait(ctx, "k", -1) == nil {
				t.Errorf("%s: less than none is allowed", what)
			}
			if store.trips.Load() != trips {
				t.Errorf("%s: %d round trips", what, store.trips.Load()-trips)
			}
			l.Allow("k")
		}
		l.Close(ctx)
		if _, err := l.Take(ctx, "k", 0); !errors.Is(err, hybrid.ErrClosed) || l.AllowN("k", 0) {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestBlockedHasNoTries: what a Try has asked for is not had under Blocked.
func TestBlockedHasNoTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var blocked atomic.Bool
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Policy: hybrid.Policy{Mode: lease.PerRequest, MaxRefresh: 50 * time.Millisecond},
			LimitFor: func(string) hybrid.Limit {
				if blocked.Load() {
					return hybrid.Blocked
				}
				return hybrid.PerHour(10)
			},
		})
		l.Allow("k")
		blocked.Store(true)
		if _, err := l.Try("k", 1); !errors.Is(err, hybrid.ErrPending) {
			t.Fatal("not asked for", err)
		}
		time.Sleep(60 * time.Millisecond)
		l.Peek(ctx, "k") // it is time to call LimitFor
		synctest.Wait()
		if d, err := l.Try("k", 1); err != nil || d.Allowed || d.Limit != hybrid.Blocked {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
