//go:build linux

package load

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
)

var (
	folder string // of the program, until the tests have ended
	build  = sync.OnceValues(func() (string, error) { return servicetest.Build(folder) })
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
	*servicetest.Process
	t *testing.T
}

// start starts a service with a data folder of its own, and returns when it serves.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	program, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return &process{servicetest.StartProcess(t, program, args...), t}
}

// rss is the memory that the process has, in bytes.
func (p *process) rss() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.Cmd.Process.Pid))
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
	v, err := servicetest.New("http://" + p.HTTP + "/")
	if err == nil {
		err = v.Login(p.t.Context(), "admin", p.Password())
	}
	if err == nil {
		err = v.Token(p.t.Context(), "load "+strconv.FormatUint(rand.Uint64(), 36))
	}
	if err != nil {
		p.t.Fatalf("%v: %s", err, p.Told())
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
	conn, err := grpc.NewClient("passthrough:///"+p.GRPC,
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
