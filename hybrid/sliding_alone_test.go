package hybrid_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestSlidingAlone: a process that is the only one admits all of a sliding window, however quickly
// it takes, and a client that waits for RetryAfter after a denial has its next token then.
func TestSlidingAlone(t *testing.T) {
	for _, n := range []int64{1, 2, 5, 20, 100, 1000, 5000} {
		for _, pause := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond} {
			t.Run(fmt.Sprint(n, " with pauses of ", pause), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLimiter(t, remoteLine(time.Millisecond),
						hybrid.Config{Limit: hybrid.Sliding(n, time.Minute)})
					admitted := int64(0)
					for range 2 * n {
						if l.Allow("k") {
							admitted++
						}
						time.Sleep(pause)
					}
					if admitted != n {
						t.Errorf("%d tokens were admitted of %d", admitted, n)
					}
					d, err := l.Take(ctx, "k", 1)
					denied := 0
					for ; err == nil && !d.Allowed && denied < 20; denied++ {
						time.Sleep(d.RetryAfter)
						d, err = l.Take(ctx, "k", 1)
					}
					if err != nil || denied > 2 {
						t.Errorf("denied %d times by RetryAfter: %+v, %v", denied, d, err)
					}
				})
			})
		}
	}
}
