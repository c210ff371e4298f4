//go:build unix && !head

package peer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
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

	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
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

// A registrar is a server of gRPC.
type registrar interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

// dial serves s on a port of loopback, and returns clients of it, each with a connection.
func dial(
	b *testing.B, server registrar, s pb.RateLimitServiceServer,
) (clients []pb.RateLimitServiceClient) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	pb.RegisterRateLimitServiceServer(server, s)
	go server.Serve(listener)
	b.Cleanup(server.Stop)
	for range connections {
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
	rounds      = 9
	turns       = 10 // of a round, in turn: what else the machine does meets all alike
	slice       = 100 * time.Millisecond
)

// A figure is what was measured of a service.
type figure struct {
	answers, seconds float64
	ends             float64 // seconds of CPU of this process: client and server
	redis            float64 // and of Redis
}

func (f figure) rate() float64 { return f.answers / f.seconds }

// cpu is the CPU time of an answer, in µs.
func (f figure) cpu() float64 { return (f.ends + f.redis) / f.answers * 1e6 }

// served is cpu without Redis.
func (f figure) served() float64 { return f.ends / f.answers * 1e6 }

// spend adds the CPU time so far, times sign.
func (f *figure) spend(b *testing.B, redis *goredis.Client, sign float64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	f.ends += sign * time.Duration(u.Utime.Nano()+u.Stime.Nano()).Seconds()
	info, err := redis.InfoMap(b.Context(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		seconds, err := strconv.ParseFloat(info["CPU"][name], 64)
		if err != nil {
			b.Fatal(err)
		}
		f.redis += sign * seconds
	}
}

// load asks for a slice of time, and adds what it measures.
func (f *figure) load(
	b *testing.B, clients []pb.RateLimitServiceClient, redis *goredis.Client,
) {
	f.spend(b, redis, -1)
	var answers atomic.Int64
	var all sync.WaitGroup
	begin := time.Now()
	for c := range connections * callers {
		client, r := clients[c%connections], rand.New(rand.NewPCG(uint64(c), rand.Uint64()))
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
	f.spend(b, redis, 1)
}

// both serves theirs and ours, with one Redis behind both, and returns their clients and Redis's.
func both(b *testing.B) ([][]pb.RateLimitServiceClient, *goredis.Client) {
	listening := redistest.Start(b)
	now := &clock{}
	now.Store(time.Now().Unix())
	pool := redis.NewClientImpl(gostats.NewStore(gostats.NewNullSink(), false), false, "", "tcp",
		"SINGLE", listening.Addr, 16, 0, 0, nil, false, nil, time.Second, "WAIT", "")
	b.Cleanup(func() { pool.Close() })
	client := goredis.NewClient(remote.Options(listening.Addr))
	b.Cleanup(func() { client.Close() })
	return [][]pb.RateLimitServiceClient{
		dial(b, grpc.NewServer(), theirs(pool, now, false)),
		dial(b, envoy.NewServer(nil), ours(b, remote.New(client))),
	}, client
}

// BenchmarkBoth loads theirs, ours and a handler that only answers in turn, over gRPC with one
// Redis behind both. Ours and the empty handler run in the server that the program has, with all
// its bounds; theirs in one of gRPC without bounds or interceptors. It prints medians of rounds;
// ratios are of the same round.
func BenchmarkBoth(b *testing.B) {
	services, client := both(b)
	services = append(services, dial(b, envoy.NewServer(nil), empty{}))
	var all [rounds][3]figure // of theirs, ours and empty
	for round := range rounds + 1 {
		var figures [3]figure
		for range turns {
			for i := range services {
				figures[i].load(b, services[i], client)
			}
		}
		if round > 0 { // the first one warms up
			all[round-1] = figures
		}
	}
	median := func(of func(f [3]figure) float64) (low, middle, high float64) {
		var list []float64
		for _, f := range all {
			list = append(list, of(f))
		}
		slices.Sort(list)
		return list[0], list[rounds/2], list[rounds-1]
	}
	var text strings.Builder
	for i, name := range []string{"theirs", "ours", "empty"} {
		low, rate, high := median(func(f [3]figure) float64 { return f[i].rate() })
		_, cpu, _ := median(func(f [3]figure) float64 { return f[i].cpu() })
		_, served, _ := median(func(f [3]figure) float64 { return f[i].served() })
		fmt.Fprintf(&text, "\n%-6s %6.0f a second (%.0f to %.0f), %.1f µs of CPU, %.1f without Redis",
			name, rate, low, high, cpu, served)
	}
	for _, ratio := range []struct {
		name string
		of   func(f [3]figure) float64
	}{
		{"ours/theirs", func(f [3]figure) float64 { return f[1].rate() / f[0].rate() }},
		{"time-ours/empty", func(f [3]figure) float64 { return f[2].rate() / f[1].rate() }},
		{"cpu-theirs/ours", func(f [3]figure) float64 { return f[0].cpu() / f[1].cpu() }},
		{"cpu-ours/empty", func(f [3]figure) float64 { return f[1].cpu() / f[2].cpu() }},
	} {
		low, middle, high := median(ratio.of)
		b.ReportMetric(middle, ratio.name)
		fmt.Fprintf(&text, "\n%s %.2f (%.2f to %.2f)", ratio.name, middle, low, high)
	}
	b.Logf("medians of %d, %d connections with %d callers each%s", rounds, connections, callers, &text)
	b.ReportMetric(0, "ns/op")
}
