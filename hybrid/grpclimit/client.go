package grpclimit

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryClient is a grpc.UnaryClientInterceptor. It may block as TakeAll does, at most
// hybrid.Config.Timeout, or, if Config.Wait is set, until the call's context ends. gRPC's own
// retries are not counted: they are below the interceptors.
func (i *Interceptors) UnaryClient(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	c := Call{Context: ctx, Method: method, Message: request, client: true}
	if err := i.admit(c, Calls|Messages); err != nil {
		return err
	}
	return invoker(ctx, method, request, reply, conn, opts...)
}

// StreamClient is a grpc.StreamClientInterceptor. It may block as UnaryClient does, and so does
// SendMsg of the stream where a Limit counts Messages.
func (i *Interceptors) StreamClient(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	c := Call{Context: ctx, Method: method, client: true}
	if err := i.admit(c, Calls); err != nil {
		return nil, err
	}
	if !i.counts(Messages) {
		return streamer(ctx, desc, conn, method, opts...)
	}
	ctx, cancel := context.WithCancel(ctx)
	opts = append(opts, grpc.OnFinish(func(error) { cancel() }))
	stream, err := streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		cancel()
		return nil, err
	}
	c.Context = ctx
	return &clientStream{stream, i, c, cancel}, nil
}

// A clientStream counts what it sends.
type clientStream struct {
	grpc.ClientStream
	interceptors *Interceptors
	call         Call
	cancel       context.CancelFunc
}

// SendMsg implements grpc.ClientStream. A denial ends the stream, as any error of SendMsg does. If
// the stream has ended, SendMsg returns what gRPC's own does: RecvMsg tells why.
func (s *clientStream) SendMsg(message any) error {
	c := s.call
	c.Message = message
	if err := s.interceptors.admit(c, Messages); err != nil && c.Context.Err() == nil {
		s.cancel()
		return err
	}
	return s.ClientStream.SendMsg(message)
}
