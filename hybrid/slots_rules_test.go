package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// acquire is an Acquire that must succeed.
func acquire(t *testing.T, l *hybrid.Limiter, n int) *hybrid.Slot {
	t.Helper()
	s, err := l.Acquire(ctx, "k", n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSlotsMoveOn: one process has all slots idle when another one wants them. It hands them
// back with its next refresh, and the other one asks again within MinRefresh.
func TestSlotsMoveOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rtt = 4 * time.Millisecond
		store := remoteLine(rtt)
		a := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(20)})
		b := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(20)})
		worst := time.Duration(0)
		for i := range 40 {
			var all []*hybrid.Slot
			for range 20 {
				all = append(all, acquire(t, a, 1))
			}
			time.Sleep(time.Duration(i) * 13 * time.Millisecond)
			for _, s := range all {
				s.Release()
			}
			start := time.Now()
			s := acquire(t, b, 15)
			worst = max(worst, time.Since(start))
			s.Release()
			a, b = b, a
		}
		t.Logf("15 slots come after %v at worst", worst)
		if most := 250*time.Millisecond + 2*20*time.Millisecond + 3*rtt; worst > most {
			t.Errorf("want %v at most", most)
		}
	})
}

// TestSlotsOrder: those who wait in a process are served in their order, a large one as well.
func TestSlotsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.Slots(3)})
		first := acquire(t, l, 3)
		var mu sync.Mutex
		var order []int
		var group sync.WaitGroup
		for i, n := range []int{2, 2, 3, 2, 3, 2} {
			group.Go(func() {
				s, err := l.Acquire(ctx, "k", n)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Second)
				s.Release()
			})
			time.Sleep(time.Millisecond)
		}
		first.Release()
		group.Wait()
		if fmt.Sprint(order) != "[0 1 2 3 4 5]" {
			t.Errorf("served in the order %v", order)
		}
	})
}

// TestSlotsNobodyStarves: processes with more jobs than slots for ever all go on: where each is
// due several, where there is one for all, and where one wants many at once.
func TestSlotsNobodyStarves(t *testing.T) {
	long(t)
	for _, c := range []struct {
		name    string
		slots   int64
		large   int // slots that each job of the first process wants
		hold    time.Duration
		longest time.Duration // nobody waits longer for a job of its process
		used    float64       // of the slots, at least
	}{
		{"24 slots", 24, 1, 50 * time.Millisecond, 2 * time.Second, 0.95},
		{"a slot", 1, 1, 50 * time.Millisecond, 8 * time.Second, 0.85},
		{"a slot for long", 1, 1, 2 * time.Second, 60 * time.Second, 0.9},
		{"three slots", 3, 1, 50 * time.Millisecond, 4 * time.Second, 0.9},
		{"many at once", 24, 20, 50 * time.Millisecond, 4 * time.Second, 0.6},
		{"all at once", 24, 24, 50 * time.Millisecond, 4 * time.Second, 0.6},
	} {
		d := longform.Of(max(20*time.Second, 30*c.hold), 2*time.Minute)
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				var used use
				var total atomic.Int64
				var group sync.WaitGroup
				start := time.Now()
				var longest [8]time.Duration
				for i := range 8 {
					l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(c.slots)})
					n := 1
					if i == 0 {
						n = c.large
					}
					var mu sync.Mutex
					last := time.Duration(0)
					for range 1 + int(c.slots)/2 {
						group.Go(func() {
							for time.Since(start) < d {
								s := acquire(t, l, n)
								now := time.Since(start)
								mu.Lock()
								longest[i], last = max(longest[i], now-last), now
								mu.Unlock()
								used.begin(int64(n))
								time.Sleep(c.hold)
								used.end(int64(n))
								total.Add(int64(n))
								s.Release()
							}
						})
					}
				}
				group.Wait()
				part := float64(total.Load()) * c.hold.Seconds() /
					(time.Since(start).Seconds() * float64(c.slots)) // those that waited at d had their turn
				t.Logf("longest pauses %v, %.3f of the slots were in use, %d calls for %d",
					longest, part, store.trips.Load(), total.Load())
				for i, l := range longest {
					if l > c.longest {
						t.Errorf("process %d got nothing for %v", i, l)
					}
				}
				if used.most.Load() > c.slots || part < c.used {
					t.Errorf("%d were in use at once", used.most.Load())
				}
			})
		})
	}
}

// TestSlotsEnd: in an outage contexts end before the store lends the slots to others, as a
// process is cut off, and the store is not.
func TestSlotsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		near := &line{Store: memory, rtt: time.Millisecond}
		far := &line{Store: memory, rtt: time.Millisecond}
		a := newLimiter(t, far, hybrid.Config{Limit: hybrid.Slots(3)})
		b := newLimiter(t, near, hybrid.Config{Limit: hybrid.Slots(3)})
		s, one := acquire(t, a, 2), acquire(t, a, 1)
		one.Release()
		time.Sleep(10 * time.Minute) // the lease is renewed
		if s.Context().Err() != nil || s.Fence() == 0 {
			t.Fatal("the job has ended")
		}
		far.cut.Store(true)
		cut := time.Now()
		next := acquire(t, b, 3)
		waited := time.Since(cut)
		if err := s.Context().Err(); err == nil ||
			!errors.Is(context.Cause(s.Context()), hybrid.ErrSlotLost) {
			t.Errorf("%v, %v: the slots are another job's", err, context.Cause(s.Context()))
		}
		if waited < 20*time.Second || waited > 36*time.Second {
			t.Errorf("the slots of a process that was cut off were missed for %v", waited)
		}
		if next.Fence() <= s.Fence() {
			t.Errorf("fence %d follows %d", next.Fence(), s.Fence())
		}
		for range 2 {
			if err := s.Release(); !errors.Is(err, hybrid.ErrSlotLost) {
				t.Error(err)
			}
		}
	})
}

// TestSlotsEndInTime: by how much a context ends before the slots can be another job's.
func TestSlotsEndInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		near := &line{Store: memory, rtt: time.Millisecond}
		far := &line{Store: memory, rtt: time.Millisecond}
		a := newLimiter(t, far, hybrid.Config{Limit: hybrid.Slots(1)})
		b := newLimiter(t, near, hybrid.Config{Limit: hybrid.Slots(1)})
		s := acquire(t, a, 1)
		ended := make(chan time.Time, 1)
		context.AfterFunc(s.Context(), func() { ended <- time.Now() })
		time.Sleep(time.Minute)
		far.cut.Store(true)
		acquire(t, b, 1)
		if margin := time.Since(<-ended); margin < 1800*time.Millisecond {
			t.Errorf("%v", margin)
		}
	})
}

// TestSlotsOutage: what each policy does with slots while the store is away.
func TestSlotsOutage(t *testing.T) {
	for _, policy := range []hybrid.Outage{hybrid.Share, hybrid.Deny, hybrid.Allow} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(4), Outage: policy, Processes: 1})
				first, second := acquire(t, l, 2), acquire(t, l, 2)
				store.cut.Store(true)
				time.Sleep(10 * time.Second)
				second.Release()
				second = acquire(t, l, 2) // what is on lease goes from job to job
				if second.Fence() == 0 {
					t.Error("no lease covers a slot that is on lease")
				}
				soon, cancel := context.WithTimeout(ctx, 5*time.Second)
				defer cancel()
				third, err := l.Acquire(soon, "k", 1)
				if policy != hybrid.Allow && !errors.Is(err, context.DeadlineExceeded) ||
					policy == hybrid.Allow && (err != nil || third.Fence() != 0) {
					t.Errorf("one more: %v", err)
				}
				time.Sleep(30 * time.Second)
				if first.Context().Err() == nil || second.Context().Err() == nil {
					t.Error("jobs outlive their lease")
				}
				if third != nil && third.Context().Err() != nil {
					t.Error("a job ends whom nothing covers")
				}
				store.cut.Store(false)
				acquire(t, l, 4)
				if third != nil && third.Release() != nil {
					t.Error("a job had no slot")
				}
			})
		})
	}
}

// TestSlotsClose: Close ends all jobs, and hands the slots back. So does Reset, for its key.
func TestSlotsClose(t *testing.T) {
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		config := hybrid.Config{Limit: hybrid.Slots(5), Timeout: patient}
		a, b := newLimiter(t, store, config), newLimiter(t, store, config)
		s := acquire(t, a, 5)
		if err := a.Reset(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(context.Cause(s.Context()), hybrid.ErrSlotLost) {
			t.Errorf("after Reset: %v", context.Cause(s.Context()))
		}
		s = acquire(t, a, 5)
		if err := a.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(context.Cause(s.Context()), hybrid.ErrClosed) {
			t.Errorf("after Close: %v", context.Cause(s.Context()))
		}
		if _, err := a.Acquire(ctx, "k", 1); !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
		next := acquire(t, b, 5)
		if next.Fence() <= s.Fence() {
			t.Errorf("fence %d follows %d", next.Fence(), s.Fence())
		}
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := b.Acquire(soon, "k", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a sixth of five: %v", err)
		}
		if err := next.Release(); err != nil {
			t.Error(err)
		}
		acquire(t, b, 5)
		if d, err := b.Peek(ctx, "k"); err != nil || d.Remaining != 0 || d.Limit != hybrid.Slots(5) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestSlotsContext: what a Slot's Context has of that of Acquire.
func TestSlotsContext(t *testing.T) {
	type name struct{}
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Slots(1), Timeout: patient})
	outer, cancel := context.WithCancel(context.WithValue(ctx, name{}, "value"))
	s, err := l.Acquire(outer, "k", 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if s.Context().Err() != nil || s.Context().Value(name{}) != "value" {
		t.Errorf("%v", s.Context())
	}
	if _, err := l.Acquire(outer, "k", 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.Release(); err != nil || !errors.Is(context.Cause(s.Context()), hybrid.ErrReleased) {
		t.Errorf("%v, %v", err, context.Cause(s.Context()))
	}
	if err := s.Release(); !errors.Is(err, hybrid.ErrReleased) {
		t.Error(err)
	}
	acquire(t, l, 1).Release()
}

// TestSlotsBadInput: numbers and verbs that make no sense are errors that say so, and cost
// no slot.
func TestSlotsBadInput(t *testing.T) {
	for want, limit := range map[string]hybrid.Limit{
		"Burst 0 ":          hybrid.Slots(0),
		"Burst -3 ":         hybrid.Slots(-3),
		"Burst 4294967297 ": hybrid.Slots(1<<32 + 1),
		"Rate 5, Window 0s or Offset 0s of slots": {Rate: 5, Burst: 1, Kind: hybrid.KindSlots},
		"Rate 0, Window 24h0m0s or Offset 0s of s": {
			Burst: 1, Kind: hybrid.KindSlots, Window: hybrid.Day,
		},
		"Rate 0, Window 0s or Offset 1h0m0s of sl": hybrid.Slots(5).In(time.Hour),
	} {
		_, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: limit})
		if !errors.Is(err, hybrid.ErrInvalidLimit) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, does not say %q", limit, err, want)
		}
	}
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		l := newLimiter(t, store, hybrid.Config{Timeout: patient,
			LimitFor: func(key string) hybrid.Limit {
				return map[string]hybrid.Limit{
					"bucket": hybrid.PerHour(5), "quota": hybrid.Quota(5, hybrid.Month),
					"sliding": hybrid.Sliding(5, time.Minute),
					"free":    hybrid.Unlimited, "blocked": hybrid.Blocked, "k": hybrid.Slots(3),
				}[key]
			}})
		says := func(err, target error, text string) {
			t.Helper()
			if err == nil || target != nil && !errors.Is(err, target) ||
				!strings.Contains(err.Error(), text) {
				t.Errorf("%v is not %v, or does not say %q", err, target, text)
			}
		}
		for range 2 { // for a key that is new, and for one that is known
			for _, n := range []int{0, -1, math.MinInt} {
				_, err := l.Acquire(ctx, "k", n)
				says(err, nil, fmt.Sprintf("n %d is not at least 1", n))
			}
			_, err := l.Key("k").Acquire(ctx, 4)
			says(err, hybrid.ErrExceedsBurst, `acquire 4 of "k": limit 3 slots`)
			for _, key := range []string{"bucket", "quota", "sliding"} {
				_, err = l.Acquire(ctx, key, 1)
				says(err, hybrid.ErrKind, "is for Take, Wait and Reserve")
			}
			_, err = l.Acquire(ctx, "blocked", 1)
			says(err, hybrid.ErrExceedsBurst, "blocked")
			s, err := l.Acquire(ctx, "free", 7)
			if err != nil || s.Fence() != 0 || s.Release() != nil {
				t.Errorf("%v", err)
			}

			const verb = "is for Acquire and Reserve"
			_, err = l.Take(ctx, "k", 1)
			says(err, hybrid.ErrKind, verb)
			_, err = l.Try("k", 1)
			says(err, hybrid.ErrKind, verb)
			says(l.Wait(ctx, "k", 1), hybrid.ErrKind, verb)
			_, err = l.Reserve(ctx, "k", 4)
			says(err, hybrid.ErrExceedsBurst, `Ask[0]: take 4 of "k", limit 3 slots`)
			_, err = l.WaitReserveAll(ctx, hybrid.Ask{Key: "bucket", N: 1}, hybrid.Ask{Key: "k", N: 4})
			says(err, hybrid.ErrExceedsBurst, `Ask[1]: take 4 of "k", limit 3 slots`)
			_, err = l.TakeAll(ctx, hybrid.Ask{Key: "bucket", N: 1}, hybrid.Ask{Key: "k", N: 1})
			says(err, hybrid.ErrKind, verb)
			says(l.WaitAll(ctx, hybrid.Ask{Key: "k", N: 1}), hybrid.ErrKind, verb)
			says(l.Charge("k", 1), hybrid.ErrKind, verb)
			_, err = l.Refund("k", 1)
			says(err, hybrid.ErrKind, verb)
			if l.Allow("k") || l.AllowN("k", 2) {
				t.Error("allowed")
			}
		}
		if d, err := l.Take(ctx, "bucket", 5); err != nil || !d.Allowed {
			t.Errorf("a request that could not be took tokens: %+v, %v", d, err)
		}
		acquire(t, l, 3)
	})
}

// TestSlotsKindChanges: LimitFor turns slots into a bucket while a job has them. The job ends.
func TestSlotsKindChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bucket atomic.Bool
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{LimitFor: func(string) hybrid.Limit {
				if bucket.Load() {
					return hybrid.PerSecond(100)
				}
				return hybrid.Slots(2)
			}})
		s := acquire(t, l, 2)
		waits := make(chan error)
		go func() {
			_, err := l.Acquire(ctx, "k", 1)
			waits <- err
		}()
		synctest.Wait()
		bucket.Store(true)
		time.Sleep(time.Second)
		if err := <-waits; !errors.Is(err, hybrid.ErrKind) {
			t.Errorf("a job that waits for a slot of a bucket: %v", err)
		}
		if !errors.Is(context.Cause(s.Context()), hybrid.ErrSlotLost) {
			t.Errorf("%v", context.Cause(s.Context()))
		}
		if d, err := l.Take(ctx, "k", 100); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestSlotsLowered: jobs go on when there are fewer slots, and no new ones begin until that
// many have ended.
func TestSlotsLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int64
		n.Store(4)
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{LimitFor: func(string) hybrid.Limit {
				return hybrid.Slots(n.Load())
			}})
		var all []*hybrid.Slot
		for range 4 {
			all = append(all, acquire(t, l, 1))
		}
		n.Store(2)
		time.Sleep(2 * time.Second)
		start := time.Now()
		for i, s := range all {
			if s.Context().Err() != nil {
				t.Fatal("a job has ended")
			}
			time.AfterFunc(time.Duration(i+1)*time.Minute, func() { s.Release() })
		}
		acquire(t, l, 1)
		if waited := time.Since(start); waited < 3*time.Minute || waited > 3*time.Minute+time.Second {
			t.Errorf("a third job began after %v", waited)
		}
	})
}

// TestSlotsNoRoom: a key for which MaxKeys leaves no room can have no slots. One whose slots
// are in use is not evicted.
func TestSlotsNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond),
			hybrid.Config{Limit: hybrid.Slots(2), MaxKeys: 1})
		s := acquire(t, l, 1)
		time.Sleep(time.Hour)
		if _, err := l.Acquire(ctx, "other", 1); !errors.Is(err, hybrid.ErrUnavailable) {
			t.Error(err)
		}
		if !hybrid.OpensAnew(l, "other") {
			t.Error("what has no room is kept nevertheless")
		}
		if err := s.Release(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if s, err := l.Acquire(ctx, "other", 1); err != nil || s.Release() != nil {
			t.Error(err)
		}
	})
}
