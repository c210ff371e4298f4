package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A fickle store answers as its mode says, after a round trip.
type fickle struct {
	hybrid.Store
	mode atomic.Int32
	trip atomic.Int64 // ns
}

const (
	answers = int32(iota)
	refuses
	fails
	isLate
)

func newFickle(trip time.Duration) *fickle {
	f := &fickle{Store: hybrid.NewMemory()}
	f.trip.Store(int64(trip))
	return f
}

func (f *fickle) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Duration(f.trip.Load()))
	mode := f.mode.Load()
	if mode == isLate {
		time.Sleep(time.Second)
	}
	if mode == answers || mode == isLate {
		f.Store.Exchange(ctx, calls)
		return
	}
	for _, c := range calls {
		c.Err = errors.New("fickle")
		if mode == refuses {
			c.Err = fmt.Errorf("fickle: %w", lease.ErrRefused)
		}
	}
}

// TestStatsTokens: requests and tokens are counted apart, by who decided.
func TestStatsTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerHour(100)})
		for _, n := range []int{30, 30, 50, 30, 1, 20} { // 50 and 20 do not fit
			l.AllowN("k", n)
		}
		s := l.Stats()
		sum := func(f func(hybrid.Verdicts) uint64) uint64 { return f(s.Lease) + f(s.Ledger) + f(s.Outage) }
		got := [4]uint64{
			sum(func(v hybrid.Verdicts) uint64 { return v.Admitted }),
			sum(func(v hybrid.Verdicts) uint64 { return v.Denied }),
			sum(func(v hybrid.Verdicts) uint64 { return v.AdmittedTokens }),
			sum(func(v hybrid.Verdicts) uint64 { return v.DeniedTokens }),
		}
		if want := [4]uint64{4, 2, 91, 70}; got != want {
			t.Errorf("%v, not %v: %+v", got, want, s)
		}
		if len(s.MostDenied) != 1 || s.MostDenied[0] != (hybrid.DeniedKey{Key: "k", Denied: 2}) {
			t.Errorf("most denied: %+v", s.MostDenied)
		}
	})
}

// TestStatsOutcomes: each way in which an exchange may end has a count of its own.
func TestStatsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFickle(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(10)})
		for mode, pick := range []func(hybrid.Stats) uint64{
			answers: func(s hybrid.Stats) uint64 { return s.Answered },
			refuses: func(s hybrid.Stats) uint64 { return s.Refused },
			fails:   func(s hybrid.Stats) uint64 { return s.Failed },
			isLate:  func(s hybrid.Stats) uint64 { return s.Late },
		} {
			store.mode.Store(int32(mode))
			before := l.Stats()
			l.Allow("key " + strconv.Itoa(mode))
			time.Sleep(3 * time.Second)
			after := l.Stats()
			if pick(after) == pick(before) {
				t.Errorf("mode %d: not counted: %+v", mode, after)
			}
			if sum := after.Answered + after.Refused + after.Failed + after.Late; sum != after.Exchanges {
				t.Errorf("mode %d: %d in all: %+v", mode, sum, after)
			}
		}
		store.mode.Store(answers)
	})
}

// TestStatsRoundTrips: quantiles are of the last minutes, not of all time.
func TestStatsRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFickle(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		for _, trip := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond} {
			store.trip.Store(int64(trip))
			for range 30 * 130 {
				l.Allow("k")
				time.Sleep(time.Second / 30)
			}
			s := l.Stats()
			for _, q := range []time.Duration{s.RoundTripP50, s.RoundTripP99} {
				if q < trip || q > trip+trip/32+1 {
					t.Errorf("round trips of %v: %+v", trip, s)
				}
			}
		}
	})
}

// TestRoundTrips: each is counted once, by the bounds that it keeps, and is in the sum.
func TestRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFickle(0)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1), Timeout: time.Minute})
		var sum time.Duration
		for n, trip := range []time.Duration{
			100 * time.Microsecond, 101 * time.Microsecond, time.Millisecond, 2 * time.Second,
		} {
			before := l.Stats().RoundTrips
			store.trip.Store(int64(trip))
			l.Allow("key " + strconv.Itoa(n))
			synctest.Wait() // a caller goes on before its exchange is counted
			s := l.Stats().RoundTrips
			if sum += trip; s.Count != uint64(n+1) || s.Sum != sum {
				t.Fatalf("%d round trips take %v: %+v", n+1, sum, s)
			}
			for bound, n := range s.AtMost {
				if (n == before.AtMost[bound]+1) != (trip <= bound) {
					t.Errorf("a round trip of %v, of at most %v: %+v", trip, bound, s)
				}
			}
			if len(s.AtMost) != 15 || s.AtMost[1638400*time.Microsecond] == 0 {
				t.Errorf("bounds %v", s.AtMost)
			}
		}
	})
}

// TestLateIsNoRoundTrip: exchanges with a hung server are no round trips. Neither quantiles
// nor the warning of a small Burst go by the timeout.
func TestLateIsNoRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		store := newFickle(time.Millisecond)
		l := newLimiter(t, store,
			hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(50), Logger: zap.New(core)})
		run := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
				l.Allow("k")
			}
		}
		run(10 * time.Second)
		store.mode.Store(isLate)
		run(30 * time.Second)
		if s := l.Stats(); s.Late == 0 || s.RoundTripP99 > 2*time.Millisecond {
			t.Errorf("round trips take 1 ms: %+v", s)
		}
		run(4 * time.Minute)
		if s := l.Stats(); s.RoundTripP50 != 0 {
			t.Errorf("there was none for minutes: %+v", s)
		}
		store.mode.Store(answers)
		run(10 * time.Second)
		if n := logs.FilterMessageSnippet("burst is small for the round trip").Len(); n > 0 {
			t.Errorf("a Burst of half a second at 1 ms: %v", logs.All())
		}
	})
}

// TestStatsAway: the time without a store adds up over outages.
func TestStatsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFickle(time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{
			Limit: hybrid.PerSecond(1000),
			// A lease would hide an outage for a while.
			Policy: hybrid.Policy{Mode: lease.PerRequest},
		})
		run := func(mode int32, d time.Duration) {
			store.mode.Store(mode)
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				l.Allow("k")
			}
		}
		for outage := range 2 {
			run(answers, 5*time.Second)
			run(fails, 10*time.Second)
			most := time.Duration(outage+1) * 10 * time.Second
			if s := l.Stats(); !s.Away || s.AwayFor > most+2*time.Second ||
				s.AwayFor < most-2*time.Second {
				t.Errorf("outage %d: away %v for %v", outage, s.Away, s.AwayFor)
			}
		}
		run(answers, 5*time.Second)
		back := l.Stats()
		run(answers, 5*time.Second)
		if s := l.Stats(); s.Away || s.AwayFor != back.AwayFor {
			t.Errorf("away for %v, then %v, though the store answers", back.AwayFor, s.AwayFor)
		}
	})
}

// TestStatsWaiters: those who wait now, wherever they do.
func TestStatsWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, newFickle(time.Millisecond), hybrid.Config{Limit: hybrid.PerSecond(1)})
		ctx, cancel := context.WithCancel(t.Context())
		for range 5 {
			go l.Wait(ctx, "k", 1)
		}
		time.Sleep(10 * time.Millisecond)
		if n := l.Stats().Waiters; n != 4 {
			t.Errorf("%d wait", n)
		}
		cancel()
		synctest.Wait()
		if n := l.Stats().Waiters; n != 0 {
			t.Errorf("%d wait after they have gone", n)
		}
	})
}

// hesitant is a store whose Reset takes a while.
type hesitant struct{ *fickle }

func (h hesitant) Reset(ctx context.Context, key string) error {
	time.Sleep(50 * time.Millisecond)
	return h.Store.(*hybrid.Memory).Reset(ctx, key)
}

// TestStatsWaitersElsewhere: a caller that waits for LimitFor, in Peek or in Reset counts
// as well, and one of Try never does.
func TestStatsWaitersElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := time.Duration(0) // how long LimitFor takes
		store := newFickle(50 * time.Millisecond)
		l := newLimiter(t, hesitant{store}, hybrid.Config{LimitFor: func(string) hybrid.Limit {
			time.Sleep(asked)
			return hybrid.PerSecond(100)
		}})
		waits := func(what string, want int, call func()) {
			t.Helper()
			go call()
			time.Sleep(40 * time.Millisecond)
			if n := l.Stats().Waiters; n != want {
				t.Errorf("%s: %d wait, not %d", what, n, want)
			}
			time.Sleep(time.Second)
			if n := l.Stats().Waiters; n != 0 {
				t.Errorf("%s: %d wait after it has returned", what, n)
			}
		}
		waits("Peek", 1, func() { l.Peek(ctx, "seen") })
		waits("Reset", 1, func() { l.Reset(ctx, "seen") })
		waits("Try", 0, func() { l.Try("tried", 1) })
		asked = 45 * time.Millisecond
		waits("a first call of LimitFor", 2, func() {
			go l.Allow("new") // waits for the same call
			l.Allow("new")
		})
		waits("LimitFor, as n is above the Burst", 1, func() { l.AllowN("new", 1000) })
	})
}

// TestMostDenied: keys are listed by what was denied lately, also by keys that are gone,
// for which there is no room, or that decide in pockets; names and their number are bounded.
func TestMostDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, newFickle(time.Millisecond),
			hybrid.Config{Limit: hybrid.PerHour(1), MaxKeys: 64})
		deny := func(key string, n int) {
			for range n + 1 {
				l.Allow(key)
			}
		}
		long := fmt.Sprintf("%0500d", 0)
		deny("most", 5000) // more than enough for pockets
		deny(long, 3000)
		deny("second", 4000)
		for i := range 200 { // more than there is room for
			deny("few:"+strconv.Itoa(i), 5)
		}
		time.Sleep(20 * time.Second) // most are evicted
		s := l.Stats()
		if len(s.MostDenied) != 10 || s.DeniedKeys != 128 {
			t.Fatalf("%d keys, %+v", s.DeniedKeys, s.MostDenied)
		}
		for i, want := range []hybrid.DeniedKey{{Key: "most", Denied: 5000}, {Key: "second", Denied: 4000}, {Key: long[:256], Denied: 3000}} {
			got := s.MostDenied[i]
			if got.Key != want.Key || got.Denied < want.Denied ||
				got.Denied-got.Error > want.Denied || got.Error > 13_000/128 {
				t.Errorf("place %d: %+v, not %+v", i, got, want)
			}
		}
		time.Sleep(3 * time.Minute)
		if s := l.Stats(); len(s.MostDenied) != 0 || s.DeniedKeys != 0 {
			t.Errorf("listed after three minutes: %+v", s.MostDenied)
		}
		for i := range 17 {
			deny("now:"+strconv.Itoa(i), 2)
		}
		time.Sleep(5 * time.Second)
		if s := l.Stats(); len(s.MostDenied) != 10 || s.DeniedKeys != 17 {
			t.Errorf("%d keys, %+v", s.DeniedKeys, s.MostDenied)
		}
	})
}

// TestBurstWarning: a limit whose Burst lasts for less than four round trips is named
// once, when the round trip is known; others are not.
func TestBurstWarning(t *testing.T) {
	for _, c := range []struct {
		burst int64
		mode  lease.Mode
		want  int
	}{{199, lease.Auto, 1}, {210, lease.Auto, 0}, {199, lease.PerRequest, 0}} {
		synctest.Test(t, func(t *testing.T) {
			core, logs := observer.New(zap.WarnLevel)
			l := newLimiter(t, newFickle(50*time.Millisecond), hybrid.Config{
				Limit: hybrid.PerSecond(1000).WithBurst(c.burst), Logger: zap.New(core),
				Policy: hybrid.Policy{Mode: c.mode},
			})
			for i := range 3000 {
				l.Allow("k" + strconv.Itoa(i%3))
				time.Sleep(5 * time.Millisecond)
			}
			got := logs.FilterMessageSnippet("burst is small for the round trip").All()
			if len(got) != c.want {
				t.Fatalf("%+v: %d warnings: %v", c, len(got), logs.All())
			}
			if c.want > 0 {
				fields := got[0].ContextMap()
				if least, ok := fields["burst at least"].(float64); !ok || least < 200 ||
					least > 207 {
					t.Errorf("it says %v", fields)
				}
			}
		})
	}
}

// TestStatsOfReservations: what is settled counts, and not what was reserved. Tokens that
// are spent with their lease are settled then.
func TestStatsOfReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := resettableLine{remoteLine(time.Millisecond)}
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Per(1000, year), Outage: hybrid.Deny})
		settled, charged := uint64(0), uint64(0)
		after := func(what string, moreSettled, moreCharged uint64) {
			t.Helper()
			settled, charged = settled+moreSettled, charged+moreCharged
			s := l.Stats()
			if s.Settled != settled || s.Charged != charged ||
				s.Lease.AdmittedTokens+s.Ledger.AdmittedTokens != 0 {
				t.Errorf("%s: %d settled of %d, %d charged of %d; %+v %+v", what, s.Settled, settled, s.Charged,
					charged, s.Lease, s.Ledger)
			}
		}
		reserve := func(n int) *hybrid.Reservation {
			r, err := l.Reserve(ctx, "k", n)
			if err != nil || !r.Allowed {
				t.Fatal(r, err)
			}
			return r
		}
		r := reserve(100)
		after("open", 0, 0)
		r.Settle(60)
		after("settled below", 60, 0)
		r.Settle(70)
		after("settled again", 0, 0)
		reserve(50).Settle(80)
		after("settled above", 50, 30)
		reserve(50).Cancel()
		after("cancelled", 0, 0)
		l.Charge("k", 20)
		after("charged", 0, 20)
		all, err := l.ReserveAll(ctx, hybrid.Ask{Key: "k", N: 10}, hybrid.Ask{Key: "other", N: 20})
		if err != nil || !all.Allowed {
			t.Fatal(all, err)
		}
		all.Reserved[1].Settle(5)
		after("one of two", 5, 0)
		all.Cancel()
		after("and the other one", 0, 0)

		r, r2 := reserve(40), reserve(5)
		store.cut.Store(true)
		time.Sleep(time.Minute)
		after("cut off", 45, 0)
		store.cut.Store(false)
		time.Sleep(time.Minute)
		r.Settle(10)
		after("settled late", 0, 0)
		r2.Settle(8)
		after("settled late, above", 0, 3)

		r = reserve(30)
		if err := l.Reset(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		after("reset", 30, 0)
		r.Cancel()
		after("cancelled after that", 0, 0)
		reserve(7)
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		after("closed", 7, 0)
		if s := l.Stats(); s.Lease.Admitted+s.Ledger.Admitted != 9 {
			t.Errorf("%+v %+v", s.Lease, s.Ledger)
		}
	})
}

// A resettableLine is a line to a store that can reset keys.
type resettableLine struct{ *line }

func (s resettableLine) Reset(ctx context.Context, key string) error {
	return s.Store.(*hybrid.Memory).Reset(ctx, key)
}

// TestStatsProcesses: Stats says by how many processes Share divides the limits.
func TestStatsProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		var all []*hybrid.Limiter
		for hint := range 3 {
			l := newLimiter(t, store, hybrid.Config{
				Limit: hybrid.PerSecond(100), Process: hybrid.NewProcess(), Processes: hint,
			})
			if n := l.Stats().Processes; n != hint {
				t.Errorf("%d processes, as nobody has told, want %d", n, hint)
			}
			all = append(all, l)
		}
		time.Sleep(12 * time.Second)
		for _, l := range all {
			if n := l.Stats().Processes; n != 3 {
				t.Errorf("%d processes, want 3", n)
			}
		}
	})
}
