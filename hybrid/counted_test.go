package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// TestLimitersOfOneProcess: a process counts once, however many Limiters it has, and on
// however many stores. In an outage each of their keys has its whole rate.
func TestLimitersOfOneProcess(t *testing.T) {
	for _, limiters := range []int{1, 3, 10} {
		t.Run(fmt.Sprint(limiters), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stores := []*line{remoteLine(time.Millisecond), remoteLine(time.Millisecond)}
				type limited struct {
					*hybrid.Limiter
					key string
				}
				var all []limited
				for range 2 {
					process := hybrid.NewProcess()
					for i := range limiters {
						l := newLimiter(t, stores[i%2], hybrid.Config{
							Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond,
							Process: process, Namespace: fmt.Sprint("n", i%4),
						})
						all = append(all, limited{l, fmt.Sprint("k", i)})
					}
				}
				run := func(d time.Duration) map[string]int {
					admitted := map[string]int{}
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
						for _, l := range all {
							if l.Allow(l.key) {
								admitted[l.key]++
							}
						}
					}
					return admitted
				}
				run(20 * time.Second)
				for _, s := range stores {
					if n := s.census.Load(); n > 2*6 {
						t.Errorf("the census was taken %d times by 2 processes in 20 s", n)
					}
					s.cut.Store(true)
				}
				run(2 * time.Second)
				for key, n := range run(10 * time.Second) {
					if n < 980 || n > 1002 {
						t.Errorf("%d admitted of %s in 10 s of an outage at 100/s", n, key)
					}
				}
			})
		})
	}
}

// holders notes how many holders of a key the store has told.
type holders struct {
	hybrid.Store
	key string

	mu   sync.Mutex
	most int
}

func (h *holders) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	h.Store.Exchange(ctx, calls)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range calls {
		if c.Key == h.key {
			h.most = max(h.most, c.Reply.Holders)
		}
	}
}

// told is the most that it has told.
func (h *holders) told() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.most
}

// TestHotKeyBesideFullTable: a key for which the table has no room, asked for all the time,
// is one holder at its ledger, is admitted at its rate, and makes nobody believe in more
// processes.
func TestHotKeyBesideFullTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &holders{Store: hybrid.NewMemory(), key: "hot"}
		config := hybrid.Config{Limit: hybrid.PerSecond(1000), Timeout: 50 * time.Millisecond}
		other := newLimiter(t, store, config)
		config.MaxKeys = 1
		l := newLimiter(t, store, config)
		var mu sync.Mutex
		admitted, requests := 0, uint64(0)
		var errs []error
		var wg sync.WaitGroup
		const d = 5 * time.Second
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second / 2000) {
			requests += 2
			l.Allow("in the table")
			wg.Go(func() {
				d, err := l.Take(ctx, "hot", 1)
				mu.Lock()
				defer mu.Unlock()
				if d.Allowed {
					admitted++
				}
				if err != nil {
					errs = append(errs, err)
				}
			})
			other.Allow("theirs")
		}
		other.Allow("hot")
		wg.Wait()
		if len(errs) > 0 {
			t.Errorf("%d requests have no verdict: %v", len(errs), errs[0])
		}
		if told := store.told(); told > 2 {
			t.Errorf("%d holders of a key that two processes use", told)
		}
		if most := 1000 + 1000*d.Seconds(); float64(admitted) < most*0.97 ||
			float64(admitted) > most+10 {
			t.Errorf("%d admitted in %v at 1000/s", admitted, d)
		}
		if s := l.Stats(); s.Lease.Admitted+s.Lease.Denied+s.Ledger.Admitted+s.Ledger.Denied != requests {
			t.Errorf("of %d requests are counted: %+v", requests, s)
		}
	})
}

// TestTakeUpToLater: who gets nothing is told when there will be one token, and gets it then.
func TestTakeUpToLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(10)})
		l.AllowN("k", 10)
		n, d, err := l.TakeUpTo(ctx, "k", 10)
		if n != 0 || d.RetryAfter < 95*time.Millisecond || d.RetryAfter > 105*time.Millisecond || err != nil {
			t.Errorf("%d of an empty bucket, again after %v, %v", n, d.RetryAfter, err)
		}
		time.Sleep(d.RetryAfter)
		if n, d, err = l.TakeUpTo(ctx, "k", 10); n != 1 || err != nil {
			t.Errorf("then %d, %+v, %v", n, d, err)
		}
	})
}

// TestTakeUpTo: a caller gets as many tokens as there are of each kind of limit, also of those that
// another process has told of, and callers together get no more than the limit.
func TestTakeUpTo(t *testing.T) {
	for _, limit := range []hybrid.Limit{
		hybrid.Per(100, year), hybrid.Quota(100, 3650*hybrid.Day), hybrid.Sliding(100, hybrid.Day),
	} {
		synctest.Test(t, func(t *testing.T) {
			store := hybrid.NewMemory()
			first := newLimiter(t, store, hybrid.Config{Limit: limit})
			second := newLimiter(t, store, hybrid.Config{Limit: limit, Process: hybrid.NewProcess()})
			if d, err := first.Take(ctx, "k", 30); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
			time.Sleep(time.Minute)
			if n, d, err := second.TakeUpTo(ctx, "k", 50); n != 50 || !d.Allowed || err != nil {
				t.Errorf("%v: 50 of 70: %d, %+v, %v", limit, n, d, err)
			}
			time.Sleep(time.Minute)
			if n, d, err := first.TakeUpTo(ctx, "k", 50); n != 20 || !d.Allowed || err != nil {
				t.Errorf("%v: 50 of 20: %d, %+v, %v", limit, n, d, err)
			}
			if n, d, err := first.TakeUpTo(ctx, "k", 50); n != 0 || d.Allowed || err != nil {
				t.Errorf("%v: 50 of 0: %d, %+v, %v", limit, n, d, err)
			}
			if n, d, err := first.TakeUpTo(ctx, "k", 0); n != 0 || !d.Allowed || err != nil {
				t.Errorf("%v: 0 of 0: %d, %+v, %v", limit, n, d, err)
			}
			if n, _, err := first.TakeUpTo(ctx, "new", 101); n != 0 || !errors.Is(err, hybrid.ErrExceedsBurst) {
				t.Errorf("%v: 101 of a Burst of 100: %d, %v", limit, n, err)
			}
			var all sync.WaitGroup
			var got atomic.Int64
			for i := range 20 {
				all.Go(func() {
					n, _, err := []*hybrid.Limiter{first, second}[i%2].TakeUpTo(ctx, "other", 10)
					if got.Add(int64(n)); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if got.Load() > 100 || got.Load() < 50 {
				t.Errorf("%v: 20 callers got %d of 100", limit, got.Load())
			}
		})
	}
}

// TestTakeFirst: callers of two processes take of the first limit until it denies, and then of the
// next; what they get together is all that both have, and of no key more. A limit that can never
// have the tokens is passed over.
func TestTakeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(time.Millisecond)
		all := processes(t, 2, store, hybrid.Config{LimitFor: limitsOf(map[string]hybrid.Limit{
			"small": hybrid.Per(2, year), "free": hybrid.Quota(30, 3650*hybrid.Day),
			"credits": hybrid.Per(60, year), "calls": hybrid.Slots(3), "shut": hybrid.Blocked,
		})})
		asks := []hybrid.Ask{{Key: "small", N: 3}, {Key: "free", N: 3}, {Key: "credits", N: 3}}
		var got [3]int
		for i := range 40 {
			first, d, err := all[i%2].TakeFirst(ctx, asks...)
			switch {
			case err != nil || d.Allowed != (first >= 0):
				t.Fatal(first, d, err)
			case first >= 0:
				got[first] += 3
			case d.Limit != hybrid.Per(60, year): // which has tokens sooner
				t.Errorf("denied with %+v", d)
			}
			time.Sleep(300 * time.Millisecond) // the other process gets what is handed back
		}
		if got != [3]int{0, 30, 60} {
			t.Errorf("%v tokens of 0, 30 and 60", got)
		}
		for _, c := range []struct {
			asks []hybrid.Ask
			want error
			says string
		}{
			{nil, nil, "take first of several keys: 0 Asks"},
			{[]hybrid.Ask{{Key: "free", N: -1}}, nil, "Ask[0].N -1"},
			{asks[:1], hybrid.ErrExceedsBurst, `Ask[0]: take 3 of "small"`},
			{[]hybrid.Ask{{Key: "shut", N: 1}, {Key: "calls", N: 1}}, hybrid.ErrKind, `Ask[1]: take 1 of "calls"`},
		} {
			first, _, err := all[0].TakeFirst(ctx, c.asks...)
			if first != -1 || err == nil || c.want != nil && !errors.Is(err, c.want) ||
				!strings.Contains(err.Error(), c.says) {
				t.Errorf("%v: %d, %v", c.asks, first, err)
			}
		}
		if first, d, err := all[0].TakeFirst(ctx, hybrid.Ask{Key: "free"}); first != 0 || !d.Allowed || err != nil {
			t.Errorf("nothing of a limit without tokens: %d, %+v, %v", first, d, err)
		}
	})
}

// TestTakeFirstLooksNoFurther: LimitFor, which may be slow, is not asked for keys that are not come
// to.
func TestTakeFirstLooksNoFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var credits atomic.Int64
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{LimitFor: func(key string) hybrid.Limit {
			if key == "credits" {
				credits.Add(1)
			}
			return hybrid.Per(1, year)
		}})
		for i := range 2 {
			first, d, err := l.TakeFirst(ctx, hybrid.Ask{Key: "free", N: 1}, hybrid.Ask{Key: "credits", N: 1})
			if first != i || !d.Allowed || err != nil || credits.Load() != int64(i) {
				t.Errorf("%d: %d, %+v, %v; LimitFor was asked %d times for credits", i, first, d, err, credits.Load())
			}
		}
	})
}
