// Package api is the service's JSON API, version 1, over a rules.Limiter and a rules.Book.
// openapi.yaml describes it, docs/service-api.md explains it, and the tests hold the handlers
// against both.
//
// # Promise
//
// A request is strict: a field or parameter that is unknown or stands there twice, a value out of
// range, or a text after the end is refused, by its name, and nothing is taken or changed. All
// errors are problem+json of RFC 9457. What a request makes the process hold is bounded: the
// sizes of bodies, and the number of reservations and of texts of rules at a time.
//
// A caller learns nothing of a domain that it may not see, not even whether there is one. One whose
// token is for taking only learns of rules what the answers to its own requests tell.
//
// # Not promised
//
// A repeated take takes twice. What a process has reserved that ends is spent.
//
// # Duties
//
// The server bounds the number of connections, and the time that the header of a request takes.
package api

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
)

//go:embed openapi.yaml
var description []byte

// A Caller is a program that has shown its token.
type Caller struct {
	// Name is the author of its changes, 1 to 256 bytes. Reservations belong to it.
	Name string
	// May tells whether it has at least a right to a domain.
	May func(domain string, right Right) bool
	// TakesOnly says that it may take from limits, and nothing else.
	TakesOnly bool
}

// A Right is what a Caller may do with a domain. Each has those before it.
type Right int

const (
	Use  Right = iota // see it, and take what its rules admit
	Edit              // change its rules
	Own               // make and delete it
)

// ErrCaller is wrapped by an auth function's error about a request that has no valid token. Other
// errors of it mean that nobody can tell now.
var ErrCaller = errors.New("no valid token")

// Config configures the API. The zero Config is a good one.
type Config struct {
	// Log is told what a 5xx answer hides from its caller. Default: slog.Default().
	Log *slog.Logger

	// Holds keeps reservations. It is needed where there are some.
	Holds *reservations.Keeper

	// Changed is called after each change, before the answer. Default: nothing.
	Changed func(*http.Request, rules.Revision)

	// Banned is called after each ban that was set or lifted, before the answer. Default: nothing.
	Banned func(*http.Request, BanChange)
}

const (
	mostBody = 1 << 20 // bytes of a body, but for those with rules

	// mostRulesBody is for a text of rules.MaxText in JSON, where a line's end takes two bytes.
	mostRulesBody = 2*rules.MaxText + mostBody

	// bodyTime is how long a body may take to arrive, and an answer with a text to leave.
	bodyTime = 20 * time.Second

	// texts is how many requests may have texts of rules in memory at a time, and bodies how many
	// more may bring one. A text is several times as large once it was read.
	texts, bodies = 4, 32

	// placeTime is how long a request waits to be among them.
	placeTime = time.Second
)

// An api serves the routes.
type api struct {
	limiter limiter
	book    rules.Book // nil: read only
	auth    func(*http.Request) (Caller, error)
	log     *slog.Logger
	changed func(*http.Request, rules.Revision)

	changedBan func(*http.Request, BanChange)

	holds  *reservations.Keeper
	texts  chan struct{} // a place for each request with texts of rules
	bodies chan struct{} // a place for each whose body has one
	mux    *http.ServeMux
	logged atomic.Int64 // when a failure was logged, in ns since 1970
}

// New returns the handler of /v1/ and /openapi.yaml. Without a Book the rules are read only. The
// auth function is called once for each request under /v1/, and may block as long as the request's
// context lasts.
func New(
	l *rules.Limiter, b rules.Book, auth func(*http.Request) (Caller, error), c Config,
) http.Handler {
	return newAPI(reservations.Real{Limiter: l}, b, auth, c)
}

func newAPI(
	l limiter, b rules.Book, auth func(*http.Request) (Caller, error), c Config,
) http.Handler {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Changed == nil {
		c.Changed = func(*http.Request, rules.Revision) {}
	}
	if c.Banned == nil {
		c.Banned = func(*http.Request, BanChange) {}
	}
	a := &api{
		limiter: l, book: b, auth: auth, log: c.Log, changed: c.Changed, changedBan: c.Banned,
		mux:   http.NewServeMux(),
		holds: c.Holds, texts: make(chan struct{}, texts),
		bodies: make(chan struct{}, bodies),
	}
	a.mux.HandleFunc("GET /openapi.yaml", describe)
	for _, route := range a.routes() {
		a.mux.Handle(route.method+" "+route.path, a.serve(route))
	}
	var origins http.CrossOriginProtection
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		write(w, problem{Status: http.StatusForbidden, Detail: "a page of another origin asks"})
	}))
	return origins.Handler(http.HandlerFunc(a.find))
}

// A route is one verb of the API.
type route struct {
	method, path string
	token        token
	query        []string // names of the parameters
	serve        func(w http.ResponseWriter, q *request) error
}

// A token is the kind of API token that a route needs.
type token int

const (
	anyToken  token = iota
	fullToken       // one that is not for taking only
)

func (a *api) routes() []route {
	const domain = "/v1/domains/{domain}"
	return []route{
		{"POST", "/v1/take", anyToken, nil, a.take},
		{"POST", "/v1/peek", anyToken, nil, a.peek},
		{"POST", "/v1/reserve", anyToken, nil, a.reserve},
		{"POST", "/v1/reservations/{id}/settle", anyToken, nil, a.settle},
		{"POST", "/v1/reservations/{id}/extend", anyToken, nil, a.extend},
		{"DELETE", "/v1/reservations/{id}", anyToken, nil, a.cancel},
		{"GET", "/v1/explain", fullToken, []string{"domain", "descriptor"}, a.explain},
		{"GET", "/v1/domains", fullToken, nil, a.domains},
		{"GET", domain, fullToken, []string{"version"}, a.text},
		{"PUT", domain, fullToken, []string{"reason", "dry-run"}, a.put},
		{"DELETE", domain, fullToken, []string{"reason", "dry-run"}, a.remove},
		{"GET", domain + "/history", fullToken, []string{"before", "n"}, a.history},
		{"POST", domain + "/rollback", fullToken, []string{"dry-run"}, a.rollback},
		{"PUT", domain + "/rules", fullToken, []string{"path", "reason", "dry-run"}, a.setRule},
		{"GET", domain + "/bans", fullToken, nil, a.bans},
		{"PUT", domain + "/bans", fullToken, []string{"descriptor"}, a.setBan},
		{"DELETE", domain + "/bans", fullToken, []string{"descriptor", "reason"}, a.liftBan},
		{"DELETE", domain + "/rules", fullToken, []string{"path", "reason", "dry-run"}, a.deleteRule},
	}
}

// A request is one of a caller that is known.
type request struct {
	*http.Request
	w      http.ResponseWriter
	caller Caller
	query  map[string][]string
}

// find serves a request, or a problem where http.ServeMux has a page of text.
func (a *api) find(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	handler, pattern := a.mux.Handler(r)
	if pattern != "" {
		a.mux.ServeHTTP(w, r)
		return
	}
	p := problem{Status: http.StatusNotFound, Detail: "the API has no such path"}
	told := told{http.Header{}}
	handler.ServeHTTP(told, r)
	if allow := told.Header().Get("Allow"); allow != "" {
		h.Set("Allow", allow)
		p = problem{Status: http.StatusMethodNotAllowed,
			Detail: fmt.Sprintf("the method %.40q is not among %s", r.Method, allow)}
	}
	write(w, p)
}

// told keeps the header of an answer.
type told struct{ header http.Header }

func (t told) Header() http.Header       { return t.header }
func (told) WriteHeader(int)             {}
func (told) Write(b []byte) (int, error) { return len(b), nil }

// serve is the handler of a route.
func (a *api) serve(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := a.auth(r)
		if err == nil {
			err = a.serveCaller(w, r, caller, route)
		} else if errors.Is(err, ErrCaller) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			err = problem{Status: http.StatusUnauthorized, Detail: "a valid token is needed"}
		} else {
			err = fmt.Errorf("auth: %w", err)
		}
		if err != nil {
			a.fail(w, r, err)
		}
	})
}

func (a *api) serveCaller(
	w http.ResponseWriter, r *http.Request, caller Caller, route route,
) error {
	if caller.TakesOnly && route.token == fullToken {
		return problem{Status: http.StatusForbidden, Detail: "the token is for taking only"}
	}
	query, err := readQuery(r, route.query)
	if err != nil {
		return err
	}
	if (route.method == "GET" || route.method == "DELETE") && r.ContentLength != 0 {
		return bad("", "", "%s has no body", route.method)
	}
	return route.serve(w, &request{Request: r, w: w, caller: caller, query: query})
}

// see returns the problem of a domain that the caller may not see: that of one that does not
// exist. Nor is there one of the name under which a book has bans.
func (q *request) see(domain string) error {
	if q.caller.May == nil || strings.HasPrefix(domain, rules.BansPrefix) ||
		!q.caller.May(domain, Use) {
		return noDomain
	}
	return nil
}

// change returns the problem of a domain that the caller may not change.
func (q *request) change(domain string) error {
	if err := q.see(domain); err != nil {
		return err
	}
	if !q.caller.May(domain, Edit) {
		return problem{Status: http.StatusForbidden, Detail: "the caller may not change this domain"}
	}
	return nil
}

// hold waits for a place among the requests that have texts of rules in memory. Call leave then. A
// caller that reads its answer slowly does not keep the place.
func (a *api) hold(q *request) (leave func(), err error) {
	free, err := place(q.Context(), a.texts)
	if err != nil {
		return nil, err
	}
	connection := http.NewResponseController(q.w)
	_ = connection.SetWriteDeadline(time.Now().Add(bodyTime)) // tests have no connection
	return func() {
		var server time.Time
		if s, ok := q.Context().Value(http.ServerContextKey).(*http.Server); ok && s.WriteTimeout > 0 {
			server = time.Now().Add(s.WriteTimeout)
		}
		_ = connection.SetWriteDeadline(server)
		free()
	}, nil
}

// place waits for one, for placeTime at most.
func place(ctx context.Context, places chan struct{}) (leave func(), err error) {
	timer := time.NewTimer(placeTime)
	defer timer.Stop()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-timer.C:
		return nil, problem{Status: http.StatusServiceUnavailable, retry: 1,
			Detail: "too many requests with rules at once"}
	}
}

func describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", typeYAML)
	_, _ = w.Write(description)
}
