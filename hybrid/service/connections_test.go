package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// TestManyConnections: clients that hold all connections of the page wait for each other, and keep
// neither health nor gRPC from their answers.
func TestManyConnections(t *testing.T) {
	r := start(t, "-data", t.TempDir(), "-connections", "3")
	at := strings.Trim(r.http, "htp:/")
	var slow []net.Conn
	for range 3 {
		conn, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		slow = append(slow, conn)
		// One answer shows that the service has accepted it; then the next request never ends.
		_, err = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer stop()
	request, err := http.NewRequestWithContext(ctx, "GET", r.http+"healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(request); err == nil {
		resp.Body.Close()
		t.Error("a fourth connection has an answer")
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		code, _ := fetch(t, strings.TrimSuffix(r.metrics, "/metrics")+path)
		if code != http.StatusOK {
			t.Errorf("%s beside the metrics: %d", path, code)
		}
	}
	health, err := healthpb.NewHealthClient(r.dial(t)).Check(t.Context(),
		&healthpb.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("gRPC: %v %v", health, err)
	}
	slow[0].Close()
	if code, _ := r.get(t, "healthz"); code != http.StatusOK {
		t.Errorf("after the end of a connection: %d", code)
	}
	r.end(t)
}
