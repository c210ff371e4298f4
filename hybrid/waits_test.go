package hybrid_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestFarWaits: callers that wait are served alike whichever of two processes they are in, though
// one is farther away, as long as its round trips are shorter than the time of a token. Where they
// are longer, it cannot have each second token, and has a quarter of the limit at least while
// round trips are shorter than two of these times. Sliding windows even out within windows.
func TestFarWaits(t *testing.T) {
	for _, c := range []struct {
		limit   hybrid.Limit
		callers int
		far     time.Duration
		jitter  time.Duration
		least   float64 // of what is admitted
	}{
		{hybrid.PerSecond(10), 1, 30, 0, 0.48},
		{hybrid.PerSecond(100).WithBurst(10), 5, 12, 0, 0.24},
		{hybrid.Sliding(20, 2*time.Second), 4, 30, 0, 0.3},
		{hybrid.PerMinute(1), 2, 30, 1, 0.3},
		{hybrid.PerSecond(10).WithBurst(2), 5, 80, 0, 0.48},
		{hybrid.PerSecond(10).WithBurst(1), 1, 30, 0, 0.48},
		{hybrid.PerSecond(10), 20, 5, 0, 0.48},
		{hybrid.PerSecond(10), 20, 30, 1, 0.4},
		{hybrid.PerSecond(10), 5, 150, 0, 0.24},
		{hybrid.PerSecond(100).WithBurst(10), 20, 5, 0, 0.48},
		{hybrid.PerSecond(100).WithBurst(20), 5, 30, 0, 0.4},
		{hybrid.PerSecond(1000), 20, 5, 0, 0.4},
	}[:longform.Of(4, 12)] {
		near, far := waited(t, c.limit, c.callers, c.far*time.Millisecond, c.jitter*time.Millisecond)
		t.Logf("%v, %d callers each: %v admitted 1 ms away, %v %d ms away", c.limit, c.callers, near,
			far, c.far)
		if part := far / (near + far); part < c.least || part > 1-c.least {
			t.Errorf("that is %.3f, want %v at least", part, c.least)
		}
	}
}

// waited is what two processes admit in a minute, or in the time of 100 tokens, one of them 1 ms
// away and one of them far away, each with so many callers that wait at all times.
func waited(
	t *testing.T, limit hybrid.Limit, callers int, far, jitter time.Duration,
) (nearby, remote float64) {
	synctest.Test(t, func(t *testing.T) {
		store, start := hybrid.NewMemory(), time.Now()
		length := time.Minute
		if limit.Rate > 0 {
			length = max(length, time.Duration(100e9/limit.Rate))
		}
		var admitted [2]atomic.Int64
		var processes sync.WaitGroup
		for i, trip := range []time.Duration{time.Millisecond, far} {
			way := wobbly{&line{Store: store, rtt: trip}, jitter}
			l := newLimiter(t, way, hybrid.Config{Limit: limit})
			for range callers {
				processes.Go(func() {
					for time.Since(start) < length {
						if l.Wait(ctx, "k", 1) == nil {
							admitted[i].Add(1)
						}
					}
				})
			}
		}
		processes.Wait()
		nearby, remote = float64(admitted[0].Load()), float64(admitted[1].Load())
	})
	return nearby, remote
}

// A wobbly line takes longer by up to jitter, by another part of it each time.
type wobbly struct {
	*line
	jitter time.Duration
}

func (w wobbly) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(w.jitter * time.Duration(w.trips.Load()*618%1000) / 1000)
	w.line.Exchange(ctx, calls)
}
