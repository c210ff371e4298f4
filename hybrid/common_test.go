package hybrid_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestShareOfSeveralLimiters: several Limiters of a process limit the same key. In an outage
// they admit the part of their process, not one each, and the fleet admits the whole rate.
func TestShareOfSeveralLimiters(t *testing.T) {
	longform.None(t)
	long(t)
	const timeout = 50 * time.Millisecond
	limit := hybrid.PerSecond(100).WithBurst(100)
	for name, c := range map[string]struct {
		before func(fleet [][]*hybrid.Limiter) // the outage
		keys   int                             // that are asked for besides, to have entries evicted
		reopen bool                            // one Limiter, again and again
	}{
		"new key": {},
		"one Limiter had leased it": {before: func(fleet [][]*hybrid.Limiter) {
			admitted([]*hybrid.Limiter{fleet[0][0], fleet[1][0]}, "k", 20*time.Second, 5*time.Millisecond)
		}},
		"all Limiters had leased it": {before: func(fleet [][]*hybrid.Limiter) {
			admitted(append(fleet[0], fleet[1]...), "k", 20*time.Second, 5*time.Millisecond)
		}},
		"a Limiter has a long batch of it": {before: func(fleet [][]*hybrid.Limiter) {
			admitted(fleet[0][:1], "k", 60*time.Second, time.Second)
		}},
		"its entry is evicted": {keys: 200},
		"Limiters come and go": {reopen: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				config := hybrid.Config{Limit: limit, Timeout: timeout, Processes: 2}
				if c.keys > 0 {
					config.MaxKeys = 16
				}
				fleet := make([][]*hybrid.Limiter, 2)
				open := make([]func(), 2)
				for i := range fleet {
					config := config
					config.Process = hybrid.NewProcess()
					open[i] = func() { fleet[i] = append(fleet[i], newLimiter(t, store, config)) }
					for range 3 {
						open[i]()
					}
				}
				time.Sleep(12 * time.Second) // all have heard how many processes there are
				if c.before != nil {
					c.before(fleet)
				}
				store.cut.Store(true)
				run := func(d time.Duration) (n int) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
						for _, process := range fleet {
							for _, l := range process {
								if l.Allow("k") {
									n++
								}
								if c.keys > 0 {
									l.Allow(fmt.Sprint(time.Now().UnixMilli() / 2 % int64(c.keys)))
								}
							}
						}
					}
					return n
				}
				run(7 * time.Second) // until it is noticed, and leases have run out
				n := 0
				for range 10 {
					n += run(time.Second)
					if c.reopen {
						for i, open := range open {
							fleet[i][0].Close(ctx)
							fleet[i] = fleet[i][1:]
							open()
						}
					}
				}
				if n < 980 || n > 1002 {
					t.Errorf("%d admitted in 10 s of an outage at 100/s by 2 processes with 3 Limiters each", n)
				}
			})
		})
	}
}

// TestShareKeepsTheEnvelope: the only process of a fleet has the whole limit for its part. From
// when the store is away its Limiters together admit at most Burst + Rate*T of each key in any
// T seconds, and one token: from what leases still hold, and by sharing. Limiters notice the
// outage one after the other, evict keys, and come and go.
func TestShareKeepsTheEnvelope(t *testing.T) {
	long(t)
	for seed := range longform.Of[uint64](15, 60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			limit := hybrid.PerSecond(float64(1 + random.IntN(300))).WithBurst(1 + random.Int64N(300))
			store := remoteLine(time.Millisecond)
			config := hybrid.Config{
				Limit: limit, Timeout: 50 * time.Millisecond, Process: hybrid.NewProcess(), Processes: 1,
				MaxKeys: []int{1, 3, 1000}[random.IntN(3)],
			}
			var all []*hybrid.Limiter
			for range 1 + random.IntN(4) {
				all = append(all, newLimiter(t, store, config))
			}
			keys := 1 + random.IntN(6)
			pause := time.Duration(1+random.Int64N(20)) * time.Millisecond
			level, last := make([]float64, keys), make([]time.Time, keys)
			ask := func() {
				i, k, n := random.IntN(len(all)), random.IntN(keys), 1+random.IntN(2)
				if random.IntN(3) > 0 { // each Limiter has a key that it is asked for most
					k = i % keys
				}
				if int64(n) > limit.Burst || !all[i].AllowN(fmt.Sprint(k), n) || !store.cut.Load() {
					return
				}
				now := time.Now()
				level[k] = max(level[k]-limit.Rate*now.Sub(last[k]).Seconds(), 0) + float64(n)
				last[k] = now
				if most := float64(limit.Burst) + 1; level[k] > most+1e-6 {
					t.Fatalf("seed %d: %v: %v tokens above Burst + 1, at %v",
						seed, limit, level[k]-most, now)
				}
			}
			run := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); {
					ask()
					if random.IntN(1000) == 0 { // so long that entries are evicted
						time.Sleep(3 * time.Second)
					}
					time.Sleep(time.Duration(random.Int64N(int64(2 * pause))))
				}
			}
			run(15 * time.Second)
			store.cut.Store(true)
			for range 10 {
				run(2 * time.Second)
				switch random.IntN(6) {
				case 0:
					all[0].Close(ctx)
					all = append(all[1:], newLimiter(t, store, config))
				case 1:
					all = append(all, newLimiter(t, store, config))
				}
			}
		})
	}
}

// identified is one of several Stores that are the same.
type identified struct {
	*line
	id any
}

func (s *identified) Identity() any { return s.id }

// incomparable is a Store that may not be compared by ==.
type incomparable struct {
	*line
	_ []int
}

// TestPlaces: Limiters of one Process have a part together if their Stores are the same, as far
// as can be told, and their Namespaces are.
func TestPlaces(t *testing.T) {
	long(t)
	for name, c := range map[string]struct {
		store func(l *line, i int) hybrid.Store
		apart bool // by their Namespaces
		want  int
	}{
		"one Store": {store: func(l *line, _ int) hybrid.Store { return l }, want: 1000},
		"equal identities": {
			store: func(l *line, _ int) hybrid.Store { return &identified{l, "a"} }, want: 1000,
		},
		"other identities": {
			store: func(l *line, i int) hybrid.Store { return &identified{l, i} }, want: 3000,
		},
		"other Stores": {
			store: func(l *line, _ int) hybrid.Store { return &counted{Store: l} }, want: 3000,
		},
		"not to compare": {
			store: func(l *line, _ int) hybrid.Store { return incomparable{line: l} }, want: 3000,
		},
		"nothing to compare": {
			store: func(l *line, _ int) hybrid.Store { return &identified{l, []int{1}} }, want: 3000,
		},
		"other Namespaces": {
			store: func(l *line, _ int) hybrid.Store { return l }, apart: true, want: 3000,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := remoteLine(time.Millisecond)
			config := hybrid.Config{
				Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond,
				Process: hybrid.NewProcess(), Processes: 1,
			}
			var all []*hybrid.Limiter
			for i := range 3 {
				if c.apart {
					config.Namespace = fmt.Sprint(i)
				}
				all = append(all, newLimiter(t, c.store(l, i), config))
			}
			l.cut.Store(true)
			admitted(all, "k", 5*time.Second, 2*time.Millisecond)
			n := admitted(all, "k", 10*time.Second, 2*time.Millisecond)
			if n < c.want*99/100 || n > c.want+3 {
				t.Errorf("%s: %d admitted in 10 s of an outage at 100/s by three Limiters, want %d",
					name, n, c.want)
			}
		})
	}
}

// TestSharedConcurrently: Limiters of one process that are asked for the same keys at the same
// time, opened and closed admit no more than the part of their process, and do not block.
func TestSharedConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		config := hybrid.Config{
			Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond, MaxKeys: 4,
			Process: hybrid.NewProcess(), Processes: 1,
		}
		stays := newLimiter(t, store, config)
		store.cut.Store(true)
		var wg sync.WaitGroup
		var n atomic.Int64
		start, length := time.Now(), longform.Of(4*time.Second, 10*time.Second)
		if testing.Short() {
			length = time.Second // the race detector sees as much in it
		}
		for i := range 8 {
			wg.Go(func() {
				for time.Since(start) < length {
					l := newLimiter(t, store, config)
					for j := range 200 {
						stays.Allow(fmt.Sprint(i, j%5))
						for _, l := range []*hybrid.Limiter{l, stays} {
							if l.Allow("k") {
								n.Add(1)
							}
						}
						time.Sleep(time.Millisecond)
					}
					l.Close(ctx)
				}
			})
		}
		wg.Wait()
		if most := 100*time.Since(start).Seconds() + 100; float64(n.Load()) < 50*length.Seconds() || float64(n.Load()) > most {
			t.Errorf("%d admitted, at most %.0f", n.Load(), most)
		}
	})
}
