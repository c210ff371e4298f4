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
		login := newLimiter(t, store,
			hybrid.Config{Namespace: "login", Limit: hybrid.PerMinute(5), Logger: zap.New(core)})
		api := newLimiter(t, store,
			hybrid.Config{Namespace: "api", Limit: hybrid.PerSecond(1000), Logger: zap.New(core)})
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

// resettable notes how many holders of a key the Memory has told.
type resettable struct {
	*holders
	memory *hybrid.Memory
}

func (s resettable) Reset(ctx context.Context, key string) error { return s.memory.Reset(ctx, key) }

// TestKeysOfOurOwn: a user's key may be called like a key of ration's own. It has a bucket
// for each namespace, is no process, and can be reset.
func TestKeysOfOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		store := resettable{&holders{Store: memory, key: hybrid.FleetKey}, memory}
		limit := hybrid.PerHour(5)
		for _, namespace := range []string{"", "a", "b"} {
			l := newLimiter(t, store, hybrid.Config{Limit: limit, Namespace: namespace})
			for _, key := range []string{hybrid.FleetKey, "\x00" + hybrid.FleetKey, "\x00stats"} {
				for range 2 {
					admitted := 0
					for range 10 {
						if l.Allow(key) {
							admitted++
						}
					}
					if admitted != 5 {
						t.Errorf("%q:%q: %d admitted of a bucket of 5", namespace, key, admitted)
					}
					if err := l.Reset(ctx, key); err != nil {
						t.Error(err)
					}
				}
			}
		}
		time.Sleep(20 * time.Second)
		if told := store.told(); told != 3 {
			t.Errorf("%d processes, of 3", told)
		}
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
			api := newLimiter(t, store,
				hybrid.Config{Limit: hybrid.PerSecond(1000), Logger: zap.New(core)})
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
			t.Logf("a conflict of %v: %d log lines", c.lasts, logs.Len())
			if logs.Len() != c.lines {
				t.Fatalf("there should be %d", c.lines)
			}
			for _, line := range logs.All() {
				f := line.ContextMap()
				if !strings.Contains(line.Message, "Namespace") ||
					f["declared"] != "1000/s burst 1000" || f["in force"] != "0.0833333/s burst 5" {
					t.Errorf("%s %v", line.Message, f)
				}
			}
		})
	}
}
