package grpclimit_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/pagetest"
)

// TestPage: the program of docs/grpc.md, as it stands there but for addresses, serves 60 calls and
// denies the next ones.
func TestPage(t *testing.T) {
	const file = "../../docs/grpc.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	listens := redistest.FreeAddr(t)
	pagetest.Run(t, "", pagetest.Fragment(t, file, "package main\n"), map[string]string{
		"localhost:6379": redistest.Start(t).Addr, "localhost:8080": listens,
	})

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
