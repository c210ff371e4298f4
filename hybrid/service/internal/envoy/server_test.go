package envoy

import (
	"context"
	"net"
	"runtime"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// A bounded is a Server with health, for few calls.
type bounded struct {
	*testing.T
	*Server
	address string
}

func newBounded(t *testing.T, most int, wait time.Duration) *bounded {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bounded{t, newServer(most, wait), listener.Addr().String()}
	healthpb.RegisterHealthServer(b, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- b.Serve(listener) }()
	t.Cleanup(func() { b.Stop(); <-served })
	return b
}

func (b *bounded) dial() *grpc.ClientConn {
	conn, err := grpc.NewClient(b.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return conn
}

// soon waits until calls end with a code.
func (b *bounded) soon(conn *grpc.ClientConn, want codes.Code) {
	b.Helper()
	client := healthpb.NewHealthClient(conn)
	for deadline := time.Now().Add(20 * time.Second); ; {
		_, err := client.Check(b.Context(), &healthpb.HealthCheckRequest{})
		if status.Code(err) == want {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("after 20 s it is not %v: %v", want, err)
		}
	}
}

// begin begins a call whose message does not arrive, and waits until it has a seat.
func (b *bounded) begin(ctx context.Context, conn *grpc.ClientConn) grpc.ClientStream {
	b.Helper()
	before := b.taken()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true},
		healthpb.Health_Check_FullMethodName)
	if err != nil {
		b.Fatal(err)
	}
	b.until(before + 1)
	return s
}

func (b *bounded) taken() int {
	b.arriving.mu.Lock()
	defer b.arriving.mu.Unlock()
	return len(b.arriving.seats) - len(b.arriving.free)
}

// until waits until so many seats are taken.
func (b *bounded) until(want int) {
	b.Helper()
	for deadline := time.Now().Add(20 * time.Second); b.taken() != want; {
		if time.Now().After(deadline) {
			b.Fatalf("%d seats are taken, want %d", b.taken(), want)
		}
		runtime.Gosched()
	}
}

// late lets the time of all messages that are under way pass.
func (b *bounded) late() {
	b.arriving.mu.Lock()
	for i := range b.arriving.seats {
		if p := &b.arriving.seats[i]; !p.due.IsZero() {
			p.due = time.Now()
		}
	}
	b.arriving.mu.Unlock()
	b.arriving.look()
}

// TestUnfinished: messages that do not arrive take all the seats there are, on any connection,
// and lose them after a while. One that has arrived has no seat any more, and a stream has one
// until it ends.
func TestUnfinished(t *testing.T) {
	b := newBounded(t, 3, time.Hour)
	others := b.dial()
	watch, err := healthpb.NewHealthClient(others).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		b.soon(others, codes.OK)
	}
	silent := b.dial()
	stuck := []grpc.ClientStream{b.begin(t.Context(), silent), b.begin(t.Context(), silent)}
	b.soon(others, codes.ResourceExhausted)
	b.late()
	b.soon(others, codes.OK)
	for _, s := range stuck {
		err := s.RecvMsg(&healthpb.HealthCheckResponse{})
		if status.Code(err) != codes.Canceled {
			t.Errorf("a message that did not arrive: %v", err)
		}
	}
	b.EndStreams()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("a stream at the end: %v", err)
	}
	if watch, err = healthpb.NewHealthClient(others).Watch(t.Context(),
		&healthpb.HealthCheckRequest{}); err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a stream after the end: %v", err)
	}
	b.until(0)
}

// TestStreams: streams, which stay for as long as their clients like, leave seats to messages.
func TestStreams(t *testing.T) {
	b := newBounded(t, 32, time.Hour)
	others := b.dial()
	watch := func() (healthpb.Health_WatchClient, error) {
		s, err := healthpb.NewHealthClient(b.dial()).Watch(t.Context(), &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = s.Recv()
		}
		return s, err
	}
	for range 2 {
		if _, err := watch(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := watch(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream above the bound: %v", err)
	}
	b.soon(others, codes.OK)
	b.until(2)
}

// TestLate: a message has its time and no more, also after a pause of the timer.
func TestLate(t *testing.T) {
	b := newBounded(t, 1, time.Millisecond)
	for range 3 {
		s, err := b.dial().NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true},
			healthpb.Health_Check_FullMethodName)
		if err == nil {
			err = s.RecvMsg(&healthpb.HealthCheckResponse{})
		}
		if status.Code(err) != codes.Canceled {
			t.Errorf("a message that did not arrive: %v", err)
		}
		b.until(0)
	}
}

// TestGivenUp: calls that their clients give up, or whose connections end, lose their seats at
// once.
func TestGivenUp(t *testing.T) {
	b := newBounded(t, 2, time.Hour)
	others, silent := b.dial(), b.dial()
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		b.begin(ctx, silent)
	}
	b.soon(others, codes.ResourceExhausted)
	cancel()
	b.soon(others, codes.OK)
	b.until(0) // both have gone: else one of the next is refused, and the seat stays free
	for range 2 {
		b.begin(t.Context(), silent)
	}
	b.soon(others, codes.ResourceExhausted)
	silent.Close()
	b.soon(others, codes.OK)
	b.until(0)
}

// BenchmarkServer is a call of health over loopback, of 16 callers at once for each core: with the
// bounds, and of a server of gRPC that has none.
func BenchmarkServer(b *testing.B) {
	b.Run("bounded", func(b *testing.B) {
		s := NewServer(nil)
		healthpb.RegisterHealthServer(s, health.NewServer())
		load(b, s.Server)
	})
	b.Run("plain", func(b *testing.B) {
		s := grpc.NewServer()
		healthpb.RegisterHealthServer(s, health.NewServer())
		load(b, s)
	})
}

func load(b *testing.B, server *grpc.Server) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		b.Fatal(err)
	}
	go server.Serve(listener)
	defer server.Stop()
	conn, err := grpc.NewClient(listener.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	b.SetParallelism(16)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := client.Check(b.Context(), &healthpb.HealthCheckRequest{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
