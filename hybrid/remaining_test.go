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

// countingDown are ways in which a bucket of 20, or of 400, is decided on.
var countingDown = []struct {
	name   string
	policy hybrid.Policy
	burst  int64
	last   int64 // that remains for sure to be counted; -1 is the first denial
	held   bool  // a lease is held, sooner or later, at some pace
}{
	{"auto", hybrid.Policy{}, 20, -1, false},
	{"auto, small leases", hybrid.Policy{Smallest: 1, Batch: 3}, 20, -1, false},
	{"batches", hybrid.Policy{Mode: lease.Batches, Batch: 7}, 20, -1, true},
	{"per request", perRequest, 20, -1, false},
	// The owner of a slice is denied the last twentieth until its next renewal.
	{"auto, enough to lend", hybrid.Policy{}, 400, 20, true},
}

// perDay adds nothing while the bucket is used up.
func perDay(n int64) hybrid.Limit { return hybrid.Per(float64(n), 24*time.Hour) }

// TestRemainingCountsDown: to a single process the decisions on a bucket of 20 read 19, 18,
// 17 and so on, in each mode, whoever decides, at any pace.
func TestRemainingCountsDown(t *testing.T) {
	for _, c := range countingDown {
		held := false
		for _, pause := range []time.Duration{0, 3 * time.Millisecond, 30 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
					Limit: perDay(c.burst), Policy: c.policy,
				})
				name := fmt.Sprintf("%s, every %v", c.name, pause)
				held = countDown(t, l, name, c.burst, c.last, pause) || held
			})
		}
		if held != c.held {
			t.Errorf("%s: holds a lease: %v", c.name, held)
		}
	}
}

// TestRemainingCountsDownOnRedis: likewise where scripts decide.
func TestRemainingCountsDownOnRedis(t *testing.T) {
	store := remote.New(redistest.Start(t).Client())
	for _, c := range countingDown {
		l := newLimiter(t, store, hybrid.Config{Limit: perDay(c.burst), Policy: c.policy})
		countDown(t, l, c.name, c.burst, c.last, 0)
	}
}

// countDown takes tokens until so many remain, and reports whether a lease was held meanwhile.
func countDown(
	t *testing.T, l *hybrid.Limiter, name string, burst, last int64, pause time.Duration,
) (held bool) {
	for want := burst - 1; want >= last; want-- {
		d, err := l.Take(ctx, name, 1)
		if err != nil || d.Allowed != (want >= 0) || d.Remaining != max(want, 0) {
			t.Fatalf("%s: %d are to remain: %+v, %v", name, want, d, err)
		}
		full := time.Duration(burst-d.Remaining) * 24 * time.Hour / time.Duration(burst)
		if d.ResetAfter > full || d.ResetAfter < full-15*time.Second {
			t.Errorf("%s: %d remain: full in %v, not %v", name, want, d.ResetAfter, full)
		}
		if d.Held < 0 || d.Held > d.Remaining {
			t.Errorf("%s: %+v holds more than remains", name, d)
		}
		held = held || d.Held > 0
		if pause > 0 { // in a bubble
			time.Sleep(pause)
		}
	}
	return held
}

// TestRemainingSeesPockets: what goroutines take without the lock is counted.
func TestRemainingSeesPockets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no exchange is late
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
	})
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
