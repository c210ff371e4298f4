package rules_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestBrokenSource: the last good rules stay in force, whatever the source does. It is logged
// once, is in Stats, and heals by itself.
func TestBrokenSource(t *testing.T) {
	for name, breaks := range map[string]func(b *board){
		"error":      func(b *board) { b.fail(errBroken) },
		"no YAML":    func(b *board) { b.put("domain: shop\n\tx") },
		"bad rule":   func(b *board) { b.put("domain: shop\ndescriptors:\n- key: user\n  limit: 3\n") },
		"nothing":    func(b *board) { b.put() },
		"one is bad": func(b *board) { b.put(strings.ReplaceAll(shop, "10", "1"), "domain:") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, log := newBoard(shop), &logBook{}
				config := rules.Config{}
				config.Limiter.SlogLogger = slog.New(slog.NewTextHandler(log, nil))
				l := newLimiter(t, hybrid.NewMemory(), b, config)
				breaks(b)
				time.Sleep(10 * time.Second)
				if yes := admitted(t, l, "shop", 30, rules.Of("user", "ann")); yes != 10 {
					t.Errorf("%d were admitted, not 10", yes)
				}
				s := l.Stats().Source
				age := time.Since(s.StaleSince)
				if s.Err == nil || age < 9*time.Second || age > 10*time.Second {
					t.Errorf("%+v", s)
				}
				if n := strings.Count(log.text(), "the last good ones stay"); n != 1 {
					t.Errorf("%d log lines: %s", n, log.text())
				}
				b.put(strings.ReplaceAll(shop, "10", "1"))
				time.Sleep(1300 * time.Millisecond)
				if s := l.Stats().Source; s.Err != nil || !s.StaleSince.IsZero() || s.Changes != 2 {
					t.Errorf("%+v", s)
				}
				if yes := admitted(t, l, "shop", 30, rules.Of("user", "eve")); yes != 1 {
					t.Errorf("%d were admitted, not 1", yes)
				}
				if n := strings.Count(log.text(), "loaded again"); n != 1 {
					t.Errorf("%d log lines: %s", n, log.text())
				}
			})
		})
	}
}

// harmful is a writer of log lines that does harm.
type harmful func()

func (h harmful) Write(p []byte) (int, error) {
	h()
	return len(p), nil
}

// TestHarmfulLogger: rules follow their source, and Close returns in its time, whatever the Logger
// does with the lines about a source that breaks.
func TestHarmfulLogger(t *testing.T) {
	for name, harm := range map[string]func(end chan struct{}){
		"panics": func(chan struct{}) { panic("logger") },
		"hangs":  func(end chan struct{}) { <-end },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				b, config := newBoard(shop), rules.Config{}
				config.Limiter.SlogLogger = slog.New(
					slog.NewTextHandler(harmful(func() { harm(end) }), nil))
				l, err := rules.New(hybrid.NewMemory(), b, config)
				if err != nil {
					t.Fatal(err)
				}
				b.fail(errBroken)
				time.Sleep(10 * time.Second)
				b.put(strings.ReplaceAll(shop, "10", "1"))
				time.Sleep(1300 * time.Millisecond)
				if yes := admitted(t, l, "shop", 30, rules.Of("user", "eve")); yes != 1 {
					t.Errorf("%d were admitted, not 1", yes)
				}
				soon, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				begun := time.Now()
				if err := l.Close(soon); (err != nil) != (name == "hangs") || time.Since(begun) > time.Second {
					t.Errorf("Close returned after %v: %v", time.Since(begun), err)
				}
				close(end)
				synctest.Wait()
			})
		})
	}
}

// A mad source does what a test says, from when it says so.
type mad struct {
	*board
	loads            int
	inside           atomic.Int32 // calls under way
	twice            atomic.Bool  // there were two
	loadNow, waitNow func(ctx context.Context) error
}

func (m *mad) now() (load, wait func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.loadNow, m.waitNow
}

// enter notes a call, until the function that it returns is called.
func (m *mad) enter() (leave func()) {
	if m.inside.Add(1) > 1 {
		m.twice.Store(true)
	}
	return func() { m.inside.Add(-1) }
}

func (m *mad) Load(ctx context.Context) ([]rules.Document, string, error) {
	m.loads++
	defer m.enter()()
	if load, _ := m.now(); load != nil {
		if err := load(ctx); err != nil {
			return nil, "", err
		}
	}
	return m.board.Load(ctx)
}

func (m *mad) Wait(ctx context.Context, tag string) error {
	defer m.enter()()
	if _, wait := m.now(); wait != nil {
		return wait(ctx)
	}
	return m.board.Wait(ctx, tag)
}

// TestMadSource: a source that hangs, panics or ends its goroutine holds up nothing, and Close
// does not wait for it.
func TestMadSource(t *testing.T) {
	type way = func(end chan struct{}) func(context.Context) error
	always := func(f func(context.Context) error) way {
		return func(chan struct{}) func(context.Context) error { return f }
	}
	well := always(nil)
	hangs := func(end chan struct{}) func(context.Context) error {
		return func(context.Context) error { <-end; return nil }
	}
	exits := always(func(context.Context) error { runtime.Goexit(); return nil })
	panics := always(func(context.Context) error { panic("x") })
	for name, c := range map[string]struct {
		load, wait way
		stale      bool
	}{
		"load hangs":   {hangs, well, true},
		"wait hangs":   {well, hangs, true},
		"load panics":  {panics, well, true},
		"wait panics":  {well, panics, true},
		"load exits":   {exits, well, true},
		"wait returns": {well, always(func(context.Context) error { return nil }), false},
		"wait fails":   {well, always(func(context.Context) error { return errBroken }), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				end := make(chan struct{})
				m := &mad{board: newBoard(shop)}
				log, config := &logBook{}, rules.Config{}
				config.Limiter.SlogLogger = slog.New(slog.NewTextHandler(log, nil))
				l := newLimiter(t, hybrid.NewMemory(), m, config)
				m.mu.Lock()
				m.loadNow, m.waitNow = c.load(end), c.wait(end)
				m.mu.Unlock()
				m.put(shop)
				time.Sleep(time.Minute)
				if yes := admitted(t, l, "shop", 30, rules.Of("user", "ann")); yes != 10 {
					t.Errorf("%d were admitted, not 10", yes)
				}
				if s := l.Stats().Source; (s.Err != nil) != c.stale {
					t.Errorf("%+v", s)
				}
				lines := strings.Count(log.text(), "the last good ones stay")
				if (lines > 0) != c.stale || lines > 1 || strings.Contains(log.text(), "again") {
					t.Errorf("%d log lines: %.1000s", lines, log.text())
				}
				if s := l.Stats().Source; s.Changes > 2 {
					t.Errorf("the same documents were applied again: %+v", s)
				}
				m.mu.Lock()
				m.loadNow, m.waitNow = nil, nil
				m.mu.Unlock()
				close(end)
				time.Sleep(3 * time.Second)
				if s := l.Stats().Source; s.Err != nil {
					t.Errorf("it does not heal: %+v", s)
				}
				synctest.Wait()
				if m.twice.Load() {
					t.Error("there were two calls at a time")
				}
				if m.loads > 700 {
					t.Errorf("%d Loads in a minute", m.loads)
				}
			})
		})
	}
}
