package main

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestEnd: readiness ends first, a request under way is answered, and then nobody listens.
func TestEnd(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(begun)
		<-finish
		_, _ = io.WriteString(w, "late")
	})
	r := startWith(t, parts{page: page}, "-data", t.TempDir(), "-shutdown", "1m")
	watch, err := healthpb.NewHealthClient(r.dial(t)).Watch(t.Context(),
		&healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil ||
		first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatal(first, err)
	}
	answer := make(chan string)
	go func() {
		resp, err := http.Get(r.http + "slow")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		answer <- string(text)
	}()
	<-begun
	r.stop()
	if last, err := watch.Recv(); err != nil ||
		last.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it ends: %v %v", last, err)
	}
	close(finish)
	if got := <-answer; got != "late" {
		t.Errorf("the request under way: %s", got)
	}
	// The stream of gRPC is still open. It ends, so that nothing waits for it.
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream under way: %v", err)
	}
	r.end(t)
	if resp, err := http.Get(r.http + "readyz"); err == nil {
		resp.Body.Close()
		t.Error("it still listens")
	}
	if strings.Contains(r.told(), "cut off") {
		t.Errorf("it has waited for streams, and cut them off:\n%s", r.told())
	}
}

// TestHandsBack: what a service has on lease is in Redis after its end, and another one has it.
func TestHandsBack(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	book, err := redisrules.New(client, "test")
	if err == nil {
		// No window ends while the test runs, but at New Year's Eve.
		_, _, err = rules.Save(t.Context(), book, rules.Change{
			Domain: "shop", Author: "test", Reason: "begin", Text: []byte("domain: shop\ndescriptors: " +
				"[{key: user, rate_limit: {unit: year, requests_per_unit: 100}}]"),
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	_, request := ann(1)
	args := []string{
		"-data", t.TempDir(), "-redis", "redis://" + server.Addr + "/0", "-rules", "redis:test",
	}
	first := start(t, args...)
	conn := first.dial(t)
	for range 50 {
		if !ask(t, conn, request) {
			t.Fatal("100 in a year are not 50")
		}
	}
	first.end(t)
	second := start(t, args...)
	conn = second.dial(t)
	admitted := 0
	for range 60 {
		if ask(t, conn, request) {
			admitted++
		}
	}
	second.end(t)
	if admitted != 50 {
		t.Errorf("the second service admits %d, of 50 that are left", admitted)
	}
}

// TestReadyz: it says 503 before and after the service is ready.
func TestReadyz(t *testing.T) {
	var s server
	for ready, want := range map[bool]int{false: http.StatusServiceUnavailable, true: http.StatusOK} {
		s.ready.Store(ready)
		w := httptest.NewRecorder()
		s.readyz(w, httptest.NewRequest("GET", "/readyz", nil))
		if w.Code != want {
			t.Errorf("ready %v: %d", ready, w.Code)
		}
	}
}

// TestLostBook: a book in Redis that is empty fails a start, unless it is said to be new: limits
// whose rules were lost would be lifted.
func TestLostBook(t *testing.T) {
	server := redistest.Start(t)
	args := []string{"-data", t.TempDir(), "-redis", "redis://" + server.Addr, "-rules", "redis:test"}
	fails := func() {
		t.Helper()
		c, err := configure(args, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		s, err := open(t.Context(), c, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Fatal(s.close())
		}
		if !strings.Contains(err.Error(), "the book is empty") {
			t.Error(err)
		}
	}
	fails()
	first := start(t, append(args, "-seed", "true")...)
	if !ask(t, first.dial(t), upload) {
		t.Error("the example is not there")
	}
	first.end(t)
	start(t, args...).end(t)
	if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	fails()
}
