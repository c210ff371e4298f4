package grpclimit_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/grpclimit"
	"github.com/seed13b07268/ration/lease"
)

// A service answers as its fields say, or at once.
type service struct {
	testpb.UnimplementedTestServiceServer
	unary  func(ctx context.Context) error
	stream func(testpb.TestService_FullDuplexCallServer) error
}

// UnaryCall answers.
func (s *service) UnaryCall(
	ctx context.Context, _ *testpb.SimpleRequest,
) (*testpb.SimpleResponse, error) {
	if s.unary != nil {
		if err := s.unary(ctx); err != nil {
			return nil, err
		}
	}
	return new(testpb.SimpleResponse), nil
}

// FullDuplexCall answers each message.
func (s *service) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	if s.stream != nil {
		return s.stream(stream)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			return ended(err)
		}
		if err := stream.Send(new(testpb.StreamingOutputCallResponse)); err != nil {
			return err
		}
	}
}

// ended is nil where the client has sent all.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// start serves s on a free port until the test ends, and returns a client.
func start(
	t *testing.T, s *service, server []grpc.ServerOption, client ...grpc.DialOption,
) testpb.TestServiceClient {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(server...)
	testpb.RegisterTestServiceServer(g, s)
	done := make(chan error, 1)
	go func() { done <- g.Serve(listener) }()
	t.Cleanup(func() {
		g.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	client = append(client, grpc.WithTransportCredentials(insecure.NewCredentials()))
	conn, err := grpc.NewClient(listener.Addr().String(), client...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return testpb.NewTestServiceClient(conn)
}

// serve starts a server with these limits, for a client without.
func serve(t *testing.T, i *grpclimit.Interceptors, s *service) testpb.TestServiceClient {
	t.Helper()
	return start(t, s, []grpc.ServerOption{
		grpc.UnaryInterceptor(i.UnaryServer), grpc.StreamInterceptor(i.StreamServer),
	})
}

// dial starts a server without limits, for a client with these.
func dial(t *testing.T, i *grpclimit.Interceptors, s *service) testpb.TestServiceClient {
	t.Helper()
	return start(t, s, nil, grpc.WithUnaryInterceptor(i.UnaryClient),
		grpc.WithStreamInterceptor(i.StreamClient))
}

// newLimiter returns a Limiter whose keys have the limits of their names, or 100 an hour. If config
// says nothing else, it waits for its store for longer than a busy machine stands still.
func newLimiter(
	t *testing.T, store hybrid.Store, config hybrid.Config, limits map[string]hybrid.Limit,
) *hybrid.Limiter {
	t.Helper()
	config.Timeout = cmp.Or(config.Timeout, 20*time.Second)
	config.LimitFor = func(key string) hybrid.Limit {
		if limit, ok := limits[key]; ok {
			return limit
		}
		return hybrid.PerHour(100)
	}
	l, err := hybrid.New(store, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		l.Close(ctx)
	})
	return l
}

// newInterceptors is grpclimit.New, with FailClosed by default.
func newInterceptors(
	t *testing.T, l *hybrid.Limiter, config grpclimit.Config,
) *grpclimit.Interceptors {
	t.Helper()
	if config.OnError == 0 {
		config.OnError = grpclimit.FailClosed
	}
	i, err := grpclimit.New(l, config)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// one is a limit of one token of key.
func one(key string, of grpclimit.Events) grpclimit.Limit {
	return grpclimit.Limit{
		Name: "of " + key, Of: of,
		Ask: func(grpclimit.Call) (hybrid.Ask, bool) { return hybrid.Ask{Key: key, N: 1}, true },
	}
}

// left is how many tokens of key there are.
func left(t *testing.T, l *hybrid.Limiter, key string) int64 {
	t.Helper()
	d, err := l.Peek(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// unary makes a call, and returns the code of its status.
func unary(ctx context.Context, c testpb.TestServiceClient) (codes.Code, error) {
	_, err := c.UnaryCall(ctx, new(testpb.SimpleRequest))
	return status.Code(err), err
}

// wantDenied fails unless err is the denial of a limit of this name.
func wantDenied(t *testing.T, err error, name string, least, most time.Duration) {
	t.Helper()
	s := status.Convert(err)
	if s.Code() != codes.ResourceExhausted {
		t.Fatalf("status %v", err)
	}
	var retry *errdetails.RetryInfo
	var quota *errdetails.QuotaFailure
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.RetryInfo:
			retry = d
		case *errdetails.QuotaFailure:
			quota = d
		}
	}
	if after := retry.GetRetryDelay().AsDuration(); after < least || after > most {
		t.Errorf("RetryInfo %v, want %v to %v", retry, least, most)
	}
	if v := quota.GetViolations(); len(v) != 1 || v[0].GetSubject() != name ||
		!strings.HasPrefix(v[0].GetDescription(), "limit of ") {
		t.Errorf("QuotaFailure %v, want %q", quota, name)
	}
}

// An erring store fails all exchanges.
type erring struct{ err error }

func (s erring) Exchange(_ context.Context, calls []*lease.Call) {
	for _, c := range calls {
		c.Err = s.err
	}
}

// A hung store answers when it is released.
type hung struct{ release chan struct{} }

func (s hung) Exchange(_ context.Context, calls []*lease.Call) {
	<-s.release
	erring{context.Canceled}.Exchange(context.Background(), calls)
}

// eventually waits until it is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("20 s have not brought that %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
