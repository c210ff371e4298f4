package live

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
	"github.com/seed13b07268/ration/sim/workload"
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

// every makes n requests of one key with a gap between them.
func every(gap time.Duration, n int) []workload.Request {
	list := make([]workload.Request, n)
	for i := range list {
		list[i] = workload.Request{At: time.Duration(i) * gap, Cost: 1}
	}
	return list
}

func runDriver(t *testing.T, ctx context.Context, store hybrid.Store, c hybrid.Config, requests []workload.Request) *driver {
	t.Helper()
	l, err := hybrid.New(store, c)
	simtest.OK(t, err)
	s := &setting{Each: []scenario.Limited{{Name: "key", Number: 1}}}
	p := &process{setting: s, limiter: l, keys: s.names(), start: time.Now(), link: new(link)}
	d := newDriver(requests, p.take, func(int) {})
	d.run(ctx, p.start)
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
			if r.Fired != d.requests[i].At {
				t.Fatalf("request %d of %v fired at %v", i, d.requests[i].At, r.Fired)
			}
			if r.Verdict != admitted {
				t.Fatalf("request %d: verdict %v", i, r.Verdict)
			}
			waited = max(waited, r.Returned-r.Fired)
		}
		if waited < 100*time.Millisecond {
			t.Errorf("the longest wait was %v: the store has not been asked", waited)
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
		requests := every(time.Millisecond, 3)
		for i, cost := range []int64{2, 3, 2} {
			requests[i].Cost = cost
		}
		d := runDriver(t, t.Context(), hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerMinute(1).WithBurst(2)}, requests)
		for i, want := range []verdict{admitted, refused, denied} {
			if got := d.answers[i].Verdict; got != want {
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
			if r.Verdict != unknown {
				t.Errorf("request %d: verdict %d", i, r.Verdict)
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
			if r.Verdict != want {
				t.Errorf("request %d: verdict %d, want %d", i, r.Verdict, want)
			}
		}
	})
}
