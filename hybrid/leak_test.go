package hybrid_test

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestNothingRunsOn: after Close no goroutine of the Limiter's is left, on a real
// Redis, also when that has gone away before. (Tests in bubbles of virtual time
// would not end with one left.)
func TestNothingRunsOn(t *testing.T) {
	for _, away := range []bool{false, true} {
		server := redistest.Start(t)
		before := goleak.IgnoreCurrent()
		client := redis.NewClient(remote.Options(server.Addr))
		l, err := hybrid.New(remote.New(client), hybrid.Config{Limit: hybrid.PerSecond(1000)})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			if !l.Allow(fmt.Sprint(i % 20)) {
				t.Error("denied")
			}
		}
		if away {
			server.Kill()
		}
		if err := l.Close(ctx); err != nil {
			t.Error(err)
		}
		client.Close()
		if err := goleak.Find(before); err != nil {
			t.Errorf("away %v: %v", away, err)
		}
	}
}

// TestProcessForgets: a Process keeps nothing of Limiters that are closed. The program's own
// never ends.
func TestProcessForgets(t *testing.T) {
	process := hybrid.NewProcess()
	var stores []weak.Pointer[hybrid.Memory]
	func() {
		for range 3 {
			store := hybrid.NewMemory()
			stores = append(stores, weak.Make(store))
			for range 2 {
				l, err := hybrid.New(store, hybrid.Config{
					Limit: hybrid.PerSecond(1000), Process: process,
				})
				if err != nil {
					t.Fatal(err)
				}
				l.Allow("k")
				if err := l.Close(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	}()
	runtime.GC()
	runtime.GC()
	for i, store := range stores {
		if store.Value() != nil {
			t.Errorf("store %d is kept", i)
		}
	}
	runtime.KeepAlive(process)
}
