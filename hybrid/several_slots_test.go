package hybrid_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// model has the limits of a tenant's calls of a language model: tokens of a bucket and of a quota,
// and so many calls at once.
func model(slots int64) hybrid.Config {
	return hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{
		"minute": hybrid.PerMinute(6000).WithBurst(1000), "day": hybrid.Quota(10_000, hybrid.Day),
		"calls": hybrid.Slots(slots),
	})}
}

// ofModel are Asks for a call with an estimate. Their order is not that in which they are queued
// for.
func ofModel(tokens int) []hybrid.Ask {
	return []hybrid.Ask{{Key: "calls", N: 1}, {Key: "minute", N: tokens}, {Key: "day", N: tokens}}
}

// TestReserveSlots: what is reserved of slots and of tokens together, and what a denial and the end
// of a reservation give back.
func TestReserveSlots(t *testing.T) {
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		config := model(2)
		config.Timeout = patient
		l := newLimiter(t, store, config)
		reserve := func(tokens int) hybrid.Reservations {
			t.Helper()
			r, err := l.ReserveAll(ctx, ofModel(tokens)...)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		first, second := reserve(300), reserve(300)
		if !first.Allowed || !second.Allowed || first.Reserved[0].Context().Err() != nil {
			t.Fatal(first, second)
		}
		third := reserve(300)
		if third.Allowed || third.Denied != 0 || third.Each[0].Limit != hybrid.Slots(2) ||
			third.Each[0].RetryAfter <= 0 || !third.Each[1].Allowed || !third.Each[2].Allowed {
			t.Errorf("a third call of two: %+v", third)
		}
		held, of := first.Reserved[0].Context(), first.Reserved[1].Context()
		if err := first.Settle(100); err != nil {
			t.Error(err)
		}
		if !errors.Is(context.Cause(held), hybrid.ErrReleased) || of.Err() != nil {
			t.Errorf("after Settle the context of slots ends by %v, that of tokens by %v",
				context.Cause(held), of.Err())
		}
		if err := first.Settle(100); !errors.Is(err, hybrid.ErrSettled) {
			t.Errorf("a second Settle: %v", err)
		}
		fourth := reserve(700) // of 1000, less 100 and 300; and of the few that have flowed in
		if fourth.Allowed || fourth.Denied != 1 || !fourth.Each[0].Allowed {
			t.Errorf("700 tokens of 600: %+v", fourth)
		}
		if fifth := reserve(500); !fifth.Allowed {
			t.Errorf("a denial has kept slots or tokens: %+v", fifth)
		} else {
			fifth.Cancel()
		}
		second.Cancel()
		if d, err := l.Peek(ctx, "day"); err != nil || d.Remaining != 9900 {
			t.Errorf("of the day are left %d and not 9900: %v", d.Remaining, err)
		}
		if d, err := l.Peek(ctx, "calls"); err != nil || d.Remaining != 2 {
			t.Errorf("%d slots are left of 2: %v", d.Remaining, err)
		}
	})
}

// TestReserveSlotsOfOneKey: Asks of one key of slots are summed, and have one Reservation. Reserve
// is an Acquire that does not wait, and 0 slots are always there.
func TestReserveSlotsOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.Slots(3)})
		r, err := l.ReserveAll(ctx, hybrid.Ask{Key: "k", N: 1}, hybrid.Ask{Key: "k", N: 2})
		if err != nil || !r.Allowed || r.Reserved[0] != r.Reserved[1] {
			t.Fatal(r, err)
		}
		came := time.Now()
		one, err := l.Reserve(ctx, "k", 1) // as the store says
		if err != nil || one.Allowed || one.Context().Err() != nil || time.Since(came) > time.Second {
			t.Errorf("a fourth of three: %+v, %v, after %v", one, err, time.Since(came))
		}
		again, err := l.Reserve(ctx, "k", 1) // nobody is asked now
		if s := l.Stats(); err != nil || again.Allowed || s.Lease.Denied != 1 || s.Ledger.Denied != 1 ||
			s.Lease.AdmittedTokens+s.Ledger.AdmittedTokens != 3 {
			t.Errorf("%+v, %v, of which Stats has %+v", again, err, s)
		}
		for _, actual := range []int{0, 3} {
			none, err := l.Reserve(ctx, "k", 0)
			if err != nil || !none.Allowed || none.Settle(actual) != nil {
				t.Errorf("none, of which %d are told: %+v, %v", actual, none, err)
			}
		}
		r.Cancel()
		if one, err = l.WaitReserve(ctx, "k", 3); err != nil || !one.Allowed || one.Settle(7) != nil {
			t.Errorf("%+v, %v", one, err)
		}
	})
}

// TestWaitReserveSlots: calls wait for slots in their order, whatever the order of their Asks, and
// for no longer than their deadline, however near. Nothing is lost then.
func TestWaitReserveSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := model(2)
		all := processes(t, 2, remoteLine(time.Millisecond), config)
		var served atomic.Int64
		var inUse use
		var wait sync.WaitGroup
		began := time.Now()
		minute, done := context.WithTimeout(ctx, time.Minute)
		defer done()
		for i := range 20 {
			wait.Go(func() {
				asks := ofModel(40)
				if i%2 == 0 {
					slices.Reverse(asks)
				}
				r, err := all[i%2].WaitReserveAll(minute, asks...)
				if err != nil {
					t.Error(err)
					return
				}
				inUse.begin(1)
				time.Sleep(time.Second)
				inUse.end(1)
				if err := r.Settle(20); err != nil {
					t.Error(err)
				}
				served.Add(1)
			})
		}
		time.Sleep(1500 * time.Millisecond)
		soon, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		came := time.Now()
		if _, err := all[0].WaitReserveAll(soon, ofModel(40)...); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(came) < 30*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(came), err)
		}
		wait.Wait()
		if took := time.Since(began); served.Load() != 20 || inUse.most.Load() != 2 || took > 11*time.Second {
			t.Errorf("%d calls of a second, %d at once of 2, took %v", served.Load(), inUse.most.Load(), took)
		}
		time.Sleep(2 * time.Second)
		r, err := all[1].ReserveAll(ctx,
			hybrid.Ask{Key: "calls", N: 2}, hybrid.Ask{Key: "day", N: 10_000 - 20*20})
		if err != nil || !r.Allowed {
			t.Errorf("slots or tokens are lost: %+v, %v", r, err)
		}
	})
}

// TestWaitReserveHoldsNoSlots: calls that wait for the tokens of a model keep no slots from those
// of another model.
func TestWaitReserveHoldsNoSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), model(2))
		if _, err := l.Take(ctx, "day:large", 5000); err != nil {
			t.Fatal(err)
		}
		soon, cancel := context.WithCancel(ctx)
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				if _, err := l.WaitReserveAll(soon,
					hybrid.Ask{Key: "calls", N: 1}, hybrid.Ask{Key: "day:large", N: 6000},
				); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute)
		r, err := l.ReserveAll(ctx, hybrid.Ask{Key: "day:small", N: 1}, hybrid.Ask{Key: "calls", N: 2})
		if err != nil || !r.Allowed {
			t.Errorf("%+v, %v", r, err)
		}
		cancel()
		wait.Wait()
	})
}

// TestReserveSlotsLost: a process is cut off until the lease of its slots is over. Settle says so,
// and settles the tokens all the same.
func TestReserveSlotsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, model(1))
		r, err := l.ReserveAll(ctx, ofModel(300)...)
		if err != nil || !r.Allowed {
			t.Fatal(r, err)
		}
		store.cut.Store(true)
		began := time.Now()
		<-r.Reserved[0].Context().Done()
		if cause, d := context.Cause(r.Reserved[0].Context()), time.Since(began); d > 30*time.Second ||
			!errors.Is(cause, hybrid.ErrSlotLost) {
			t.Errorf("ends after %v: %v", d, cause)
		}
		store.cut.Store(false)
		if err := r.Settle(100); !errors.Is(err, hybrid.ErrSlotLost) || r.Settle(100) == nil {
			t.Errorf("Settle of lost slots: %v", err)
		}
		time.Sleep(time.Minute)
		if r, err = l.ReserveAll(ctx, ofModel(300)...); err != nil || !r.Allowed {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestReserveSlotsInAnOutage: what each policy does with slots and tokens while the store is away.
// Share has a part of tokens, and no slots but those on lease.
func TestReserveSlotsInAnOutage(t *testing.T) {
	for _, policy := range []hybrid.Outage{hybrid.Share, hybrid.Deny, hybrid.Allow} {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			config := model(4)
			config.Outage, config.Processes = policy, 1
			l := newLimiter(t, store, config)
			if _, err := l.Take(ctx, "minute", 1); err != nil {
				t.Fatal(err)
			}
			store.cut.Store(true)
			ask := func() (r hybrid.Reservations, err error) {
				for range 200 { // until the outage is noticed, and the share has tokens
					r, err = l.ReserveAll(ctx, hybrid.Ask{Key: "minute", N: 1}, hybrid.Ask{Key: "calls", N: 3})
					time.Sleep(100 * time.Millisecond)
					if r.Allowed {
						break
					}
				}
				return r, err
			}
			r, err := ask()
			if err != nil || r.Allowed != (policy == hybrid.Allow) {
				t.Fatalf("%v: %+v, %v", policy, r, err)
			}
			if !r.Allowed {
				if d := r.Each[1]; d.Allowed || d.Remaining != 0 || d.Source != hybrid.OutagePolicy {
					t.Errorf("%v: %+v", policy, r)
				}
				if policy == hybrid.Share && !r.Each[0].Allowed {
					t.Errorf("a share of tokens is denied: %+v", r)
				}
				return
			}
			store.cut.Store(false)
			time.Sleep(time.Minute)
			held := r.Reserved[1].Context()
			if held.Err() != nil || r.Settle(1) != nil || !errors.Is(context.Cause(held), hybrid.ErrReleased) {
				t.Errorf("slots of no lease end by %v", context.Cause(held))
			}
		})
	}
}

// TestReserveTurnsToSlots: a request that waits for tokens of a key that turns to slots has slots,
// and one for slots of a key that turns to tokens has tokens.
func TestReserveTurnsToSlots(t *testing.T) {
	for _, slotsFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var turned atomic.Bool
			l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{LimitFor: func(key string) hybrid.Limit {
				if key == "k" && turned.Load() != slotsFirst {
					return hybrid.Slots(2)
				}
				return hybrid.Quota(2, hybrid.Day)
			}})
			if r, err := l.Reserve(ctx, "k", 2); err != nil || !r.Allowed {
				t.Fatal(r, err)
			}
			time.AfterFunc(5*time.Second, func() { turned.Store(true) })
			r, err := l.WaitReserveAll(ctx, hybrid.Ask{Key: "k", N: 2}, hybrid.Ask{Key: "other", N: 1})
			if err != nil {
				t.Fatal(err)
			}
			held := r.Reserved[0].Context()
			if err := r.Settle(2); err != nil || (held.Err() != nil) == slotsFirst {
				t.Errorf("slots first %v: %v, context %v", slotsFirst, err, held.Err())
			}
		})
	}
}

// TestReserveSlotsWithoutRoom: MaxKeys leaves no room for a key of slots. The error says so at
// once, and nothing is taken of the others.
func TestReserveSlotsWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := model(2)
		config.MaxKeys = 1
		l := newLimiter(t, remoteLine(time.Millisecond), config)
		for range 100 {
			if d, err := l.Take(ctx, "day", 10); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			time.Sleep(time.Millisecond)
		}
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		for i, reserve := range []func(context.Context, ...hybrid.Ask) (hybrid.Reservations, error){
			l.ReserveAll, l.ReserveAll, l.WaitReserveAll, l.WaitReserveAll,
		} {
			came := time.Now()
			_, err := reserve(soon, hybrid.Ask{Key: "day", N: 8000}, hybrid.Ask{Key: "calls", N: 1})
			if !errors.Is(err, hybrid.ErrUnavailable) || !strings.Contains(err.Error(), "MaxKeys 1") ||
				time.Since(came) > time.Second {
				t.Errorf("%d, after %v: %v", i, time.Since(came), err)
			}
		}
		if d, err := l.Take(ctx, "day", 9000); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// An office is a workshop whose jobs want tokens of a bucket and of a quota with their slots, and a
// slot of another key, all or none.
type office struct {
	*workshop
	used  usage
	other use
}

var (
	officeBucket = hybrid.PerSecond(20).WithBurst(100)
	officeQuota  = hybrid.Quota(600, hybrid.Minute)
	officeSlots  = hybrid.Slots(3)
)

// reserve is one job, if it has all in time.
func (f *office) reserve(l *hybrid.Limiter) bool {
	n, estimate := 1+f.below(min(f.n, 3)), 1+f.below(20)
	asks := []hybrid.Ask{
		{Key: "k", N: int(n)}, {Key: "other", N: 1},
		{Key: "bucket", N: int(estimate)}, {Key: "quota", N: int(estimate)},
	}
	f.mu.Lock()
	f.rng.Shuffle(len(asks), func(i, j int) { asks[i], asks[j] = asks[j], asks[i] })
	f.mu.Unlock()
	reserve := l.WaitReserveAll
	if f.below(3) == 0 {
		reserve = l.ReserveAll
	}
	soon, cancel := context.WithTimeout(ctx, f.within(20*time.Second)+1)
	r, err := reserve(soon, asks...)
	cancel()
	if err == nil && r.Allowed {
		at := func(key string) int {
			return slices.IndexFunc(asks, func(a hybrid.Ask) bool { return a.Key == key })
		}
		f.serve(r, at("k"), at("other"), n, estimate)
	}
	return f.pause(err)
}

// serve is the job, and settles what it has used, or cancels: then it has used nothing. Its slots
// are those of the Asks k and other.
func (f *office) serve(r hybrid.Reservations, k, other int, n, estimate int64) {
	came, actual := time.Now(), f.below(estimate+1)
	if f.below(8) == 0 {
		actual = 0
	}
	f.used.take(f.t, came, actual)
	job, beside := r.Reserved[k].Context(), r.Reserved[other].Context()
	f.other.begin(1)
	var once sync.Once
	end := func() { once.Do(func() { f.other.end(1) }) }
	context.AfterFunc(beside, end)
	if r.Each[k].Limit.Kind == hybrid.KindSlots { // it may have turned to tokens
		f.job(job, n, r.Reserved[k].Fence())
	}
	end()
	if actual == 0 {
		r.Cancel()
		return
	}
	used := slices.Repeat([]int{int(actual)}, len(r.Each))
	used[k] = int(n)
	if err := r.Settle(used...); err != nil && context.Cause(job) == nil && context.Cause(beside) == nil {
		f.t.Errorf("settled with %v", err)
	}
}

// A usage counts tokens that jobs have used, from when they were reserved: those of a day, and
// those above the rate of a bucket.
type usage struct {
	mu    sync.Mutex
	level float64
	last  time.Time
	days  map[int64]int64
}

func (l *usage) take(t *testing.T, now time.Time, n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.level = max(l.level-officeBucket.Rate*now.Sub(l.last).Seconds(), 0) + float64(n)
	l.last = now
	most := float64(officeBucket.Burst) + 0.25*officeBucket.Rate // the Timeout is 0.25 s
	if l.level > most+1e-6 {
		t.Errorf("%v tokens above the rate of %v", l.level, officeBucket)
	}
	if l.days == nil {
		l.days = map[int64]int64{}
	}
	minute := now.Unix() / 60
	if l.days[minute] += n; l.days[minute] > officeQuota.Burst {
		t.Errorf("%d tokens of %v", l.days[minute], officeQuota)
	}
}

// TestReserveSlotsHistories: TestSlotsHistories of slots that are reserved together with tokens. No
// more tokens are used than the bucket and the quota have, and in the end none are lost.
func TestReserveSlotsHistories(t *testing.T) {
	long(t)
	for seed := range longform.Of[uint64](4, 24) {
		synctest.Test(t, func(t *testing.T) {
			f := &office{workshop: newWorkshop(t, seed)}
			f.work, f.config.Outage = f.reserve, hybrid.Deny
			f.config.LimitFor = func(key string) hybrid.Limit {
				return map[string]hybrid.Limit{
					"k": *f.limit.Load(), "other": officeSlots, "bucket": officeBucket, "quota": officeQuota,
				}[key]
			}
			f.play(seed)
			if n := f.other.most.Load(); n > officeSlots.Burst || f.other.now.Load() != 0 {
				t.Errorf("seed %d: %d of %v in use at once, %d in the end", seed, n, officeSlots, f.other.now.Load())
			}
			l := newLimiter(t, f.store, f.config)
			time.Sleep(time.Minute)
			if d, err := l.TakeAll(ctx, hybrid.Ask{Key: "bucket", N: int(officeBucket.Burst)},
				hybrid.Ask{Key: "quota", N: int(officeQuota.Burst)}); err != nil || !d.Allowed {
				t.Errorf("seed %d: tokens are lost: %+v, %v", seed, d, err)
			}
		})
	}
}
