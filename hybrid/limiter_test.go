package hybrid_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

var ctx = context.Background()

// newLimiter returns a Limiter of a process of its own.
func newLimiter(t testing.TB, store hybrid.Store, c hybrid.Config) *hybrid.Limiter {
	t.Helper()
	if c.Process == nil {
		c.Process = hybrid.NewProcess()
	}
	l, err := hybrid.New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close(ctx)
		if s, ok := store.(*line); ok {
			time.Sleep(s.rtt) // no flight outlives its bubble, as one may outlive a Close that gave up
		}
	})
	return l
}

// long is for tests that play for minutes what others play in seconds, or start no goroutine.
func long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long under the race detector: left out with -short")
	}
}

// line is a store behind a network: each exchange takes rtt, and fails while
// it is cut.
type line struct {
	hybrid.Store
	rtt    time.Duration
	cut    atomic.Bool
	trips  atomic.Int64
	census atomic.Int64 // of them, for no key of a user
	flying atomic.Int64
}

func (l *line) Exchange(ctx context.Context, calls []*lease.Call) {
	l.trips.Add(1)
	if len(calls) == 1 && calls[0].Key == hybrid.FleetKey {
		l.census.Add(1)
	}
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
		admitted, start := 0, time.Now()
		for range 10_000 {
			if l.Allow("k") {
				admitted++
			}
			time.Sleep(time.Millisecond)
		}
		passed := time.Since(start) // 10 s, and a round trip for each request that waits
		if most := 50 + int(100*passed.Seconds()); admitted > most || admitted < most-10 {
			t.Errorf("admitted %d in %v, want %d or little less", admitted, passed, most)
		}
		if s := l.Stats(); s.Exchanges > 100 ||
			s.Exchanges+uint64(store.flying.Load()) != uint64(store.trips.Load()) ||
			s.Lease.Denied+s.Ledger.Denied != uint64(10_000-admitted) {
			t.Errorf("%+v after %d round trips", s, store.trips.Load())
		}
	})
}

// TestWarmKeyNeverWaits: under steady demand no request of a key in use waits
// for the network, whatever the round trip.
func TestWarmKeyNeverWaits(t *testing.T) {
	for _, rtt := range []time.Duration{time.Millisecond, 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, remoteLine(rtt),
				hybrid.Config{Limit: hybrid.PerSecond(1000), Timeout: time.Second})
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

func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerSecond(10).WithBurst(20)})
		d, err := l.Take(ctx, "k", 20)
		if err != nil || !d.Allowed || d.Source != hybrid.Ledger ||
			d.Limit != hybrid.PerSecond(10).WithBurst(20) || d.RetryAfter != 0 {
			t.Errorf("first: %+v %v", d, err)
		}
		d, err = l.Take(ctx, "k", 5)
		if err != nil || d.Allowed || d.RetryAfter < 100*time.Millisecond ||
			d.RetryAfter > 600*time.Millisecond {
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
		for _, n := range []int{-1, math.MinInt} {
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
		if d, err := b.Take(ctx, "k", 980); err != nil || !d.Allowed {
			t.Errorf("%+v %v", d, err)
		}
		if err := a.Close(ctx); err != nil {
			t.Errorf("second close: %v", err)
		}
		if a.Allow("k") {
			t.Error("allowed after close")
		}
		if _, err := a.Take(ctx, "k", 1); !errors.Is(err, hybrid.ErrClosed) {
			t.Errorf("take after close: %v", err)
		}
		if err := a.Key("k").Wait(ctx, 1); !errors.Is(err, hybrid.ErrClosed) {
			t.Errorf("wait after close: %v", err)
		}
	})
}

// TestCloseInEveryMode: closing ends, whatever the ledger lends.
func TestCloseInEveryMode(t *testing.T) {
	for mode := lease.Auto; mode <= lease.PerRequest; mode++ {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			l := newLimiter(t, store,
				hybrid.Config{Limit: hybrid.PerSecond(100), Policy: hybrid.Policy{Mode: mode}})
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

func TestConfigErrors(t *testing.T) {
	limit := hybrid.PerSecond(1)
	for _, c := range []struct {
		config hybrid.Config
		want   string
	}{
		{hybrid.Config{}, "Config.Limit and Config.LimitFor are both unset"},
		{hybrid.Config{Limit: hybrid.PerSecond(0).WithBurst(1)}, "Config.Limit: lease: invalid limit: Rate 0"},
		{hybrid.Config{Limit: limit.WithBurst(-1)}, "Burst -1"},
		{
			hybrid.Config{Limit: limit, Namespace: "a:b"},
			`Config.Namespace "a:b" has other bytes than`,
		},
		{
			hybrid.Config{Limit: limit, Namespace: "{a}"},
			`Config.Namespace "{a}" has other bytes than`,
		},
		{
			hybrid.Config{Limit: limit, Namespace: strings.Repeat("a", 65)},
			"is longer than 64 bytes",
		},
		{hybrid.Config{Limit: limit, LimitFor: func(string) hybrid.Limit { return limit }}, "both set"},
		{hybrid.Config{Limit: limit, Policy: hybrid.Policy{Batch: -1}}, "Policy.Batch -1"},
		{hybrid.Config{Limit: limit, Outage: 7}, "Config.Outage Outage(7)"},
		{hybrid.Config{Limit: limit, Timeout: -1}, "Config.Timeout -1ns"},
		{hybrid.Config{Limit: limit, MaxKeys: -1}, "Config.MaxKeys -1"},
		{hybrid.Config{Limit: limit, Processes: -1}, "Config.Processes -1"},
		{hybrid.Config{Limit: limit, Process: &hybrid.Process{}}, "Config.Process is empty"},
	} {
		if _, err := hybrid.New(hybrid.NewMemory(), c.config); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
	for _, store := range []hybrid.Store{nil, (*hybrid.Memory)(nil)} {
		if _, err := hybrid.New(store, hybrid.Config{Limit: limit}); err == nil {
			t.Errorf("no error for the store %T(nil)", store)
		}
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
