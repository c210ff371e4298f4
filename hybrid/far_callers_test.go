package hybrid_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestFarCallersKeepALease: callers of a process that ask one after the other, each again when its
// work is done, send nothing while all of them wait for the store. That is no silence: far away
// they are served nearly as often as nearby, but for two round trips until they have a lease.
//
// 300 ms away they ask for 0.6 of the limit at most: a lease is at most half of a Burst of a
// second, and is renewed when a quarter of that is left.
func TestFarCallersKeepALease(t *testing.T) {
	verbs := []struct {
		name   string
		serves func(*hybrid.Limiter) bool
	}{
		{"Allow", func(l *hybrid.Limiter) bool { return l.Allow("k") }},
		{"Wait", func(l *hybrid.Limiter) bool { return l.Wait(ctx, "k", 1) == nil }},
	}[:longform.Of(1, 2)]
	for _, c := range []struct {
		trip, work time.Duration
		rate, most float64 // most is the part of the limit that they ask for at most
	}{
		{150 * time.Millisecond, 3 * time.Millisecond, 1000, 1},
		{150 * time.Millisecond, 30 * time.Millisecond, 100, 1},
		{300 * time.Millisecond, 3 * time.Millisecond, 1000, 0.6},
		{300 * time.Millisecond, 30 * time.Millisecond, 100, 0.6},
		{150 * time.Millisecond, 30 * time.Millisecond, 1000, 1},
		{150 * time.Millisecond, 10 * time.Millisecond, 1000, 1},
		{150 * time.Millisecond, time.Millisecond, 1000, 1},
		{150 * time.Millisecond, 10 * time.Millisecond, 100, 1},
		{300 * time.Millisecond, 30 * time.Millisecond, 1000, 0.6},
		{300 * time.Millisecond, 10 * time.Millisecond, 1000, 0.6},
	}[:longform.Of(4, 10)] {
		most := int(min(c.most*c.rate*c.work.Seconds(), 3))
		for i := range most * len(verbs) {
			callers, v := i%most+1, verbs[i/most]
			served := func(trip, length time.Duration) int64 {
				return askInTurn(t, trip, length, c.rate, callers, c.work, v.serves)
			}
			const length = 9 * time.Second
			n, near := served(c.trip, length), served(time.Millisecond, length-2*c.trip)
			text := fmt.Sprintf("%s by %d, %+v: served %d times, %d nearby", v.name, callers, c, n, near)
			if t.Log(text); float64(n) < 0.9*float64(near) {
				t.Error(text)
			}
		}
	}
}

// askInTurn is how often callers are served that ask again when their work is done.
func askInTurn(
	t *testing.T, trip, length time.Duration, rate float64, callers int, work time.Duration,
	serves func(*hybrid.Limiter) bool,
) int64 {
	var n atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(trip),
			hybrid.Config{Limit: hybrid.PerSecond(rate), Timeout: time.Second})
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(work) {
					if serves(l) {
						n.Add(1)
					}
				}
			})
		}
		wg.Wait()
	})
	return n.Load()
}
