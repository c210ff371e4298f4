package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A KeysRow is the cost of a warm decision by name, of keys picked at random.
type KeysRow struct {
	Keys                int
	Ration, Map         float64 // ns, medians of rounds
	RationMin, MapMin   float64
	Pick                float64 // of them: picking the key
	RationBytes, MapKey float64 // heap per key, which both own
	Exchanges           float64 // per decision
}

// bottomless grants each request as a new ledger would: it keeps nothing, so
// that the heap is the Limiter's.
type bottomless struct{ start time.Time }

func (b bottomless) Exchange(_ context.Context, calls []*lease.Call) {
	for _, c := range calls {
		q := c.Request
		q.Claim = lease.Claim{} // what it has leased is none of a new ledger's business
		c.Reply = new(lease.Ledger).Exchange(time.Since(b.start), q)
	}
}

func heap() float64 {
	var m runtime.MemStats
	for range 3 { // one may leave what finalizers and pools hold on to
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

const keysChunk = 2000 // decisions in a turn

// exchanged is exchanges per decision.
func exchanged(before, after hybrid.Stats) float64 {
	admitted := after.Lease.Admitted - before.Lease.Admitted
	return float64(after.Exchanges-before.Exchanges) / float64(admitted)
}

func few(before, after hybrid.Stats) bool { return exchanged(before, after) < 0.002 }

func measureKeys(o options) (rows []KeysRow, err error) {
	for _, n := range []int{1, 100, 1000, 10_000, 100_000, 1_000_000} {
		if n > o.mostKeys {
			break
		}
		row, err := measureTable(o, n)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func measureTable(o options, n int) (KeysRow, error) {
	row := KeysRow{Keys: n}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("tenant:%07d", i)
	}

	empty := heap()
	limiters := map[string]*rate.Limiter{}
	for _, name := range names {
		limiters[strings.Clone(name)] = rate.NewLimiter(1e9, 1e9) // it owns its keys, as ours does
	}
	full := heap()
	row.MapKey = (full - empty) / float64(n)

	// Leases that last for the run: what is measured is the decision.
	l, err := hybrid.New(bottomless{time.Now()}, hybrid.Config{
		Limit:  hybrid.PerSecond(1e9),
		Policy: hybrid.Policy{Mode: lease.Batches, Batch: 1e8, MaxRefresh: time.Hour},
	})
	if err != nil {
		return row, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_ = l.Close(ctx) // nobody needs what it would hand back
	}()
	askAll(l, names)
	row.RationBytes = (heap() - full) / float64(n)
	return row, row.measure(o, l, limiters, names)
}

// measure times decisions about all names in turn, beside those of a map of limiters.
func (row *KeysRow) measure(
	o options, l *hybrid.Limiter, limiters map[string]*rate.Limiter, names []string,
) error {
	name := shuffled(names)
	var mu sync.RWMutex
	var sink int
	subjects := []func(){
		func() { l.Allow(name()) },
		func() {
			k := name()
			mu.RLock()
			x := limiters[k]
			mu.RUnlock()
			x.Allow()
		},
		func() { sink += len(name()) },
	}
	long := time.Duration(3*o.rounds) * 2 * o.round
	for range 10 { // until the Limiter knows how much is asked of each key
		before := l.Stats()
		turn(subjects, long/4)
		after := l.Stats()
		if few(before, after) {
			break
		}
	}
	before := l.Stats()
	measured := turn(subjects, long)
	after := l.Stats()
	denied := func(s hybrid.Stats) uint64 { return s.Lease.Denied + s.Ledger.Denied }
	if d := denied(after) - denied(before); d > 0 {
		return fmt.Errorf("%d keys: %d denied, all should be admitted", len(names), d)
	}
	row.Exchanges = exchanged(before, after)
	row.Ration, row.Map, row.Pick = median(measured[0]), median(measured[1]), median(measured[2])
	row.RationMin, row.MapMin = least(measured[0]), least(measured[1])
	return nil
}

// askAll has each name asked for twice, and waits until all have their leases.
func askAll(l *hybrid.Limiter, names []string) {
	var wg sync.WaitGroup
	const askers = 64
	for i := range askers {
		wg.Go(func() {
			for k := i; k < len(names); k += askers {
				l.Allow(names[k]) // waits for a lease
				l.Allow(names[k])
			}
		})
	}
	wg.Wait()
	time.Sleep(20 * time.Millisecond) // until those asked for twice have theirs
}

// shuffled returns all names in turn, in an order without order: a Limiter learns how often
// each key is asked for, and random draws of sparse keys are news to it.
func shuffled(names []string) func() string {
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(names))
	next := 0
	return func() string {
		if next++; next >= len(names) {
			next = 0
		}
		return names[order[next]]
	}
}

// turn runs subjects in turn, and so often that a key's requests come evenly: a Limiter would
// report pauses, and that they are over. It returns what each call took, in ns.
func turn(subjects []func(), long time.Duration) [][]float64 {
	measured := make([][]float64, len(subjects))
	for end := time.Now().Add(long); time.Now().Before(end); {
		for s, f := range subjects {
			start := time.Now()
			for range keysChunk {
				f()
			}
			measured[s] = append(measured[s], float64(time.Since(start))/keysChunk)
		}
	}
	return measured
}
