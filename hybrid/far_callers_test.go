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
	const length = 9 * time.Second
	type verb struct {
		name   string
		serves func(*hybrid.Limiter) bool
	}
	verbs := []verb{
		{"Allow", func(l *hybrid.Limiter) bool { return l.Allow("k") }},
		{"Wait", func(l *hybrid.Limiter) bool { return l.Wait(ctx, "k", 1) == nil }},
	}[:longform.Of(1, 2)]
	for _, far := range []struct {
		trip time.Duration
		most float64 // of the limit
	}{{150 * time.Millisecond, 1}, {300 * time.Millisecond, 0.6}} {
		for _, rate := range []float64{1000, 100} {
			for _, work := range []time.Duration{3, 30, 10, 1}[:longform.Of(2, 4)] {
				work *= time.Millisecond
				for callers := 1; float64(callers) <= min(far.most*rate*work.Seconds(), 3); callers++ {
					for _, v := range verbs {
						served := func(trip, length time.Duration) int64 {
							return askInTurn(t, trip, length, rate, callers, work, v.serves)
						}
						n, near := served(far.trip, length), served(time.Millisecond, length-2*far.trip)
						text := fmt.Sprintf("%s, %v away, %v/s, %d callers with %v of work: served %d times, %d nearby",
							v.name, far.trip, rate, callers, work, n, near)
						if t.Log(text); float64(n) < 0.9*float64(near) {
							t.Error(text)
						}
					}
				}
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
