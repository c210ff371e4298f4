package hybrid_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A paused store stands still until a moment: before it does what it is asked, as Redis does in a
// CLIENT PAUSE, or after it has, as a network does that holds back replies.
type paused struct {
	hybrid.Store
	until time.Time
	after bool
}

func (p *paused) Exchange(ctx context.Context, calls []*lease.Call) {
	if !p.after {
		time.Sleep(time.Until(p.until))
	}
	time.Sleep(time.Millisecond)
	p.Store.Exchange(ctx, calls)
	if p.after {
		time.Sleep(time.Until(p.until))
	}
}

// TestLateReplies: a store stands still for less than the Timeout, and for longer than leases live.
// Each verb has what it asked for, and costs no token more, but for Take of a sliding window.
func TestLateReplies(t *testing.T) {
	const n = 10
	six := []hybrid.Ask{{Key: "a", N: 6}, {Key: "b", N: 6}}
	type verb struct {
		do   func(l *hybrid.Limiter) (ok bool, err error)
		left int64
	}
	for name, v := range map[string]verb{
		"take": {func(l *hybrid.Limiter) (bool, error) {
			d, err := l.Take(ctx, "a", 6)
			return d.Allowed, err
		}, 4},
		"wait": {func(l *hybrid.Limiter) (bool, error) { return true, l.Wait(ctx, "a", 6) }, 4},
		"take all": {func(l *hybrid.Limiter) (bool, error) {
			d, err := l.TakeAll(ctx, six...)
			return d.Allowed, err
		}, 4},
		"denied by another key": {func(l *hybrid.Limiter) (bool, error) {
			d, err := l.TakeAll(ctx, hybrid.Ask{Key: "a", N: 6}, hybrid.Ask{Key: "none", N: n})
			return !d.Allowed, err
		}, n},
		"reserve": {func(l *hybrid.Limiter) (bool, error) {
			r, err := l.Reserve(ctx, "a", 6)
			return err == nil && r.Settle(2) == nil, err
		}, 8},
		"reserve all": {func(l *hybrid.Limiter) (bool, error) {
			r, err := l.ReserveAll(ctx, six...)
			return err == nil && r.Settle(2) == nil, err
		}, 8},
		"wait to reserve": {func(l *hybrid.Limiter) (bool, error) {
			r, err := l.WaitReserve(ctx, "a", 6)
			return err == nil && r.Settle(2) == nil, err
		}, 8},
	} {
		stall(t, name, map[string]hybrid.Limit{
			"bucket": hybrid.Per(n, year), "quota": hybrid.Quota(n, 24*time.Hour),
			"sliding window": hybrid.Sliding(n, time.Hour),
		}, func(t *testing.T, store *paused, c hybrid.Config) {
			if name == "take" && c.Limit.Kind == hybrid.KindSliding && store.after {
				return // its lease has ended at the store: what it took counts as spent, and is not there
			}
			other := newLimiter(t, store.Store, c)
			other.Allow("none")
			l := newLimiter(t, store, c)
			if ok, err := v.do(l); !ok {
				t.Errorf("not done: %v", err)
			}
			l.Close(ctx)
			if n := left(t, store.Store, c, "a"); n != v.left {
				t.Errorf("%d tokens are left, not %d", n, v.left)
			}
		})
	}
}

// TestLateSlots: the same of slots. They are there for others when the job has ended.
func TestLateSlots(t *testing.T) {
	stall(t, "acquire", map[string]hybrid.Limit{"slots": hybrid.Slots(10)},
		func(t *testing.T, store *paused, c hybrid.Config) {
			l, other := newLimiter(t, store, c), newLimiter(t, store.Store, c)
			s, err := l.Acquire(ctx, "a", 10)
			if err != nil {
				t.Fatal(err)
			}
			if s.Release() != nil || s.Context().Err() == nil {
				t.Error("the job has lost its slots")
			}
			soon, end := context.WithTimeout(ctx, time.Second)
			defer end()
			if _, err := other.Acquire(soon, "a", 10); err != nil {
				t.Error(err)
			}
		})
}

// stall plays a scene with a store that stands still before or after it does what it is asked.
func stall(
	t *testing.T, name string, limits map[string]hybrid.Limit,
	scene func(t *testing.T, store *paused, c hybrid.Config),
) {
	for kind, limit := range limits {
		for _, d := range []time.Duration{300 * time.Millisecond, time.Second, 5 * time.Second} {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/%v/after=%v", name, kind, d, after), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := &paused{hybrid.NewMemory(), time.Now().Add(d), after}
						scene(t, store, hybrid.Config{
							Limit: limit, Timeout: 20 * time.Second, Outage: hybrid.Deny,
						})
					})
				})
			}
		}
	}
}
