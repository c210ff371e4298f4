package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
	"github.com/seed13b07268/ration/hybrid/service/internal/rlqs"
)

// What a client may cost.
const (
	maxHeader = 64 << 10 // bytes
	maxBody   = 16 << 20 // bytes: a document of 4 MiB as a form is three times as long
)

// healthName is what envoyproxy/ratelimit calls itself in checks of health over gRPC.
const healthName = "ratelimit"

// lastStreams is how long streams of gRPC go on after readiness: they tell that it has ended.
const lastStreams = 250 * time.Millisecond

// handBack bounds how long leases are handed back in the end.
const handBack = 5 * time.Second

// A server is the listeners of a service.
type server struct {
	*service
	ready         atomic.Bool
	health        *health.Server
	http, metrics *http.Server
	grpc          *envoy.Server
	envoy         *envoy.Service
}

// serve serves until ctx ends or a listener fails, and then ends in order: readiness, requests
// under way, what runs beside, leases. Reservations are settled until the last request has ended,
// and their tokens are leases.
func (s *service) serve(ctx context.Context, p parts) (err error) {
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	if p.watch != nil {
		watching.Go(func() { p.watch(watched) })
	}
	defer func() {
		stop()
		watching.Wait()
		end, cancel := context.WithTimeout(context.Background(), handBack)
		defer cancel()
		failed := s.limiter.Close(end)
		if p.close != nil {
			failed = errors.Join(failed, p.close(end))
		}
		if failed != nil {
			s.log.Warn("leases were not handed back", "error", failed)
		}
	}()
	l, err := s.listen()
	defer l.close()
	if err != nil {
		return err
	}
	srv := s.server(p)
	failed := srv.start(l)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	srv.end(err == nil)
	return err
}

// listeners are those of a service, each nil or open.
type listeners struct{ http, grpc, metrics net.Listener }

// listen opens the listeners, of metrics only if there are to be any. Each has its own bound of
// connections: those above it wait in the system's queue. Close them, also after an error.
func (s *service) listen() (l listeners, err error) {
	for _, o := range []struct {
		name, address string
		to            *net.Listener
	}{
		{"http", s.config.http, &l.http},
		{"grpc", s.config.grpc, &l.grpc},
		{"metrics", s.config.metrics, &l.metrics},
	} {
		if o.address == "" {
			continue
		}
		opened, err := net.Listen("tcp", o.address)
		if err != nil {
			return l, fmt.Errorf("-%s %s: %w", o.name, o.address, err)
		}
		*o.to = bound(opened.(*net.TCPListener), s.config.connections) // as of each "tcp"
	}
	return l, nil
}

func (l listeners) close() {
	for _, one := range []net.Listener{l.http, l.grpc, l.metrics} {
		if one != nil {
			_ = one.Close() // the servers may have closed it
		}
	}
}

// server makes what serves.
func (s *service) server(p parts) *server {
	srv := &server{service: s, health: health.NewServer(), envoy: envoy.New(s.limiter, envoy.Config{
		Headers: s.config.headers, Metadata: s.config.metadata, Log: s.log,
	})}
	srv.grpc = envoy.NewServer(s.config.tls.of("grpc", s.log))
	srv.http = newHTTP(srv.mux(p), s.config.tls.of("http", s.log), s.log)
	srv.metrics = newHTTP(srv.measured(), s.config.tls.of("metrics", s.log), s.log)
	srv.envoy.Register(srv.grpc)
	if p.keeper != nil {
		envoy.NewKuadrant(srv.envoy, p.keeper).Register(srv.grpc)
	}
	if s.config.rlqs > 0 {
		rlqs.Register(srv.grpc, s.limiter, rlqs.Config{Life: s.config.rlqs, Log: s.log})
	}
	healthpb.RegisterHealthServer(srv.grpc, srv.health)
	reflection.Register(srv.grpc)
	return srv
}

// start serves. It returns where the error of a listener comes from that fails or ends.
func (s *server) start(l listeners) <-chan error {
	failed := make(chan error, 3)
	serve := func(name string, l net.Listener, serve func(net.Listener) error) {
		go func() { failed <- fmt.Errorf("-%s %s: %w", name, l.Addr(), serve(l)) }()
	}
	serve("http", l.http, over(s.http))
	serve("grpc", l.grpc, s.grpc.Serve)
	where := []any{"http", urlOf(s.http, l.http), "grpc", l.grpc.Addr().String()}
	if l.metrics != nil {
		serve("metrics", l.metrics, over(s.metrics))
		where = append(where, "metrics", urlOf(s.metrics, l.metrics)+"metrics")
	}
	for _, name := range []string{envoy.Name, healthName} {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	s.ready.Store(true)
	s.log.Info("serving", append(where, "domains", len(s.limiter.Rules().Domains()))...)
	return failed
}

// over is how a server serves: over TLS if it has any.
func over(s *http.Server) func(net.Listener) error {
	if s.TLSConfig == nil {
		return s.Serve
	}
	return func(l net.Listener) error { return s.ServeTLS(l, "", "") }
}

// urlOf is where a server of a listener is.
func urlOf(s *http.Server, l net.Listener) string {
	if s.TLSConfig == nil {
		return "http://" + l.Addr().String() + "/"
	}
	return "https://" + l.Addr().String() + "/"
}

// end ends the listeners, after the requests under way if there is time. With drain, clients
// that ask for readiness have time to go elsewhere.
func (s *server) end(drain bool) {
	s.log.Info("ending", "drain", s.config.drain, "shutdown", s.config.shutdown)
	s.ready.Store(false)
	s.health.Shutdown()
	if drain {
		time.Sleep(s.config.drain)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.config.shutdown)
	defer cancel()
	defer time.AfterFunc(lastStreams, s.grpc.EndStreams).Stop()
	ended := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(ended)
	}()
	for _, web := range []*http.Server{s.http, s.metrics} {
		if err := web.Shutdown(ctx); err != nil {
			s.log.Warn("requests of HTTP were cut off", "error", err)
			_ = web.Close()
		}
	}
	select {
	case <-ended:
	case <-ctx.Done():
		s.log.Warn("calls of gRPC were cut off")
		s.grpc.Stop()
		<-ended
	}
}

// newHTTP returns a server with bounds on what a client may cost, without TLS if c is nil. It
// speaks HTTP/1 only, over TLS as well: what a client may cost is tested so.
func newHTTP(handler http.Handler, c *tls.Config, log *slog.Logger) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		TLSConfig:         c,
		Protocols:         &protocols,
		Handler:           http.MaxBytesHandler(handler, maxBody),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
