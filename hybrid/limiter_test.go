package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

var ctx = context.Background()

func newLimiter(t testing.TB, store hybrid.Store, c hybrid.Config) *hybrid.Limiter {
	t.Helper()
	l, err := hybrid.New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(ctx) })
	return l
}

// line is a store behind a network: each exchange takes rtt, and fails while
// it is cut.
type line struct {
	hybrid.Store
	rtt    time.Duration
	cut    atomic.Bool
	trips  atomic.Int64
	flying atomic.Int64
}

func (l *line) Exchange(ctx context.Context, calls []*lease.Call) {
	l.trips.Add(1)
	defer l.flying.Add(-1)
	l.flying.Add(1)
	time.Sleep(l.rtt / 2) // in the bubbles of these tests no time is lost
	if l.cut.Load() {
		for _, c := range calls {
			c.Err = errors.New("cut")
		}
		return
	}
	l.Store.Exchange(ctx, calls)
	time.Sleep(l.rtt / 2)
}

func remoteLine(rtt time.Duration) *line { return &line{Store: hybrid.NewMemory(), rtt: rtt} }

func TestBurstThenRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(50)})
		admitted := 0
		for range 10_000 {
			if l.Allow("k") {
				admitted++
			}
			time.Sleep(time.Millisecond)
		}
		if admitted > 1050 || admitted < 1040 {
			t.Errorf("admitted %d in 10 s, want 1050 or little less", admitted)
		}
		if s := l.Stats(); s.Exchanges > 100 || s.Exchanges != uint64(store.trips.Load()) || s.Lease.Denied+s.Ledger.Denied != uint64(10_000-admitted) {
			t.Errorf("%+v after %d round trips", s, store.trips.Load())
		}
	})
}

// TestWarmKeyNeverWaits: under steady demand no request of a key in use waits
// for the network, whatever the round trip.
func TestWarmKeyNeverWaits(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, remoteLine(rtt), hybrid.Config{Limit: hybrid.PerSecond(1000), Timeout: time.Second})
			slow := 0
			for i := range 5000 {
				start := time.Now()
				if !l.Allow("k") {
					t.Fatalf("denied at half the limit, request %d", i)
				}
				if time.Since(start) > 0 && i > 600 {
					slow++
				}
				time.Sleep(2 * time.Millisecond)
			}
			if slow > 0 {
				t.Errorf("%d of 4400 requests waited for a round trip of %v", slow, rtt)
			}
		})
	}
}

func TestWaitersShareOneExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if !l.Allow("cold") {
					t.Error("denied")
				}
			})
		}
		wg.Wait()
		if n := store.trips.Load(); n > 2 {
			t.Errorf("50 requests for a cold key took %d round trips", n)
		}
	})
}

func TestManyKeysShareRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		var wg sync.WaitGroup
		const keys = 10_000
		for i := range keys {
			wg.Go(func() { l.Allow(fmt.Sprint(i)) })
		}
		wg.Wait()
		if n := store.trips.Load(); n > 200 {
			t.Errorf("%d keys took %d round trips", keys, n)
		}
	})
}

func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(10).WithBurst(20)})
		d, err := l.Take(ctx, "k", 20)
		if err != nil || !d.Allowed || d.Source != hybrid.Ledger || d.Limit != hybrid.PerSecond(10).WithBurst(20) || d.RetryAfter != 0 {
			t.Errorf("first: %+v %v", d, err)
		}
		d, err = l.Take(ctx, "k", 5)
		if err != nil || d.Allowed || d.RetryAfter < 100*time.Millisecond || d.RetryAfter > 600*time.Millisecond {
			t.Errorf("exhausted: %+v %v", d, err)
		}
		time.Sleep(600 * time.Millisecond)
		if d, err = l.Take(ctx, "k", 5); err != nil || !d.Allowed {
			t.Errorf("after 600 ms: %+v %v", d, err)
		}
		start := time.Now()
		for _, n := range []int{21, math.MaxInt} {
			if _, err := l.Take(ctx, "k", n); !errors.Is(err, hybrid.ErrExceedsBurst) {
				t.Errorf("n %d: %v", n, err)
			}
			if err := l.Wait(ctx, "k", n); !errors.Is(err, hybrid.ErrExceedsBurst) {
				t.Errorf("wait for %d: %v", n, err)
			}
		}
		for _, n := range []int{0, -1, math.MinInt} {
			if _, err := l.Take(ctx, "k", n); err == nil || l.AllowN("k", n) {
				t.Errorf("n %d: %v", n, err)
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := l.Take(ended, "k", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("ended context: %v", err)
		}
		if time.Since(start) > 0 {
			t.Error("errors took time")
		}
	})
}

func TestKeysOfAnyKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerMinute(1)})
		for _, key := range []string{"", "\x00\xff", "{a}\n{b}", strings.Repeat("k", 64<<10)} {
			if !l.Allow(key) || l.Allow(key) {
				t.Errorf("key %.20q", key)
			}
		}
	})
}

// TestWaitInOrder: requests that wait are served first come first served, and
// at the limit's rate.
func TestWaitInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(10)})
		var served [200]time.Time
		var wg sync.WaitGroup
		start := time.Now()
		for i := range 200 {
			wg.Go(func() {
				if err := l.Wait(ctx, "k", 1+i%3); err != nil {
					t.Error(err)
				}
				served[i] = time.Now()
			})
			time.Sleep(100 * time.Microsecond)
		}
		wg.Wait()
		if !slices.IsSortedFunc(served[:], time.Time.Compare) {
			t.Errorf("served at %v", served)
		}
		if took := time.Since(start); took < 3880*time.Millisecond || took > 4300*time.Millisecond {
			t.Errorf("399 tokens at 100/s after a burst of 10 took %v", took)
		}
	})
}

func TestWaitRefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(10)})
		l.Wait(ctx, "k", 10)
		soon, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := l.Wait(soon, "k", 10); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(start); took > 2*time.Millisecond {
			t.Errorf("refused after %v", took)
		}
		later, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if err := l.Wait(later, "k", 10); err != nil {
			t.Error(err)
		}
		gone, cancel := context.WithCancel(ctx)
		time.AfterFunc(10*time.Millisecond, cancel)
		start = time.Now()
		if err := l.Wait(gone, "k", 10); !errors.Is(err, context.Canceled) || time.Since(start) != 10*time.Millisecond {
			t.Errorf("cancelled: %v after %v", err, time.Since(start))
		}
	})
}

// TestCloseHandsBack: what one process held, another can take at once.
func TestCloseHandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		config := hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(1000)}
		a := newLimiter(t, store, config)
		for range 50 {
			a.Allow("k")
			time.Sleep(10 * time.Millisecond)
		}
		waits := make(chan error)
		go func() { waits <- a.Wait(ctx, "k", 1000) }()
		synctest.Wait()
		start := time.Now()
		if err := a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 5*time.Millisecond {
			t.Errorf("closing took %v", took)
		}
		if err := <-waits; !errors.Is(err, hybrid.ErrClosed) {
			t.Errorf("who waited got %v", err)
		}
		b := newLimiter(t, store, config)
		if d, err := b.Take(ctx, "k", 990); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
		if err := a.Close(ctx); err != nil {
			t.Errorf("second close: %v", err)
		}
		if a.Allow("k") {
			t.Error("allowed after close")
		}
		if _, err := a.Take(ctx, "k", 1); err != hybrid.ErrClosed {
			t.Errorf("take after close: %v", err)
		}
		if err := a.Key("k").Wait(ctx, 1); err != hybrid.ErrClosed {
			t.Errorf("wait after close: %v", err)
		}
	})
}

func TestCloseWhenCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Second) // longer than the timeout
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100)})
		go l.Allow("k")
		synctest.Wait()
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := l.Close(soon); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 50*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		time.Sleep(time.Minute) // the store call ends some time
	})
}

// TestOutage: the store goes away under load and comes back.
func TestOutage(t *testing.T) {
	for _, c := range []struct {
		policy hybrid.Outage
		lo, hi int // admitted in 10 s of outage by two processes, 100/s over all
	}{
		{hybrid.Share, 850, 1002}, // two of them may round up
		{hybrid.Deny, 0, 0},
		{hybrid.Allow, 19000, 20000},
	} {
		t.Run(c.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				core, logs := observer.New(zap.InfoLevel)
				config := hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(100), Outage: c.policy, Timeout: 50 * time.Millisecond, Logger: zap.New(core)}
				limiters := []*hybrid.Limiter{newLimiter(t, store, config), newLimiter(t, store, config)}
				slowest := time.Duration(0)
				run := func(d time.Duration) (admitted, outage int) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
						for _, l := range limiters {
							start := time.Now()
							d, err := l.Take(ctx, "k", 1)
							slowest = max(slowest, time.Since(start))
							if err == nil && d.Allowed {
								admitted++
								if d.Source == hybrid.OutagePolicy {
									outage++
								}
							}
						}
					}
					return
				}
				run(3 * time.Second)
				store.cut.Store(true)
				run(time.Second) // until it is noticed, and leases have run out
				before := store.trips.Load()
				admitted, outage := run(10 * time.Second)
				if admitted != outage || admitted < c.lo || admitted > c.hi {
					t.Errorf("%d admitted, %d by the outage policy, want %d to %d", admitted, outage, c.lo, c.hi)
				}
				if probes := store.trips.Load() - before; probes > 2*10*4 {
					t.Errorf("%d probes in 10 s by two processes", probes)
				}
				if !limiters[0].Stats().Away {
					t.Error("Stats does not say so")
				}
				store.cut.Store(false)
				run(3 * time.Second)
				admitted, outage = run(10 * time.Second)
				if outage > 0 || admitted < 980 || admitted > 1100 {
					t.Errorf("afterwards %d admitted, %d by the outage policy", admitted, outage)
				}
				if slowest > config.Timeout {
					t.Errorf("a request waited %v", slowest)
				}
				if n := len(logs.All()); n != 4 {
					t.Errorf("%d log lines, want one each way from each: %v", n, logs.All())
				}
			})
		})
	}
}

// TestStartInOutage: who never heard from the store does not know its share.
func TestStartInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		store.cut.Store(true)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100)})
		for range 1000 {
			if l.Allow("k") {
				t.Fatal("admitted")
			}
			time.Sleep(10 * time.Millisecond)
		}
		store.cut.Store(false)
		time.Sleep(2 * time.Second)
		l.Allow("k")
		time.Sleep(2 * time.Second)
		if !l.Allow("k") {
			t.Errorf("denied after the store came back: %+v", l.Stats())
		}
	})
}

func TestMaxKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(10), MaxKeys: 64})
		hot := l.Key("hot")
		hot.Allow()
		for i := range 5000 {
			if !l.Allow(fmt.Sprint("flood", i)) {
				t.Fatalf("key %d denied: every bucket is full", i)
			}
			if i%100 == 0 {
				hot.Allow()
			}
		}
		if s := l.Stats(); s.Keys > 64 {
			t.Errorf("%d keys in memory", s.Keys)
		}
		decided := func() (admitted, denied uint64) {
			s := l.Stats()
			return s.Lease.Admitted + s.Ledger.Admitted, s.Lease.Denied + s.Ledger.Denied
		}
		admitted, denied := decided()
		for i := range 20 { // a key outside the table: ten tokens, then no more
			if got := l.Allow("tail"); got != (i < 10) {
				t.Errorf("request %d of a key outside the table: %v", i, got)
			}
		}
		if a, d := decided(); a != admitted+10 || d != denied+10 {
			t.Errorf("Stats counts %d admitted and %d denied more", a-admitted, d-denied)
		}
		time.Sleep(time.Minute) // there is room again
		handle := l.Key("late")
		trips := store.trips.Load()
		for range 500 {
			handle.Allow()
			time.Sleep(20 * time.Millisecond)
		}
		if n := store.trips.Load() - trips; n > 100 {
			t.Errorf("%d round trips for 500 requests after there was room again", n)
		}
	})
}

// TestCloseReachesAll: also those who wait for a key outside the table.
func TestCloseReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerHour(1), MaxKeys: 1})
		errs := make(chan error)
		const keys = 300
		for i := range keys {
			l.Allow(fmt.Sprint(i))
			go func() { errs <- l.Wait(ctx, fmt.Sprint(i), 1) }()
		}
		synctest.Wait()
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		for range keys {
			if err := <-errs; !errors.Is(err, hybrid.ErrClosed) {
				t.Fatal(err)
			}
		}
	})
}

// TestCancelledRequestsPinNothing: clients that go away leave no key behind.
func TestCancelledRequestsPinNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(10*time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(10)})
		for i := range 100 {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			if _, err := l.Take(short, fmt.Sprint(i), 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		time.Sleep(time.Minute)
		if s := l.Stats(); s.Keys != 0 {
			t.Errorf("%d keys after a minute", s.Keys)
		}
	})
}

// TestLargeRequests: requests of many tokens get their part, alone and beside
// small ones, though a sub-bucket may be too small for them.
func TestLargeRequests(t *testing.T) {
	for _, c := range []struct {
		n     int
		limit hybrid.Limit
	}{
		{1400, hybrid.PerSecond(140_000).WithBurst(14_000)},
		{1400, hybrid.PerSecond(140_000).WithBurst(5_000)},
		{600, hybrid.PerSecond(10_000).WithBurst(1_000)},
		{7, hybrid.PerSecond(1_000).WithBurst(100)},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			a := newLimiter(t, store, hybrid.Config{Limit: c.limit})
			b := newLimiter(t, store, hybrid.Config{Limit: c.limit})
			every := time.Duration(float64(c.n) / c.limit.Rate * 1e9) // each offers all of it
			admitted := 0
			const d = 10 * time.Second
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
				for _, l := range []*hybrid.Limiter{a, b} {
					if l.AllowN("k", c.n) {
						admitted += c.n
					}
				}
			}
			most := float64(c.limit.Burst) + c.limit.Rate*d.Seconds()
			if got := float64(admitted); got < 0.85*most || got > most+1000 {
				t.Errorf("%d tokens a request at %v: admitted %.3f of Burst + Rate*T", c.n, c.limit, got/most)
			}
		})
	}
}

// TestMixedSizes: small and large requests side by side waste nothing.
func TestMixedSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(100)})
		var admitted atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for g := range 20 {
			wg.Go(func() {
				for i := 0; time.Since(start) < 20*time.Second; i++ {
					n := 1
					if (g+i)%2 == 0 {
						n = 20 + (7*g+13*i)%60
					}
					if l.AllowN("k", n) {
						admitted.Add(int64(n))
					}
					time.Sleep(5 * time.Millisecond)
				}
			})
		}
		wg.Wait()
		if got := admitted.Load(); got < 18_000 || got > 20_350 {
			t.Errorf("%d tokens admitted of 20100", got)
		}
	})
}

// TestExceedsInAFullTable: a request that is too large is refused at once.
func TestExceedsInAFullTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerHour(10), MaxKeys: 1})
		for i := range 300 {
			go l.Wait(ctx, fmt.Sprint(i), 10)
			time.Sleep(10 * time.Millisecond)
		}
		for i := range 300 {
			if _, err := l.Take(ctx, fmt.Sprint("new", i), 11); !errors.Is(err, hybrid.ErrExceedsBurst) {
				t.Fatal(err)
			}
		}
	})
}

// TestCloseInEveryMode: closing ends, whatever the ledger lends.
func TestCloseInEveryMode(t *testing.T) {
	for mode := lease.Auto; mode <= lease.PerRequest; mode++ {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100), Policy: hybrid.Policy{Mode: mode}})
			for range 500 {
				l.Allow("k")
				time.Sleep(2 * time.Millisecond)
			}
			trips := store.trips.Load()
			if err := l.Close(ctx); err != nil || store.trips.Load() > trips+2 {
				t.Errorf("%v: %v after %d round trips", mode, err, store.trips.Load()-trips)
			}
		})
	}
}

// TestSparseKeyIsLeased: a key asked for a few times a second is kept warm.
func TestSparseKeyIsLeased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		waited := 0
		for range 200 {
			start := time.Now()
			l.Allow("k")
			if time.Since(start) > 0 {
				waited++
			}
			time.Sleep(110 * time.Millisecond)
		}
		if waited > 10 || store.trips.Load() > 150 {
			t.Errorf("%d of 200 requests waited, %d round trips", waited, store.trips.Load())
		}
	})
}

// TestOneKeysOutage: a key whose node is down is decided by the outage policy
// though the store answers others, and recovers by itself.
func TestOneKeysOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, down := remoteLine(time.Millisecond), remoteLine(time.Millisecond)
		store := split{"down", down, up}
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond})
		run := func(d time.Duration) (outage, errs int) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				l.Allow("up")
				d, err := l.Take(ctx, "down", 1)
				if err != nil {
					errs++
				} else if d.Source == hybrid.OutagePolicy {
					outage++
				}
			}
			return
		}
		run(2 * time.Second)
		down.cut.Store(true)
		run(2 * time.Second)
		if outage, errs := run(5 * time.Second); outage < 100 || errs > 0 {
			t.Errorf("%d decided by the outage policy, %d errors", outage, errs)
		}
		down.cut.Store(false)
		run(2 * time.Second)
		if outage, errs := run(5 * time.Second); outage+errs > 0 || l.Stats().Away {
			t.Errorf("afterwards %d decided by the outage policy, %d errors", outage, errs)
		}
	})
}

// split sends one key to a store of its own.
type split struct {
	key         string
	its, others hybrid.Store
}

func (s split) Exchange(ctx context.Context, calls []*lease.Call) {
	for _, c := range calls {
		if c.Key == s.key {
			s.its.Exchange(ctx, []*lease.Call{c})
		} else {
			s.others.Exchange(ctx, []*lease.Call{c})
		}
	}
}

func TestIdleKeysAreEvicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(10)})
		k := l.Key("0")
		for i := range 1000 {
			l.Allow(fmt.Sprint(i))
		}
		k.Allow()
		time.Sleep(time.Minute)
		if s := l.Stats(); s.Keys != 0 {
			t.Errorf("%d keys after a minute", s.Keys)
		}
		if !k.Allow() {
			t.Error("a handle outlives its key's eviction")
		}
	})
}

// TestLimitFor: a changed limit is in force after the next exchange.
func TestLimitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rate atomic.Int64
		rate.Store(100)
		core, logs := observer.New(zap.WarnLevel)
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Logger: zap.New(core),
			LimitFor: func(key string) hybrid.Limit {
				if key == "bad" {
					return hybrid.Limit{}
				}
				return hybrid.PerSecond(float64(rate.Load()))
			},
		})
		count := func() (n int) {
			for range 2000 {
				if l.Allow("k") {
					n++
				}
				time.Sleep(time.Millisecond)
			}
			return n
		}
		count()
		for _, r := range []int64{500, 50} {
			rate.Store(r)
			count()
			if n := count(); n < int(r)*2*95/100 || n > int(r)*2*105/100 {
				t.Errorf("%d admitted in 2 s at %d/s", n, r)
			}
		}
		rate.Store(-1)
		if n := count(); n < 95 || n > 105 {
			t.Errorf("%d admitted in 2 s: an invalid limit must leave 50/s", n)
		}
		if logs.Len() != 1 {
			t.Errorf("the invalid limit was logged %d times", logs.Len())
		}
		if _, err := l.Take(ctx, "bad", 1); !errors.Is(err, hybrid.ErrInvalidLimit) {
			t.Errorf("bad limit: %v", err)
		}
	})
}

func TestConfigErrors(t *testing.T) {
	limit := hybrid.PerSecond(1)
	for _, c := range []struct {
		config hybrid.Config
		want   string
	}{
		{hybrid.Config{}, "Config.Limit: lease: invalid limit: Rate 0"},
		{hybrid.Config{Limit: limit.WithBurst(-1)}, "Burst -1"},
		{hybrid.Config{Limit: limit, LimitFor: func(string) hybrid.Limit { return limit }}, "both set"},
		{hybrid.Config{Limit: limit, Policy: hybrid.Policy{Batch: -1}}, "Policy.Batch -1"},
		{hybrid.Config{Limit: limit, Outage: 7}, "Config.Outage Outage(7)"},
		{hybrid.Config{Limit: limit, Timeout: -1}, "Config.Timeout -1ns"},
		{hybrid.Config{Limit: limit, MaxKeys: -1}, "Config.MaxKeys -1"},
	} {
		if _, err := hybrid.New(hybrid.NewMemory(), c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	if _, err := hybrid.New(nil, hybrid.Config{Limit: limit}); err == nil {
		t.Error("no error for a nil store")
	}
}

func TestWarmPathAllocatesNothing(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	k := l.Key("k")
	for range 1000 {
		k.Allow()
	}
	for name, f := range map[string]func(){
		"Key.Allow":     func() { k.Allow() },
		"Limiter.Allow": func() { l.Allow("k") },
		"Limiter.Take":  func() { l.Take(ctx, "k", 1) },
	} {
		// The renewals of other goroutines may fall into a run: the smallest counts.
		least := math.Inf(1)
		for range 5 {
			least = min(least, testing.AllocsPerRun(1000, f))
		}
		if least > 0 {
			t.Errorf("%s allocates %v times", name, least)
		}
	}
}

// TestExamples: everything that is exported has a runnable example.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	p, err := doc.NewFromFiles(fset, parsed, "github.com/seed13b07268/ration/hybrid")
	if err != nil {
		t.Fatal(err)
	}
	has := func(name string, examples []*doc.Example) {
		if len(examples) == 0 {
			t.Errorf("%s has no example", name)
		}
		for _, e := range examples {
			if e.Output == "" {
				t.Errorf("the example %s of %s does not run", e.Name, name)
			}
		}
	}
	has("the package", p.Examples)
	for _, f := range p.Funcs {
		has(f.Name, f.Examples)
	}
	for _, typ := range p.Types {
		has(typ.Name, typ.Examples)
		for _, m := range typ.Methods {
			has(typ.Name+"."+m.Name, m.Examples)
		}
		for _, f := range typ.Funcs {
			if f.Name != "NewMemory" { // in all of them
				has(f.Name, f.Examples)
			}
		}
	}
}
