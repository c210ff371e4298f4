package hybrid_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// perRequest lends nothing, not even of calm keys.
var perRequest = hybrid.Policy{Mode: lease.PerRequest, MaxHold: 250 * time.Millisecond}

// TestRemainingCountsDown: to a single process the decisions on a bucket of 20 read 19, 18,
// 17 and so on to 0, in each store and mode, whoever decides, at any pace.
func TestRemainingCountsDown(t *testing.T) {
	stores := map[string]hybrid.Store{
		"memory": hybrid.NewMemory(), "redis": remote.New(redistest.Start(t).Client()),
	}
	for _, c := range []struct {
		name   string
		policy hybrid.Policy
		held   bool // a lease is held, sooner or later, at some pace
	}{
		{"auto", hybrid.Policy{}, false},
		{"auto, small leases", hybrid.Policy{Smallest: 1, Batch: 3}, false},
		{"batches", hybrid.Policy{Mode: lease.Batches, Batch: 7}, true},
		{"per request", perRequest, false},
	} {
		held := false
		for where, store := range stores {
			for _, pause := range []time.Duration{0, 3 * time.Millisecond, 30 * time.Millisecond} {
				t.Run(fmt.Sprintf("%s, %s, every %v", c.name, where, pause), func(t *testing.T) {
					limit := hybrid.PerHour(20)
					l := newLimiter(t, store, hybrid.Config{Limit: limit, Policy: c.policy})
					for want := int64(19); want >= -1; want-- {
						d, err := l.Take(ctx, t.Name(), 1)
						if err != nil || d.Allowed != (want >= 0) || d.Remaining != max(want, 0) {
							t.Fatalf("%d are to remain: %+v, %v", want, d, err)
						}
						full := time.Duration(20-d.Remaining) * 3 * time.Minute
						if d.ResetAfter > full || d.ResetAfter < full-10*time.Second {
							t.Errorf("%d remain: full in %v, not %v", want, d.ResetAfter, full)
						}
						if d.Held < 0 || d.Held > d.Remaining {
							t.Errorf("%+v holds more than remains", d)
						}
						held = held || d.Held > 0
						time.Sleep(pause) // the pace of real traffic; nothing waits for it
					}
				})
			}
		}
		if held != c.held {
			t.Errorf("%s: holds a lease: %v", c.name, held)
		}
	}
}

// TestRemainingSeesPockets: what goroutines take without the lock is counted.
func TestRemainingSeesPockets(t *testing.T) {
	const burst, n = 100_000, 20_000
	limit := hybrid.Limit{Rate: 1.0 / 600, Burst: burst}
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: limit})
	k := l.Key("k")
	for range n {
		if !k.Allow() {
			t.Fatal("denied")
		}
	}
	if d, err := k.Take(ctx, 1); err != nil || d.Remaining != burst-n-1 {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestRemainingOfOthers: a decision of the ledger counts what other processes took.
func TestRemainingOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		limit := hybrid.PerSecond(10).WithBurst(20)
		config := hybrid.Config{Limit: limit, Policy: perRequest}
		a, b := newLimiter(t, store, config), newLimiter(t, store, config)
		a.AllowN("k", 12)
		d, err := b.Take(ctx, "k", 3)
		if err != nil || d.Remaining != 5 || d.Held != 0 || d.Source != hybrid.Ledger ||
			(d.ResetAfter-1500*time.Millisecond).Abs() > 10*time.Millisecond {
			t.Errorf("%+v, %v", d, err)
		}
		time.Sleep(100 * time.Millisecond) // one more has come
		if d, err = a.Take(ctx, "k", 8); err != nil || d.Allowed || d.Remaining != 6 {
			t.Errorf("%+v, %v", d, err)
		}
		if d, err = a.Take(ctx, "k", 6); err != nil || !d.Allowed || d.Remaining != 0 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestRemainingInOutage: it is what the policy would still admit.
func TestRemainingInOutage(t *testing.T) {
	for _, c := range []struct {
		policy    hybrid.Outage
		allowed   bool
		remaining int64
		reset     time.Duration
	}{
		{hybrid.Share, true, 19, 100 * time.Millisecond}, // one process: all of the rate
		{hybrid.Deny, false, 0, 0},
		{hybrid.Allow, true, 20, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			limit := hybrid.PerSecond(10).WithBurst(20)
			l := newLimiter(t, store, hybrid.Config{
				Limit: limit, Outage: c.policy, Timeout: 50 * time.Millisecond,
			})
			l.Allow("k")
			store.cut.Store(true)
			for range 100 { // it is noticed; the share begins empty, and fills
				l.Allow("k")
				time.Sleep(200 * time.Millisecond)
			}
			d, err := l.Take(ctx, "k", 1)
			if err != nil || d.Source != hybrid.OutagePolicy || d.Allowed != c.allowed ||
				d.Remaining != c.remaining || (d.ResetAfter-c.reset).Abs() > time.Millisecond {
				t.Errorf("%v: %+v, %v", c.policy, d, err)
			}
		})
	}
}
