package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// limitsOf gives each key the limit of its name up to a colon.
func limitsOf(limits map[string]hybrid.Limit) func(string) hybrid.Limit {
	return func(key string) hybrid.Limit {
		name, _, _ := strings.Cut(key, ":")
		return limits[name]
	}
}

func processes(t *testing.T, n int, store hybrid.Store, c hybrid.Config) (all []*hybrid.Limiter) {
	for range n {
		all = append(all, newLimiter(t, store, c))
	}
	return all
}

func one(keys ...string) (asks []hybrid.Ask) {
	for _, key := range keys {
		asks = append(asks, hybrid.Ask{Key: key, N: 1})
	}
	return asks
}

// TestAllOfNewKeys: of keys that are seldom asked for, a request for all makes an exchange each, and
// nothing is told afterwards: the room of what was held for it comes back as that lease ends.
func TestAllOfNewKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]hybrid.Limit{
			"user": hybrid.PerMinute(60), "address": hybrid.PerMinute(600), "hour": hybrid.PerHour(1000),
		}
		store := remoteLine(time.Millisecond)
		c := hybrid.Config{LimitFor: limitsOf(limits)}
		l := newLimiter(t, store, c)
		for i := range 100 {
			n := fmt.Sprint(":", i)
			if d, err := l.TakeAll(ctx, one("user"+n, "address"+n, "hour"+n)...); err != nil || !d.Allowed {
				t.Fatalf("request %d: %+v, %v", i, d, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		if n := l.Stats().Exchanges; n < 300 || n > 305 { // with those of the fleet
			t.Errorf("%d exchanges for 300 new keys", n)
		}
		if n := left(t, store, c, "user:7"); n != 60 {
			t.Errorf("%d of 60 are left when they have come back", n)
		}
	})
}

// TestAllOfSmallBursts: where the room of a token is much of the bucket, it is told at once, and
// the bucket fills beside it.
func TestAllOfSmallBursts(t *testing.T) {
	for _, burst := range []int64{1, 2, 5} {
		synctest.Test(t, func(t *testing.T) {
			c := hybrid.Config{Limit: hybrid.PerSecond(1).WithBurst(burst)}
			l, admitted := newLimiter(t, remoteLine(time.Millisecond), c), int64(0)
			for range 1000 { // 100 s, all of another key, and all of one
				if l.AllowAll("k", fmt.Sprint(admitted)) {
					admitted++
				}
				time.Sleep(100 * time.Millisecond)
			}
			if want := 99 + burst; admitted < want*98/100 || admitted > want+1 {
				t.Errorf("burst %d: %d of %d were admitted in 100 s", burst, admitted, want)
			}
		})
	}
}

// TestAllOrNothing: what several limits say of one request, and what it takes.
func TestAllOrNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := map[string]hybrid.Limit{
			"three": hybrid.PerHour(3), "ten": hybrid.PerHour(10), "free": hybrid.Unlimited, "shut": hybrid.Blocked,
		}
		l := newLimiter(t, remoteLine(10*time.Millisecond), hybrid.Config{LimitFor: limitsOf(limits)})
		for i := range 5 {
			d, err := l.TakeAll(ctx, one("ten", "three", "free")...)
			if want := i < 3; err != nil || d.Allowed != want || len(d.Each) != 3 || d.Each[1].Allowed != want {
				t.Fatalf("request %d: %+v, %v", i, d, err)
			}
			if i < 3 && d.Denied != -1 || i >= 3 && d.Denied != 1 {
				t.Errorf("request %d: %d denies longest", i, d.Denied)
			}
			if i >= 3 && (!d.Each[0].Allowed || d.Each[1].RetryAfter < 19*time.Minute || !d.Each[2].Allowed) {
				t.Errorf("request %d: %+v", i, d)
			}
		}
		if d, err := l.Peek(ctx, "ten"); err != nil || d.Remaining != 7 {
			t.Errorf("%d are left of 10, %v", d.Remaining, err)
		}
		if l.AllowAll("ten", "shut") || !l.AllowAll("free", "ten") {
			t.Error("a Blocked key allows, or an Unlimited one denies")
		}
		d, err := l.TakeAll(ctx, hybrid.Ask{Key: "ten", N: 2}, hybrid.Ask{Key: "free", N: 1 << 30}, hybrid.Ask{Key: "ten", N: 3})
		if err != nil || !d.Allowed || d.Each[0] != d.Each[2] || d.Each[0].Remaining != 1 {
			t.Errorf("a key that is named twice: %+v, %v", d, err)
		}
		if d, err := l.TakeAll(ctx, hybrid.Ask{Key: "three", N: 0}, hybrid.Ask{Key: "ten", N: 1}); err != nil || !d.Allowed {
			t.Errorf("no token of a key that denies: %+v, %v", d, err)
		}
		want := hybrid.Decision{Allowed: true, Limit: hybrid.Blocked}
		if d, err := l.Take(ctx, "shut", 0); err != nil || d != want {
			t.Errorf("no token of a Blocked key: %+v, %v", d, err)
		}
		d, err = l.TakeAll(ctx, hybrid.Ask{Key: "shut", N: 0}, hybrid.Ask{Key: "free", N: 1})
		if err != nil || !d.Allowed || d.Each[0] != want {
			t.Errorf("no token of a Blocked key, and one of another: %+v, %v", d, err)
		}
	})
}

// TestSeveralBadInput: errors name what is wrong, and nothing is taken.
func TestSeveralBadInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{"ten": hybrid.PerHour(10)})})
		seventeen := make([]hybrid.Ask, 17)
		for _, c := range []struct {
			asks []hybrid.Ask
			says string
			is   error
		}{
			{nil, "0 Asks are not 1 to 16", nil},
			{seventeen, "17 Asks are not 1 to 16", nil},
			{[]hybrid.Ask{{Key: "ten:1", N: 1}, {Key: "ten:2", N: -1}}, "hybrid: Ask[1].N -1 is not at least 0", nil},
			{[]hybrid.Ask{{Key: "ten:1", N: 1}, {Key: "ten:2", N: 11}}, "hybrid: Ask[1]: take 11 of \"ten:2\"", hybrid.ErrExceedsBurst},
			{[]hybrid.Ask{{Key: "ten:1", N: 6}, {Key: "ten:2", N: 1}, {Key: "ten:1", N: 5}}, "hybrid: Ask[0] and Ask[2]: take 11 of \"ten:1\"", hybrid.ErrExceedsBurst},
			{[]hybrid.Ask{{Key: "ten:1", N: 1}, {Key: "none", N: 1}}, "limit of \"none\"", hybrid.ErrInvalidLimit},
		} {
			_, err := l.TakeAll(ctx, c.asks...)
			waits := l.WaitAll(ctx, c.asks...)
			_, reserves := l.ReserveAll(ctx, c.asks...)
			for _, err := range []error{err, waits, reserves} {
				if err == nil || !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
					t.Errorf("%v: %v", c.asks, err)
				}
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := l.TakeAll(ended, one("ten:1")...); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if d, err := l.Take(ctx, "ten:1", 10); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
		soon, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		began := time.Now()
		if err := l.WaitAll(soon, one("ten:2", "ten:1")...); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Second {
			t.Errorf("a deadline that is too near: %v after %v", err, time.Since(began))
		}
		l.Close(ctx)
		if _, err := l.TakeAll(ctx, one("ten:2")...); !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestDeniedCostsOthersNothing: a limit that denies 1,000 requests costs another one, of
// which nothing flows back in, not a token: in one process and in eight.
func TestDeniedCostsOthersNothing(t *testing.T) {
	for _, size := range []int{1, 8} {
		for _, names := range [][]string{{"a-large", "b-small"}, {"b-large", "a-small"}} {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(5 * time.Millisecond)
				all := processes(t, size, store, hybrid.Config{LimitFor: func(key string) hybrid.Limit {
					if key == names[0] {
						return hybrid.Per(50, 365*24*time.Hour)
					}
					return hybrid.PerMinute(6).WithBurst(2)
				}})
				var wait sync.WaitGroup
				var mu sync.Mutex
				allowed, denied := 0, 0
				for i, l := range all {
					wait.Go(func() {
						random := rand.New(rand.NewPCG(uint64(i), 1))
						for range 1000 / size {
							ok := l.AllowAll(names...)
							mu.Lock()
							if ok {
								allowed++
							} else {
								denied++
							}
							mu.Unlock()
							time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond * time.Duration(size))
						}
					})
				}
				wait.Wait()
				time.Sleep(5 * time.Second)
				d, err := newLimiter(t, store, hybrid.Config{Limit: hybrid.Per(50, 365*24*time.Hour)}).Peek(ctx, names[0])
				if err != nil || denied < 900 || int(d.Remaining) != 50-allowed {
					t.Errorf("%d processes, %v: %d denied, %d allowed, %d are left of 50, %v",
						size, names, denied, allowed, d.Remaining, err)
				}
			})
		}
	}
}

// TestSeveralWarmKeys: keys that are in use are decided here.
func TestSeveralWarmKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(20 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		use := func(n int) (waited time.Duration) {
			for range n {
				began := time.Now()
				if !l.AllowAll("user", "address", "all") {
					t.Fatal("denied")
				}
				waited += time.Since(began)
				time.Sleep(2 * time.Millisecond)
			}
			return waited
		}
		use(1000)
		before := store.trips.Load()
		if waited := use(5000); waited > 0 {
			t.Errorf("warm keys waited for %v", waited)
		}
		if trips := store.trips.Load() - before; trips > 500 {
			t.Errorf("%d round trips for 5000 requests of three keys", trips)
		}
	})
}

// TestEightRace: eight processes that want the same two small keys all go on, whether they
// wait or come back, and have what there is.
func TestEightRace(t *testing.T) {
	const length = 2 * time.Minute
	wants := map[string]func(l *hybrid.Limiter, random *rand.Rand, asks []hybrid.Ask) bool{
		"WaitAll": func(l *hybrid.Limiter, random *rand.Rand, asks []hybrid.Ask) bool {
			return l.WaitAll(ctx, asks...) == nil
		},
		"TakeAll": func(l *hybrid.Limiter, random *rand.Rand, asks []hybrid.Ask) bool {
			d, err := l.TakeAll(ctx, asks...)
			if err == nil && !d.Allowed {
				wait := d.Each[d.Denied].RetryAfter
				time.Sleep(wait + time.Duration(random.Int64N(int64(wait)/4+1)))
			}
			return d.Allowed
		},
	}
	for name, want := range wants {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(3 * time.Millisecond)
				all := processes(t, 8, store, hybrid.Config{Limit: hybrid.PerSecond(4).WithBurst(1)})
				got := make([]int, len(all))
				longest := make([]time.Duration, len(all))
				var wait sync.WaitGroup
				for i, l := range all {
					wait.Go(func() {
						random := rand.New(rand.NewPCG(uint64(i), 2))
						last, end := time.Now(), time.Now().Add(length)
						for time.Now().Before(end) {
							asks := one("a", "b")
							if i%2 == 1 {
								asks = one("b", "a")
							}
							if want(l, random, asks) {
								got[i]++
								longest[i] = max(longest[i], time.Since(last))
								last = time.Now()
							}
						}
					})
				}
				wait.Wait()
				sum, least := 0, got[0]
				for i := range got {
					sum, least = sum+got[i], min(least, got[i])
				}
				t.Logf("%v of %v, longest waits %v", got, 4*length.Seconds(), longest)
				if most := int(4*length.Seconds()) + 9; sum > most || sum < most*9/10 || least < sum/8/2 {
					t.Errorf("%d of %d, by process %v", sum, most, got)
				}
			})
		})
	}
}

// TestPairIsNotMissed: keys that all have a token are taken by a WaitAll within 1.25
// MaxRefresh and a round trip for each of them, whatever else takes of them before.
func TestPairIsNotMissed(t *testing.T) {
	long(t)
	const trip = 10 * time.Millisecond
	most := 250*time.Millisecond*5/4 + 3*trip
	seeds := longform.Of[uint64](2, 8)
	for _, size := range []int{1, 3} {
		worst := time.Duration(0)
		for seed := range seeds {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, uint64(size)))
				store := &line{Store: hybrid.NewMemory(), rtt: trip}
				memory := store.Store.(*hybrid.Memory)
				rates := []float64{0.5 + 4*random.Float64(), 0.5 + 4*random.Float64(), 3}
				keys := []string{"a", "b", "c"}
				c := hybrid.Config{LimitFor: func(key string) hybrid.Limit {
					return hybrid.PerSecond(rates[key[0]-'a']).WithBurst(1 + int64(rates[0]))
				}}
				all := processes(t, size, store, c)
				stop := make(chan struct{})
				var wait sync.WaitGroup
				for _, l := range all { // requests of single keys
					for _, key := range keys {
						pause := time.Duration(float64(time.Second) / rates[key[0]-'a'] * 2 * float64(size))
						r := rand.New(rand.NewPCG(random.Uint64(), 1))
						wait.Go(func() {
							for {
								select {
								case <-stop:
									return
								case <-time.After(time.Duration(r.ExpFloat64() * float64(pause))):
									l.Allow(key)
								}
							}
						})
					}
				}
				for range longform.Of(40, 100) {
					done := make(chan error, 1)
					go func() { done <- all[0].WaitAll(ctx, one(keys...)...) }()
					free := time.Time{} // since when all have a token
					for waiting := true; waiting; {
						select {
						case err := <-done:
							if err != nil {
								t.Error(err)
							}
							waiting = false
						case <-time.After(time.Millisecond):
							now := time.Now()
							if min(memory.Pool("a"), memory.Pool("b"), memory.Pool("c")) < 1 {
								free = time.Time{}
							} else if free.IsZero() {
								free = now
							} else {
								worst = max(worst, now.Sub(free))
							}
						}
					}
				}
				close(stop)
				wait.Wait()
			})
		}
		t.Logf("%d processes: missed for %v, at most %v", size, worst, most)
		if worst > most {
			t.Errorf("%d processes: keys that have tokens were missed for %v, at most %v", size, worst, most)
		}
	}
}

// TestWaitAllIsNotStarved: both keys are always wanted by callers that wait for one of them.
// Requests for both go on nevertheless, in any order of the names.
func TestWaitAllIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(2*time.Millisecond), hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{
			"slow": hybrid.PerSecond(2).WithBurst(2), "fast": hybrid.PerSecond(50).WithBurst(5), "other": hybrid.PerSecond(10).WithBurst(1),
		})})
		stop, cancel := context.WithCancel(ctx)
		var wait sync.WaitGroup
		for _, key := range []string{"slow", "fast", "other"} {
			for range 4 {
				wait.Go(func() {
					for l.Wait(stop, key, 1) == nil {
					}
				})
			}
		}
		longest := time.Duration(0)
		var mu sync.Mutex
		var several sync.WaitGroup
		for i := range 6 {
			several.Go(func() {
				random := rand.New(rand.NewPCG(uint64(i), 3))
				for range 10 {
					keys := []string{"slow", "fast", "other"}
					random.Shuffle(3, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
					began := time.Now()
					if err := l.WaitAll(ctx, one(keys[:2+i%2]...)...); err != nil {
						t.Error(err)
					}
					mu.Lock()
					longest = max(longest, time.Since(began))
					mu.Unlock()
				}
			})
		}
		several.Wait()
		cancel()
		wait.Wait()
		t.Logf("longest wait %v", longest)
		if longest > 15*time.Second {
			t.Errorf("a request for several keys waited %v", longest)
		}
	})
}

// TestSeveralKinds: a quota and buckets are asked at once, and what a quota has reserved comes
// back to its window.
func TestSeveralKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		c := hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{
			"hour": hybrid.Quota(100, time.Hour), "second": hybrid.Per(100, year),
		})}
		l := newLimiter(t, store, c)
		all, err := l.ReserveAll(ctx, hybrid.Ask{Key: "hour", N: 60}, hybrid.Ask{Key: "second", N: 10})
		if err != nil || !all.Allowed {
			t.Fatal(all, err)
		}
		time.Sleep(time.Second)
		if err := all.Reserved[0].Settle(25); err != nil || all.Reserved[1].Cancel() != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		for range 3 {
			if d, err := l.TakeAll(ctx, hybrid.Ask{Key: "second", N: 1}, hybrid.Ask{Key: "hour", N: 25}); err != nil || !d.Allowed {
				t.Errorf("%+v, %v", d, err)
			}
			time.Sleep(time.Second)
		}
		d, err := l.TakeAll(ctx, one("second", "hour")...)
		if err != nil || d.Allowed || d.Denied != 1 || d.Each[1].RetryAfter < 59*time.Minute {
			t.Errorf("%+v, %v", d, err)
		}
		time.Sleep(time.Second)
		if n := left(t, store, c, "second"); n != 97 {
			t.Errorf("%d are left of 97", n)
		}
		if err := l.Charge("hour", 50); err != nil {
			t.Error(err)
		}
		time.Sleep(61 * time.Minute) // what was charged counts in its window
		if d, err := l.TakeAll(ctx, hybrid.Ask{Key: "hour", N: 100}); err != nil || !d.Allowed {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestAllowAllWarm: requests that are decided without a lock take what they say, of each key.
func TestAllowAllWarm(t *testing.T) {
	longform.None(t)
	long(t)
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{
			"scarce": hybrid.PerHour(100).WithBurst(100_001), "plenty": hybrid.PerSecond(300).WithBurst(1e9),
			"none": hybrid.Blocked,
		})})
		for range 500 { // until both are hot
			for range 20 {
				l.AllowAll("scarce", "plenty")
			}
			time.Sleep(100 * time.Microsecond)
		}
		if s := l.Stats(); s.Lease.Admitted < 5000 {
			t.Fatalf("by leases %d, by the ledger %d", s.Lease.Admitted, s.Ledger.Admitted)
		}
		left := func(key string) int64 {
			d, err := l.Peek(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			return d.Remaining
		}
		began, scarce, plenty, all := time.Now(), left("scarce"), left("plenty"), int64(0)
		taken := func() int64 {
			flowed := 300 * time.Since(began).Seconds()
			return plenty + int64(math.Round(flowed)) - left("plenty")
		}
		for denied := 0; denied < 20; {
			if l.AllowAll("scarce", "scarce", "plenty") {
				all++
			} else {
				denied++
				time.Sleep(100 * time.Millisecond) // its lease may come back
			}
		}
		if left("scarce") != scarce%2 || taken() != all || all != scarce/2 {
			t.Errorf("%d times two of %d: %d are left, and %d of the other key taken", all, scarce,
				left("scarce"), taken())
		}
		if l.AllowAll("plenty", "none") || l.AllowAll() || taken() != all {
			t.Error("allowed, or something was taken")
		}
	})
}

// TestAllowAllRenews: a batch is renewed before it is used up, though AllowAll alone asks for it,
// and too seldom for the key to be hot.
func TestAllowAllRenews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(10*time.Millisecond), hybrid.Config{
			Limit: hybrid.PerSecond(1000), Policy: hybrid.Policy{Mode: lease.Batches, Batch: 50},
		})
		waited := 0
		for i := range 5000 {
			start := time.Now()
			if !l.AllowAll("user", "tenant") {
				t.Fatalf("request %d was denied", i)
			}
			if time.Since(start) > 0 {
				waited++
			}
			time.Sleep(3 * time.Millisecond)
		}
		if waited > 3 {
			t.Errorf("%d requests of 5000 waited for the store", waited)
		}
	})
}
