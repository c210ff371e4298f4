package hybrid_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestCycledKeys: who asks for so many keys that each has been evicted before
// its turn comes again gets no fresh bucket, from this process or another.
func TestCycledKeys(t *testing.T) {
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		const keys, rounds, burst, most = 100, 5, 10, 16
		config := hybrid.Config{Limit: hybrid.PerHour(burst), MaxKeys: most, Timeout: patient}
		fleet := []*hybrid.Limiter{newLimiter(t, store, config), newLimiter(t, store, config)}
		admitted := [keys]int{}
		for range rounds {
			for k := range keys {
				for _, l := range fleet {
					for range 2 {
						if l.Allow(strconv.Itoa(k)) {
							admitted[k]++
						}
					}
				}
			}
			for _, l := range fleet {
				if n := l.Stats().Keys; n > most {
					t.Errorf("%d keys in memory", n)
				}
			}
		}
		sum := 0
		for k, n := range admitted {
			sum += n
			if n > burst {
				t.Errorf("key %d: %d admitted, the Burst is %d", k, n, burst)
			}
		}
		if sum < keys*burst*9/10 {
			t.Errorf("%d of %d admitted: they should have had their bursts", sum, keys*burst)
		}
	})
}

// TestFloodEvictsNoneInUse: whoever varies keys pushes out neither a key with
// many requests nor one with a few: these go on to be decided without a call.
func TestFloodEvictsNoneInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerSecond(1000), MaxKeys: 64})
		asked := map[string]int{} // requests that waited for the ledger
		take := func(key string) {
			d, err := l.Take(ctx, key, 1)
			if err != nil || !d.Allowed {
				t.Fatalf("%s: %+v, %v", key, d, err)
			}
			if d.Source == hybrid.Ledger {
				asked[key]++
			}
		}
		const seconds, flood = 10, 20
		for tick := range seconds * 100 {
			take("hot")
			if tick%50 == 0 {
				take("sparse")
			}
			if tick > 200 { // both have been in use for 2 s
				var wg sync.WaitGroup
				for i := range flood {
					wg.Go(func() { l.Allow(fmt.Sprint("flood ", tick, i)) })
				}
				wg.Wait()
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := l.Stats().Keys; n > 64 {
			t.Errorf("%d keys in memory", n)
		}
		if asked["hot"] > 5 || asked["sparse"] > 5 {
			t.Errorf("while %d new keys/s came, %d of %d requests of the hot key waited for the "+
				"ledger, and %d of %d of the sparse one",
				flood*100, asked["hot"], seconds*100, asked["sparse"], seconds*2)
		}
	})
}

var floodKeys = flag.Int("keys", 0, "distinct keys in TestFloodOfKeys, instead of 12,800 or 50,000")

// forgetful is a store in which every bucket is full and nothing is kept: what
// memory is used is the Limiter's.
type forgetful struct{}

func (forgetful) Exchange(_ context.Context, calls []*lease.Call) {
	for _, c := range calls {
		c.Reply = new(lease.Ledger).Exchange(time.Hour, c.Request)
	}
}

// TestFloodOfKeys: memory stays that of MaxKeys keys, and of twice as many that
// are parked, however many come.
//
//	go test ./hybrid -run TestFloodOfKeys -v -keys 10000000 -timeout 1h
func TestFloodOfKeys(t *testing.T) {
	long(t)
	const every = 100 * time.Microsecond
	most := longform.Of(4000, 10_000)
	keys := cmp.Or(*floodKeys, longform.Of(12_800, 50_000))
	for name, limit := range map[string]hybrid.Limit{
		"idle keys make room":  hybrid.PerSecond(10),   // nothing is lent at once
		"each keeps its batch": hybrid.PerSecond(1000), // which a calm key is lent: there is no room
		"each is used up":      hybrid.PerHour(1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := heap()
				l := newLimiter(t, forgetful{}, hybrid.Config{Limit: limit, MaxKeys: most})
				full, worst, goroutines := uint64(0), uint64(0), 0
				for i := range keys {
					if key := strconv.Itoa(i); !l.Allow(key) {
						t.Fatalf("the first request of key %d is denied", i)
					}
					time.Sleep(every)
					if used := i + 1; used == 2*most {
						full = heap() - before
					} else if used > 2*most && used%(keys/8) == 0 {
						worst = max(worst, heap()-before)
						goroutines = max(goroutines, runtime.NumGoroutine())
					}
				}
				s := l.Stats()
				t.Logf("%d keys, one each %v, of which MaxKeys %d and %d are in memory: at most "+
					"%.1f MB of heap, %.1f MB when there had been twice MaxKeys; %d goroutines",
					keys, every, most, s.Keys, float64(worst)/1e6, float64(full)/1e6,
					goroutines)
				if s.Keys > most || worst > full+full/8+2*256*uint64(most) || goroutines > 50 {
					t.Errorf(
						"%d keys, %d bytes, %d when there had been twice MaxKeys, %d goroutines",
						s.Keys, worst, full, goroutines)
				}
			})
		})
	}
}

// TestIdleMemory: 70 s after the last request nearly all memory of keys is free again.
func TestIdleMemory(t *testing.T) {
	long(t)
	const crowd = 1000 // goroutines
	keys := longform.Of(10_000, 20_000)
	allow := func(l *hybrid.Limiter, key string) { l.Allow(key) }
	for name, c := range map[string]struct {
		hybrid.Config
		ask func(l *hybrid.Limiter, key string)
	}{
		"Limit": {hybrid.Config{Limit: hybrid.PerSecond(1000)}, allow},
		"LimitFor": {
			hybrid.Config{LimitFor: func(string) hybrid.Limit { return hybrid.PerSecond(1000) }}, allow,
		},
		"Namespace":        {hybrid.Config{Limit: hybrid.PerSecond(1000), Namespace: "n"}, allow},
		"a quota":          {hybrid.Config{Limit: hybrid.Quota(1000, time.Minute)}, allow},
		"a sliding window": {hybrid.Config{Limit: hybrid.Sliding(1000, time.Minute)}, allow},
		"several": {
			hybrid.Config{Limit: hybrid.PerSecond(1000)},
			func(l *hybrid.Limiter, key string) { l.AllowAll(key, key+"b") },
		},
		"reserved": {
			hybrid.Config{Limit: hybrid.PerSecond(1000)},
			func(l *hybrid.Limiter, key string) {
				if r, err := l.Reserve(ctx, key, 2); err == nil {
					r.Settle(1)
				}
			},
		},
		"slots": {
			hybrid.Config{Limit: hybrid.Slots(10)},
			func(l *hybrid.Limiter, key string) {
				if s, err := l.Acquire(ctx, key, 1); err == nil {
					s.Release()
				}
			},
		},
		"denied": {
			hybrid.Config{Limit: hybrid.PerHour(1)},
			func(l *hybrid.Limiter, key string) { l.Allow(key); l.Allow(key) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, forgetful{}, c.Config)
				for range crowd { // the runtime keeps what it has of goroutines
					go time.Sleep(time.Second)
				}
				time.Sleep(2 * time.Second)
				before := heap()
				for i := range keys {
					go c.ask(l, strconv.Itoa(i))
					if i%crowd == 0 {
						time.Sleep(10 * time.Millisecond)
					}
				}
				time.Sleep(time.Second)
				used := heap() - before
				time.Sleep(70 * time.Second)
				rest := int64(heap()) - int64(before)
				t.Logf("%d keys: %d bytes each, and %.1f in the end",
					keys, used/uint64(keys), float64(rest)/float64(keys))
				// A slice that keeps its size would have a pointer for each key.
				if rest > 8*int64(keys) {
					t.Errorf("%d of %d bytes are left", rest, used)
				}
				runtime.KeepAlive(l)
			})
		})
	}
}

// TestFloodOfLongKeys: neither long keys nor short parts of long strings take more
// memory than MaxKeys stands for.
func TestFloodOfLongKeys(t *testing.T) {
	const most, long = 1000, 64 << 10
	for name, key := range map[string]func(i int) string{
		"long":        func(i int) string { return strconv.Itoa(i) + strings.Repeat("k", long) },
		"part of one": func(i int) string { return (strconv.Itoa(1000+i) + strings.Repeat("k", long))[:4] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := heap()
				l := newLimiter(t, forgetful{},
					hybrid.Config{Limit: hybrid.PerSecond(1000), MaxKeys: most})
				for i := range 900 {
					if !l.Allow(key(i)) {
						t.Fatalf("the first request of key %d is denied", i)
					}
					time.Sleep(100 * time.Microsecond)
				}
				// In use, and parked in two terms; the last key may be one too many each time.
				if used, limit := heap()-before, uint64(3*(most<<10+long)); used > limit {
					t.Errorf("%.1f MB of heap, want at most %.1f", float64(used)/1e6,
						float64(limit)/1e6)
				}
			})
		})
	}
}

// heap is how much of it is in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // a sync.Pool keeps what it has through one
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
