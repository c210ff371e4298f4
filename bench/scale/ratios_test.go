package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// guarded are the figures that no change may make worse by more than a fifth. Those of times
// are ratios: both sides are measured in turns, so that a slower machine finds about the same.
//
// A change that makes one better, or worse for a good reason, writes what TestRatios prints
// into measured, and the day.
var guarded = []struct {
	name     string
	measured float64
	day      string // when, with go1.26 and Redis 7.0.15 on two cores that others used, too
	timed    bool   // the others are counted, and hardly differ between runs
	measure  func(t *testing.T) float64
}{
	{"decision beside rate.Limiter", 0.39, "2026-11-23", true, decisionRatio},
	{"AllowAll of 4 beside Allows", 0.66, "2026-11-25", true, severalRatio(4, 1)},
	{"AllowAll of 16 beside Allows", 0.47, "2026-11-25", true, severalRatio(16, 1)},
	{"AllowAll of 4, one not hot", 0.70, "2026-11-26", true, severalRatio(4, 1024)},
	{"keyed decision beside a map", 1.33, "2026-11-23", true, keyedRatio},
	// It goes by the kind of CPU: another one had 1.53.
	{"exchange beside a plain script", 1.92, "2026-11-28", true, exchangeRatio},
	{"exchanges of a new key in 3 s", 1.01, "2026-11-23", false, newKeyExchanges},
	{"bytes of a key in a process", 870, "2026-11-23", false, processBytes},
	{"bytes of a key in Redis", 968, "2026-11-23", false, redisBytes},
}

const (
	slack = 1.2
	tries = 3 // of a figure beyond its bound: the machine may have done something else
)

// TestRatios holds what is guarded against its bounds, and prints all of it.
func TestRatios(t *testing.T) {
	var table strings.Builder
	for _, g := range guarded {
		bound := slack * g.measured
		t.Run(g.name, func(t *testing.T) {
			if g.timed {
				longform.Only(t, "is a measurement, of half a minute")
			}
			for try := 1; ; try++ {
				now := g.measure(t)
				fmt.Fprintf(&table, "\n%-30s %8.2f  %8.2f on %s  %8.2f  %5.2f", g.name, now,
					g.measured, g.day, bound, now/bound)
				if now <= bound { // not a NaN
					return
				}
				if try == tries {
					t.Fatalf("%.2f is more than %.2f, a fifth above what was measured, %d times",
						now, bound, tries)
				}
			}
		})
	}
	t.Logf("\n%-30s %8s  %22s  %8s  %s%s", "", "now", "measured", "bound", "of it", &table)
}

// decisionRatio compares the fastest of many short rounds, in turns: whatever else a machine does
// only adds.
func fastestRatio(calls int, one, other func() bool) float64 {
	best := [2]float64{math.Inf(1), math.Inf(1)}
	for range 5000 {
		for i, decide := range []func() bool{one, other} {
			start := time.Now()
			for range calls {
				decide()
			}
			best[i] = min(best[i], float64(time.Since(start)))
		}
	}
	return best[0] / best[1]
}

// warm returns a Limiter, and decides for these keys until they have leases that last.
func warm(t *testing.T, keys ...string) *hybrid.Limiter {
	l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	for range max(200_000/len(keys), 200) {
		for _, key := range keys {
			l.Allow(key)
		}
	}
	return l
}

func decisionRatio(t *testing.T) float64 {
	return fastestRatio(500, warm(t, "k").Key("k").Allow, rate.NewLimiter(1e9, 1e9).Allow)
}

// severalRatio is of one AllowAll of n keys beside an Allow of each of them. One of the keys is
// that of a user, of as many as there are.
func severalRatio(n, users int) func(t *testing.T) float64 {
	return func(t *testing.T) float64 {
		var keys []string
		for level := range n - 1 {
			keys = append(keys, fmt.Sprintf("level:%04d", level))
		}
		for user := range users {
			keys = append(keys, fmt.Sprintf("user:%04d", user))
		}
		l := warm(t, keys...)
		var asked [2]int
		all := make([]string, n)
		next := func(i int) []string {
			copy(all, keys[:n-1])
			all[n-1] = keys[n-1+asked[i]%users]
			asked[i]++
			return all
		}
		return fastestRatio(500/n, func() bool { return l.AllowAll(next(0)...) }, func() bool {
			all := true
			for _, key := range next(1) {
				all = l.Allow(key) && all
			}
			return all
		})
	}
}

// keyedRatio is of the fastest turns with 100,000 keys, too many for the caches of a core.
func keyedRatio(t *testing.T) float64 {
	row, err := measureTable(options{round: 60 * time.Millisecond, rounds: 9}, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	return row.RationMin / row.MapMin
}

// fleet measures exchanges of one key with eight holders.
func fleet(t *testing.T, turns int) HoldersRow {
	redistest.Program(t) // or skip
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	row, err := measureFleet(options{turns: turns}, s, 8)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// exchangeRatio is the median of turns: the fastest turn of one side may have had a faster core
// than any of the other.
func exchangeRatio(t *testing.T) float64 { return fleet(t, 100).Ratio }

func redisBytes(t *testing.T) float64 { return fleet(t, 1).Bytes }

// distant is a store to which a message takes some time.
type distant struct {
	hybrid.Store
	way time.Duration
}

func (d distant) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(d.way)
	d.Store.Exchange(ctx, calls)
	time.Sleep(d.way)
}

// newKeyExchanges is of keys that get 300 requests/s each, and whose limit is out of reach.
// Its time is virtual.
func newKeyExchanges(t *testing.T) (each float64) {
	const (
		keys      = 200
		perSecond = 300
		long      = 3 * time.Second
		way       = time.Millisecond / 2
	)
	synctest.Test(t, func(t *testing.T) {
		l, err := hybrid.New(distant{hybrid.NewMemory(), way},
			hybrid.Config{Limit: hybrid.PerSecond(1_000_000), Process: hybrid.NewProcess()})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		var all sync.WaitGroup
		for key := range keys {
			all.Go(func() {
				name, random := strconv.Itoa(key), rand.New(rand.NewPCG(uint64(key), 1))
				for time.Since(start) < long {
					gap := random.ExpFloat64() / perSecond
					time.Sleep(time.Duration(gap * float64(time.Second)))
					if !l.Allow(name) {
						t.Errorf("%s was denied", name)
					}
				}
			})
		}
		all.Wait()
		each = float64(l.Stats().Exchanges) / keys
		_ = l.Close(t.Context())
		time.Sleep(2 * way) // no exchange outlives the bubble
	})
	return each
}

func processBytes(t *testing.T) float64 {
	row, err := measureTable(options{round: time.Millisecond, rounds: 2}, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return row.RationBytes
}
