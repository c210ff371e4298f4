package hybrid_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestNobodyHangs: requests of all sizes, with all kinds of deadlines, in a fleet with two
// limits whose store comes and goes and answers late: all come back in time.
func TestNobodyHangs(t *testing.T) {
	for seed := range longform.Of[uint64](20, 40) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			store := remoteLine(time.Duration(1+random.IntN(30)) * time.Millisecond)
			limit := hybrid.PerSecond(float64(20 + random.IntN(500)))
			const timeout = 60 * time.Millisecond
			outage := hybrid.Outage(random.IntN(3))
			c := hybrid.Config{Limit: limit.WithBurst(100), Outage: outage, Timeout: timeout}
			a := newLimiter(t, store, c)
			c.Limit = limit.WithBurst(300)
			b := newLimiter(t, store, c)
			var wg sync.WaitGroup
			for i := range 600 {
				l := a
				if i%2 == 0 {
					l = b
				}
				key := string(rune('a' + random.IntN(3)))
				n := 1 + random.IntN(10)
				if random.IntN(10) == 0 {
					n = 1 + random.IntN(300)
				}
				wait, long := random.IntN(2) == 0, time.Duration(random.IntN(3000))*time.Millisecond
				if random.IntN(4) == 0 {
					long = time.Duration(random.IntN(3000)) * time.Microsecond
				}
				wg.Go(func() {
					start := time.Now()
					if !wait {
						_, err := l.Take(ctx, key, n)
						if took := time.Since(start); took > 2*timeout { // behind an exchange
							t.Errorf("seed %d: take %d took %v: %v", seed, n, took, err)
						}
						return
					}
					c, cancel := context.WithTimeout(ctx, long)
					defer cancel()
					err := l.Wait(c, key, n)
					if took := time.Since(start); took > long {
						t.Errorf("seed %d: wait for %d took %v instead of %v: %v", seed, n, took,
							long, err)
					}
					if err != nil && !errors.Is(err, context.DeadlineExceeded) &&
						!errors.Is(err, hybrid.ErrExceedsBurst) &&
						!errors.Is(err, hybrid.ErrUnavailable) &&
						!errors.Is(err, hybrid.ErrClosed) {
						t.Errorf("seed %d: %v", seed, err)
					}
				})
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
				if random.IntN(60) == 0 {
					store.cut.Store(!store.cut.Load())
				}
				if i == 550 && seed%2 == 0 {
					wg.Go(func() { a.Close(ctx) })
				}
			}
			wg.Wait()
		})
	}
}

// TestNobodyStarves: where demand is a third of the limit in force, whoever asks for no
// more than its Burst gets it, beside those who ask for more.
func TestNobodyStarves(t *testing.T) {
	long(t)
	for seed := range longform.Of[uint64](8, 20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			store := remoteLine(2 * time.Millisecond)
			limit := hybrid.PerSecond(200)
			a := newLimiter(t, store, hybrid.Config{Limit: limit.WithBurst(50)})
			b := newLimiter(t, store, hybrid.Config{Limit: limit.WithBurst(300)})
			var wg sync.WaitGroup
			worst := time.Duration(0)
			var mu sync.Mutex
			for i := range 2000 {
				l, n := a, 1+random.IntN(5)
				if i%2 == 0 {
					if l = b; random.IntN(5) == 0 {
						n = 51 + random.IntN(200)
					} else if random.IntN(40) == 0 {
						n = 50
					}
				}
				wg.Go(func() {
					start := time.Now()
					c, cancel := context.WithTimeout(ctx, 10*time.Second)
					defer cancel()
					err := l.Wait(c, "k", n)
					if i > 100 && (n <= 50) != (err == nil) {
						t.Errorf("seed %d: request %d for %d: %v after %v", seed, i, n, err,
							time.Since(start))
					}
					mu.Lock()
					defer mu.Unlock()
					if n <= 50 {
						worst = max(worst, time.Since(start))
					}
				})
				time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
			}
			wg.Wait()
			if worst > 2*time.Second {
				t.Errorf("seed %d: one waited %v", seed, worst)
			}
		})
	}
}

// mute leaves calls unfilled while it is muted.
type mute struct {
	hybrid.Store
	muted atomic.Bool
}

func (m *mute) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	if !m.muted.Load() {
		m.Store.Exchange(ctx, calls)
	}
}

// TestUnfilled: a store that fills in nothing, or another Seq, has not answered.
func TestUnfilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &mute{Store: hybrid.NewMemory()}
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100)})
		store.muted.Store(true)
		done := make(chan error, 1)
		until, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		go func() { done <- l.Wait(until, "k", 1) }()
		time.Sleep(10 * time.Millisecond)
		store.muted.Store(false)
		start := time.Now()
		if err := <-done; err != nil || time.Since(start) > 2*time.Second {
			t.Errorf("waited %v: %v; %+v", time.Since(start), err, l.Stats())
		}
	})
}

// garbage answers with the right Seq and anything else.
type garbage struct {
	mu     sync.Mutex
	random *rand.Rand
	trips  atomic.Int64
}

func (g *garbage) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	g.trips.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	f := func() float64 {
		return []float64{
			math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1, 1e300, -1e300, 10, 100,
		}[g.random.IntN(10)]
	}
	d := func() time.Duration {
		return []time.Duration{
			math.MinInt64, math.MaxInt64, -1, 0, 1, time.Millisecond, time.Second, time.Hour,
		}[g.random.IntN(8)]
	}
	for _, c := range calls {
		c.Reply = lease.Reply{Seq: c.Request.Seq, Taken: f(), Add: f(), Rate: f(), Burst: f(), Keep: f(), Refresh: d(), RateUntil: d(), Expires: d(), RetryAfter: d(),
			Pool:      lease.Pool{Level: f(), Flow: f(), Room: f()},
			Contended: g.random.IntN(2) == 0, Shape: lease.Shape(g.random.IntN(6)),
			Holders: int(g.random.Int64N(5)) - 2,
			Limit:   lease.Limit{Rate: f(), Burst: int64(g.random.IntN(10) - 2)}}
		c.Err = c.Request.Validate()
	}
}

// TestGarbageReplies: whatever a store fills in, requests come back, and Close.
func TestGarbageReplies(t *testing.T) {
	for seed := range longform.Of[uint64](100, 200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			g := &garbage{random: rand.New(rand.NewPCG(seed, 0))}
			l := newLimiter(t, g, hybrid.Config{Limit: hybrid.PerSecond(100)})
			for range 500 {
				c, cancel := context.WithTimeout(ctx, time.Second)
				_, _ = l.Take(c, "k", 1+random.IntN(20))
				cancel()
				time.Sleep(time.Millisecond)
			}
			if n := g.trips.Load(); n > 600 {
				t.Errorf("seed %d: %d round trips for 500 requests", seed, n)
			}
			c, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if err := l.Close(c); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
}

// silent is a store that answers no exchange.
type silent struct{ *hybrid.Memory }

func (silent) Exchange(ctx context.Context, calls []*lease.Call) {
	<-ctx.Done()
	for _, c := range calls {
		c.Err = ctx.Err()
	}
}

// TestAskedAnew: a request whose entry goes while it waits asks a new one, and both
// together take no longer than the timeout.
func TestAskedAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 250 * time.Millisecond
		l := newLimiter(t, silent{hybrid.NewMemory()},
			hybrid.Config{Limit: hybrid.PerSecond(100), Timeout: timeout})
		took := make(chan time.Duration)
		go func() {
			start := time.Now()
			l.Allow("k")
			took <- time.Since(start)
		}()
		time.Sleep(timeout / 2)
		if err := l.Reset(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		if d := <-took; d > timeout {
			t.Errorf("a request took %v, not %v", d, timeout)
		}
	})
}

// TestSlowLimitFor: a request comes back though LimitFor takes longer than MaxRefresh.
func TestSlowLimitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var ended atomic.Bool
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{LimitFor: func(string) hybrid.Limit {
			if calls.Add(1) < 200 && !ended.Load() { // so that this test ends
				time.Sleep(260 * time.Millisecond)
			}
			return hybrid.PerSecond(100)
		}})
		var others sync.WaitGroup
		others.Go(func() {
			for !ended.Load() {
				l.Allow("k")
				time.Sleep(10 * time.Millisecond)
			}
		})
		time.Sleep(time.Second)
		start := time.Now()
		l.Take(ctx, "k", 200)
		took := time.Since(start)
		ended.Store(true)
		others.Wait()
		time.Sleep(time.Second)
		if took > time.Second {
			t.Errorf("took %v, %d calls of LimitFor", took, calls.Load())
		}
	})
}
