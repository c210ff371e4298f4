//go:build unix

package peer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/redis"
	gostats "github.com/lyft/gostats"
	goredis "github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// empty answers OK.
type empty struct {
	pb.UnimplementedRateLimitServiceServer
}

func (empty) ShouldRateLimit(
	context.Context, *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

// dial serves s on a port of loopback, and returns clients of it, each with a connection.
func dial(b *testing.B, s pb.RateLimitServiceServer, n int) (clients []pb.RateLimitServiceClient) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxConcurrentStreams(1000))
	pb.RegisterRateLimitServiceServer(server, s)
	go server.Serve(listener)
	b.Cleanup(server.Stop)
	for range n {
		conn, err := grpc.NewClient(listener.Addr().String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		clients = append(clients, pb.NewRateLimitServiceClient(conn))
	}
	return clients
}

const (
	connections = 4
	callers     = 16 // of each connection
	keys        = 100
	turns       = 4 // of a round, in turn: what else the machine does meets all alike
	slice       = 250 * time.Millisecond
)

// A figure is what was measured of a service.
type figure struct {
	answers, seconds float64
	cpu              float64 // seconds of this process: both ends, without Redis
}

func (f figure) rate() float64 { return f.answers / f.seconds }

// each is the CPU time of an answer, in µs.
func (f figure) each() float64 { return f.cpu / f.answers * 1e6 }

// cpu is the CPU time of this process so far, in seconds.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// load asks for a slice of time, and adds what it measures.
func (f *figure) load(b *testing.B, clients []pb.RateLimitServiceClient) {
	before := cpu(b)
	var answers atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for c := range connections * callers {
		client, r := clients[c%connections], rand.New(rand.NewPCG(1, uint64(c)))
		all.Go(func() {
			for time.Since(begin) < slice {
				in := ask(of("load", fmt.Sprint(r.IntN(keys))))
				if _, err := client.ShouldRateLimit(context.Background(), in); err != nil {
					b.Error(err)
					return
				}
				answers.Add(1)
			}
		})
	}
	all.Wait()
	f.answers += float64(answers.Load())
	f.seconds += time.Since(begin).Seconds()
	f.cpu += cpu(b) - before
}

// BenchmarkBoth loads theirs, ours and a server that only answers in turn, five times, over gRPC
// with one Redis behind both. It prints medians.
func BenchmarkBoth(b *testing.B) {
	server := redistest.Start(b)
	now := &clock{}
	now.Store(time.Now().Unix())
	pool := redis.NewClientImpl(gostats.NewStore(gostats.NewNullSink(), false), false, "", "tcp",
		"SINGLE", server.Addr, 16, 0, 0, nil, false, nil, time.Second, "WAIT", "")
	b.Cleanup(func() { pool.Close() })
	client := goredis.NewClient(remote.Options(server.Addr))
	b.Cleanup(func() { client.Close() })
	names := []string{"theirs", "ours", "empty"}
	services := map[string][]pb.RateLimitServiceClient{
		"theirs": dial(b, theirs(pool, now, false), connections),
		"ours":   dial(b, ours(b, remote.New(client)), connections),
		"empty":  dial(b, empty{}, connections),
	}
	rates, costs := map[string][]float64{}, map[string][]float64{}
	for round := range 6 {
		figures := map[string]*figure{"theirs": {}, "ours": {}, "empty": {}}
		for range turns {
			for _, name := range names {
				figures[name].load(b, services[name])
			}
		}
		for name, f := range figures {
			if round > 0 { // the first one warms up
				rates[name] = append(rates[name], f.rate())
				costs[name] = append(costs[name], f.each())
			}
		}
	}
	var text strings.Builder
	for _, name := range names {
		slices.Sort(rates[name])
		slices.Sort(costs[name])
		fmt.Fprintf(&text, "\n%-6s %6.0f a second (%.0f to %.0f), %.1f µs of CPU (%.1f to %.1f)",
			name, rates[name][2], rates[name][0], rates[name][4],
			costs[name][2], costs[name][0], costs[name][4])
	}
	b.Logf("medians of 5, %d connections with %d callers each%s", connections, callers, &text)
	b.ReportMetric(rates["ours"][2]/rates["theirs"][2], "ours/theirs")
	b.ReportMetric(rates["empty"][2]/rates["ours"][2], "time-ours/empty")
	b.ReportMetric(costs["ours"][2]/costs["empty"][2], "cpu-ours/empty")
	b.ReportMetric(0, "ns/op")
}
