package hybrid_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestShareAddsUp: what processes share in an outage adds up to the rate, though
// they last heard from the ledger at different times. Four use a key, and each
// has heard of all; then one of them gets busy, which the others do not hear of,
// as they have the batches of a calm key.
func TestShareAddsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		var all []*hybrid.Limiter
		for range 4 {
			all = append(all, newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100), Timeout: 50 * time.Millisecond}))
		}
		run := func(d, every time.Duration, some []*hybrid.Limiter) (admitted int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
				for _, l := range some {
					if l.Allow("k") {
						admitted++
					}
				}
			}
			return admitted
		}
		run(40*time.Second, 200*time.Millisecond, all)
		run(2*time.Second, time.Millisecond, all[:1])
		store.cut.Store(true)
		run(time.Second, time.Millisecond, all)
		if n := run(10*time.Second, time.Millisecond/2, all); n > 10_104 {
			t.Errorf("%d admitted in 10 s of an outage at 1000/s burst 100", n)
		}
	})
}

// TestShareBesideBatch: a batch that outlives the store's answers and the outage's own
// bucket hold no more than a Burst together.
func TestShareBesideBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		var all []*hybrid.Limiter
		for range 4 {
			all = append(all, newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(1000), Timeout: 50 * time.Millisecond}))
		}
		for range 400 {
			for _, l := range all {
				l.Allow("k")
			}
			time.Sleep(50 * time.Millisecond)
		}
		store.cut.Store(true)
		for range 30 { // more than a batch has, from when the bucket of the outage fills
			for _, l := range all {
				l.AllowN("k", 500)
			}
			time.Sleep(50 * time.Millisecond)
		}
		n := 0
		for _, l := range all {
			for l.Allow("k") {
				n++
			}
		}
		if n > 1004 {
			t.Errorf("%d admitted at once in an outage at 1000/s burst 1000", n)
		}
	})
}

// TestShareOfSeldomUsed: processes that use a key now and then do not forget each
// other between their requests.
func TestShareOfSeldomUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		var all []*hybrid.Limiter
		for range 4 {
			all = append(all, newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(5), Timeout: 50 * time.Millisecond}))
		}
		run := func(d, every time.Duration) (admitted int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
				for _, l := range all {
					if l.Allow("k") {
						admitted++
					}
					time.Sleep(every / 4)
				}
			}
			return admitted
		}
		run(time.Minute, 1600*time.Millisecond)
		store.cut.Store(true)
		run(5*time.Second, 10*time.Millisecond)
		if n := run(20*time.Second, 10*time.Millisecond); n > 104 {
			t.Errorf("%d admitted in 20 s of an outage at 5/s", n)
		}
	})
}
