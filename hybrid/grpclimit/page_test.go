package grpclimit_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// TestPage: the program of docs/grpc.md, as it stands there but for addresses, serves 60 calls and
// denies the next ones.
func TestPage(t *testing.T) {
	redis, listens := redistest.Start(t), redistest.FreeAddr(t)
	page, err := os.ReadFile("../../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(page), "```go\n")
	program, _, ended := strings.Cut(program, "```\n")
	if !found || !ended {
		t.Fatal("docs/grpc.md has no program")
	}
	for from, to := range map[string]string{
		`"localhost:6379"`: strconv.Quote(redis.Addr), `"localhost:8080"`: strconv.Quote(listens),
	} {
		if strings.Count(program, from) != 1 {
			t.Fatalf("the program does not say %s once", from)
		}
		program = strings.Replace(program, from, to, 1)
	}
	run(t, program)

	conn, err := grpc.NewClient(listens, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client, passed, start := healthpb.NewHealthClient(conn), 0, time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		_, err = client.Check(ctx, new(healthpb.HealthCheckRequest), grpc.WaitForReady(true))
		if err != nil {
			break
		}
		passed++
	}
	wantDenied(t, err, "calls of a network", time.Nanosecond, time.Minute)
	for _, d := range status.Convert(err).Details() {
		if q, ok := d.(*errdetails.QuotaFailure); ok {
			if says := q.GetViolations()[0].GetDescription(); !strings.Contains(string(page), says) {
				t.Errorf("the page does not show %q", says)
			}
		}
	}
	if most := 60 + int(time.Since(start)/time.Second) + 1; passed < 45 || passed > most {
		t.Errorf("%d calls have passed, want 60 and one in each second", passed)
	}
}

// run builds a program and runs it until the test ends.
func run(t *testing.T, program string) {
	t.Helper()
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	cmd.Stderr = os.Stderr
	gone, err := tether.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
	})
}
