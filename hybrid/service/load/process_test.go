//go:build linux

package load

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

var (
	folder string // of the program, until the tests have ended
	build  = sync.OnceValues(func() (string, error) {
		program := filepath.Join(folder, "service")
		out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go build: %w: %s", err, out)
		}
		return program, nil
	})
)

func TestMain(m *testing.M) {
	flag.Parse()
	var err error
	if folder, err = os.MkdirTemp("", "ration-load-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// A process is a service of its own, which ends with the test.
type process struct {
	t    *testing.T
	args []string
	cmd  *exec.Cmd

	http, grpc, metrics string // the same after a restart

	ended    <-chan struct{}
	password string // that it has printed, if it has
	mu       sync.Mutex
	log      []string
}

// start starts a service with a data folder of its own, and returns when it serves.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, http: redistest.FreeAddr(t), grpc: redistest.FreeAddr(t),
		metrics: redistest.FreeAddr(t)}
	p.args = append([]string{"-http", p.http, "-grpc", p.grpc, "-metrics", p.metrics,
		"-data", t.TempDir(), "-log-format", "json"}, args...)
	p.start()
	t.Cleanup(func() { p.kill() })
	return p
}

// start starts the process, anew after a kill.
func (p *process) start() {
	p.t.Helper()
	program, err := build()
	if err != nil {
		p.t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(program, p.args...)
	p.cmd.Stderr = w
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	p.ended, err = tether.Start(p.cmd)
	w.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	serving := make(chan struct{})
	go p.read(r, serving)
	select {
	case <-serving:
	case <-p.ended:
		p.t.Fatalf("the service has ended: %s", p.told())
	case <-time.After(time.Minute):
		p.t.Fatalf("the service does not serve for a minute: %s", p.told())
	}
}

func (p *process) read(r *os.File, serving chan<- struct{}) {
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := lines.Text()
		p.mu.Lock()
		p.log = append(p.log, text)
		if _, password, found := strings.Cut(text, "with the password "); found {
			p.password = password
		}
		p.mu.Unlock()
		var line struct{ Msg string }
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "serving" {
			close(serving)
		}
	}
}

// told is what the process has written.
func (p *process) told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// kill ends the process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// terminate ends the process as an operator does.
func (p *process) terminate() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
}

// rss is the memory that the process has, in bytes.
func (p *process) rss() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return pages * os.Getpagesize()
}

// visit logs in as the first user, and makes a token.
func (p *process) visit() *servicetest.Visitor {
	p.t.Helper()
	v, err := servicetest.New("http://" + p.http + "/")
	if err == nil {
		err = v.Login(p.t.Context(), "admin", p.password)
	}
	if err == nil {
		err = v.Token(p.t.Context(), "load "+strconv.FormatUint(rand.Uint64(), 36))
	}
	if err != nil {
		p.t.Fatalf("%v: %s", err, p.told())
	}
	return v
}

// must sends a request of the API that has to succeed.
func must(
	t *testing.T, v *servicetest.Visitor, method, path, body string, header ...string,
) servicetest.Answer {
	t.Helper()
	a, err := v.API(t.Context(), method, path, body, header...)
	if err != nil || a.Status/100 != 2 {
		t.Fatalf("%s %s: %d %v: %s", method, path, a.Status, err, a.Text)
	}
	return a
}

// dial returns a client that finds a service soon that comes back.
func (p *process) dial() pb.RateLimitServiceClient {
	p.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+p.grpc,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 20 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond,
			},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return pb.NewRateLimitServiceClient(conn)
}

// await waits until what holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// pause lets real time pass. It returns early if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// running is a pause in which the machine runs for d: the time in which it stands still is not
// counted. It returns early if ctx ends.
func running(ctx context.Context, d time.Duration) {
	const step, longest = 10 * time.Millisecond, 50 * time.Millisecond
	for last := time.Now(); d > 0 && ctx.Err() == nil; {
		pause(ctx, step)
		now := time.Now()
		d, last = d-min(now.Sub(last), longest), now
	}
}
