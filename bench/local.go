package main

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/juju/ratelimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2/store/memstore"
	uber "go.uber.org/ratelimit"
	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/hybrid"
)

// A Local is a limiter of one process, or a floor below all of them: what a
// single decision costs when nothing has to be asked.
type Local struct {
	Name, Module, Note string

	// Open returns a maker of decision functions, one for each key.
	Open func(Env) (handle func(key string) func() bool, closeAll func(), err error)
}

const rateName, keyName = "x/time/rate", "ration Key.Allow"

var locals = []Local{
	local("clock", "", "floor: time.Since", func(Env) func(string) func() bool {
		start := time.Now()
		return func(string) func() bool { return func() bool { return time.Since(start) > 0 } }
	}),
	local("mutex", "", "floor: Lock and Unlock", func(Env) func(string) func() bool {
		return func(string) func() bool {
			mu, n := new(sync.Mutex), new(int)
			return func() bool { mu.Lock(); *n++; mu.Unlock(); return true }
		}
	}),
	local("atomic", "", "floor: Add", func(Env) func(string) func() bool {
		return func(string) func() bool {
			n := new(padded)
			return func() bool { return n.Add(1) > 0 }
		}
	}),
	{Name: keyName, Module: rationModule, Note: "leases from Redis, as in the Redis tables",
		Open: func(e Env) (func(string) func() bool, func(), error) {
			l, client, err := openRation(e, hybrid.Config{})
			if err != nil {
				return nil, nil, err
			}
			of := func(key string) func() bool { return l.Key(key).Allow }
			return of, func() { closeRation(l, client) }, nil
		}},
	{Name: "ration Limiter.Allow", Module: rationModule, Note: "the same, with the look-up",
		Open: func(e Env) (func(string) func() bool, func(), error) {
			l, client, err := openRation(e, hybrid.Config{})
			if err != nil {
				return nil, nil, err
			}
			of := func(key string) func() bool {
				return func() bool { return l.Allow(key) }
			}
			return of, func() { closeRation(l, client) }, nil
		}},
	local(rateName, "golang.org/x/time", "", func(e Env) func(string) func() bool {
		return func(string) func() bool { return newRate(e.Limit).Allow }
	}),
	local("uber-go/ratelimit", "go.uber.org/ratelimit",
		"Take, which sleeps instead of denying; here it never has to",
		func(e Env) func(string) func() bool {
			return func(string) func() bool {
				l := uber.New(e.Limit.Rate)
				return func() bool { l.Take(); return true }
			}
		}),
	local("juju/ratelimit", "github.com/juju/ratelimit", "TakeAvailable(1)",
		func(e Env) func(string) func() bool {
			return func(string) func() bool {
				l := ratelimit.NewBucketWithRate(float64(e.Limit.Rate), int64(e.Limit.Burst))
				return func() bool { return l.TakeAvailable(1) == 1 }
			}
		}),
	keyed(sethvargo),
	keyed(throttledMemory),
}

// local is a Local that needs nothing closed and cannot fail.
func local(name, module, note string, open func(Env) func(string) func() bool) Local {
	return Local{
		Name: name, Module: module, Note: note,
		Open: func(e Env) (func(string) func() bool, func(), error) {
			return open(e), func() {}, nil
		},
	}
}

// keyed makes a Local of a limiter of many keys.
func keyed(s Subject) Local {
	return Local{
		Name: s.Name, Module: s.Module, Note: s.Note,
		Open: func(e Env) (func(string) func() bool, func(), error) {
			l, err := s.Open(e)
			return func(key string) func() bool {
				return func() bool { ok, _ := l.Allow(key); return ok }
			}, l.Close, err
		},
	}
}

// mapName is what a user writes who wants x/time/rate for many keys.
const mapName = "x/time/rate in a map with RWMutex"

// tables are the limiters of many keys in one process.
var tables = []Subject{
	rateMap,
	sethvargo,
	throttledMemory,
}

var (
	rateMap = Subject{
		Name: mapName, Module: "golang.org/x/time", Local: true,
		Open: func(e Env) (Limiter, error) {
			keys := newTable(func(string) *rate.Limiter { return newRate(e.Limit) })
			return Limiter{
				Allow: func(key string) (bool, error) { return keys.get(key).Allow(), nil },
				Close: func() {},
			}, nil
		},
	}
	sethvargo = Subject{
		Name: "sethvargo/go-limiter memorystore", Module: "github.com/sethvargo/go-limiter",
		Note: "fixed windows of 1 s; its refill is wrong above 31,622 tokens/s, so generous " +
			"windows are long enough never to end",
		Local: true, Bound: windowBound,
		Open: func(e Env) (Limiter, error) {
			// It adds interval/tokens in ns at each tick, not tokens.
			tokens := uint64(e.Limit.Rate)
			interval := max(time.Second, time.Duration(tokens*tokens))
			store, err := memorystore.New(&memorystore.Config{Tokens: tokens, Interval: interval})
			if err != nil {
				return Limiter{}, err
			}
			ctx := context.Background()
			return Limiter{
				Allow: func(key string) (bool, error) {
					_, _, _, ok, err := store.Take(ctx, key)
					return ok, err
				},
				Close: func() { _ = store.Close(ctx) },
			}, nil
		},
	}
	throttledMemory = Subject{
		Name: "throttled memstore", Module: "github.com/throttled/throttled/v2", Local: true,
		Open: func(e Env) (Limiter, error) {
			store, err := memstore.NewCtx(0)
			if err != nil {
				return Limiter{}, err
			}
			return gcra(store, e.Limit, func() {})
		},
	}
)

func newRate(l Limit) *rate.Limiter { return rate.NewLimiter(rate.Limit(l.Rate), l.Burst) }

// padded keeps a counter alone in its cache lines: the floor of different keys
// should not show false sharing.
type padded struct {
	_ [128]byte
	atomic.Int64
	_ [128]byte
}

// A table holds a limiter per key where the peer has none of its own. It is a
// plain map with an RWMutex, as most users write it, and never forgets. It owns its keys, as
// those of a server's requests do not stay.
type table[T any] struct {
	mu    sync.RWMutex
	byKey map[string]T
	make  func(key string) T
}

func newTable[T any](make func(key string) T) *table[T] {
	return &table[T]{byKey: map[string]T{}, make: make}
}

func (t *table[T]) get(key string) T {
	t.mu.RLock()
	v, ok := t.byKey[key]
	t.mu.RUnlock()
	if ok {
		return v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if v, ok = t.byKey[key]; !ok {
		v = t.make(key)
		t.byKey[strings.Clone(key)] = v
	}
	return v
}
