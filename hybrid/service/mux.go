package main

import (
	"io"
	"net/http"

	"github.com/seed13b07268/ration/hybrid/service/internal/metrics"
)

// mux says which part serves what.
func (s *server) mux(p parts) http.Handler {
	mux := s.probes()
	mount(mux, p.page, "/")
	mount(mux, p.api, "/v1/", "/openapi.yaml")
	if s.config.json {
		mux.Handle("POST /json", s.envoy.Handler())
	}
	return mux
}

// measured is what has a listener of its own: names of domains and rules are not for everybody
// that can reach the page. Health is there, too: clients that hold all connections of the page do
// not keep it from an answer.
func (s *server) measured() http.Handler {
	mux := s.probes()
	mux.Handle("GET /metrics", metrics.Handler(s.limiter.Stats, s.config.envoyStats))
	return mux
}

// probes have health and readiness.
func (s *server) probes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /healthcheck", s.healthcheck)
	return mux
}

func mount(mux *http.ServeMux, part http.Handler, patterns ...string) {
	for _, pattern := range patterns {
		if part != nil {
			mux.Handle(pattern, part)
		}
	}
}

// alive says that the process lives.
func alive(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "alive") }

// readyz says whether requests are welcome: rules are in force from the beginning, so until the
// service ends.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		say(w, http.StatusServiceUnavailable, "ending")
		return
	}
	say(w, http.StatusOK, "ready")
}

// healthcheck is readyz with the answers of envoyproxy/ratelimit.
func (s *server) healthcheck(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		say(w, http.StatusInternalServerError, "ending")
		return
	}
	say(w, http.StatusOK, "OK")
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n")
}
