package main

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// A running is a service that a test has started.
type running struct {
	http, grpc string
	metrics    string   // "": there are none
	first      []string // lines that it has printed before it served, and that are none of its log
	stop       context.CancelFunc
	ended      chan error
	silent     chan struct{} // closed when nothing more is printed

	mu  sync.Mutex
	log strings.Builder // its lines, which are JSON
}

// start runs the service until the test ends, and returns when it serves.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	return startWith(t, parts{}, args...)
}

// startWith is start, with parts that are served over HTTP.
func startWith(t *testing.T, p parts, args ...string) *running {
	t.Helper()
	return begin(t, func(*service, context.Context, io.Writer) (parts, error) { return p, nil },
		args...)
}

// begin is startWith, with a function that opens the parts.
func begin(
	t *testing.T, with func(*service, context.Context, io.Writer) (parts, error), args ...string,
) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{stop: stop, ended: make(chan error, 1), silent: make(chan struct{})}
	out, log := io.Pipe()
	args = append([]string{"-http", "localhost:0", "-grpc", "localhost:0", "-metrics", "localhost:0",
		"-timeout", "20s"}, args...) // longer than a busy machine stands still
	go func() {
		err := runWith(ctx, args, func(string) string { return "" }, log, with)
		log.Close()
		r.ended <- err
	}()
	serving := make(chan struct{})
	go r.read(out, serving)
	t.Cleanup(func() { stop(); <-r.silent })
	select {
	case <-serving:
	case <-r.silent:
	}
	if r.http == "" {
		t.Fatalf("the service ended at once: %v", <-r.ended)
	}
	return r
}

// read reads what the service prints until that has ended.
func (r *running) read(out io.Reader, serving chan<- struct{}) {
	defer close(r.silent)
	for s := bufio.NewScanner(out); s.Scan(); {
		var line struct{ Msg, HTTP, GRPC, Metrics string }
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			r.first = append(r.first, s.Text())
			continue
		}
		r.mu.Lock()
		r.log.WriteString(s.Text() + "\n")
		r.mu.Unlock()
		if line.Msg == "serving" {
			r.http, r.grpc, r.metrics = line.HTTP, line.GRPC, line.Metrics
			close(serving)
		}
	}
}

// told is the log.
func (r *running) told() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.String()
}

// end stops the service, and fails the test if that goes wrong.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.stop()
	<-r.silent
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
}

func (r *running) get(t *testing.T, path string) (code int, body string) {
	t.Helper()
	return fetch(t, r.http+path)
}

func fetch(t *testing.T, url string) (code int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (r *running) dial(t *testing.T) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(r.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask asks for a request as JSON, and returns whether it is OK.
func ask(t *testing.T, conn *grpc.ClientConn, text string) bool {
	t.Helper()
	var in pb.RateLimitRequest
	if err := protojson.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	out, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), &in)
	if err != nil {
		t.Fatal(err)
	}
	return out.GetOverallCode() == pb.RateLimitResponse_OK
}

// upload asks for 60 of the 100 uploads an hour of the example, and uploads for more than there
// are.
const (
	upload  = `{"domain": "example", "hitsAddend": 60, ` + ofAnn
	uploads = `{"domain": "example", "hitsAddend": 101, ` + ofAnn
	ofAnn   = `"descriptors": [{"entries": [
		{"key": "user", "value": "ann"}, {"key": "path", "value": "/upload"}]}]}`
)

// TestStart: the first start with nothing but a folder serves the example over gRPC and tells
// of it; the second one has the same rules.
func TestStart(t *testing.T) {
	data := filepath.Join(t.TempDir(), "a b?c#%41")
	r := start(t, "-data", data)
	conn := r.dial(t)
	if !ask(t, conn, upload) || ask(t, conn, uploads) {
		t.Error("100 in an hour are not 60, or are 101")
	}
	for url, want := range map[string]string{
		r.http + "healthz": "alive\n", r.http + "readyz": "ready\n",
		r.metrics: `ration_rule_requests_total{domain="example",limit="own",` +
			`rule="user,path=/upload",verdict="denied"} 1`,
	} {
		if code, body := fetch(t, url); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", url, code, body)
		}
	}
	for _, path := range []string{"nothing", "metrics"} {
		if code, _ := r.get(t, path); code != 404 {
			t.Errorf("/%s: %d", path, code)
		}
	}
	for _, name := range []string{"", pb.RateLimitService_ServiceDesc.ServiceName} {
		health, err := healthpb.NewHealthClient(conn).Check(t.Context(),
			&healthpb.HealthCheckRequest{Service: name})
		if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v %v", name, health, err)
		}
	}
	r.end(t)
	info, err := os.Stat(filepath.Join(data, "ration.db"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("ration.db: %v %v", info, err)
	}
	again := start(t, "-data", data, "-metrics", "none")
	if again.metrics != "" {
		t.Errorf("there are metrics on %s", again.metrics)
	}
	again.end(t)
}

// TestStarts: what cannot start says why.
func TestStarts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("domain: x\nnope: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := start(t, "-data", t.TempDir())
	defer r.end(t)
	taken := strings.Trim(r.http, "htp:/")
	for want, args := range map[string][]string{
		"-data":         {"-data", filepath.Join(file, "x")},
		"unknown field": {"-data", t.TempDir(), "-rules", "files:" + file},
		"-http":         {"-data", t.TempDir(), "-http", taken},
		"-grpc":         {"-data", t.TempDir(), "-http", "localhost:0", "-grpc", taken},
		"-metrics": {
			"-data", t.TempDir(), "-http", "localhost:0", "-grpc", "localhost:0", "-metrics", taken,
		},
		"-database mysql": {"-database", "mysql:root@unix(" + file + ")/x"},
		"-rules redis: redisrules": {
			"-data", t.TempDir(), "-rules", "redis:x", "-redis", "unix://" + file,
		},
	} {
		err := run(t.Context(), args, func(string) string { return "" }, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestHostile: clients of gRPC that stop in the middle, or talk nonsense, cost nothing that stays,
// and the service goes on and ends as ever.
func TestHostile(t *testing.T) {
	r := start(t, "-data", t.TempDir(), "-shutdown", "1s")
	conn := r.dial(t)
	method := "/" + pb.RateLimitService_ServiceDesc.ServiceName + "/ShouldRateLimit"
	silent := r.dial(t)
	for range 100 { // calls without a message
		desc := &grpc.StreamDesc{ClientStreams: true}
		if _, err := silent.NewStream(t.Context(), desc, method); err != nil {
			t.Fatal(err)
		}
	}
	silent.Close()
	for _, text := range []string{
		"", "GET / HTTP/1.1\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\x00\x00",
	} {
		raw, err := net.Dial("tcp", r.grpc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(raw, text); err != nil {
			t.Error(err)
		}
		raw.Close()
	}
	in := &pb.RateLimitRequest{Domain: strings.Repeat("x", 128<<10)}
	_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), in)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("128 KiB and some: %v", err)
	}
	in.Domain = strings.Repeat("x", 64<<10)
	_, err = pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), in)
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("no descriptors: %v", err)
	}
	if !ask(t, conn, upload) {
		t.Error("after that nothing is admitted")
	}
	code, _ := r.get(t, "readyz?"+strings.Repeat("x", 1<<20))
	if code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a path of 1 MiB: %d", code)
	}
	r.end(t)
}

// TestConnections: however many requests ask the database at once, there are 16 connections.
func TestConnections(t *testing.T) {
	var db *sql.DB
	r := begin(t, func(s *service, _ context.Context, _ io.Writer) (parts, error) {
		db = s.db
		return parts{}, nil
	}, "-data", t.TempDir())
	for i := range 16 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer conn.Close()
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	if conn, err := db.Conn(ctx); err == nil {
		t.Error("there is one more connection")
		conn.Close()
	}
	r.end(t)
}
