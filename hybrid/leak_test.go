package hybrid_test

import (
	"fmt"
	"testing"

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
