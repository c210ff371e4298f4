package hybrid_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A harmful is a slog.Handler that does harm with each line.
type harmful struct {
	slog.Handler
	lines *atomic.Int64
	harm  func()
}

func (h harmful) Enabled(context.Context, slog.Level) bool { return true }

func (h harmful) Handle(context.Context, slog.Record) error {
	h.lines.Add(1)
	h.harm()
	return nil
}

// TestHarmfulLogger: whatever the Logger does as the store goes away and comes back, requests are
// decided, and Close returns in its time.
func TestHarmfulLogger(t *testing.T) {
	for name, c := range map[string]struct {
		harm                 func(end chan struct{})
		lines, panics, loses int
	}{
		"panics":               {func(chan struct{}) { panic("logger") }, 160, 160, 0},
		"ends its goroutine":   {func(chan struct{}) { runtime.Goexit() }, 160, 0, 0},
		"hangs":                {func(end chan struct{}) { <-end }, 1, 0, 160 - 1 - 64},
		"takes half a second":  {func(chan struct{}) { time.Sleep(time.Second / 2) }, 160, 0, 0},
		"panics with nil":      {func(chan struct{}) { panic(nil) }, 160, 160, 0},
		"panics with an error": {func(chan struct{}) { panic(errors.New("x")) }, 160, 160, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var lines atomic.Int64
				end := make(chan struct{})
				store := remoteLine(time.Millisecond)
				l := newLimiter(t, store, hybrid.Config{
					Limit: hybrid.PerSecond(200).WithBurst(50), Outage: hybrid.Allow, // leases last for 1 s
					SlogLogger: slog.New(harmful{slog.DiscardHandler, &lines, func() { c.harm(end) }}),
				})
				denied := 0
				for range 80 { // outages, each of two lines
					for _, cut := range []bool{true, false} {
						store.cut.Store(cut)
						for range 100 {
							if !l.Allow("k") {
								denied++
							}
							time.Sleep(20 * time.Millisecond)
						}
					}
				}
				s := l.Stats()
				if denied > 0 || int(lines.Load()) != c.lines || int(s.Panics) != c.panics || int(s.LostLines) != c.loses {
					t.Errorf("%d denied, %d lines, and %d panics and %d lost in Stats; want %+v",
						denied, lines.Load(), s.Panics, s.LostLines, c)
				}
				soon, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				begun := time.Now()
				if err := l.Close(soon); (err != nil) != (name == "hangs") || time.Since(begun) > time.Second {
					t.Errorf("Close returned after %v: %v", time.Since(begun), err)
				}
				lines.Store(0)
				close(end)
				time.Sleep(time.Minute)
				if lines.Load() > 0 {
					t.Error("a line begins after Close")
				}
			})
		})
	}
}

// harmfulStore panics while it is asked to, and whenever somebody publishes.
type harmfulStore struct {
	*hybrid.Memory
	harm atomic.Bool
}

func (s *harmfulStore) Exchange(ctx context.Context, calls []*lease.Call) {
	if s.harm.Load() {
		panic("store")
	}
	s.Memory.Exchange(ctx, calls)
}

func (s *harmfulStore) Publish(context.Context, string, []byte, time.Duration) error {
	panic("publish")
}

// TestHarmfulStore: a Store that panics is away, and one that panics no more is back.
func TestHarmfulStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &harmfulStore{Memory: hybrid.NewMemory()}
		var mu sync.Mutex
		var told []string
		l := newLimiter(t, store, hybrid.Config{
			Limit: hybrid.PerSecond(100), Outage: hybrid.Deny, Namespace: "n", Publish: time.Second,
			SlogLogger: slog.New(teller{slog.DiscardHandler, func(r slog.Record) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, r.Message)
			}}),
		})
		for _, harm := range []bool{false, true, false} {
			store.harm.Store(harm)
			for range 200 {
				l.Allow("k")
				time.Sleep(20 * time.Millisecond)
			}
			if s := l.Stats(); s.Away != harm || harm && s.Panics < 3 || !harm && !l.Allow("k") {
				t.Errorf("a Store that panics is %v, and yet: %+v", harm, s)
			}
		}
		if v, err := store.Inspect(ctx, "n:k"); err != nil || len(v.Holders) != 1 {
			t.Errorf("%+v, %v", v, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, line := range []string{"store does not answer", "store answers again", "Stats are not published"} {
			if !slices.Contains(told, line) {
				t.Errorf("no %q among %q", line, told)
			}
		}
	})
}

// A teller hands each line on.
type teller struct {
	slog.Handler
	tell func(slog.Record)
}

func (h teller) Enabled(context.Context, slog.Level) bool { return true }

func (h teller) Handle(_ context.Context, r slog.Record) error {
	h.tell(r)
	return nil
}
