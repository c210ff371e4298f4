package hybrid_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// admitted counts what all limiters admit of k in so long, each asked every pause.
func admitted(limiters []*hybrid.Limiter, k string, long, pause time.Duration) (n int) {
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(pause) {
		for _, l := range limiters {
			if l.Allow(k) {
				n++
			}
		}
	}
	return n
}

// TestShareOfStickyKeys: eight processes, of which each has keys of its own, as with
// sticky routing. In an outage one key's requests come to all of them.
func TestShareOfStickyKeys(t *testing.T) {
	longform.None(t)
	long(t)
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		config := hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100), Timeout: 50 * time.Millisecond}
		var all []*hybrid.Limiter
		for range 8 {
			all = append(all, newLimiter(t, store, config))
		}
		own := func() {
			for i, l := range all {
				l.Allow(string(rune('a' + i)))
			}
			time.Sleep(time.Millisecond)
		}
		for range 5000 {
			own()
		}
		store.cut.Store(true)
		for range 1500 {
			own()
		}
		if n := admitted(all, "a", 10*time.Second, time.Millisecond/2); n > 10_100 {
			t.Errorf("%d admitted in 10 s of outage at 1000/s", n)
		}
	})
}

// TestShareOfKeyThatMoves: membership is unchanged, but before the outage one
// process had all the traffic of the key.
func TestShareOfKeyThatMoves(t *testing.T) {
	longform.None(t)
	long(t)
	for name, warm := range map[string]bool{"the others never used the key": false, "the others used it once": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				config := hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100), Timeout: 50 * time.Millisecond}
				var all []*hybrid.Limiter
				for range 4 {
					l := newLimiter(t, store, config)
					all = append(all, l)
				}
				for range 2000 { // all know how many they are
					for _, l := range all {
						l.Allow("common")
					}
					time.Sleep(time.Millisecond)
				}
				if warm {
					for _, l := range all[1:] {
						l.Allow("k")
					}
				}
				for range 1000 {
					all[0].Allow("k")
					for _, l := range all {
						l.Allow("common")
					}
					time.Sleep(time.Millisecond)
				}
				store.cut.Store(true)
				for range 1500 {
					for _, l := range all {
						l.Allow("common")
						l.Allow("x")
					}
					all[0].Allow("k")
					time.Sleep(time.Millisecond)
				}
				for i, l := range all {
					if !l.Stats().Away {
						t.Fatalf("%d has not noticed", i)
					}
				}
				if n := admitted(all, "k", 10*time.Second, time.Millisecond); n > 10_000+100 {
					t.Errorf("%d admitted in 10 s of outage at 1000/s", n)
				}
			})
		})
	}
}

// TestLoweredInOutage: a limit that is lowered during an outage holds under Share.
func TestLoweredInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		var limit atomic.Pointer[hybrid.Limit]
		first, lower := hybrid.PerSecond(1000), hybrid.PerSecond(10)
		limit.Store(&first)
		l := newLimiter(t, store, hybrid.Config{LimitFor: func(string) hybrid.Limit { return *limit.Load() }, Timeout: 50 * time.Millisecond})
		all := []*hybrid.Limiter{l}
		admitted(all, "k", 3*time.Second, time.Millisecond/2)
		store.cut.Store(true)
		admitted(all, "k", 2*time.Second, time.Millisecond/2)
		limit.Store(&lower)
		admitted(all, "k", 2*time.Second, time.Millisecond/2)
		if n := admitted(all, "k", 10*time.Second, time.Millisecond/2); n > 10*10+10 {
			t.Errorf("%d admitted in 10 s of outage at 10/s", n)
		}
	})
}

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

// TestShareOfBurstInForce: in an outage no request for more than the Burst in force is
// admitted, though this process declares a larger one.
func TestShareOfBurstInForce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		timeout := 50 * time.Millisecond
		a := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(10), Timeout: timeout})
		b := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(1000), Timeout: timeout})
		admitted([]*hybrid.Limiter{a, b}, "k", 2*time.Second, 5*time.Millisecond)
		store.cut.Store(true)
		admitted([]*hybrid.Limiter{a, b}, "k", 5*time.Second, 5*time.Millisecond)
		admitted([]*hybrid.Limiter{b}, "k", 10*time.Second, time.Second)
		if d, err := b.Take(ctx, "k", 300); err == nil && d.Allowed {
			t.Errorf("300 admitted at once, of %v in force", d.Limit)
		}
	})
}
