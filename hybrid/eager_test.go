package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestEager: tokens of a new key are admitted at once and charged. More than Config.Eager ask the
// store.
func TestEager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 10 * time.Millisecond
		l := newLimiter(t, remoteLine(rtt), hybrid.Config{Limit: hybrid.PerHour(100), Eager: 5})
		for i, want := range []time.Duration{0, 0, 0, 0, 0, rtt} {
			start := time.Now()
			d, err := l.Take(ctx, "k", 1)
			if err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			if d.Remaining != int64(99-i) {
				t.Errorf("request %d: %d left", i, d.Remaining)
			}
			if took := time.Since(start); (took > 0) != (want > 0) {
				t.Errorf("request %d took %v, want %v", i, took, want)
			}
		}
		start := time.Now()
		if d, err := l.Take(ctx, "other", 6); err != nil || !d.Allowed || time.Since(start) < rtt {
			t.Errorf("%+v, %v after %v, want an answer of the store", d, err, time.Since(start))
		}
		time.Sleep(time.Second)
		if p, err := l.Peek(ctx, "k"); err != nil || p.Remaining != 94 {
			t.Errorf("%+v, %v; want 94 of 100 left", p, err)
		}
	})
}

// TestEagerKeepsTheLimit: of a key that two processes ask for again and again, and forget in
// between, no more than the limit and Eager of each is admitted, however long it goes on.
func TestEagerKeepsTheLimit(t *testing.T) {
	for _, limit := range []hybrid.Limit{
		hybrid.PerHour(10), hybrid.Quota(10, time.Hour), hybrid.Sliding(10, time.Hour),
	} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, admitted := remoteLine(time.Millisecond), 0
				c := hybrid.Config{Limit: limit, Eager: 4}
				processes := []*hybrid.Limiter{newLimiter(t, store, c), newLimiter(t, store, c)}
				for range 500 { // 25 minutes: within one hour of the calendar, which has begun at 0
					for _, l := range processes {
						if l.Allow("k") {
							admitted++
						}
					}
					time.Sleep(3 * time.Second)
				}
				if most := 10 + 2*4 + 5; admitted < 10 || admitted > most {
					t.Errorf("%d admitted, at most %d are", admitted, most)
				}
			})
		})
	}
}

// TestEagerForgets: a key whose tokens were admitted at once is forgotten once they are paid for.
func TestEagerForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		c := hybrid.Config{Limit: hybrid.PerSecond(0.1).WithBurst(5), Eager: 4}
		first, second := newLimiter(t, store, c), newLimiter(t, store, c)
		for range 4 {
			first.Allow("k")
		}
		time.Sleep(100 * time.Millisecond)
		for range 4 {
			second.Allow("k")
		}
		time.Sleep(10 * time.Second)
		if n := second.Stats().Keys; n != 1 {
			t.Errorf("%d keys in use, want one, with a debt", n)
		}
		time.Sleep(time.Minute)
		if n := second.Stats().Keys; n != 0 {
			t.Errorf("%d keys in use, want none", n)
		}
	})
}

// TestEagerWhileAway: without a store nothing is admitted on account once that is known, and a
// full table admits nothing so.
func TestEagerWhileAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store,
			hybrid.Config{Limit: hybrid.PerSecond(100), Eager: 1, Outage: hybrid.Deny})
		l.Allow("known")
		store.cut.Store(true)
		admitted := 0
		for i := range 200 {
			if l.Allow(fmt.Sprint("k", i)) {
				admitted++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if admitted == 0 || admitted > 30 { // an exchange has 250 ms
			t.Errorf("%d admitted without a store, want a few until it counts as away", admitted)
		}
		store.cut.Store(false) // Close tells what is owed
	})
}

// TestEagerInput: numbers that make no sense are refused.
func TestEagerInput(t *testing.T) {
	for _, n := range []int64{-1, 1<<32 + 1} {
		_, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1), Eager: n})
		if err == nil {
			t.Errorf("%d is accepted", n)
		}
	}
}

// ExampleConfig_eager: the first tokens of a key are admitted before the store has answered.
func ExampleConfig_eager() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit: hybrid.PerMinute(60).WithBurst(20),
		Eager: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close(context.Background())
	d, err := limiter.Try("a new visitor", 1)
	fmt.Println(d.Allowed, errors.Is(err, hybrid.ErrPending))
	// Output: true false
}
