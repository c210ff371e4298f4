package envoy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// landed counts the reports that have been answered.
type landed struct {
	pb.RateLimitServiceServer
	reports *atomic.Int64
}

func (l landed) ShouldRateLimit(
	ctx context.Context, in *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	out, err := l.RateLimitServiceServer.ShouldRateLimit(ctx, in)
	if in.GetDescriptors()[0].GetHitsAddend().GetValue() > 0 {
		l.reports.Add(1)
	}
	return out, err
}

// TestEnvoy: an Envoy before two replicas on a Redis lets no more through than the limit and what
// is under way when that is reached.
func TestEnvoy(t *testing.T) {
	servicetest.Envoy(t)
	server := redistest.Start(t)
	client := redis.NewClient(remote.Options(server.Addr))
	defer client.Close()
	const atOnce, cost = 4, 60
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Tokens", fmt.Sprint(cost))
		_, _ = io.WriteString(w, "hello")
	}))
	defer model.Close()
	g := newGateway(t, func() hybrid.Store { return remote.New(client) }, "long")
	defer g.close()
	var reports atomic.Int64
	var addresses []string
	for _, r := range g.replicas {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := envoy.NewServer(nil)
		pb.RegisterRateLimitServiceServer(s, landed{r, &reports})
		go s.Serve(listener)
		defer s.Stop()
		addresses = append(addresses, listener.Addr().String())
	}
	front := servicetest.StartEnvoy(t, servicetest.Gateway("long", model.Listener.Addr().String(),
		addresses...))
	eventually := func(what string, holds func() bool) {
		for start := time.Now(); !holds(); {
			if time.Since(start) > 20*time.Second {
				t.Fatalf("not within 20 s: %s", what)
			}
		}
	}
	served := 0
	for range 10 {
		served += get(t, front, atOnce)
		eventually("all reports", func() bool { return reports.Load() == int64(served) })
		if served*cost > 1000 {
			eventually("both replicas know", func() bool { return !g.look(0) && !g.look(1) })
		}
	}
	if used := served * cost; used < 1000 || used > int(bound(1000, atOnce, cost)) {
		t.Errorf("%d tokens were used, not 1000 to %d", used, bound(1000, atOnce, cost))
	}
}

// get sends so many requests at once, and returns how many were served.
func get(t *testing.T, url string, n int) (served int) {
	var all sync.WaitGroup
	var ok atomic.Int64
	for range n {
		all.Go(func() {
			res, err := http.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			switch res.StatusCode {
			case http.StatusOK:
				ok.Add(1)
			case http.StatusTooManyRequests:
			default:
				t.Error(res.Status)
			}
		})
	}
	all.Wait()
	return int(ok.Load())
}
