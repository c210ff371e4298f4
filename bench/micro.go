package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/local/gauge"
)

// A LocalSample is one round of a Local: ns per decision and decisions per
// second, without a clock read around each of them.
type LocalSample struct {
	One            float64 // ns per decision, one goroutine
	Rate           float64 // decisions/s, one goroutine
	Same           float64 // decisions/s, two goroutines on one key
	Apart          float64 // decisions/s, two goroutines on a key each
	Allocs         float64 // per decision, one goroutine
	P50, P99, P999 float64 // ns, each decision timed, the clock's own time included
}

const chunk = 256 // decisions between two looks at whether to stop

// measureLocal makes one round.
func (b *bench) measureLocal(l Local, long time.Duration) (LocalSample, error) {
	var s LocalSample
	if err := b.server.Flush(); err != nil {
		return s, err
	}
	handle, closeAll, err := l.Open(Env{Addr: b.server.Addr, Limit: generous, Conns: 2})
	if err != nil {
		return s, fmt.Errorf("%s: %w", l.Name, err)
	}
	defer closeAll()
	a, other := handle("a"), handle("b")
	// A second goroutine on the same key has a handle of its own only where
	// handles are the limiter's: elsewhere it is the limiter.
	b.spin(3*long, a, other) // warm: leases need some 100 ms
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.Rate = b.spin(long, a)
	runtime.ReadMemStats(&after)
	s.One = 1e9 / s.Rate
	s.Allocs = float64(after.Mallocs-before.Mallocs) / (s.Rate * long.Seconds())
	s.Same = b.spin(long, a, a)
	s.Apart = b.spin(long, a, other)

	h := new(gauge.Histogram)
	for end := time.Now().Add(long / 2); ; {
		start := time.Now()
		a()
		now := time.Now()
		h.Add(now.Sub(start))
		if now.After(end) {
			break
		}
	}
	s.P50, s.P99 = float64(h.Quantile(0.5)), float64(h.Quantile(0.99))
	s.P999 = float64(h.Quantile(0.999))
	return s, nil
}

// spin lets a goroutine run each function for a time and returns how many
// calls a second they make together.
func (b *bench) spin(long time.Duration, functions ...func() bool) float64 {
	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for _, f := range functions {
		wg.Go(func() {
			n := int64(0)
			for ; !stop.Load(); n += chunk {
				for range chunk {
					f()
				}
			}
			calls.Add(n)
		})
	}
	select {
	case <-time.After(long):
	case <-b.done:
	}
	stop.Store(true)
	wg.Wait()
	return float64(calls.Load()) / time.Since(start).Seconds()
}
