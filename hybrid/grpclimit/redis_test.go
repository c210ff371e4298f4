package grpclimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/grpclimit"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestRedisStops: Redis ends while calls are served. Each call has an answer in the time that
// Config.Timeout says: that of the outage policy, or that there is none. When Redis is back,
// calls pass again.
func TestRedisStops(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(remote.Options(server.Addr))
	t.Cleanup(func() { client.Close() })
	l := newLimiter(t, remote.New(client), hybrid.Config{
		Outage: hybrid.Deny, Timeout: 250 * time.Millisecond,
	}, map[string]hybrid.Limit{"k": hybrid.PerSecond(1e6)})
	var last hybrid.Decision
	c := serve(t, newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{one("k", 0)},
		Denied: func(_ grpclimit.Call, d grpclimit.Denial) {
			last = d.Decision
			if d.Err != nil && !errors.Is(d.Err, hybrid.ErrUnavailable) {
				t.Errorf("told %v", d.Err)
			}
		},
	}), new(service))
	call := func() codes.Code {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // it waits for 250 ms
		defer cancel()
		code, err := unary(ctx, c)
		if code != codes.OK && code != codes.Unavailable && code != codes.ResourceExhausted {
			t.Fatal(err)
		}
		return code
	}
	eventually(t, "calls pass", func() bool { return call() == codes.OK })
	server.Kill()
	eventually(t, "the outage policy denies", func() bool { return call() == codes.ResourceExhausted })
	if last.Source != hybrid.OutagePolicy || last.RetryAfter <= 0 {
		t.Errorf("decided by %v, RetryAfter %v", last.Source, last.RetryAfter)
	}
	server.Restart()
	eventually(t, "calls pass again", func() bool { return call() == codes.OK })
}
