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

// stuck is a store behind a client that takes ten seconds to give up, whatever its
// context says, as go-redis does with its default options.
type stuck struct {
	hybrid.Store
	frozen   atomic.Bool
	stranded atomic.Int64 // round trips that have not returned
}

func (s *stuck) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	if !s.frozen.Load() {
		s.Store.Exchange(ctx, calls)
		return
	}
	s.stranded.Add(1)
	time.Sleep(10 * time.Second)
	s.stranded.Add(-1)
	for _, c := range calls {
		c.Err = errors.New("i/o timeout")
	}
}

// takeFor takes a token each millisecond. It counts those without a verdict, and those that
// waited.
func takeFor(l *hybrid.Limiter, d time.Duration) (unknown, waited int) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
		start := time.Now()
		if _, err := l.Take(ctx, "k", 1); err != nil {
			unknown++
		}
		if time.Since(start) > 0 {
			waited++
		}
	}
	return unknown, waited
}

// TestStuckClient: a server stops for 25 s. That is noticed within a second, and from then on
// nobody waits. When it goes on, so do the ledgers.
func TestStuckClient(t *testing.T) {
	for _, outage := range []hybrid.Outage{hybrid.Share, hybrid.Allow} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &stuck{Store: hybrid.NewMemory()}
				l := newLimiter(t, store,
					hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100), Outage: outage})
				takeFor(l, 3*time.Second)
				store.frozen.Store(true)
				takeFor(l, time.Second)
				if !l.Stats().Away {
					t.Error("not noticed within a second")
				}
				if unknown, waited := takeFor(l, 24*time.Second); unknown+waited > 0 {
					t.Errorf("of 24,000 requests %d had no verdict, and %d waited", unknown, waited)
				}
				if n := store.stranded.Load(); n > 64 {
					t.Errorf("%d round trips have not returned", n)
				}
				store.frozen.Store(false)
				takeFor(l, 2*time.Second)
				if l.Stats().Away {
					t.Error("still away 2 s after the server goes on")
				}
			})
		})
	}
}
