package main

import (
	"net"
	"net/http"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	xds "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	conf "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// TestXDS: the service has the rules of a control plane, and after a restart those of before while
// that is away.
func TestXDS(t *testing.T) {
	states := cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	snapshot, err := cache.NewSnapshot("1", map[resource.Type][]types.Resource{
		resource.RateLimitConfigType: {&conf.RateLimitConfig{
			Name: "c", Domain: "d", Descriptors: []*conf.RateLimitDescriptor{{
				Key: "k", RateLimit: &conf.RateLimitPolicy{Unit: conf.RateLimitUnit_YEAR, RequestsPerUnit: 1},
			}},
		}},
	})
	if err == nil {
		err = states.SetSnapshot(t.Context(), "fleet", snapshot)
	}
	listener, failed := net.Listen("tcp", "127.0.0.1:0")
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	headers := make(chan string, 10)
	plane := grpc.NewServer(grpc.StreamInterceptor(func(
		s any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler,
	) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		headers <- strings.Join(md.Get("tenant"), ",")
		return handle(s, stream)
	}))
	discovery.RegisterAggregatedDiscoveryServiceServer(plane,
		xds.NewServer(t.Context(), states, nil))
	go plane.Serve(listener)
	defer plane.Stop()

	args := []string{"-data", t.TempDir(), "-rules", "xds:" + listener.Addr().String(),
		"-xds-node", "fleet", "-xds-headers", "tenant=a", "-json", "true"}
	ask := func(r *running) int {
		resp, err := http.Post(r.http+"json", "application/json", strings.NewReader(
			`{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}`))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	r := start(t, args...)
	if a, b := ask(r), ask(r); a != 200 || b != 429 {
		t.Errorf("%d, %d", a, b)
	}
	if h := <-headers; h != "a" {
		t.Errorf("header %q", h)
	}
	r.end(t)
	plane.Stop()
	r = start(t, args...)
	if a, b := ask(r), ask(r); a != 200 || b != 429 { // limits are in memory
		t.Errorf("%d, %d", a, b)
	}
	r.end(t)
}
