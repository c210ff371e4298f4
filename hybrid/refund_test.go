package hybrid_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// TestRefund: what was spent from the lease since the last answer comes back, no more of it, and
// once. All that was spent of a quota does. No more is admitted than the limit, and the store is
// asked for a quota only.
func TestRefund(t *testing.T) {
	batches := hybrid.Policy{Mode: lease.Batches, Batch: 100}
	each := hybrid.Policy{Mode: lease.PerRequest}
	for _, c := range []struct {
		name   string
		limit  hybrid.Limit
		policy hybrid.Policy
		backs  [3]int64 // of 30 each, when one was taken by the store and 50 from the lease
	}{
		{"bucket", hybrid.Per(1000, year), batches, [3]int64{30, 20, 0}},
		{"quota", hybrid.Quota(1000, 3650*hybrid.Day), batches, [3]int64{30, 21, 0}},
		{"sliding window", hybrid.Sliding(1000, 3650*hybrid.Day), batches, [3]int64{30, 21, 0}},
		{"bucket, each by the store", hybrid.Per(1000, year), each, [3]int64{}},
		{"quota, each by the store", hybrid.Quota(1000, 3650*hybrid.Day), each, [3]int64{30, 21, 0}},
		{"unlimited", hybrid.Unlimited, batches, [3]int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(10 * time.Millisecond)
				l := newLimiter(t, store, hybrid.Config{Limit: c.limit, Policy: c.policy})
				peek := func() int64 {
					d, err := l.Peek(ctx, "k")
					if err != nil {
						t.Fatal(err)
					}
					return d.Remaining
				}
				for _, n := range []int{1, 50} {
					if d, err := l.Take(ctx, "k", n); err != nil || !d.Allowed {
						t.Fatalf("%+v, %v", d, err)
					}
				}
				left, trips := peek(), store.trips.Load()
				for _, back := range c.backs {
					said, err := l.Refund("k", 30)
					if err != nil {
						t.Fatal(err)
					}
					if c.limit.Kind == hybrid.KindQuota {
						time.Sleep(100 * time.Millisecond) // what its lease has no room for is told at once
					}
					if got := peek() - left; got != back || int64(said) != back {
						t.Errorf("%d come back, not %d, and Refund says %d", got, back, said)
					}
					left += back
				}
				if now := store.trips.Load(); now != trips && c.limit.Kind != hybrid.KindQuota {
					t.Errorf("%d round trips", now-trips)
				}
				taken := int64(0)
				for c.limit != hybrid.Unlimited && l.Allow("k") {
					taken++
				}
				kept := int64(0)
				if c.limit.Kind == hybrid.KindSliding {
					kept = 2 // for holders without a lease
				}
				if c.limit != hybrid.Unlimited && (taken > left || taken < left-kept) {
					t.Errorf("%d are taken, %d were left", taken, left)
				}
			})
		})
	}
}

// TestRefundOfAWaiter: what comes back serves a caller that waits for it.
func TestRefundOfAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
			Limit:  hybrid.Sliding(100, hybrid.Hour),
			Policy: hybrid.Policy{Mode: lease.Batches, Batch: 100},
		})
		for l.Allow("k") {
		}
		start := time.Now()
		served := make(chan time.Duration)
		go func() {
			if err := l.Wait(ctx, "k", 2); err != nil {
				t.Error(err)
			}
			served <- time.Since(start)
		}()
		time.Sleep(time.Second)
		if back, err := l.Refund("k", 2); err != nil || back != 2 {
			t.Fatal(back, err)
		}
		if waited := <-served; waited > 2*time.Second {
			t.Errorf("it was served after %v", waited)
		}
	})
}

// TestRefundOfAParkedKey: a key that nobody has asked for lately gives back what it has on lease.
func TestRefundOfAParkedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		parked := func() int64 { // what of the batch is left
			d, err := l.Peek(ctx, "k")
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		for range 12 { // until it has a batch
			l.Allow("k")
			time.Sleep(6 * time.Second)
		}
		before := parked()
		l.AllowN("k", 3)
		time.Sleep(5 * time.Second)
		if n := l.Stats().Keys; n != 0 {
			t.Fatalf("%d keys are in use", n)
		}
		trips := store.trips.Load()
		if back, err := l.Refund("k", 100); err != nil || back > 3 {
			t.Fatal(back, err)
		}
		if n := l.Stats().Keys; n != 0 || store.trips.Load() != trips {
			t.Errorf("%d keys are in use, %d round trips", n, store.trips.Load()-trips)
		}
		if after := parked(); after < before {
			t.Errorf("%d are left, %d were before", after, before)
		}
	})
}

// TestRefundRefused: what makes no sense is an error, and changes nothing. A key that is not known
// costs nothing.
func TestRefundRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{
			LimitFor: limitsOf(map[string]hybrid.Limit{"slots": hybrid.Slots(3)}),
		})
		for _, n := range senseless() {
			_, err := l.Refund("k", n)
			if err == nil || !strings.Contains(err.Error(), "is not from 0 to 2^40") {
				t.Errorf("%d: %v", n, err)
			}
		}
		if _, err := l.Refund("k", 5); err != nil || l.Stats().Keys != 0 || store.trips.Load() > 0 {
			t.Errorf("%v, %d keys, %d round trips", err, l.Stats().Keys, store.trips.Load())
		}
		slot, err := l.Acquire(ctx, "slots", 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Refund("slots", 1); !errors.Is(err, hybrid.ErrKind) {
			t.Error(err)
		}
		if err := slot.Release(); err != nil {
			t.Error(err)
		}
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Refund("k", 1); !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
	})
}
