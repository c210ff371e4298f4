package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/grpclimit"
)

// ping sends a message and waits for the answer.
func ping(s testpb.TestService_FullDuplexCallClient) error {
	if err := s.Send(new(testpb.StreamingOutputCallRequest)); err != nil {
		return err
	}
	_, err := s.Recv()
	return err
}

// open opens a stream.
func open(
	ctx context.Context, t *testing.T, c testpb.TestServiceClient,
) testpb.TestService_FullDuplexCallClient {
	t.Helper()
	s, err := c.FullDuplexCall(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEvents: what a stream of three messages and a unary call cost, at a server and at a client.
func TestEvents(t *testing.T) {
	for name, with := range map[string]func(
		*testing.T, *grpclimit.Interceptors, *service) testpb.TestServiceClient{
		"server": serve, "client": dial,
	} {
		for of, want := range map[grpclimit.Events]int64{
			0: 1 + 1, grpclimit.Calls: 1 + 1, grpclimit.Messages: 3 + 1,
			grpclimit.Calls | grpclimit.Messages: 4 + 1,
		} {
			l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, nil)
			c := with(t, newInterceptors(t, l, grpclimit.Config{
				Limits: []grpclimit.Limit{one("k", of)},
			}), new(service))
			s := open(t.Context(), t, c)
			for range 3 {
				if err := ping(s); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Recv(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if code, err := unary(t.Context(), c); code != codes.OK {
				t.Fatal(err)
			}
			if spent := 100 - left(t, l, "k"); spent != want {
				t.Errorf("%s, %d: %d tokens were spent, want %d", name, of, spent, want)
			}
		}
	}
}

// TestStreamDenied: a stream is denied as it opens, or at a message. Whichever end denies, the
// client gets the same status, and the server's handler comes to an end.
func TestStreamDenied(t *testing.T) {
	for name, with := range map[string]func(
		*testing.T, *grpclimit.Interceptors, *service) testpb.TestServiceClient{
		"server": serve, "client": dial,
	} {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, map[string]hybrid.Limit{
			"messages": hybrid.PerHour(2), "streams": hybrid.PerHour(1),
		})
		ends := make(chan error, 1)
		c := with(t, newInterceptors(t, l, grpclimit.Config{Limits: []grpclimit.Limit{
			one("messages", grpclimit.Messages), one("streams", grpclimit.Calls),
		}}), &service{stream: func(s testpb.TestService_FullDuplexCallServer) error {
			err := new(service).FullDuplexCall(s)
			ends <- err
			return err
		}})
		s := open(t.Context(), t, c)
		for range 2 {
			if err := ping(s); err != nil {
				t.Fatal(err)
			}
		}
		wantDenied(t, ping(s), "of messages", 20*time.Minute, 30*time.Minute)
		code := codes.Canceled // by the client, which has denied it
		if name == "server" {
			code = codes.ResourceExhausted
		}
		if err := <-ends; status.Code(err) != code {
			t.Errorf("%s: the handler ended with %v", name, err)
		}
		s, err := c.FullDuplexCall(t.Context())
		if err == nil { // the server tells it with its first answer
			_, err = s.Recv()
		}
		wantDenied(t, err, "of streams", 50*time.Minute, time.Hour)
	}
}

// TestCancelInStream: a client that cancels while its message waits for tokens takes none.
func TestCancelInStream(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, map[string]hybrid.Limit{
		"k": hybrid.PerHour(2), "other": hybrid.PerHour(5),
	})
	ends := make(chan error, 1)
	c := serve(t, newInterceptors(t, l, grpclimit.Config{Wait: true, Limits: []grpclimit.Limit{
		one("k", grpclimit.Messages), one("other", grpclimit.Messages),
	}}), &service{stream: func(s testpb.TestService_FullDuplexCallServer) error {
		err := new(service).FullDuplexCall(s)
		ends <- err
		return err
	}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := open(ctx, t, c)
	for range 2 {
		if err := ping(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Send(new(testpb.StreamingOutputCallRequest)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a message waits", func() bool { return l.Stats().Waiters > 0 })
	cancel()
	if err := <-ends; status.Code(err) != codes.Canceled {
		t.Errorf("the handler ended with %v", err)
	}
	eventually(t, "nobody waits", func() bool { return l.Stats().Waiters == 0 })
	if n := left(t, l, "other"); n != 3 {
		t.Errorf("%d tokens of the other limit are left", n)
	}
}

// TestStreamHasEnded: at a client, a stream that the server has ended takes no tokens, and its Send
// and Recv tell what they do without an interceptor.
func TestStreamHasEnded(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, nil)
	c := dial(t, newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{one("k", grpclimit.Messages)},
	}), &service{stream: func(s testpb.TestService_FullDuplexCallServer) error {
		return status.Error(codes.DataLoss, "enough")
	}})
	s := open(t.Context(), t, c)
	if _, err := s.Recv(); status.Code(err) != codes.DataLoss {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.Send(new(testpb.StreamingOutputCallRequest)); !errors.Is(err, io.EOF) {
			t.Errorf("Send: %v", err)
		}
	}
	if n := left(t, l, "k"); n != 100 {
		t.Errorf("%d tokens are left", n)
	}
}

// TestStreamsEnd: contexts of a client's streams end with them, however that is.
func TestStreamsEnd(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, nil)
	i := newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{one("k", grpclimit.Messages)},
	})
	var contexts []context.Context
	c := start(t, new(service), nil, grpc.WithChainStreamInterceptor(i.StreamClient, func(
		ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
		streamer grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		contexts = append(contexts, ctx)
		if len(contexts) == 3 {
			return nil, status.Error(codes.Aborted, "no stream")
		}
		return streamer(ctx, desc, conn, method, opts...)
	}))

	s := open(t.Context(), t, c)
	if err := s.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	open(ctx, t, c)
	cancel()
	if _, err := c.FullDuplexCall(t.Context()); status.Code(err) != codes.Aborted {
		t.Fatal(err)
	}
	for n, ctx := range contexts {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Errorf("the context of stream %d has not ended", n)
		}
	}
}
