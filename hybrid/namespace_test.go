package hybrid_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// named is a store that notes the keys of calls.
type named struct {
	hybrid.Store
	keys sync.Map
}

func (s *named) Exchange(ctx context.Context, calls []*lease.Call) {
	for _, c := range calls {
		s.keys.Store(c.Key, true)
	}
	s.Store.Exchange(ctx, calls)
}

// TestNamespace: two Limiters on one store limit one name apart.
func TestNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &named{Store: remoteLine(time.Millisecond)}
		core, logs := observer.New(zap.WarnLevel)
		login := newLimiter(t, store, hybrid.Config{Namespace: "login", Limit: hybrid.PerMinute(5), Logger: zap.New(core)})
		api := newLimiter(t, store, hybrid.Config{Namespace: "api", Limit: hybrid.PerSecond(1000), Logger: zap.New(core)})
		logins, calls := 0, 0
		for range 120_000 { // 2 min
			if login.Allow("alice") {
				logins++
			}
			if api.Allow("alice") {
				calls++
			}
			time.Sleep(time.Millisecond)
		}
		if logins < 14 || logins > 15 || calls < 118_000 {
			t.Errorf("%d logins at 5/min, %d calls at 1000/s", logins, calls)
		}
		if logs.Len() != 0 {
			t.Errorf("logs: %v", logs.All())
		}
		for _, key := range []string{"login:alice", "api:alice", hybrid.FleetKey} {
			if _, ok := store.keys.LoadAndDelete(key); !ok {
				t.Errorf("no exchange for %q", key)
			}
		}
		store.keys.Range(func(key, _ any) bool {
			t.Errorf("exchange for %q", key)
			return true
		})
	})
}

// TestConflict: two limits for one key are logged once, with both, when that has lasted
// for longer than a deployment takes for most keys.
func TestConflict(t *testing.T) {
	for _, c := range []struct {
		lasts time.Duration
		lines int
	}{{30 * time.Second, 0}, {5 * time.Minute, 1}} {
		synctest.Test(t, func(t *testing.T) {
			store := remoteLine(time.Millisecond)
			core, logs := observer.New(zap.WarnLevel)
			login := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerMinute(5)})
			api := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000), Logger: zap.New(core)})
			for start := time.Now(); time.Since(start) < c.lasts; time.Sleep(10 * time.Millisecond) {
				login.Allow("alice")
				login.Allow("bob")
				api.Allow("alice")
				api.Allow("bob")
				api.Allow("carol")
			}
			login.Close(ctx)
			for range 30_000 { // 5 min
				api.Allow("alice")
				time.Sleep(10 * time.Millisecond)
			}
			if logs.Len() != c.lines {
				t.Fatalf("after %v: %d log lines", c.lasts, logs.Len())
			}
			for _, line := range logs.All() {
				f := line.ContextMap()
				if !strings.Contains(line.Message, "Namespace") || f["declared"] != "1000/s burst 1000" || f["in force"] != "0.0833333/s burst 5" {
					t.Errorf("%s %v", line.Message, f)
				}
			}
		})
	}
}
