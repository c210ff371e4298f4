package hybrid_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// losingLine is a store of which one exchange for a key of users, by its number, has no answer
// in time, or an error.
type losingLine struct {
	*line
	loses, number atomic.Int64
	late          bool
}

func (s *losingLine) Exchange(ctx context.Context, calls []*lease.Call) {
	if calls[0].Key == hybrid.FleetKey || s.number.Add(1) != s.loses.Load() {
		s.line.Exchange(ctx, calls)
		return
	}
	if s.late {
		<-ctx.Done()
	}
	for _, c := range calls {
		c.Err = errors.New("lost")
	}
}

// TestWaitsSurviveALostExchange: neither Wait nor WaitAll ends with an exchange that fails,
// whichever it is.
func TestWaitsSurviveALostExchange(t *testing.T) {
	for name, wait := range map[string]func(l *hybrid.Limiter, ctx context.Context) error{
		"Wait": func(l *hybrid.Limiter, ctx context.Context) error { return l.Wait(ctx, "a", 1) },
		"WaitAll": func(l *hybrid.Limiter, ctx context.Context) error {
			return l.WaitAll(ctx, one("a", "b")...)
		},
		"WaitReserveAll": func(l *hybrid.Limiter, ctx context.Context) error {
			r, err := l.WaitReserveAll(ctx, one("a", "b")...)
			if err != nil {
				return err
			}
			return r.Settle(1)
		},
	} {
		for _, late := range []bool{false, true} {
			for loses := range int64(8) {
				synctest.Test(t, func(t *testing.T) {
					store := &losingLine{line: remoteLine(time.Millisecond), late: late}
					l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(4).WithBurst(1)})
					store.loses.Store(loses + 1)
					began := time.Now()
					for range 3 {
						soon, cancel := context.WithTimeout(ctx, 3*time.Second)
						if err := wait(l, soon); err != nil {
							t.Errorf("%s, exchange %d is lost, late %v: %v", name, loses+1, late, err)
						}
						cancel()
					}
					if took := time.Since(began); took > 2*time.Second {
						t.Errorf("%s, exchange %d is lost, late %v: three took %v", name, loses+1, late, took)
					}
					time.Sleep(time.Second)
				})
			}
		}
	}
}

// TestWaitAllSharesFairly: four processes that want the same keys have about as much of them,
// all that there is, and make about as few calls, whether they wait for both keys at once or
// for one after the other.
func TestWaitAllSharesFairly(t *testing.T) {
	long(t)
	small, large := hybrid.PerSecond(10).WithBurst(1), hybrid.PerSecond(1000).WithBurst(100)
	for _, c := range []struct {
		a, b    hybrid.Limit
		callers int
	}{
		{small, small, 1}, {small, small, 4},
		{hybrid.PerSecond(4).WithBurst(1), hybrid.PerSecond(4).WithBurst(1), 1},
		{hybrid.PerSecond(4).WithBurst(1), hybrid.PerSecond(4).WithBurst(1), 4},
		{hybrid.PerSecond(50).WithBurst(10), hybrid.PerSecond(50).WithBurst(10), 1},
		{hybrid.PerSecond(50).WithBurst(10), hybrid.PerSecond(50).WithBurst(10), 4},
		{hybrid.PerSecond(100), hybrid.PerSecond(200), 4},
		{large, large, 4}, {large, large, 16},
		{hybrid.PerSecond(1000), hybrid.PerSecond(500).WithBurst(50), 16},
	} {
		if c.a.Rate > 100 && !longform.Set() {
			continue // thousands of jobs a second
		}
		if c.a != small && c.callers == 1 && !longform.Set() {
			continue // as those of small
		}
		limits := limitsOf(map[string]hybrid.Limit{"a": c.a, "b": c.b})
		play := func(
			want func(l *hybrid.Limiter, until context.Context) bool,
		) (got []float64, calls float64) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				all := processes(t, 4, store, hybrid.Config{LimitFor: limits})
				length := max(30, 600/c.a.Rate) // s: what there is does not go by chance
				until, cancel := context.WithTimeout(ctx, time.Duration(length)*time.Second)
				defer cancel()
				got = make([]float64, len(all))
				var mu sync.Mutex
				var wg sync.WaitGroup
				for i, l := range all {
					for range c.callers {
						wg.Go(func() {
							for want(l, until) {
								mu.Lock()
								got[i]++
								mu.Unlock()
							}
						})
					}
				}
				wg.Wait()
				calls = float64(store.trips.Load())
			})
			return got, calls
		}
		// A process with a larger slice serves its callers sooner, who come back sooner: what it gets
		// of a second then rests upon chance, as of two Waits, and is judged in the mean of some plays.
		// By chance a play needs one or two calls more for each job, with either.
		plays, least := 3, 0.95
		if c.a == large {
			plays, least = 5, 0.75
		}
		var all, two []float64
		var fair, allCalls, twoCalls, sum, beside float64
		for range plays {
			var calls float64
			two, calls = play(func(l *hybrid.Limiter, until context.Context) bool {
				return l.Wait(until, "a", 1) == nil && l.Wait(until, "b", 1) == nil
			})
			twoCalls, beside = twoCalls+calls, beside+total(two)
			all, calls = play(func(l *hybrid.Limiter, until context.Context) bool {
				return l.WaitAll(until, one("a", "b")...) == nil
			})
			allCalls, sum, fair = allCalls+calls, sum+total(all), fair+jain(all)/float64(plays)
		}
		t.Logf("%v and %v, %d callers: WaitAll %v, Jain %.2f, %.2f calls each; "+
			"two Waits %v, Jain %.2f, %.2f calls each",
			c.a, c.b, c.callers, all, jain(all), allCalls/sum, two, jain(two), twoCalls/beside)
		if fair < least {
			t.Errorf("Jain's index is %.2f in the mean", fair)
		}
		if sum < 0.95*beside {
			t.Errorf("%v are served, %v by two Waits", sum, beside)
		}
		// What is reserved at one key keeps its room while its caller waits for the other one. So
		// leases overflow, and what flows back is fetched by calls: up to 0.2 for each job.
		if allCalls/sum > 1.3*twoCalls/beside+0.2 {
			t.Errorf("%.2f calls each, %.2f by two Waits", allCalls/sum, twoCalls/beside)
		}
	}
}

func total(parts []float64) (sum float64) {
	for _, x := range parts {
		sum += x
	}
	return sum
}

// jain is Jain's index of the parts.
func jain(parts []float64) float64 {
	squares := 0.0
	for _, x := range parts {
		squares += x * x
	}
	return total(parts) * total(parts) / squares / float64(len(parts))
}

// TestCloseGivesKeptTokensBack: a request has kept tokens of a key that is being exchanged, and
// waits for another key, when the Limiter is closed. The tokens go back to the store.
func TestCloseGivesKeptTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(50 * time.Millisecond)
		c := hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{
			"kept": hybrid.Quota(1000, hybrid.Day), "slow": hybrid.PerHour(3600).WithBurst(600),
		})}
		l := newLimiter(t, store, c)
		if d, err := l.Take(ctx, "slow", 600); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := l.WaitReserveAll(ctx, hybrid.Ask{Key: "slow", N: 600}, hybrid.Ask{Key: "kept", N: 700})
			done <- err
		}()
		time.Sleep(time.Minute)
		if d, err := l.Peek(ctx, "kept"); err != nil || d.Remaining != 300 {
			t.Fatalf("of 1000, 700 are kept, and left are %+v: %v", d, err)
		}
		go l.Take(ctx, "kept", 400) // asks
		time.Sleep(10 * time.Millisecond)
		if err := l.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
		if n := left(t, store, c, "kept"); n != 1000 {
			t.Errorf("%d are left of 1000", n)
		}
	})
}
