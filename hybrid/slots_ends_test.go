package hybrid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// toil begins one job after the other and counts them, until it is stopped.
func toil(
	t *testing.T, l *hybrid.Limiter, jobs *atomic.Int64, stop context.Context,
	lasts func() time.Duration,
) {
	for {
		s, err := l.Acquire(stop, "k", 1)
		if err != nil {
			return
		}
		time.Sleep(lasts())
		jobs.Add(1)
		if err := s.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestSlotsCutOffInTurn: slots are kept for a large job of a process that is cut off. Others
// miss them for a second, though that process has another slot until its lease ends.
func TestSlotsCutOffInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lasts = 50 * time.Millisecond
		memory := hybrid.NewMemory()
		near := &line{Store: memory, rtt: time.Millisecond}
		far := &line{Store: memory, rtt: time.Millisecond}
		config := hybrid.Config{Limit: hybrid.Slots(100)}
		a := newLimiter(t, far, config)
		acquire(t, a, 1)
		stop, cancel := context.WithCancel(ctx)
		var jobs atomic.Int64
		var group sync.WaitGroup
		for range 2 {
			l := newLimiter(t, near, config)
			for range 20 {
				group.Go(func() { toil(t, l, &jobs, stop, func() time.Duration { return lasts }) })
			}
		}
		time.Sleep(5 * time.Second)
		group.Go(func() {
			if _, err := a.Acquire(stop, "k", 99); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		time.Sleep(20 * time.Millisecond)
		far.cut.Store(true)
		time.Sleep(time.Second)
		before := jobs.Load()
		time.Sleep(time.Second)
		if n := jobs.Load() - before; n < 760 || n > 840 { // 40 end at each 50 ms, at the ends, too
			t.Errorf("%d jobs in the second after that, want 800", n)
		}
		cancel()
		group.Wait()
	})
}

// TestSlotsChangeWhileWaiting: a job that waits while LimitFor turns to another limit has that
// one's verdict at once. No outage policy lets it in, as there is no outage.
func TestSlotsChangeWhileWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		to   hybrid.Limit
		want error
	}{
		"blocked":   {hybrid.Blocked, hybrid.ErrExceedsBurst},
		"bucket":    {hybrid.PerSecond(5), hybrid.ErrKind},
		"fewer":     {hybrid.Slots(1), hybrid.ErrExceedsBurst},
		"unlimited": {hybrid.Unlimited, nil},
	} {
		for _, policy := range []hybrid.Outage{hybrid.Share, hybrid.Deny, hybrid.Allow} {
			t.Run(name+" "+policy.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					start, told := time.Now(), time.Duration(0)
					l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
						Outage: policy, LimitFor: func(string) hybrid.Limit {
							if told = time.Since(start); told > 5*time.Second {
								return c.to
							}
							return hybrid.Slots(2)
						},
					})
					acquire(t, l, 1)
					_, err := l.Acquire(ctx, "k", 2)
					if late := time.Since(start) - told; !errors.Is(err, c.want) || late > 5*time.Millisecond {
						t.Errorf("%v, %v after the limit was told; want %v", err, late, c.want)
					}
				})
			})
		}
	}
}

// TestTakeTurnsToSlots: a request that waits for tokens while the key turns to slots is told
// which verb it wants.
func TestTakeTurnsToSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turned atomic.Bool
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			LimitFor: func(string) hybrid.Limit {
				if turned.Load() {
					return hybrid.Slots(2)
				}
				return hybrid.PerHour(1)
			},
		})
		if err := l.Wait(ctx, "k", 1); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Second, func() { turned.Store(true) })
		if err := l.Wait(ctx, "k", 1); !errors.Is(err, hybrid.ErrKind) {
			t.Error(err)
		}
	})
}

// TestSlotsStopped: a process was stopped until its lease was over. Its Release says so, though
// nobody else has looked at the time since.
func TestSlotsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.Slots(1)})
		s := acquire(t, l, 1)
		l.Suspend(asleep)
		if err := s.Release(); !errors.Is(err, hybrid.ErrSlotLost) {
			t.Error(err)
		}
		if err := context.Cause(s.Context()); !errors.Is(err, hybrid.ErrSlotLost) {
			t.Error(err)
		}
	})
}

// TestSlotsReleasedAsTheyEnd: jobs whose lease ends while they are released hear why their
// contexts ended, and that they have released the slots only if they have.
func TestSlotsReleasedAsTheyEnd(t *testing.T) {
	longform.None(t)
	const n = 2000
	for range 20 { // it is for the scheduler who comes first
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(n)})
			var all [n]*hybrid.Slot
			for i := range all {
				all[i] = acquire(t, l, 1)
			}
			store.cut.Store(true)
			<-all[0].Context().Done()
			var group sync.WaitGroup
			for _, s := range all {
				group.Go(func() {
					if err := s.Release(); !errors.Is(err, hybrid.ErrSlotLost) {
						t.Error(err)
					}
				})
			}
			group.Wait()
		})
	}
}

// TestSlotsReleasedBeforeTheNext: the context of a job has ended when the next one begins.
func TestSlotsReleasedBeforeTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{Limit: hybrid.Slots(1)})
		last := acquire(t, l, 1)
		for range 100 {
			next := make(chan *hybrid.Slot)
			go func() {
				s, err := l.Acquire(ctx, "k", 1)
				if err != nil || last.Context().Err() == nil {
					t.Errorf("%v, or the job before goes on", err)
				}
				next <- s
			}()
			synctest.Wait()
			if err := last.Release(); err != nil {
				t.Error(err)
			}
			last = <-next
		}
	})
}

// TestSlotsPauseInOutage: what is on lease goes from job to job in an outage, also when there are
// pauses between them, for as long as the lease lives.
func TestSlotsPauseInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(4)})
		long := acquire(t, l, 1)
		job := func(length, pause time.Duration) error {
			soon, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			s, err := l.Acquire(soon, "k", 1)
			if err == nil {
				time.Sleep(length)
				err = s.Release()
				time.Sleep(pause)
			}
			return err
		}
		for range 200 {
			if err := job(20*time.Millisecond, 20*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		store.cut.Store(true)
		for start := time.Now(); time.Since(start) < 25*time.Second; {
			if err := job(100*time.Millisecond, 2*time.Second); err != nil {
				t.Fatalf("%v after the cut: %v", time.Since(start), err)
			}
		}
		if long.Context().Err() != nil {
			t.Error("the lease has ended")
		}
	})
}

// TestSlotsGathered: while a job waits for more slots than come free, others wait as well, and
// the longer they have waited, the more seldom they ask.
func TestSlotsGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		config := hybrid.Config{Limit: hybrid.Slots(100)}
		a, b, c := newLimiter(t, store, config), newLimiter(t, store, config),
			newLimiter(t, store, config)
		first := acquire(t, b, 1)
		begun := make(chan *hybrid.Slot, 2)
		for _, x := range []struct {
			l *hybrid.Limiter
			n int
		}{{a, 100}, {c, 1}} {
			go func() {
				s, err := x.l.Acquire(ctx, "k", x.n)
				if err != nil {
					t.Error(err)
				}
				begun <- s
			}()
			time.Sleep(time.Second)
		}
		before := store.trips.Load()
		long := longform.Of(10*time.Minute, time.Hour)
		time.Sleep(long)
		if n := store.trips.Load() - before; len(begun) != 0 || float64(n) > 12*long.Seconds() {
			t.Errorf("%d jobs have begun, after %d calls in %v", len(begun), n, long)
		}
		if err := first.Release(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := (<-begun).Release(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestSlotsForsaken: twelve large jobs a second give up after 5 ms each. Others miss what comes
// free as long as these wait, and for a round trip after that: 0.07 of their jobs at most.
func TestSlotsForsaken(t *testing.T) {
	const jobs, patience, every = 48, 5 * time.Millisecond, time.Second / 12
	for _, c := range []struct {
		name   string
		slots  int64
		each   int // jobs at once of each of four processes
		large  int
		rtt    time.Duration
		random bool // how long jobs take
	}{
		{"most are in use", 20, 4, 20, time.Millisecond, false},
		{"some are in use", 100, 15, 90, time.Millisecond, true},
		{"more are wanted", 20, 8, 20, time.Millisecond, false},
		{"the store is far", 100, 15, 90, 10 * time.Millisecond, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var done [2]int64 // without the large jobs, and beside them
			for i := range done {
				synctest.Test(t, func(t *testing.T) {
					store := remoteLine(c.rtt)
					config := hybrid.Config{Limit: hybrid.Slots(c.slots)}
					stop, cancel := context.WithCancel(ctx)
					var n atomic.Int64
					var group sync.WaitGroup
					for p := range uint64(4) {
						l := newLimiter(t, store, config)
						for j := range uint64(c.each) {
							rng := rand.New(rand.NewPCG(p, j))
							lasts := func() time.Duration { return 50 * time.Millisecond }
							if c.random {
								lasts = func() time.Duration {
									return time.Duration(rng.ExpFloat64() * float64(50*time.Millisecond))
								}
							}
							group.Go(func() { toil(t, l, &n, stop, lasts) })
						}
					}
					time.Sleep(5 * time.Second)
					before := n.Load()
					l := newLimiter(t, store, config)
					for range jobs {
						if i == 1 {
							soon, gone := context.WithTimeout(ctx, patience)
							if s, err := l.Acquire(soon, "k", c.large); err == nil {
								s.Release() // all were free
							}
							gone()
						} else {
							time.Sleep(patience)
						}
						time.Sleep(every - patience)
					}
					done[i] = n.Load() - before
					cancel()
					group.Wait()
				})
			}
			lost := 1 - float64(done[1])/float64(done[0])
			t.Logf("%d jobs, %d beside the large ones: %.3f less", done[0], done[1], lost)
			if lost > 0.07 {
				t.Error("too many")
			}
		})
	}
}

// TestSlotsEndWithLongRefreshes: contexts end with their lease, also where it is renewed seldom.
func TestSlotsEndWithLongRefreshes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Slots(1), Policy: hybrid.Policy{
			MaxRefresh: time.Minute, MaxHold: time.Minute,
		}})
		s, begun := acquire(t, l, 1), time.Now()
		store.cut.Store(true)
		<-s.Context().Done()
		lease := 225 * time.Second
		lease -= lease / 512 // for clocks that are slow
		if late := time.Since(begun) - lease; late.Abs() > 2*time.Millisecond {
			t.Errorf("the context has ended %v after its lease", late)
		}
	})
}

// TestSlotsSeen: what Stats and Peek say of slots, and of a key that has no limit.
func TestSlotsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			LimitFor: func(key string) hybrid.Limit {
				if key == "free" {
					return hybrid.Unlimited
				}
				return hybrid.Slots(2)
			},
		})
		if _, err := l.Acquire(ctx, "free", 3); err != nil {
			t.Fatal(err)
		}
		if v := l.Stats().Lease; v.Admitted != 1 || v.AdmittedTokens != 3 {
			t.Errorf("an Acquire of a key that has no limit: %+v", v)
		}
		acquire(t, l, 2)
		d, err := l.Peek(ctx, "k")
		if err != nil || d.Allowed || d.RetryAfter != 250*time.Millisecond || d.ResetAfter != 0 {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
