package main

import (
	"context"
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
)

// What a client may cost.
const (
	maxHeader = 64 << 10 // bytes
	maxBody   = 16 << 20 // bytes: a document of 4 MiB as a form is three times as long
)

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
}

// serve serves until ctx ends or a listener fails, and then ends in order: readiness, requests
// under way, leases.
func (s *service) serve(ctx context.Context, p parts) (err error) {
	watched, stop := context.WithCancel(ctx)
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
	srv := &server{service: s, health: health.NewServer(), grpc: envoy.NewServer()}
	srv.http = newHTTP(srv.mux(p), s.log)
	srv.metrics = newHTTP(srv.measured(), s.log)
	envoy.Register(srv.grpc, s.limiter, envoy.Config{Headers: s.config.headers, Log: s.log})
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
	serve("http", l.http, s.http.Serve)
	serve("grpc", l.grpc, s.grpc.Serve)
	where := []any{"http", "http://" + l.http.Addr().String() + "/", "grpc", l.grpc.Addr().String()}
	if l.metrics != nil {
		serve("metrics", l.metrics, s.metrics.Serve)
		where = append(where, "metrics", "http://"+l.metrics.Addr().String()+"/metrics")
	}
	s.health.SetServingStatus(envoy.Name, healthpb.HealthCheckResponse_SERVING)
	s.ready.Store(true)
	s.log.Info("serving", append(where, "domains", len(s.limiter.Rules().Domains()))...)
	return failed
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

// newHTTP returns a server with bounds on what a client may cost.
func newHTTP(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           http.MaxBytesHandler(handler, maxBody),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      60 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}
