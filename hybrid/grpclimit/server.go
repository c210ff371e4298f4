package grpclimit

import (
	"context"

	"google.golang.org/grpc"
)

// UnaryServer is a grpc.UnaryServerInterceptor. It may block as TakeAll does, at most
// hybrid.Config.Timeout, or, if Config.Wait is set, until the call's context ends.
func (i *Interceptors) UnaryServer(
	ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	c := Call{Context: ctx, Method: info.FullMethod, Message: request}
	if err := i.admit(c, Calls|Messages); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

// StreamServer is a grpc.StreamServerInterceptor. It may block as UnaryServer does, and so does
// RecvMsg of the stream where a Limit counts Messages: then flow control holds the client back.
func (i *Interceptors) StreamServer(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	c := Call{Context: stream.Context(), Method: info.FullMethod}
	if err := i.admit(c, Calls); err != nil {
		return err
	}
	if i.counts(Messages) {
		stream = &serverStream{stream, i, c}
	}
	return handler(server, stream)
}

// A serverStream counts what it receives.
type serverStream struct {
	grpc.ServerStream
	interceptors *Interceptors
	call         Call
}

// RecvMsg implements grpc.ServerStream.
func (s *serverStream) RecvMsg(message any) error {
	if err := s.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	c := s.call
	c.Message = message
	return s.interceptors.admit(c, Messages)
}
