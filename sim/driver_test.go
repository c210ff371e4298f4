package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// distant is a store with a round trip.
type distant struct {
	hybrid.Store
	rtt time.Duration
}

func (d distant) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(d.rtt / 2)
	d.Store.Exchange(ctx, calls)
	time.Sleep(d.rtt / 2)
}

// every makes n arrivals of one key with a gap between them.
func every(gap time.Duration, n int) []arrival {
	list := make([]arrival, n)
	for i := range list {
		list[i] = arrival{at: time.Duration(i) * gap, cost: 1}
	}
	return list
}

func runDriver(t *testing.T, ctx context.Context, store hybrid.Store, c hybrid.Config, arrivals []arrival) *driver {
	t.Helper()
	l, err := hybrid.New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(l, []string{"key"}, arrivals)
	d.run(ctx, time.Now())
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return d
}

// Every request waits 100 ms for the ledger, a hundred at a time, and none is
// fired as much as a nanosecond late. Virtual time shows it.
func TestWaitsDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := distant{hybrid.NewMemory(), 100 * time.Millisecond}
		d := runDriver(t, t.Context(), store, hybrid.Config{
			Limit: hybrid.PerSecond(10_000), Policy: hybrid.Policy{Mode: lease.PerRequest},
		}, every(time.Millisecond, 2000))
		var waited time.Duration
		for i, r := range d.answers {
			if r.fired != d.arrivals[i].at {
				t.Fatalf("request %d of %v fired at %v", i, d.arrivals[i].at, r.fired)
			}
			if r.verdict != admitted {
				t.Fatalf("request %d: verdict %v", i, r.verdict)
			}
			waited = max(waited, r.returned-r.fired)
		}
		if waited < 100*time.Millisecond {
			t.Errorf("the longest wait was %v: the store has not been asked", waited)
		}
		if fired, ok := d.count(); fired != 2000 || ok != 2000 {
			t.Errorf("counted %d fired, %d admitted", fired, ok)
		}
	})
}

// While nothing waits, two workers do: one fires and one sleeps for the next.
func TestWorkersLeaveWhenIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := distant{hybrid.NewMemory(), 50 * time.Millisecond}
		d := runDriver(t, t.Context(), store, hybrid.Config{Limit: hybrid.PerSecond(10_000)}, every(time.Millisecond, 1000))
		if d.workers > 2 {
			t.Errorf("%d workers at the end", d.workers)
		}
	})
}

func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrivals := []arrival{{cost: 2}, {cost: 3}, {cost: 2}}
		for i := range arrivals {
			arrivals[i].at = time.Duration(i) * time.Millisecond
		}
		d := runDriver(t, t.Context(), hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerMinute(1).WithBurst(2)}, arrivals)
		for i, want := range []verdict{admitted, refused, denied} {
			if got := d.answers[i].verdict; got != want {
				t.Errorf("request %d: verdict %d, want %d", i, got, want)
			}
		}
	})
}

type silent struct{}

func (silent) Exchange(ctx context.Context, calls []*lease.Call) {
	<-ctx.Done()
	for _, c := range calls {
		c.Err = ctx.Err()
	}
}

func TestSilentStoreIsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := runDriver(t, t.Context(), silent{}, hybrid.Config{Limit: hybrid.PerSecond(10)}, every(time.Millisecond, 3))
		for i, r := range d.answers {
			if r.verdict != unknown {
				t.Errorf("request %d: verdict %d", i, r.verdict)
			}
		}
	})
}

// After an interrupt nothing more is fired, and what waits gets its answer.
func TestInterruptStopsFiring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond+1)
		defer cancel()
		store := distant{hybrid.NewMemory(), 20 * time.Millisecond}
		start := time.Now()
		d := runDriver(t, ctx, store, hybrid.Config{
			Limit: hybrid.PerSecond(10_000), Policy: hybrid.Policy{Mode: lease.PerRequest},
		}, every(10*time.Millisecond, 1000))
		if took := time.Since(start); took > 100*time.Millisecond {
			t.Errorf("stopped after %v", took)
		}
		for i, r := range d.answers {
			want := admitted
			if i > 5 {
				want = unfired
			}
			if r.verdict != want {
				t.Errorf("request %d: verdict %d, want %d", i, r.verdict, want)
			}
		}
	})
}
