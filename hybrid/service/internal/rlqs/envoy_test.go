package rlqs_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	kinds "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
)

// An upstream counts the requests that Envoys let through.
type upstream struct {
	*httptest.Server
	served atomic.Int64
}

func newUpstream(t *testing.T) *upstream {
	t.Helper()
	u := &upstream{}
	u.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		u.served.Add(1)
	}))
	t.Cleanup(u.Close)
	return u
}

// bootstrap is the configuration of an Envoy: the bucket of a request is by its header user.
var bootstrap = template.Must(template.New("").Parse(`
admin: {address: {socket_address: {address: 127.0.0.1, port_value: 0}}}
static_resources:
  listeners:
  - name: front
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          route_config:
            virtual_hosts:
            - {name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: upstream}}]}
          http_filters:
          - name: quota
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig
              rlqs_server: {envoy_grpc: {cluster_name: rlqs}}
              domain: shop
              bucket_matchers:
                matcher_list:
                  matchers:
                  - predicate:
                      single_predicate:
                        input: &user
                          name: header
                          typed_config:
                            "@type": type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput
                            header_name: user
                        value_match: {safe_regex: {google_re2: {}, regex: .+}}
                    on_match:
                      action:
                        name: bucket
                        typed_config:
                          "@type": type.googleapis.com/envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings
                          bucket_id_builder: {bucket_id_builder: {user: {custom_value: *user}}}
                          reporting_interval: 5s
                          no_assignment_behavior: {fallback_rate_limit: {blanket_rule: DENY_ALL}}
                          expired_assignment_behavior:
                            expired_assignment_behavior_timeout: 1s
                            fallback_rate_limit: {blanket_rule: DENY_ALL}
          - name: router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
  - name: upstream
    load_assignment:
      cluster_name: upstream
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {{.Upstream}}}}}}]}]
    circuit_breakers: {thresholds: [{max_connections: 10000, max_pending_requests: 100000, max_requests: 100000}]}
  - name: rlqs
    load_assignment:
      cluster_name: rlqs
      endpoints:
      - lb_endpoints:{{range .RLQS}}
        - {endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: {{.}}}}}}{{end}}
{{- if .Checked}}
    health_checks:
    - {interval: 1s, timeout: 1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {}}
{{- end}}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
`))

func port(url string) string { return url[strings.LastIndex(url, ":")+1:] }

// startEnvoy starts one, and returns where it listens. It checks whether services live if there are
// several.
func startEnvoy(t *testing.T, upstream string, services ...string) string {
	t.Helper()
	at := struct {
		Upstream string
		RLQS     []string
		Checked  bool
	}{Upstream: port(upstream), Checked: len(services) > 1}
	for _, x := range services {
		at.RLQS = append(at.RLQS, port(x))
	}
	var text bytes.Buffer
	if err := bootstrap.Execute(&text, at); err != nil {
		t.Fatal(err)
	}
	return servicetest.StartEnvoy(t, text.String())
}

// ask sends a request, and returns its status.
func ask(ctx context.Context, client *http.Client, url, user string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("user", user)
	answer, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return answer.StatusCode, nil
}

// A script is a service of RLQS that does as a test says.
type script struct {
	pb.UnimplementedRateLimitQuotaServiceServer
	reports chan *pb.RateLimitQuotaUsageReports
	send    chan *pb.RateLimitQuotaResponse
}

func (s *script) StreamRateLimitQuotas(c grpc.BidiStreamingServer[
	pb.RateLimitQuotaUsageReports, pb.RateLimitQuotaResponse],
) error {
	go func() {
		for {
			m, err := c.Recv()
			if err != nil {
				return
			}
			s.reports <- m
		}
	}()
	for {
		select {
		case m := <-s.send:
			if err := c.Send(m); err != nil {
				return err
			}
		case <-c.Context().Done():
			return nil
		}
	}
}

// listen serves gRPC until the test ends.
func listen(t *testing.T, s pb.RateLimitQuotaServiceServer) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	pb.RegisterRateLimitQuotaServiceServer(g, s)
	go func() { _ = g.Serve(l) }()
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// tell is an answer about the bucket of ann: an assignment, or, of no tokens, abandonment.
func tell(tokens, fill uint32, every, life time.Duration) *pb.RateLimitQuotaResponse {
	type action = pb.RateLimitQuotaResponse_BucketAction
	a := &action{
		BucketId: &pb.BucketId{Bucket: map[string]string{"user": "ann"}},
		BucketAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction_{
			AbandonAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction{},
		},
	}
	if tokens > 0 {
		a.BucketAction = &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
			QuotaAssignmentAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
				AssignmentTimeToLive: durationpb.New(life),
				RateLimitStrategy: &kinds.RateLimitStrategy{
					Strategy: &kinds.RateLimitStrategy_TokenBucket{TokenBucket: &kinds.TokenBucket{
						MaxTokens: tokens, TokensPerFill: wrapperspb.UInt32(fill),
						FillInterval: durationpb.New(every),
					}},
				},
			},
		}
	}
	return &pb.RateLimitQuotaResponse{BucketAction: []*action{a}}
}

// TestCopy: the binary and its copy do the same, which is what docs/rlqs.md says.
func TestCopy(t *testing.T) {
	servicetest.Envoy(t)
	s := &script{
		reports: make(chan *pb.RateLimitQuotaUsageReports, 100),
		send:    make(chan *pb.RateLimitQuotaResponse),
	}
	in := startEnvoy(t, newUpstream(t).URL, listen(t, s))
	other := &client{id: &pb.BucketId{Bucket: map[string]string{"user": "ann"}}}
	const slow, long = 1000 * time.Second, 20 * time.Second
	for _, step := range []struct {
		what  string
		tell  *pb.RateLimitQuotaResponse
		wait  time.Duration
		asks  int
		right int // requests that are let through
	}{
		{"without an assignment the filter's setting decides", nil, 0, 5, 0},
		{"the first is full", tell(10, 1, slow, long), 0, 20, 10},
		{"the same adds nothing", tell(10, 1, slow, long), 0, 20, 0},
		{"another rate is as full as before", tell(10, 2, slow, long), 0, 20, 0},
		{"another size, too", tell(40, 2, slow, long), 0, 20, 0},
		{"tokens flow steadily, also over a long interval", tell(40, 20_000, slow, long), time.Second, 40, 22},
		{"an empty one fills", tell(10, 20_000, slow, long), 500 * time.Millisecond, 5, 5},
		{"half full stays half full", tell(20, 1, slow, long), 0, 30, 10},
		{"a life is whole seconds", tell(20, 1_000_000, slow, 1900*time.Millisecond), 1200 * time.Millisecond, 9, 0},
		{"after it the same is full", tell(20, 1, slow, 2*time.Second), 0, 30, 20},
		{"an abandoned one is gone", tell(0, 0, 0, 0), 0, 9, 0},
		{"and then the same is full again", tell(20, 1, slow, 2*time.Second), 0, 30, 20},
	} {
		if step.tell != nil {
			s.send <- step.tell
			other.handle(step.tell)
			time.Sleep(100 * time.Millisecond) // until it has arrived
		}
		time.Sleep(step.wait)
		copied := other.ask(step.asks)
		through := 0
		for range step.asks {
			code, err := ask(t.Context(), http.DefaultClient, in, "ann")
			if err != nil {
				t.Fatal(err)
			}
			if code == http.StatusOK {
				through++
			}
		}
		const flows = 2 // tokens, while requests are on their way
		t.Logf("%s: %d, copy %d, of %d", step.what, through, copied, step.asks)
		if max(through-step.right, step.right-through, copied-step.right, step.right-copied) > flows {
			t.Errorf("%s: %d are let through and by the copy %d, not %d", step.what, through, copied,
				step.right)
		}
	}
	// The first report comes at once, the next ones each 5 s, also about nothing.
	for len(s.reports) > 0 {
		<-s.reports
	}
	var before time.Time
	for range 3 {
		m := <-s.reports
		now := time.Now()
		u := m.GetBucketQuotaUsages()
		if !before.IsZero() {
			if d := now.Sub(before); d < 4500*time.Millisecond || d > 5500*time.Millisecond || len(u) != 1 {
				t.Errorf("a report of %v after %v", m, d)
			}
		}
		before = now
	}
}
