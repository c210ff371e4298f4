package hybrid_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestWaitBehindOthers: a Wait whose tokens surely come after its deadline, since callers
// before it want theirs first, is refused at once, also while the ledger is being asked.
func TestWaitBehindOthers(t *testing.T) {
	const rtt = 100 * time.Millisecond
	for _, c := range []struct {
		name  string
		ahead time.Duration // when it comes after those ahead of it
	}{
		{"asking", rtt / 4},
		{"denied", 2 * rtt},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, remoteLine(rtt), hybrid.Config{Limit: hybrid.PerSecond(10)})
			l.Wait(ctx, "k", 10) // the bucket is empty
			time.Sleep(2 * time.Second)
			l.Wait(ctx, "k", 10)
			for range 2 {
				go l.Wait(ctx, "k", 10)
			}
			time.Sleep(c.ahead)
			// 20 tokens are wanted before these 10: the last comes 3 s after the start.
			soon, cancel := context.WithTimeout(ctx, 2500*time.Millisecond)
			defer cancel()
			start := time.Now()
			err := l.Wait(soon, "k", 10)
			if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) ||
				took > time.Millisecond {
				t.Errorf("%s: %v after %v", c.name, err, took)
			}
			late, cancel := context.WithTimeout(ctx, 3500*time.Millisecond)
			defer cancel()
			if err := l.Wait(late, "k", 10); err != nil {
				t.Errorf("%s: in time: %v", c.name, err)
			}
		})
	}
}
