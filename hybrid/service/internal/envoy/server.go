package envoy

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
)

// What a client may cost.
const (
	maxStreams  = 250              // calls at once on one connection
	maxMessage  = 128 << 10        // bytes: 16 descriptors of 4 KiB, and some more
	maxHeader   = 64 << 10         // bytes
	maxArriving = 4096             // messages at once that have not arrived as a whole
	arrival     = 10 * time.Second // of a message
	window      = 64 << 10         // bytes of a call that are sent before they are asked for
)

// workers are goroutines that serve call after call. A new goroutine copies its stack as that
// grows, which took 8% of the CPU time (ADR 103). A call for which no worker is free gets a new
// one.
const workers = 64

// A Server is one of gRPC with bounds on what a client may cost.
type Server struct {
	*grpc.Server
	arriving *arriving
}

// NewServer returns a Server without services, and without TLS if c is nil.
func NewServer(c *tls.Config) *Server {
	if c == nil {
		return newServer(maxArriving, arrival)
	}
	return newServer(maxArriving, arrival, grpc.Creds(credentials.NewTLS(c)))
}

func newServer(most int, wait time.Duration, more ...grpc.ServerOption) *Server {
	return &Server{grpc.NewServer(append(more,
		grpc.InTapHandle(cancelable),
		grpc.NumStreamWorkers(workers),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(4*window),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeader),
		grpc.ConnectionTimeout(10*time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{
			MinTime: 5 * time.Second, PermitWithoutStream: true,
		}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: 5 * time.Minute,

			Time: 30 * time.Second, Timeout: 10 * time.Second, // of clients that are gone
		}),
	)...), newArriving(most, wait)}
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(service *grpc.ServiceDesc, impl any) {
	s.Server.RegisterService(s.arriving.bound(*service), impl)
}

// EndStreams ends what has no end of its own, such as watches of health: GracefulStop would wait
// for it.
func (s *Server) EndStreams() { s.arriving.endStreams() }
