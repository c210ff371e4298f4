package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// maxRefresh is the default of Policy.MaxRefresh, which is how often LimitFor is called
// for a key at most.
const maxRefresh = 250 * time.Millisecond

// TestLimitForPanics: a panic in the call that a request makes is that request's. One in
// a call beside the requests leaves the limit as it was, and one log line.
func TestLimitForPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var panics atomic.Bool
		core, logs := observer.New(zap.WarnLevel)
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Logger: zap.New(core),
			LimitFor: func(string) hybrid.Limit {
				if panics.Load() {
					panic("no database")
				}
				return hybrid.PerSecond(100)
			},
		})
		asks := func() (panicked any) {
			defer func() { panicked = recover() }()
			l.Allow("k")
			return nil
		}
		panics.Store(true)
		for range 2 {
			if p := asks(); p != "no database" {
				t.Fatalf("first request: panic %v", p)
			}
			time.Sleep(maxRefresh)
		}
		panics.Store(false)
		if p := asks(); p != nil {
			t.Fatal("panic of a call that does not panic", p)
		}
		panics.Store(true)
		admitted := 0
		for range 1000 {
			time.Sleep(10 * time.Millisecond)
			if l.Allow("k") {
				admitted++
			}
		}
		if admitted < 950 || logs.Len() != 1 {
			t.Errorf("%d of 1000 at the limit before, %d log lines", admitted, logs.Len())
		}
		synctest.Wait()
		if d, err := l.Take(ctx, "k", 1); err != nil || d.Limit != hybrid.PerSecond(100) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestLimitForHangs: calls that hang hold up their own keys alone, up to 63 of them. When
// 64 hang all keys keep the limits that they have, and one log line says so.
func TestLimitForHangs(t *testing.T) {
	longform.None(t)
	for _, hang := range []int{1, 63, 64} {
		synctest.Test(t, func(t *testing.T) {
			var late atomic.Bool
			release := make(chan struct{})
			core, logs := observer.New(zap.WarnLevel)
			l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
				Logger: zap.New(core),
				LimitFor: func(key string) hybrid.Limit {
					switch {
					case !late.Load():
						return hybrid.PerSecond(10)
					case key != "good":
						<-release
					}
					return hybrid.PerSecond(100)
				},
			})
			all := func() {
				var each sync.WaitGroup
				for i := range hang {
					each.Go(func() { l.Allow(fmt.Sprint("bad ", i)) })
				}
				each.Wait()
			}
			all()
			l.Allow("good")
			late.Store(true)
			time.Sleep(time.Second) // all may have another limit now
			start := time.Now()
			all() // those that hang are first
			if took := time.Since(start); took < 250*time.Millisecond || took > 260*time.Millisecond {
				t.Errorf("%d hang: requests after a pause waited for %v", hang, took)
			}
			slowest := time.Duration(0)
			for range 500 { // 15 s
				start := time.Now()
				all()
				if err := l.Wait(ctx, "good", 1); err != nil {
					t.Fatal(err)
				}
				slowest = max(slowest, time.Since(start))
				time.Sleep(30 * time.Millisecond)
			}
			d, err := l.Take(ctx, "good", 1)
			want, lines := hybrid.PerSecond(100), 0
			if hang == 64 {
				want, lines = hybrid.PerSecond(10), 1
			}
			if err != nil || d.Limit != want || logs.Len() != lines {
				t.Errorf("%d hang: limit %v, want %v, %v, %d log lines", hang, d.Limit, want, err, logs.Len())
			}
			if slowest > time.Second {
				t.Errorf("%d hang: a Wait for another key took %v", hang, slowest)
			}
			close(release)
			time.Sleep(time.Second)
			l.Allow("good")
			time.Sleep(time.Second)
			if d, err := l.Take(ctx, "good", 1); err != nil || d.Limit != hybrid.PerSecond(100) {
				t.Errorf("%d hung: %+v, %v", hang, d, err)
			}
		})
	}
}

// TestLimitForTakesLong: LimitFor is called once in MaxRefresh for each key that is in
// use, and no decision from a lease waits for it, however long it takes.
func TestLimitForTakesLong(t *testing.T) {
	for _, takes := range []time.Duration{0, time.Millisecond, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const keys = 4
			var calls, both atomic.Int64
			var under [keys]atomic.Bool
			l := newLimiter(t, remoteLine(10*time.Millisecond), hybrid.Config{
				LimitFor: func(key string) hybrid.Limit {
					calls.Add(1)
					if under[key[0]-'0'].Swap(true) {
						both.Add(1)
					}
					time.Sleep(takes)
					under[key[0]-'0'].Store(false)
					return hybrid.PerSecond(10_000)
				},
			})
			const warm, d = 10 * time.Second, 30 * time.Second
			var first sync.WaitGroup
			for k := range keys {
				first.Go(func() { l.Allow(fmt.Sprint(k)) })
			}
			first.Wait()
			waited := 0
			for start := time.Now(); time.Since(start) < d; time.Sleep(time.Millisecond) {
				for k := range keys {
					asked := time.Now()
					l.Allow(fmt.Sprint(k))
					if time.Since(asked) > 0 && time.Since(start) > warm {
						waited++
					}
				}
			}
			l.Close(ctx)
			time.Sleep(2 * takes) // calls that are under way
			if most := int64(keys * (d/maxRefresh + 2)); calls.Load() > most || calls.Load() < keys*8 {
				t.Errorf("%v each: %d calls, at most %d", takes, calls.Load(), most)
			}
			if waited > 0 || both.Load() > 0 {
				t.Errorf("%v each: %d decisions waited, %d calls at the same time", takes, waited, both.Load())
			}
		})
	}
}

// TestLimitForInARow: a LimitFor that panics, ends its goroutine or takes longer than its
// interval is not called without a pause either.
func TestLimitForInARow(t *testing.T) {
	for name, c := range map[string]struct {
		warm, try bool // a first call has returned; requests do not wait
		call      func()
	}{
		"first calls panic":                {call: func() { panic("no database") }},
		"first calls panic beside a Try":   {try: true, call: func() { panic("no database") }},
		"first calls exit beside a Try":    {try: true, call: runtime.Goexit},
		"further calls panic":              {warm: true, call: func() { panic("no database") }},
		"further calls take two intervals": {warm: true, call: func() { time.Sleep(2 * maxRefresh) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			var bad atomic.Bool
			var ended, calls, soon atomic.Int64
			l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
				SlogLogger: slog.New(slog.DiscardHandler),
				LimitFor: func(string) hybrid.Limit {
					if !bad.Load() {
						return hybrid.PerSecond(100)
					}
					calls.Add(1)
					if at := ended.Load(); at > 0 && time.Now().UnixNano()-at < int64(maxRefresh) {
						soon.Add(1)
					}
					defer func() { ended.Store(time.Now().UnixNano()) }()
					c.call()
					return hybrid.PerSecond(100)
				},
			})
			ask := func() (err error, panicked any) {
				defer func() { panicked = recover() }()
				if c.try {
					_, err = l.Try("k", 1)
				} else {
					_, err = l.Take(ctx, "k", 1)
				}
				return err, nil
			}
			if c.warm {
				ask()
			}
			bad.Store(true)
			for range 10_000 {
				err, panicked := ask()
				told := errors.Is(err, hybrid.ErrUnavailable) || errors.Is(err, hybrid.ErrPending)
				if !c.warm && panicked == nil && !told {
					t.Fatalf("%s: %v", name, err)
				}
				time.Sleep(time.Millisecond)
			}
			l.Close(ctx)
			time.Sleep(2 * maxRefresh) // a call that is under way
			if n := calls.Load(); n < 10 || soon.Load() > 0 {
				t.Errorf("%s: %d of %d calls within %v of one that ended", name, soon.Load(), n, maxRefresh)
			}
		})
	}
}

// TestLimitForFirst: many first requests of a key make one call, and wait for the timeout
// if it hangs. What it returns holds for keys without room as well.
func TestLimitForFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		release := make(chan struct{})
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			MaxKeys: 1,
			LimitFor: func(key string) hybrid.Limit {
				calls.Add(1)
				if key == "hangs" {
					<-release
				}
				if key == "invalid" {
					return hybrid.Limit{}
				}
				return hybrid.PerHour(1000)
			},
		})
		var wg sync.WaitGroup
		var failed atomic.Int64
		start := time.Now()
		for range 50 {
			wg.Go(func() {
				if _, err := l.Take(ctx, "hangs", 1); errors.Is(err, hybrid.ErrUnavailable) && time.Since(start) == 250*time.Millisecond {
					failed.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		gone, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if _, err := l.Take(gone, "hangs", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request whose context ends: %v", err)
		}
		close(release)
		wg.Wait()
		if calls.Load() != 1 || failed.Load() != 49 {
			t.Errorf("%d calls, %d of 49 without a limit after the timeout", calls.Load(), failed.Load())
		}
		calls.Store(0)
		l.Allow("room")
		start = time.Now()
		for range 1000 { // one second, no room for the second key
			l.Allow("stray")
			l.Allow("invalid")
			time.Sleep(time.Millisecond)
		}
		if n, most := calls.Load(), 1+2*int64(time.Since(start)/maxRefresh+1); n > most {
			t.Errorf("%d calls for two keys without an entry, at most %d", n, most)
		}
	})
}

// TestLimitForExits: a LimitFor that ends its goroutine, as t.FailNow does in a test, leaves
// the limit as it is, and the next calls are made.
func TestLimitForExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var exits atomic.Bool
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{LimitFor: func(string) hybrid.Limit {
			if exits.Load() {
				runtime.Goexit()
			}
			return hybrid.PerSecond(100)
		}})
		l.Allow("k")
		exits.Store(true)
		for range 100 * 250 { // a hundred calls
			l.Allow("k")
			time.Sleep(time.Millisecond)
		}
		exits.Store(false)
		first := make(chan bool)
		go func() {
			time.Sleep(maxRefresh)
			l.Try("new", 1)
			time.Sleep(maxRefresh / 2)
			_, err := l.Try("new", 1)
			first <- err == nil || !strings.Contains(err.Error(), "limit of")
		}()
		if !<-first {
			t.Error("nobody calls LimitFor any more")
		}
	})
}

// TestTryFlood: while all calls of LimitFor hang, keys that callers of Try make up take no
// more than a bounded part of the memory.
func TestTryFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			MaxKeys: 100,
			LimitFor: func(string) hybrid.Limit {
				<-release
				return hybrid.PerSecond(1000)
			},
		})
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before := heap()
		keys, most := longform.Of(100_000, 400_000), longform.Of[int64](20<<20, 40<<20)
		for i := range keys {
			if _, err := l.Try(fmt.Sprintf("made up %08d", i), 1); !errors.Is(err, hybrid.ErrPending) {
				t.Fatal(err)
			}
		}
		if grown := heap() - before; grown > most {
			t.Errorf("%d MiB for %d keys", grown>>20, keys)
		}
		close(release)
		time.Sleep(2 * maxRefresh) // until there is room for limits of new keys
		l.Try("k", 1)
		synctest.Wait()
		if _, err := l.Try("k", 1); err == nil || strings.Contains(err.Error(), "limit of") {
			t.Errorf("after calls have come back: %v", err)
		}
	})
}

// TestLimitForAfterAPause: a key is turned away while nobody asks for it. Its next request is
// denied, whatever it has on lease, and however long the pause was.
func TestLimitForAfterAPause(t *testing.T) {
	for name, verb := range map[string]struct {
		limit hybrid.Limit
		ask   func(l *hybrid.Limiter) (admitted bool)
	}{
		"Allow": {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool { return l.Allow("k") }},
		"Key":   {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool { return l.Key("k").Allow() }},
		"Wait":  {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool { return l.Wait(ctx, "k", 1) == nil }},
		"Take": {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool {
			d, err := l.Take(ctx, "k", 1)
			return err == nil && d.Allowed
		}},
		"Try": {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool {
			d, err := l.Try("k", 1)
			return err == nil && d.Allowed
		}},
		"Peek": {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool {
			d, err := l.Peek(ctx, "k")
			return err == nil && d.Allowed
		}},
		"TakeAll": {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool { return l.AllowAll("k", "other") }},
		"Reserve": {hybrid.PerSecond(100), func(l *hybrid.Limiter) bool {
			r, err := l.Reserve(ctx, "k", 1)
			return err == nil && r.Allowed && r.Cancel() == nil
		}},
		"Acquire": {hybrid.Slots(10), func(l *hybrid.Limiter) bool {
			s, err := l.Acquire(ctx, "k", 1)
			return err == nil && s.Release() == nil
		}},
		"unlimited": {hybrid.Unlimited, func(l *hybrid.Limiter) bool { return l.Allow("k") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var blocked atomic.Bool
				l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
					LimitFor: func(key string) hybrid.Limit {
						switch {
						case key != "k":
							return hybrid.Unlimited
						case blocked.Load():
							return hybrid.Blocked
						}
						return verb.limit
					},
				})
				for pause := maxRefresh; pause < 5*time.Second; pause += 50 * time.Millisecond {
					blocked.Store(false)
					time.Sleep(maxRefresh)
					for range 50 {
						verb.ask(l)
						time.Sleep(20 * time.Millisecond)
					}
					if !verb.ask(l) {
						t.Fatalf("before a pause of %v: denied", pause)
					}
					blocked.Store(true)
					time.Sleep(pause)
					if verb.ask(l) {
						t.Errorf("after a pause of %v: admitted", pause)
					}
				}
			})
		})
	}
}

// TestCloseBesideLimitFor: a request that waits for another one's call of LimitFor gets
// ErrClosed when the Limiter is closed.
func TestCloseBesideLimitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Timeout: 10 * time.Second,
			LimitFor: func(string) hybrid.Limit {
				<-release
				return hybrid.PerSecond(10)
			},
		})
		answers := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := l.Take(ctx, "k", 1)
				answers <- err
			}()
			synctest.Wait()
		}
		start := time.Now()
		l.Close(ctx)
		if err := <-answers; !errors.Is(err, hybrid.ErrClosed) || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		close(release)
		if err := <-answers; !errors.Is(err, hybrid.ErrClosed) {
			t.Errorf("whose call it was: %v", err)
		}
	})
}

// TestRaisedWhileWaiting: a raised limit serves those who wait under the one before,
// though nothing else happens to their key.
func TestRaisedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var limit atomic.Pointer[hybrid.Limit]
		low, high := hybrid.PerHour(1), hybrid.PerSecond(1000)
		limit.Store(&low)
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			LimitFor: func(string) hybrid.Limit { return *limit.Load() },
		})
		l.Wait(ctx, "k", 1)
		time.AfterFunc(5*time.Second, func() { limit.Store(&high) })
		start := time.Now()
		if err := l.Wait(ctx, "k", 1); err != nil || time.Since(start) > 5*time.Second+2*maxRefresh {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
