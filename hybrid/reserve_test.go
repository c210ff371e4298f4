package hybrid_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

const year = 365 * 24 * time.Hour

// left is how many tokens of a key a new process sees.
func left(t *testing.T, store hybrid.Store, c hybrid.Config, key string) int64 {
	t.Helper()
	d, err := newLimiter(t, store, c).Peek(ctx, key)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// TestSettle: what a job has cost is what is gone, also when it takes long.
func TestSettle(t *testing.T) {
	for _, lasts := range []time.Duration{0, 100 * time.Millisecond, 5 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			store, c := remoteLine(10*time.Millisecond), hybrid.Config{Limit: hybrid.Per(1000, year)}
			l := newLimiter(t, store, c)
			for _, cost := range []struct{ estimate, actual, left int }{
				{600, 250, 750}, {100, 100, 650}, {50, 80, 570}, {10, 0, 570}, {0, 20, 550},
			} {
				r, err := l.Reserve(ctx, "k", cost.estimate)
				if err != nil || !r.Allowed {
					t.Fatalf("%+v, %v", r, err)
				}
				time.Sleep(lasts)
				if err := r.Settle(cost.actual); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				if n := left(t, store, c, "k"); n != int64(cost.left) {
					t.Errorf("%v: %+v: %d are left", lasts, cost, n)
				}
			}
			r, err := l.Reserve(ctx, "k", 551)
			if err != nil || r.Allowed || r.RetryAfter < time.Hour {
				t.Errorf("%+v, %v", r, err)
			}
			r, err = l.Reserve(ctx, "k", 550)
			if err != nil || !r.Allowed {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// senseless are costs that nothing can have. No int of 32 bits is too large.
func senseless() []int {
	tooMany := int64(1<<40 + 1)
	if strconv.IntSize == 32 {
		return []int{-1}
	}
	return []int{-1, int(tooMany)}
}

// TestSettleTwice: only the first end counts, also of many at the same time. The others are
// errors.
func TestSettleTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Per(100, year)}
		l := newLimiter(t, store, c)
		r, err := l.Reserve(ctx, "k", 60)
		if err != nil {
			t.Fatal(err)
		}
		for _, actual := range senseless() {
			if err := r.Settle(actual); err == nil || errors.Is(err, hybrid.ErrSettled) || !strings.Contains(err.Error(), "is not from 0") {
				t.Errorf("%d: %v", actual, err)
			}
		}
		denied, err := l.Reserve(ctx, "k", 50)
		if err != nil || denied.Allowed {
			t.Fatalf("%+v, %v", denied, err)
		}
		if err := denied.Cancel(); !errors.Is(err, hybrid.ErrSettled) {
			t.Errorf("a reservation that was denied is cancelled: %v", err)
		}
		var wait sync.WaitGroup
		var mu sync.Mutex
		ended := 0
		for i := range 8 {
			wait.Go(func() {
				end := r.Cancel
				if i%2 == 0 {
					end = func() error { return r.Settle(0) }
				}
				err := end()
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					ended++
				} else if !errors.Is(err, hybrid.ErrSettled) {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		time.Sleep(time.Second)
		if n := left(t, store, c, "k"); ended != 1 || n != 100 {
			t.Errorf("%d ends, %d are left of 100", ended, n)
		}
	})
}

// TestWaitReserve: callers who wait for estimates and settle with less are served one after the
// other, in the order in which they came, and use all there is: no poll is denied.
func TestWaitReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(100)})
		var mu sync.Mutex
		var served []int
		var all sync.WaitGroup
		began := time.Now()
		for i := range 36 {
			all.Go(func() {
				r, err := l.WaitReserve(ctx, "model", 40)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				served = append(served, i)
				mu.Unlock()
				time.Sleep(50 * time.Millisecond) // a job, of half of its estimate
				if err := r.Settle(20); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if !slices.IsSorted(served) {
			t.Errorf("the order is %v", served)
		}
		if took := time.Since(began); took < 6200*time.Millisecond || took > 8*time.Second {
			t.Errorf("720 tokens at 100/s burst 100 took %v", took)
		}
		soon, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		if r, err := l.WaitReserve(soon, "model", 90); r != nil ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a deadline that is too near: %v, %v", r, err)
		}
		time.Sleep(2 * time.Second)
		if d, err := l.Take(ctx, "model", 100); err != nil || !d.Allowed {
			t.Errorf("what a caller has waited for in vain is lost: %+v, %v", d, err)
		}
	})
}

// TestSettleSeveral: one number is for all, or each Ask has its own, and Asks of one key are
// summed.
func TestSettleSeveral(t *testing.T) {
	asks := []hybrid.Ask{{Key: "a", N: 60}, {Key: "b", N: 30}, {Key: "a", N: 10}}
	most := int64(1) << 40 // an int may have 32 bits
	for _, c := range []struct {
		used  []int
		wrong string
		a, b  int64 // are left
	}{
		{[]int{10, 40, 5}, "", 85, 60}, {[]int{7}, "", 86, 93}, {[]int{0}, "", 100, 100},
		{[]int{1, 2}, "2 numbers are not 1 or 3", 30, 70}, {nil, "0 numbers", 30, 70},
		{[]int{1, -2, 3}, "Ask[1]: actual -2", 30, 70},
		{[]int{int(most), 0, 1}, "Ask[2]: actual 1", 30, 70},
	} {
		synctest.Test(t, func(t *testing.T) {
			limit := hybrid.Sliding(100, hybrid.Hour)
			l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: limit})
			all, err := l.ReserveAll(ctx, asks...)
			if err != nil || !all.Allowed {
				t.Fatalf("%+v, %v", all, err)
			}
			if err := all.Settle(c.used...); (err == nil) != (c.wrong == "") ||
				err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("settle %v: %v", c.used, err)
			}
			time.Sleep(time.Second)
			for key, want := range map[string]int64{"a": c.a, "b": c.b} {
				if d, err := l.Peek(ctx, key); err != nil || d.Remaining != want {
					t.Errorf("settle %v: %d of %s are left, not %d, %v", c.used, d.Remaining, key, want, err)
				}
			}
			if c.wrong != "" {
				return
			}
			if err := all.Settle(1); !errors.Is(err, hybrid.ErrSettled) {
				t.Errorf("a second time: %v", err)
			}
		})
	}
	if err := (hybrid.Reservations{}).Settle(1); !errors.Is(err, hybrid.ErrSettled) {
		t.Errorf("settle what was denied: %v", err)
	}
}

// TestReserveAll: several are reserved, or none, and each is settled by itself.
func TestReserveAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := remoteLine(10*time.Millisecond), hybrid.Config{Limit: hybrid.Per(100, year)}
		l := newLimiter(t, store, c)
		all, err := l.ReserveAll(ctx, hybrid.Ask{Key: "a", N: 60}, hybrid.Ask{Key: "b", N: 30}, hybrid.Ask{Key: "a", N: 10})
		if err != nil || !all.Allowed || len(all.Reserved) != 3 || all.Reserved[0] != all.Reserved[2] {
			t.Fatalf("%+v, %v", all, err)
		}
		none, err := l.ReserveAll(ctx, hybrid.Ask{Key: "b", N: 30}, hybrid.Ask{Key: "a", N: 60})
		if err != nil || none.Allowed || none.Denied != 1 || len(none.Reserved) != 0 {
			t.Fatalf("%+v, %v", none, err)
		}
		if d := none.Each[none.Denied]; d.Allowed || d.RetryAfter == 0 {
			t.Errorf("the Ask that denies has the Decision %+v", d)
		}
		none.Cancel()
		if err := all.Reserved[1].Settle(5); err != nil {
			t.Error(err)
		}
		all.Cancel()
		time.Sleep(time.Second)
		if a, b := left(t, store, c, "a"), left(t, store, c, "b"); a != 100 || b != 95 {
			t.Errorf("%d and %d are left of 100", a, b)
		}
	})
}

// TestBurstIsJobsAtOnce: as many jobs of two buckets run at once as the Burst has estimates: of one
// each 5 s and a tenth, though there are tokens for 600 a minute.
func TestBurstIsJobsAtOnce(t *testing.T) {
	for bursts, want := range map[int]int64{1: 58, 10: 580} {
		synctest.Test(t, func(t *testing.T) {
			const estimate = 100
			c := hybrid.Config{Limit: hybrid.PerMinute(600 * estimate).WithBurst(int64(bursts) * estimate)}
			l := newLimiter(t, remoteLine(time.Millisecond), c)
			until, cancel := context.WithTimeout(ctx, 5*time.Minute)
			defer cancel()
			var jobs atomic.Int64
			var wait sync.WaitGroup
			for range 2 * bursts {
				wait.Go(func() {
					for {
						r, err := l.WaitReserveAll(until,
							hybrid.Ask{Key: "a", N: estimate}, hybrid.Ask{Key: "b", N: estimate})
						if err != nil {
							return
						}
						time.Sleep(5 * time.Second)
						if err := r.Settle(estimate); err != nil {
							t.Error(err)
						}
						jobs.Add(1)
					}
				})
			}
			wait.Wait()
			if n := jobs.Load(); n > want+int64(bursts) || n < want*9/10 {
				t.Errorf("a Burst of %d estimates: %d jobs in 5 minutes, and not about %d", bursts, n, want)
			}
		})
	}
}

// TestCharge: what was used already is taken, and where it is not there, paid before the
// next admission.
func TestCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		c := hybrid.Config{Limit: hybrid.PerSecond(10).WithBurst(100)}
		l, other := newLimiter(t, store, c), newLimiter(t, store, c)
		for _, n := range senseless() {
			if err := l.Charge("k", n); err == nil || !strings.Contains(err.Error(), "is not from 0 to 2^40") {
				t.Errorf("%d: %v", n, err)
			}
		}
		if err := l.Charge("k", 400); err != nil {
			t.Fatal(err)
		}
		if l.Allow("k") {
			t.Error("admitted with a debt")
		}
		time.Sleep(20 * time.Millisecond)
		if other.Allow("k") {
			t.Error("another process admits while there is a debt")
		}
		began := time.Now()
		if err := l.Wait(ctx, "k", 1); err != nil {
			t.Fatal(err)
		}
		if paid := time.Since(began); paid < 29*time.Second || paid > 31*time.Second {
			t.Errorf("300 tokens at 10/s are paid in %v", paid)
		}
		if err := l.Charge("free", 1); err != nil {
			t.Error(err)
		}
	})
}

// TestDebtIsNotForgotten: neither an idle key, nor an outage, nor a Close in one forgets what
// was charged.
func TestDebtIsNotForgotten(t *testing.T) {
	for _, end := range []string{"idle", "outage", "close", "close in an outage"} {
		synctest.Test(t, func(t *testing.T) {
			store, c := remoteLine(10*time.Millisecond), hybrid.Config{Limit: hybrid.Per(1000, year)}
			l := newLimiter(t, store, c)
			if end != "idle" && end != "close" {
				store.cut.Store(true)
			}
			if err := l.Charge("k", 300); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
			switch end {
			case "close":
				l.Charge("k", 200)
				if err := l.Close(ctx); err != nil {
					t.Error(err)
				}
			case "close in an outage":
				l.Charge("k", 200)
				closes, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				go func() {
					time.Sleep(5 * time.Second)
					store.cut.Store(false)
				}()
				if err := l.Close(closes); err != nil {
					t.Error(err)
				}
			default:
				time.Sleep(10 * time.Minute)
				store.cut.Store(false)
				l.Charge("k", 200)
				time.Sleep(5 * time.Second)
			}
			if n := left(t, store, c, "k"); n != 500 {
				t.Errorf("%s: %d are left of 500", end, n)
			}
		})
	}
}

// TestCloseWithDebtEnds: a Close in an outage waits for its ctx, and then says so.
func TestCloseWithDebtEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Per(1000, year)})
		store.cut.Store(true)
		l.Charge("k", 1)
		closes, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		if err := l.Close(closes); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "keys not handed back: 1") {
			t.Error(err)
		}
		if trips := store.trips.Load(); trips > 60 {
			t.Errorf("%d round trips in 10 s of an outage", trips)
		}
		if err := l.Charge("k", 1); !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestReservationOfNoLease: what the outage policy admits is spent, and a limit that never
// asks keeps nothing. What is reserved when its lease ends is spent.
func TestReservationOfNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		c := hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{"k": hybrid.Per(1000, year), "free": hybrid.Unlimited}), Outage: hybrid.Allow}
		l := newLimiter(t, store, c)
		r, err := l.Reserve(ctx, "k", 400)
		if err != nil || !r.Allowed {
			t.Fatal(r, err)
		}
		free, err := l.Reserve(ctx, "free", 1<<30)
		if err != nil || !free.Allowed || free.Cancel() != nil || l.Charge("free", 1) != nil {
			t.Errorf("an Unlimited key: %+v, %v", free, err)
		}
		store.cut.Store(true)
		time.Sleep(40 * time.Second) // for longer than the lease lives
		outage, err := l.Reserve(ctx, "k", 500)
		if err != nil || !outage.Allowed || outage.Source != hybrid.OutagePolicy {
			t.Errorf("in an outage: %+v, %v", outage, err)
		}
		store.cut.Store(false)
		time.Sleep(5 * time.Second)
		for _, r := range []*hybrid.Reservation{r, outage} {
			if err := r.Cancel(); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		if n := left(t, store, c, "k"); n != 600 {
			t.Errorf("%d are left of 600", n)
		}
	})
}

// TestOutageAfterAWait: a request has waited and kept tokens, has lost them to an outage, and is
// admitted by the outage policy. Its end releases nothing of another reservation of the lease.
func TestOutageAfterAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		c := hybrid.Config{Outage: hybrid.Allow, LimitFor: limitsOf(map[string]hybrid.Limit{
			"a": hybrid.Per(10, 110*time.Second).WithBurst(100),
			"b": hybrid.Per(10, 2*time.Minute).WithBurst(1),
		})}
		l, other := newLimiter(t, store, c), newLimiter(t, store, c)
		if d, err := other.Take(ctx, "b", 1); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		if r, err := l.Reserve(ctx, "a", 60); err != nil || !r.Allowed { // of a job that goes on
			t.Fatal(r, err)
		}
		time.AfterFunc(10*time.Second, func() {
			if n, _, err := other.TakeUpTo(ctx, "a", 40); err != nil || n != 40 {
				t.Errorf("%d of the 40 that are left: %v", n, err)
			}
			store.cut.Store(true)
		})
		r, err := l.WaitReserveAll(ctx, hybrid.Ask{Key: "a", N: 40}, hybrid.Ask{Key: "b", N: 1})
		if err != nil || r.Each[0].Source != hybrid.OutagePolicy {
			t.Fatalf("%+v, %v", r, err)
		}
		store.cut.Store(false)
		time.Sleep(3 * time.Second)
		r.Cancel()
		if d, err := l.Take(ctx, "a", 35); err != nil || d.Allowed {
			t.Errorf("60 of 100 are reserved and 40 taken, and 35 more: %+v, %v", d, err)
		}
	})
}

// TestChargeWithoutRoom: a key for which MaxKeys leaves no room cannot keep a debt. It says
// so, and charges nothing.
func TestChargeWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		c := hybrid.Config{Limit: hybrid.PerSecond(1000), MaxKeys: 1}
		l := newLimiter(t, store, c)
		for range 100 {
			l.Allow("full")
			time.Sleep(time.Millisecond)
		}
		err := l.Charge("k", 5)
		if !errors.Is(err, hybrid.ErrUnavailable) || !strings.Contains(err.Error(), "Config.MaxKeys 1") {
			t.Error(err)
		}
		r, err := l.Reserve(ctx, "k", 5)
		if err != nil || !r.Allowed {
			t.Fatal(r, err)
		}
		if err := r.Settle(3); err != nil {
			t.Error(err)
		}
		if !l.AllowAll("full", "k") {
			t.Error("denied")
		}
	})
}
