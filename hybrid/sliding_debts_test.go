package hybrid_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestSlidingDebts: where requests have cost more than there was, a client of the only process that
// waits for RetryAfter has its tokens then.
func TestSlidingDebts(t *testing.T) {
	const window, pane = 20 * time.Second, 20 * time.Second / 60
	reserve := func(l *hybrid.Limiter, estimate int, runs time.Duration, cost int) {
		r, err := l.Reserve(ctx, "k", estimate)
		time.Sleep(runs)
		if err == nil && r.Allowed {
			r.Settle(cost)
		}
	}
	for _, c := range []struct {
		name string
		use  func(l *hybrid.Limiter)
		most time.Duration // until the first request is admitted
	}{
		{"reserve 10, settle 150", func(l *hybrid.Limiter) {
			reserve(l, 10, 300*time.Millisecond, 150)
		}, window + 2*pane},
		{"reserve 10, settle 100", func(l *hybrid.Limiter) {
			reserve(l, 10, 300*time.Millisecond, 100)
		}, window + 2*pane},
		{"take 1, charge 150", func(l *hybrid.Limiter) {
			l.Allow("k")
			time.Sleep(300 * time.Millisecond)
			l.Charge("k", 150)
		}, window + 2*pane},
		{"charge 150", func(l *hybrid.Limiter) { l.Charge("k", 150) }, window + 2*pane},
		{"jobs that cost three times as much", func(l *hybrid.Limiter) {
			for range 10 {
				reserve(l, 5, 100*time.Millisecond, 15)
			}
		}, window},
	} {
		for _, n := range []int{1, 10} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLimiter(t, remoteLine(time.Millisecond),
						hybrid.Config{Limit: hybrid.Sliding(100, window)})
					c.use(l)
					start, denied := time.Now(), []time.Duration{}
					d, err := l.Take(ctx, "k", n)
					for err == nil && !d.Allowed && len(denied) < 20 {
						denied = append(denied, d.RetryAfter)
						time.Sleep(d.RetryAfter)
						d, err = l.Take(ctx, "k", n)
					}
					took := time.Since(start)
					t.Logf("%d: denied for %v, %v in all", n, denied, took)
					if err != nil || len(denied) > 2 || took > c.most {
						t.Errorf("%d: denied for %v, %v in all: %+v, %v", n, denied, took, d, err)
					}
				})
			})
		}
	}
}

// TestSlidingPeek: Peek tells when there will be a token, though nobody was denied.
func TestSlidingPeek(t *testing.T) {
	const window = 20 * time.Second
	for _, c := range []struct {
		name        string
		use         func(a, b *hybrid.Limiter) // a has gone then
		least, most time.Duration              // what b's Peek tells 6 s after it all began
	}{
		{"one has used all", func(a, _ *hybrid.Limiter) { a.AllowN("k", 100) },
			13500 * time.Millisecond, 14500 * time.Millisecond},
		{"one has used more", func(a, _ *hybrid.Limiter) { a.Charge("k", 150) },
			13500 * time.Millisecond, 14500 * time.Millisecond},
		{"this one has used more", func(_, b *hybrid.Limiter) { b.Charge("k", 150) },
			13500 * time.Millisecond, 14500 * time.Millisecond},
		{"the other one later", func(a, b *hybrid.Limiter) {
			b.AllowN("k", 50)
			time.Sleep(5 * time.Second)
			a.AllowN("k", 50)
		}, 13500 * time.Millisecond, 14500 * time.Millisecond},
		{"a token comes before those that were denied", func(a, b *hybrid.Limiter) {
			a.AllowN("k", 50)
			time.Sleep(5 * time.Second)
			a.AllowN("k", 50)
			a.Close(ctx)
			time.Sleep(time.Second - 10*time.Millisecond)
			b.AllowN("k", 60)
		}, 100 * time.Millisecond, 14500 * time.Millisecond},
		{"all is reserved", func(_, b *hybrid.Limiter) { b.Reserve(ctx, "k", 100) },
			100 * time.Millisecond, time.Second},
		{"a half is reserved, and may come back", func(a, b *hybrid.Limiter) {
			a.AllowN("k", 50)
			b.Reserve(ctx, "k", 50)
		}, 100 * time.Millisecond, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, store := time.Now(), remoteLine(time.Millisecond)
				config := hybrid.Config{Limit: hybrid.Sliding(100, window)}
				a, b := newLimiter(t, store, config), newLimiter(t, store, config)
				c.use(a, b)
				time.Sleep(5 * time.Millisecond)
				if err := a.Close(ctx); err != nil {
					t.Error(err)
				}
				time.Sleep(6*time.Second - time.Since(start))
				d, err := b.Peek(ctx, "k")
				if err != nil || d.Allowed || d.RetryAfter < c.least || d.RetryAfter > c.most {
					t.Fatalf("a look tells %+v, %v", d, err)
				}
				if c.least < time.Second {
					return
				}
				time.Sleep(d.RetryAfter)
				if d, err = b.Peek(ctx, "k"); err != nil || !d.Allowed {
					t.Errorf("a look tells then %+v, %v", d, err)
				}
				if d, err = b.Take(ctx, "k", 1); err != nil || !d.Allowed {
					t.Errorf("a token after that: %+v, %v", d, err)
				}
			})
		})
	}
}
