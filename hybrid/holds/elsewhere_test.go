package holds_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A ledger is one that is 1 ms away, and counts the calls.
type ledger struct {
	hybrid.Store
	calls atomic.Int64
}

func (l *ledger) Exchange(ctx context.Context, calls []*lease.Call) {
	l.calls.Add(1)
	time.Sleep(time.Millisecond)
	l.Store.Exchange(ctx, calls)
}

// TestElsewhere: 64 callers at two replicas reserve estimates of a bucket that are four times too
// high or too low, and settle at the other replica. The bucket is used up, and no more is used than
// its rate and its burst, and what was too little for jobs under way. Calls are those to the ledger
// and to the store of holds, both 1 ms away, for each request, of which a job has two.
func TestElsewhere(t *testing.T) {
	longform.None(t)
	for _, c := range []struct {
		jobs  int // a second, as the limit has them
		job   time.Duration
		calls float64 // at most, for each request: a tenth above what twelve plays had
	}{
		{4000, time.Millisecond, 0.1}, {1500, 20 * time.Millisecond, 0.25},
		{500, 20 * time.Millisecond, 0.7},
	} {
		if testing.Short() && c.jobs > 500 {
			continue // as many callers meet where they wait more
		}
		synctest.Test(t, func(t *testing.T) {
			p := newPair(t, float64(c.jobs*meanCost))
			used, jobs := p.play(c.job)
			most := float64(c.jobs*meanCost) * (1 + scene.Seconds()) // the burst, and the rate
			batches := float64(p.store.batches.Load()) / float64(2*jobs)
			calls := float64(p.ledger.calls.Load())/float64(2*jobs) + batches
			t.Logf("%d jobs a second, of %v: utilisation %.3f, %.3f calls a request, of these %.3f batches",
				c.jobs, c.job, float64(used)/most, calls, batches)
			if under := float64(callers * 3 * meanCost / 2); float64(used) < 0.97*most ||
				float64(used) > most+under || calls > c.calls {
				t.Errorf("%d tokens of %.0f and %.0f under way, calls of %v", used, most, under, c.calls)
			}
		})
	}
}

const (
	callers  = 64
	meanCost = 100
	scene    = 20 * time.Second
)

// A pair is two replicas with a bucket of a second's Burst.
type pair struct {
	*testing.T
	ledger   *ledger
	store    *far
	limiters [2]*hybrid.Limiter
	keepers  [2]*holds.Keeper
}

func newPair(t *testing.T, rate float64) *pair {
	p := &pair{
		T: t, ledger: &ledger{Store: hybrid.NewMemory()}, store: &far{Store: holds.NewMemory()},
	}
	for i := range p.limiters {
		l, err := hybrid.New(p.ledger, hybrid.Config{Limit: hybrid.PerSecond(rate)})
		must(t, err)
		p.limiters[i] = l
		p.keepers[i] = keeper(holds.Config{
			Store:  p.store,
			Charge: func(key string, above []int) error { return l.Charge(key, above[0]) },
		})
	}
	return p
}

// play plays the scene, and returns what its jobs have used.
func (p *pair) play(job time.Duration) (used, jobs int64) {
	ctx, cancel := context.WithCancel(p.Context())
	var running, asking sync.WaitGroup
	for _, k := range p.keepers {
		running.Go(func() { k.Run(ctx) })
	}
	var cost, done atomic.Int64
	start := time.Now()
	for i := range callers {
		asking.Go(func() {
			random := rand.New(rand.NewPCG(29, uint64(i)))
			for j := i; time.Since(start) < scene; j++ {
				n := 1 + random.IntN(2*meanCost-1)
				estimate := 4 * n
				if random.IntN(2) == 0 {
					estimate = (n + 3) / 4
				}
				p.job(ctx, j%2, estimate, n, job)
				cost.Add(int64(n))
				done.Add(1)
			}
		})
	}
	asking.Wait()
	cancel()
	running.Wait()
	for _, l := range p.limiters {
		must(p, l.Close(context.WithoutCancel(ctx)))
	}
	return cost.Load(), done.Load()
}

// job reserves at a replica, and settles at the other one.
func (p *pair) job(ctx context.Context, here, estimate, used int, takes time.Duration) {
	h, err := p.keepers[here].Reserve(ctx, holds.Order{
		Owner: "o", Content: "k", Life: time.Minute, Spent: true, Estimate: []int{estimate},
		Take: func(ctx context.Context) (holds.Tokens, string, error) {
			r, err := p.limiters[here].WaitReserveAll(ctx, hybrid.Ask{Key: "k", N: estimate})
			return r, "", err
		},
	})
	if err != nil {
		p.Error(err)
		return
	}
	time.Sleep(takes)
	if err := p.keepers[1-here].Settle(ctx, "o", h.ID, []int{used}); err != nil {
		p.Error(err)
	}
}
