package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// eachStore runs a test in real time with the store in this process, and with a
// real Redis. Its limits should be so low that the time it takes is nothing.
func eachStore(t *testing.T, test func(t *testing.T, store hybrid.Store)) {
	t.Run("memory", func(t *testing.T) { test(t, hybrid.NewMemory()) })
	t.Run("redis", func(t *testing.T) { test(t, remote.New(redistest.Start(t).Client())) })
}

// patient is a timeout that no busy machine exceeds.
const patient = 30 * time.Second

var oddKeys = []string{
	" ", "\x00", "\x00\xff\xfe", "{}", "{a}\n{b}", "}{", "{{user}}:1", "a\r\nSET x 1\r\n",
	"ключ", "%s%d", "*", "#", "@", "=",
	strings.Repeat("k", 64<<10), strings.Repeat("k", 64<<10-1) + "l",
	strings.Repeat("\xff{\n", 20<<10),
}

// TestEmptyKey: no verb takes an empty key, which is one that somebody forgot. The error says so.
func TestEmptyKey(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{LimitFor: func(key string) hybrid.Limit {
		if key == "" {
			t.Error("LimitFor is asked for an empty key")
		}
		return hybrid.PerHour(100)
	}})
	for _, v := range verbs {
		allowed, err := v.ask(ctx, l, "", 1)
		if allowed || !v.bools && (err == nil || !strings.HasPrefix(err.Error(), "hybrid: ") ||
			!strings.Contains(err.Error(), `ey "" is empty`)) {
			t.Errorf("%s: %v, %v", v.name, allowed, err)
		}
		several := strings.HasSuffix(v.name, "All") && !v.bools
		if several && !strings.Contains(fmt.Sprint(err), "Ask[1].Key ") {
			t.Errorf("%s does not say which Ask: %v", v.name, err)
		}
	}
	_, err := l.Acquire(ctx, "", 1)
	if err == nil || !strings.Contains(err.Error(), `key "" is empty`) {
		t.Errorf("Acquire: %v", err)
	}
	if l.Key("").Allow() {
		t.Error("a Key that is empty was admitted")
	}
}

// TestOddKeys: any bytes are a key, each of its own, and no error repeats a
// long one.
func TestOddKeys(t *testing.T) {
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		config := hybrid.Config{Limit: hybrid.PerHour(2), Timeout: patient}
		a, b := newLimiter(t, store, config), newLimiter(t, store, config)
		for _, key := range oddKeys {
			if !a.Allow(key) || !b.Key(key).Allow() || a.Allow(key) || b.Key(key).Allow() {
				t.Errorf("key %.20q: not two requests of four", key)
			}
			for _, n := range []int{-1, 3} {
				if _, err := a.Take(ctx, key, n); err == nil || len(err.Error()) > 700 {
					t.Errorf("key %.20q: error of %d bytes", key, len(fmt.Sprint(err)))
				}
			}
		}
	})
}

// TestOddNumbers: n that makes no sense is refused at once with an error that
// says so, and takes nothing from the bucket.
func TestOddNumbers(t *testing.T) {
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		for _, limit := range []hybrid.Limit{hybrid.PerHour(5), hybrid.PerHour(1e9).WithBurst(1 << 20)} {
			l := newLimiter(t, store, hybrid.Config{Limit: limit, Timeout: patient})
			name := limit.String()
			key := l.Key(name)
			refused := func(n int, want string, target error) {
				t.Helper()
				calls := l.Stats().Exchanges
				_, err1 := l.Take(ctx, name, n)
				_, err2 := key.Take(ctx, n)
				for _, err := range []error{err1, err2, l.Wait(ctx, name, n), key.Wait(ctx, n)} {
					if err == nil || !strings.Contains(err.Error(), want) ||
						target != nil && !errors.Is(err, target) {
						t.Errorf("n %d at %v: %v, does not say %q", n, limit, err, want)
					}
				}
				if l.AllowN(name, n) || key.AllowN(n) {
					t.Errorf("n %d at %v: allowed", n, limit)
				}
				// One to see whether the limit was raised.
				if more := l.Stats().Exchanges - calls; more > 1 {
					t.Errorf("n %d at %v: %d exchanges", n, limit, more)
				}
			}
			for range 2 { // for a key that is new, and for one that is known
				for _, n := range []int{-1, math.MinInt32, math.MinInt} {
					refused(n, fmt.Sprintf("hybrid: n %d is not at least 0", n), nil)
				}
				for _, n := range []int{int(limit.Burst) + 1, math.MaxInt/1024 + 2, math.MaxInt - 1, math.MaxInt} {
					refused(n, fmt.Sprintf("hybrid: take %d of %q, limit %v: ", n, name, limit),
						hybrid.ErrExceedsBurst)
				}
				l.Take(ctx, name+" of another", 1)
			}
			if d, err := l.Take(ctx, name, int(limit.Burst)); err != nil || !d.Allowed {
				t.Errorf("all of %v: %+v, %v", limit, d, err)
			}
			if d, err := l.Take(ctx, name, int(limit.Burst)); err != nil || d.Allowed {
				t.Errorf("all of %v again: %+v, %v", limit, d, err)
			}
		}
	})
}

// badLimits and what their errors name.
var badLimits = []struct {
	limit hybrid.Limit
	want  string
}{
	{hybrid.Limit{}, "Rate 0 is"},
	{hybrid.Limit{Rate: math.NaN(), Burst: 1}, "Rate NaN is"},
	{hybrid.Limit{Rate: math.Inf(1), Burst: 1}, "Rate +Inf is"},
	{hybrid.Limit{Rate: -5, Burst: 1}, "Rate -5 is"},
	{hybrid.Limit{Rate: 1e10, Burst: 1}, "Rate 1e+10 is"},
	{hybrid.Limit{Rate: 1}, "Burst 0 is"},
	{hybrid.Limit{Rate: 1, Burst: math.MinInt64}, "Burst -9223372036854775808 is"},
	{hybrid.Limit{Rate: 1, Burst: math.MaxInt64}, "Burst 9223372036854775807 is"},
	{hybrid.Limit{Rate: 1e-300, Burst: 1}, "Rate 1e-300 fills Burst 1 in more than"},
	{hybrid.PerSecond(1e-10), "Rate 1e-10 fills Burst 1 in more than"},
	{hybrid.Per(1, 0), "Rate +Inf is"},
	{hybrid.Per(math.NaN(), time.Second), "Rate NaN is"},
}

// TestBadLimits: what LimitFor gets wrong is the error of each request of that
// key, and of no other; a key that has had a good limit keeps it.
func TestBadLimits(t *testing.T) {
	longform.None(t)
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		for i, c := range badLimits {
			good := hybrid.PerHour(3)
			var current atomic.Pointer[hybrid.Limit]
			current.Store(&c.limit)
			core, logs := observer.New(zap.WarnLevel)
			policy := hybrid.Policy{MaxRefresh: 20 * time.Millisecond} // for so long an invalid limit stays
			l := newLimiter(t, store, hybrid.Config{Timeout: patient, Policy: policy, Logger: zap.New(core), LimitFor: func(key string) hybrid.Limit {
				if key == "other" {
					return hybrid.PerHour(1000)
				}
				return *current.Load()
			}})
			key := fmt.Sprint("bad ", i)
			_, err := l.Take(ctx, key, 1)
			for _, err := range []error{err, l.Wait(ctx, key, 1), l.Key(key).Wait(ctx, 1)} {
				if !errors.Is(err, hybrid.ErrInvalidLimit) || !strings.Contains(err.Error(), fmt.Sprintf("hybrid: limit of %q: lease: invalid limit: %s", key, c.want)) {
					t.Errorf("%v: %v, does not say %q", c.limit, err, c.want)
				}
			}
			if l.Allow(key) || !l.Allow("other") {
				t.Errorf("%v: allows what is wrong, or stops others", c.limit)
			}
			if s := l.Stats(); s.Keys != 1 {
				t.Errorf("%v: %d keys", c.limit, s.Keys)
			}

			current.Store(&good)
			for start := time.Now(); !l.Allow(key); runtime.Gosched() {
				if time.Since(start) > patient {
					t.Fatalf("%v: denied after the limit was put right", c.limit)
				}
			}
			current.Store(&c.limit)
			admitted := 0
			for range 10 {
				d, err := l.Take(ctx, key, 1)
				if err != nil || d.Limit != good {
					t.Fatalf("%v after %v: %+v, %v", c.limit, good, d, err)
				}
				if d.Allowed {
					admitted++
				}
			}
			// One who read the limit before the change may report after one who did later.
			if admitted != 2 || logs.Len() > 3 {
				t.Errorf("%v after %v: %d of the 2 that were left admitted, %d logs", c.limit, good,
					admitted, logs.Len())
			}
		}
	})
}

// TestOddContexts: a deadline that has passed, and one without end.
func TestOddContexts(t *testing.T) {
	eachStore(t, func(t *testing.T, store hybrid.Store) {
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(1), Timeout: patient})
		past, cancel := context.WithTimeout(ctx, -time.Second)
		defer cancel()
		if _, err := l.Take(past, "k", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("take: %v", err)
		}
		if err := l.Wait(past, "k", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait: %v", err)
		}
		if err := l.Wait(ctx, "k", 1); err != nil {
			t.Errorf("the token that nobody took: %v", err)
		}
		near, cancel := context.WithTimeout(ctx, time.Minute) // and the next one comes in an hour
		defer cancel()
		if err := l.Wait(near, "k", 1); !errors.Is(err, context.DeadlineExceeded) ||
			near.Err() != nil {
			t.Errorf("wait that cannot end well: %v", err)
		}
	})
}

// FuzzKeys: any two keys have a bucket each, and any n is refused or taken from one.
func FuzzKeys(f *testing.F) {
	for i, key := range oddKeys {
		f.Add(key, oddKeys[len(oddKeys)-1-i], i-2)
	}
	rdb := redistest.Start(f).Client()
	runs := 0
	f.Fuzz(func(t *testing.T, key, other string, n int) {
		if key == "" || other == "" {
			return // an error, whatever n is: TestEmptyKey
		}
		runs++
		for _, store := range []hybrid.Store{hybrid.NewMemory(), remote.New(rdb, remote.WithPrefix(fmt.Sprint(runs, ":")))} {
			l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerHour(3), Timeout: patient})
			d, err := l.Take(ctx, key, n)
			left := 3
			switch {
			case n < 0 && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("hybrid: n %d is not at least 0", n))),
				n > 3 && !errors.Is(err, hybrid.ErrExceedsBurst),
				n >= 0 && n <= 3 && (err != nil || !d.Allowed):
				t.Fatalf("%q, %d: %+v, %v", key, n, d, err)
			case err == nil:
				left -= n
			case len(err.Error()) > 700:
				t.Fatalf("%d bytes of error", len(err.Error()))
			}
			for i := range 4 {
				if got := l.Allow(key); got != (i < left) {
					t.Fatalf("%q, request %d after %d of 3: %v", key, i, n, got)
				}
			}
			if got := l.AllowN(other, 3); got != (other != key) {
				t.Fatalf("%q after %q: %v", other, key, got)
			}
			if err := l.Close(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if err := rdb.Del(ctx, fmt.Sprint(runs, ":", key), fmt.Sprint(runs, ":", other)).Err(); err != nil {
			t.Fatal(err)
		}
	})
}
