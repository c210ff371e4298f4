package main

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// calls bound what messages of gRPC hold that have begun to arrive: on all connections there are
// at most so many, each for some time. A stream counts until it ends, as its messages may come at
// any time.
type calls struct {
	most  int64
	wait  time.Duration
	ctx   context.Context // streams end with it
	begun atomic.Int64
}

// A call is one whose message has not arrived.
type call struct {
	cancel  context.CancelFunc
	timer   *time.Timer
	uncount func() bool // reports whether the call had counted until now
}

type callKey struct{}

// begin is a tap.ServerInHandle: it runs before anything of a message is read.
func (c *calls) begin(ctx context.Context, _ *tap.Info) (context.Context, error) {
	if c.begun.Add(1) > c.most {
		c.begun.Add(-1)
		return nil, status.Error(codes.ResourceExhausted, "too many messages arrive at once")
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(c.wait, cancel)
	ended := context.AfterFunc(ctx, func() {
		timer.Stop()
		c.begun.Add(-1)
	})
	return context.WithValue(ctx, callKey{}, &call{cancel, timer, ended}), nil
}

// unary is a grpc.UnaryServerInterceptor: it runs when the message is there.
func (c *calls) unary(
	ctx context.Context, in any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if call, ok := ctx.Value(callKey{}).(*call); ok && call.uncount() {
		call.timer.Stop()
		c.begun.Add(-1)
	}
	return handler(ctx, in)
}

// stream is a grpc.StreamServerInterceptor.
func (c *calls) stream(
	srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	if call, ok := stream.Context().Value(callKey{}).(*call); ok {
		call.timer.Stop()
		defer context.AfterFunc(c.ctx, call.cancel)()
	}
	err := handler(srv, stream)
	if c.ctx.Err() != nil {
		return status.Error(codes.Unavailable, "the service ends")
	}
	return err
}
