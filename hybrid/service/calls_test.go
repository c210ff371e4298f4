package main

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// TestUnfinished: messages that do not arrive take all the places there are, on any connection,
// and lose them after a while. One that has arrived has no place any more, and a stream has one
// until it ends.
func TestUnfinished(t *testing.T) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	begun := &calls{most: 3, wait: time.Second, ctx: ctx}
	server := newGRPC(begun)
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()
	dial := func() *grpc.ClientConn {
		conn, err := grpc.NewClient(listener.Addr().String(),
			grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	others := healthpb.NewHealthClient(dial())
	watch, err := others.Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	soon := func(want codes.Code) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			_, err := others.Check(t.Context(), &healthpb.HealthCheckRequest{})
			if status.Code(err) == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("after 20 s it is not %v: %v", want, err)
			}
		}
	}
	for range 10 {
		soon(codes.OK)
	}
	silent := dial()
	var stuck [2]grpc.ClientStream
	for i := range stuck {
		stuck[i], err = silent.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
			healthpb.Health_Check_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
	}
	soon(codes.ResourceExhausted)
	soon(codes.OK)
	for _, s := range stuck {
		if err := s.RecvMsg(&healthpb.HealthCheckResponse{}); status.Code(err) != codes.Canceled {
			t.Errorf("a message that did not arrive: %v", err)
		}
	}
	end()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream at the end: %v", err)
	}
	for deadline := time.Now().Add(20 * time.Second); begun.begun.Load() != 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d messages are counted, and there are none", begun.begun.Load())
		}
	}
}
