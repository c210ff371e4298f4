package grpclimit_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/grpclimit"
)

// A whole program: a server that serves each network three calls a minute, and all of them a
// hundred, and a client. With Redis the store is remote.New(client), and the limits are those of
// all servers together.
func Example() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			if strings.HasPrefix(key, "network:") {
				return hybrid.PerMinute(3)
			}
			return hybrid.PerMinute(100)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())

	limits, err := grpclimit.New(limiter, grpclimit.Config{
		Limits: []grpclimit.Limit{
			{Name: "calls of a network", Ask: func(c grpclimit.Call) (hybrid.Ask, bool) {
				return hybrid.Ask{Key: "network:" + c.Network(), N: 1}, c.Network() != ""
			}},
			{Name: "all calls", Ask: func(grpclimit.Call) (hybrid.Ask, bool) {
				return hybrid.Ask{Key: "everybody", N: 1}, true
			}},
		},
		OnError: grpclimit.FailOpen,
	})
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(limits.UnaryServer), grpc.StreamInterceptor(limits.StreamServer))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 4 {
		_, err := healthpb.NewHealthClient(conn).Check(
			context.Background(), new(healthpb.HealthCheckRequest))
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// rpc error: code = ResourceExhausted desc = rate limit: calls of a network
}

// example is the limiter of the examples below: ten tokens a minute.
func example() *hybrid.Limiter {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerMinute(10)})
	if err != nil {
		panic(err)
	}
	return limiter
}

// A client that waits for the limit of the server that it calls.
func ExampleInterceptors_UnaryClient() {
	limiter := example()
	defer limiter.Close(context.Background())
	limits, err := grpclimit.New(limiter, grpclimit.Config{
		Limits: []grpclimit.Limit{{
			Name: "calls of the directory",
			Ask: func(grpclimit.Call) (hybrid.Ask, bool) {
				return hybrid.Ask{Key: "directory", N: 10}, true
			},
		}},
		OnError: grpclimit.FailClosed,
		Wait:    true,
	})
	if err != nil {
		log.Fatal(err)
	}
	conn, err := grpc.NewClient("directory.example:443",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(limits.UnaryClient),
		grpc.WithStreamInterceptor(limits.StreamClient))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	limiter.AllowN("directory", 10) // others have used the limit up
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err = healthpb.NewHealthClient(conn).Check(ctx, new(healthpb.HealthCheckRequest))
	fmt.Println(status.Code(err)) // at once, since a minute is needed
	// Output: DeadlineExceeded
}

// Messages of a stream are counted one by one.
func ExampleMessages() {
	limiter := example()
	defer limiter.Close(context.Background())
	_, err := grpclimit.New(limiter, grpclimit.Config{
		Limits: []grpclimit.Limit{{
			Name: "messages of a user",
			Of:   grpclimit.Messages,
			Ask: func(c grpclimit.Call) (hybrid.Ask, bool) {
				user := c.Metadata("user") // which an interceptor before has checked
				return hybrid.Ask{Key: "user:" + strings.Join(user, ","), N: 1}, true
			},
		}},
		OnError: grpclimit.FailClosed,
	})
	fmt.Println(err)
	// Output: <nil>
}

// A shadow denies nothing, and tells what it would have denied.
func ExampleConfig_shadow() {
	limiter := example()
	defer limiter.Close(context.Background())
	limits, err := grpclimit.New(limiter, grpclimit.Config{
		Limits: []grpclimit.Limit{{
			Name: "new limit",
			Ask: func(c grpclimit.Call) (hybrid.Ask, bool) {
				return hybrid.Ask{Key: c.Method, N: 6}, true
			},
		}},
		OnError: grpclimit.FailOpen,
		Shadow:  true,
		Denied: func(c grpclimit.Call, d grpclimit.Denial) {
			fmt.Println(c.Method, "would be denied by the", d.Limit)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	handler := func(context.Context, any) (any, error) { return codes.OK, nil }
	for range 2 {
		info := &grpc.UnaryServerInfo{FullMethod: "/shop.Cart/Pay"}
		fmt.Println(limits.UnaryServer(context.Background(), nil, info, handler))
	}
	// Output:
	// OK <nil>
	// /shop.Cart/Pay would be denied by the new limit
	// OK <nil>
}
