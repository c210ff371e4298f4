package hybrid_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A verb is a method of Limiter that names a key. ask calls it for n tokens, 1 where it has
// no n, and reports what it says.
type verb struct {
	name  string
	bools bool // it says no more than yes or no
	fixed bool // it has no n
	ask   func(ctx context.Context, l *hybrid.Limiter, key string, n int) (allowed bool, err error)
	takes bool // tokens, if it is allowed
}

var verbs = []verb{
	{"Allow", true, true, func(_ context.Context, l *hybrid.Limiter, key string, _ int) (bool, error) {
		return l.Allow(key), nil
	}, true},
	{"AllowN", true, false,
		func(_ context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			return l.AllowN(key, n), nil
		}, true},
	{"Take", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			d, err := l.Take(ctx, key, n)
			return d.Allowed, err
		}, true},
	{"TakeUpTo", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			_, d, err := l.TakeUpTo(ctx, key, n)
			return d.Allowed, err
		}, true},
	{"Try", false, false, func(_ context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
		d, err := l.Try(key, n)
		for range 10 { // a round trip later the answer is there
			if !errors.Is(err, hybrid.ErrPending) {
				break
			}
			time.Sleep(10 * time.Millisecond)
			d, err = l.Try(key, n)
		}
		return d.Allowed, err
	}, true},
	{"Wait", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			err := l.Wait(ctx, key, n)
			return err == nil, err
		}, true},
	{"AllowAll", true, true,
		func(_ context.Context, l *hybrid.Limiter, key string, _ int) (bool, error) {
			return l.AllowAll(key, "free"), nil
		}, true},
	{"TakeFirst", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			_, d, err := l.TakeFirst(ctx, hybrid.Ask{Key: key, N: n})
			return d.Allowed, err
		}, true},
	{"TakeAll", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			d, err := l.TakeAll(ctx, hybrid.Ask{Key: "free", N: 1}, hybrid.Ask{Key: key, N: n})
			return d.Allowed, err
		}, true},
	{"WaitAll", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			err := l.WaitAll(ctx, hybrid.Ask{Key: "free", N: 1}, hybrid.Ask{Key: key, N: n})
			return err == nil, err
		}, true},
	{"Reserve", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			r, err := l.Reserve(ctx, key, n)
			if err != nil || !r.Allowed {
				return false, err
			}
			return true, r.Settle(n)
		}, true},
	{"ReserveAll", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			r, err := l.ReserveAll(ctx, hybrid.Ask{Key: "free", N: 1}, hybrid.Ask{Key: key, N: n})
			if err != nil || !r.Allowed {
				return false, err
			}
			return true, r.Reserved[1].Settle(n)
		}, true},
	{"WaitReserve", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			r, err := l.WaitReserve(ctx, key, n)
			if err != nil {
				return false, err
			}
			return r.Allowed, r.Settle(n)
		}, true},
	{"WaitReserveAll", false, false,
		func(ctx context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			r, err := l.WaitReserveAll(ctx, hybrid.Ask{Key: "free", N: 1}, hybrid.Ask{Key: key, N: n})
			if err != nil {
				return false, err
			}
			return r.Allowed, r.Settle(n)
		}, true},
	{"Charge", false, false,
		func(_ context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			err := l.Charge(key, n)
			return err == nil, err
		}, true},
	{"Refund", false, false,
		func(_ context.Context, l *hybrid.Limiter, key string, n int) (bool, error) {
			_, err := l.Refund(key, n)
			return err == nil, err
		}, false},
	{"Peek", false, true,
		func(ctx context.Context, l *hybrid.Limiter, key string, _ int) (bool, error) {
			d, err := l.Peek(ctx, key)
			return d.Allowed, err
		}, false},
	{"Reset", false, true,
		func(ctx context.Context, l *hybrid.Limiter, key string, _ int) (bool, error) {
			err := l.Reset(ctx, key)
			return err == nil, err
		}, false},
}

// neverDenied reports whether a verb does not ask whether it may.
func neverDenied(v verb) bool { return slices.Contains([]string{"Charge", "Refund", "Reset"}, v.name) }

// TestVerbsAreAll: a method of Limiter is either in the table or asks for no key.
func TestVerbsAreAll(t *testing.T) {
	var want, got []string
	for _, v := range verbs {
		want = append(want, v.name)
	}
	exported := reflect.TypeFor[*hybrid.Limiter]()
	for i := range exported.NumMethod() {
		m := exported.Method(i)
		asks := m.Type.NumIn() > 1 && m.Type.In(m.Type.NumIn()-1) == reflect.TypeFor[[]hybrid.Ask]()
		for in := range m.Type.Ins() {
			asks = asks || in.Kind() == reflect.String || in == reflect.TypeFor[[]string]()
		}
		if _, handle := reflect.TypeFor[*hybrid.Key]().MethodByName(m.Name); handle && !asks {
			t.Errorf("Key.%s has no verb of Limiter", m.Name)
		}
		if m.Name == "Acquire" {
			continue // is for slots, and they for no other verb: TestSlotsBadInput
		}
		if asks && m.Name != "Key" && m.Name != "As" && m.Name != "TryOfReset" { // handles, and one of these tests
			got = append(got, m.Name)
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, got) {
		t.Errorf("the table has %v, Limiter has %v", want, got)
	}
}

// TestKeyHasAll: a Key has each verb of Limiter that names one key, with the same arguments and
// results beside the key.
func TestKeyHasAll(t *testing.T) {
	limiter, key := reflect.TypeFor[*hybrid.Limiter](), reflect.TypeFor[*hybrid.Key]()
	for m := range limiter.Methods() {
		var in []reflect.Type
		named := false
		for x := range m.Type.Ins() {
			if x.Kind() == reflect.String {
				named = true
			} else if x != limiter {
				in = append(in, x)
			}
		}
		if !named || m.Name == "Key" || m.Name == "As" || m.Name == "TryOfReset" { // handles, and one of these tests
			continue
		}
		own, ok := key.MethodByName(m.Name)
		if !ok {
			t.Errorf("Key has no %s", m.Name)
			continue
		}
		if got := slices.Collect(own.Type.Ins())[1:]; !slices.Equal(got, in) ||
			!slices.Equal(slices.Collect(own.Type.Outs()), slices.Collect(m.Type.Outs())) {
			t.Errorf("Key.%s is %v, that of Limiter %v", m.Name, own.Type, m.Type)
		}
	}
}

// TestKeyOfCosts: costs that are known afterwards count on the key of a Key.
func TestKeyOfCosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Sliding(100, hybrid.Hour)}
		key := newLimiter(t, store, c).Key("k")
		expect := func(want int64, what string) {
			t.Helper()
			if d, err := key.Peek(ctx); err != nil || d.Remaining != want {
				t.Errorf("%s: %d are left, not %d, %v", what, d.Remaining, want, err)
			}
		}
		r, err := key.Reserve(ctx, 40)
		if err != nil || !r.Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
		expect(60, "reserved")
		if err := r.Settle(10); err != nil {
			t.Error(err)
		}
		expect(90, "settled")
		if err := key.Charge(20); err != nil {
			t.Error(err)
		}
		expect(70, "charged")
		if back, err := key.Refund(5); err != nil || back != 5 {
			t.Error(back, err)
		}
		expect(75, "refunded")
	})
}

// TestVerbsAndKinds: every verb makes sense for every kind of limit but slots, says what it says of
// the others, and takes what it was asked for.
func TestVerbsAndKinds(t *testing.T) {
	for _, kind := range []struct {
		name     string
		limit    hybrid.Limit
		allows   bool
		counts   bool // tokens that are taken are missing then
		exceeded bool // more than the Burst of 10 is an error
	}{
		{"bucket", hybrid.Per(10, year), true, true, true},
		{"quota", hybrid.Quota(10, 3650*hybrid.Day), true, true, true},
		{"sliding window", hybrid.Sliding(10, 3650*hybrid.Day), true, true, true},
		{"unlimited", hybrid.Unlimited, true, false, false},
		{"blocked", hybrid.Blocked, false, false, false},
	} {
		for _, v := range verbs {
			t.Run(v.name+" of a "+kind.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					limits := map[string]hybrid.Limit{"k": kind.limit, "free": hybrid.Unlimited}
					c := hybrid.Config{LimitFor: limitsOf(limits)}
					store := hybrid.NewMemory()
					l := newLimiter(t, store, c)
					n := int64(3)
					if v.fixed {
						n = 1
					}
					waits := strings.HasPrefix(v.name, "Wait")
					never := neverDenied(v)
					allowed, err := v.ask(ctx, l, "k", int(n))
					if allowed != (kind.allows || never) || (err != nil) != (waits && !kind.allows) {
						t.Errorf("%v, %v", allowed, err)
					}
					if waits && !kind.allows && !errors.Is(err, hybrid.ErrExceedsBurst) {
						t.Errorf("a wait that never ends: %v", err)
					}
					time.Sleep(time.Second)
					if !v.takes {
						n = 0
					}
					if got := left(t, store, c, "k"); kind.counts && got != 10-n {
						t.Errorf("%d are left of 10, after %d", got, n)
					}
					if v.fixed {
						return
					}
					_, err = v.ask(ctx, l, "k", 11)
					if !v.bools && !waits && errors.Is(err, hybrid.ErrExceedsBurst) != (kind.exceeded && !never) {
						t.Errorf("11 of 10: %v", err)
					}
					if allowed, err = v.ask(ctx, l, "k", -1); allowed ||
						!v.bools && (err == nil || !strings.Contains(err.Error(), "-1")) {
						t.Errorf("-1: %v, %v", allowed, err)
					}
				})
			})
		}
	}
}

// TestVerbsOfTwoKinds: while others go by a quota, a process that declares a bucket for the key
// is denied, whatever it asks, and costs the quota nothing. When they have gone the bucket
// counts. What was used of the quota counts in it, and what was charged to it meanwhile.
func TestVerbsOfTwoKinds(t *testing.T) {
	quota, bucket := hybrid.Quota(100_000, 3650*hybrid.Day), hybrid.Per(10_000, year)
	for _, v := range verbs {
		if v.name == "Reset" {
			continue // it makes the key anew, of the kind that is declared next
		}
		t.Run(v.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				first := newLimiter(t, store, hybrid.Config{Limit: quota})
				limits := map[string]hybrid.Limit{"k": bucket, "free": hybrid.Unlimited}
				second := newLimiter(t, store, hybrid.Config{LimitFor: limitsOf(limits)})
				if !first.Allow("k") {
					t.Fatal("denied")
				}
				busy, stop := context.WithCancel(ctx)
				var others sync.WaitGroup
				used := int64(1)
				others.Go(func() {
					for ; busy.Err() == nil; used++ {
						if d, err := first.Take(ctx, "k", 1); err != nil || !d.Allowed || d.Limit != quota {
							t.Errorf("the quota in force: %+v, %v", d, err)
						}
						time.Sleep(20 * time.Millisecond)
					}
				})
				for range 5 {
					soon, cancel := context.WithTimeout(ctx, time.Second)
					allowed, err := v.ask(soon, second, "k", 2)
					cancel()
					waits := strings.HasPrefix(v.name, "Wait")
					if allowed != neverDenied(v) || waits != errors.Is(err, context.DeadlineExceeded) ||
						!waits && err != nil {
						t.Errorf("another kind is in force: %v, %v", allowed, err)
					}
					time.Sleep(time.Second)
				}
				stop()
				others.Wait()
				if d, err := first.Peek(ctx, "k"); err != nil || d.Remaining != quota.Burst-used {
					t.Errorf("%d of the quota are used: %+v, %v", used, d, err)
				}
				if err := first.Close(ctx); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // no records are left
				if trips := store.trips.Load(); trips > 2000 {
					t.Errorf("%d round trips in 75 s", trips)
				}
				want := bucket.Burst - used
				if v.name == "Charge" {
					want -= 10
				}
				if d, err := second.Peek(ctx, "k"); err != nil || d.Remaining != want || d.Limit != bucket {
					t.Errorf("the bucket, when the quota has gone: %+v, %v", d, err)
				}
			})
		})
	}
}
