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

// TestSlidingRetryAfter: a client of the only process that waits for RetryAfter after a denial has
// its tokens then, each time, and so has about all of each window. After ResetAfter nothing counts
// of what was taken at once.
func TestSlidingRetryAfter(t *testing.T) {
	const windows = 40
	for _, c := range []struct {
		limit hybrid.Limit
		first int // tokens of the first request
		each  int // of the others
	}{
		{hybrid.Sliding(1, time.Second), 1, 1},
		{hybrid.Sliding(10, 2*time.Second), 10, 1},
		{hybrid.Sliding(10, 2*time.Second), 1, 1},
		{hybrid.Sliding(1, 10*time.Second), 1, 1},
		{hybrid.Sliding(100, 2*time.Second), 3, 3},
		{hybrid.Sliding(100, 2*time.Second), 100, 3},
		{hybrid.Sliding(100, 2*time.Second), 1, 1},
		{hybrid.Sliding(5, time.Minute), 1, 1},
		{hybrid.Sliding(1000, time.Minute), 100, 100},
	} {
		for _, far := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprint(c, far), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLimiter(t, remoteLine(far), hybrid.Config{Limit: c.limit})
					take := func(n int) hybrid.Decision {
						d, err := l.Take(ctx, "k", n)
						if err != nil {
							t.Fatal(err)
						}
						return d
					}
					start, admitted, again, obeyed := time.Now(), 0, 0, 0
					take(c.first)
					for waited := false; time.Since(start) < windows*c.limit.Window; {
						d := take(c.each)
						if d.Allowed {
							admitted += c.each
							waited = false
							continue
						}
						if obeyed++; waited {
							again++
						}
						time.Sleep(d.RetryAfter)
						waited = true
					}
					used := float64(admitted) / windows / float64(c.limit.Burst)
					if again > 0 || used < 0.95 {
						t.Errorf("denied %d times of %d after RetryAfter, %.3f of the limit is used", again,
							obeyed, used)
					}
					time.Sleep(2 * c.limit.Window)
					d := take(c.each)
					for d.Allowed {
						d = take(c.each)
					}
					time.Sleep(d.ResetAfter)
					if d := take(1); d.Remaining != c.limit.Burst-1 {
						t.Errorf("after ResetAfter: %+v", d)
					}
				})
			})
		}
	}
}

// TestSlidingForecast: a single token is free again after ResetAfter. One of several that were
// taken one after the other is free after RetryAfter, which is not longer than it takes.
func TestSlidingForecast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.Sliding(3, 2*time.Second)})
		d, err := l.Take(ctx, "k", 1)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(d.ResetAfter)
		if d, err = l.Take(ctx, "k", 1); err != nil || d.Remaining != 2 {
			t.Errorf("after ResetAfter: %+v, %v", d, err)
		}
		for range 2 {
			time.Sleep(900 * time.Millisecond)
			l.Allow("k")
		}
		time.Sleep(400 * time.Millisecond)
		if d, err = l.Take(ctx, "k", 1); err != nil || d.Allowed || d.RetryAfter > 200*time.Millisecond {
			t.Errorf("a token leaves soon: %+v, %v", d, err)
		}
		time.Sleep(d.RetryAfter)
		if d, err = l.Take(ctx, "k", 1); err != nil || !d.Allowed {
			t.Errorf("after RetryAfter: %+v, %v", d, err)
		}
	})
}
