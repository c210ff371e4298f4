package api_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	_ "modernc.org/sqlite"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
)

// shop has a rule of each state.
const shop = `# the shop
domain: shop
descriptors:
  - key: user                  # each user
    rate_limit: {name: users, unit: year, requests_per_unit: 3}
  - key: user
    value: root
    rate_limit: {unlimited: true}
  - key: address
    rate_limit: {unit: hour, requests_per_unit: 2}
  - key: trial
    rate_limit: {unit: hour, requests_per_unit: 2}
    shadow_mode: true
  - key: tenant
    rate_limit: {unit: year, requests_per_unit: 100, replaces: [{name: users}]}
  - key: model
    rate_limit: {unit: second, requests_per_unit: 100}
    classes: [{value: critical, floor: 0.5}, {value: batch}]
`

// A service is an API with a book and a limiter.
type service struct {
	http.Handler
	book    rules.Book
	limiter *rules.Limiter
	api     *described
	keeper  *reservations.Keeper
	mu      sync.Mutex
	told    []string // changes
}

// callers are those whose tokens are their names.
var callers = map[string]api.Caller{
	"ann": {Name: "ann", May: func(string, api.Right) bool { return true }},
	"eve": {Name: "eve", May: func(domain string, right api.Right) bool {
		return domain == "shop" && right == api.Use
	}},
	"edd": {Name: "edd", May: func(_ string, right api.Right) bool { return right <= api.Edit }},
	"tim": {Name: "tim", May: func(string, api.Right) bool { return true }, TakesOnly: true},
	"bob": {Name: "bob", May: func(domain string, _ api.Right) bool { return domain == "cafe" }},
}

var errAccounts = errors.New("secret: accounts are away")

func auth(r *http.Request) (api.Caller, error) {
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token == "broken" {
		return api.Caller{}, errAccounts
	}
	c, ok := callers[token]
	if strings.HasPrefix(token, "caller ") {
		return api.Caller{Name: token, May: callers["eve"].May}, nil
	}
	if !ok {
		return c, fmt.Errorf("token %q: %w", token, api.ErrCaller)
	}
	return c, nil
}

// newService begins with the shop, if there is no other text.
func newService(t testing.TB, texts ...string) *service {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "rules.db"))+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	must(t, sqlrules.Migrate(t.Context(), db, sqlrules.SQLite))
	book, err := sqlrules.New(db, sqlrules.SQLite)
	must(t, err)
	if texts == nil {
		texts = []string{shop}
	}
	for _, text := range texts {
		set, err := rules.Parse(rules.Document{Text: []byte(text)})
		must(t, err)
		_, _, err = rules.Save(t.Context(), book, rules.Change{
			Domain: set.Domains()[0].Name, Author: "test", Reason: "begin", Text: []byte(text),
		})
		must(t, err)
	}
	l, err := rules.New(hybrid.NewMemory(), book, rules.Config{
		// Longer than a busy machine stands still.
		Limiter: hybrid.Config{SlogLogger: quiet, Timeout: 20 * time.Second},
	})
	must(t, err)
	t.Cleanup(func() { must(t, l.Close(context.Background())) })
	s := &service{book: book, limiter: l, api: describe(t)}
	s.keeper, err = reservations.New(reservations.Real{Limiter: l}, holds.NewMemory(), quiet)
	must(t, err)
	s.Handler = api.New(l, book, auth, api.Config{Log: quiet, Holds: s.keeper,
		Changed: func(_ *http.Request, r rules.Revision) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.told = append(s.told, fmt.Sprint(r.Version, " ", r.Author))
		},
		Banned: func(_ *http.Request, c api.BanChange) {
			s.mu.Lock()
			defer s.mu.Unlock()
			what := "set"
			if c.Lifted != "" {
				what = "lifted"
			}
			s.told = append(s.told, fmt.Sprintf("%s %s %s %s", what, c.Ban, c.Author, c.Lifted))
		}})
	return s
}

var quiet = slog.New(slog.DiscardHandler)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An answer is what a request got.
type answer struct {
	*httptest.ResponseRecorder
	body map[string]any
}

// detail is that of a problem.
func (a answer) detail() string { return fmt.Sprint(a.body["detail"]) }

// at is a value in the body, by names and indices, as text. It is <nil> if there is none.
func (a answer) at(path ...any) string {
	var v any = a.body
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				return "<nil>"
			}
			v = list[p]
		}
	}
	return fmt.Sprint(v)
}

// do sends a request of a caller. Headers are pairs. A body that begins with a brace is JSON, and
// another one YAML, if no header says otherwise. The answer must have the status, and be as the
// description says; so must be a request that is served.
func (s *service) do(
	t testing.TB, caller, method, target, body string, status int, headers ...string,
) answer {
	t.Helper()
	r := request(caller, method, target, body).WithContext(t.Context())
	if caller == "" {
		r.Header.Del("Authorization")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	input := s.api.input(r, body)
	w := serve(s, r)
	got := answer{ResponseRecorder: w}
	if w.Code != status {
		t.Fatalf("%s %s: %d %s, not %d", method, target, w.Code, w.Body, status)
	}
	if strings.HasSuffix(w.Header().Get("Content-Type"), "json") {
		must(t, json.Unmarshal(w.Body.Bytes(), &got.body))
	}
	s.api.check(t, input, w)
	return got
}

// request is one of a caller, with JSON or YAML, see do.
func request(caller, method, target, body string) *http.Request {
	if body == "" {
		r := httptest.NewRequest(method, target, nil)
		r.Header.Set("Authorization", "Bearer "+caller)
		return r
	}
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+caller)
	r.Header.Set("Content-Type", "application/yaml")
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func serve(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// plain posts a body, and returns the status. It checks nothing, and is fast.
func plain(ctx context.Context, h http.Handler, caller, target, body string) int {
	return serve(h, request(caller, "POST", target, body).WithContext(ctx)).Code
}

// A described is the OpenAPI document.
type described struct{ *openapi3.T }

func describe(t testing.TB) *described {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(api.Description)
	must(t, err)
	return &described{doc}
}

// input is what the validator needs of a request, or nil if no operation fits.
func (d *described) input(r *http.Request, body string) *openapi3filter.RequestValidationInput {
	segments := strings.Split(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	for path, item := range d.Paths.Map() {
		want := strings.Split(strings.TrimPrefix(path, "/"), "/")
		operation, values := item.GetOperation(r.Method), map[string]string{}
		fits := operation != nil && len(want) == len(segments)
		for i := 0; fits && i < len(want); i++ {
			if name, ok := strings.CutPrefix(want[i], "{"); ok {
				values[strings.TrimSuffix(name, "}")] = segments[i]
			} else {
				fits = want[i] == segments[i]
			}
		}
		if !fits {
			continue
		}
		copied := r.Clone(r.Context())
		copied.Body = io.NopCloser(strings.NewReader(body))
		return &openapi3filter.RequestValidationInput{
			Request: copied, PathParams: values,
			Route: &routers.Route{
				Spec: d.T, Path: path, PathItem: item, Method: r.Method, Operation: operation,
			},
			Options: &openapi3filter.Options{
				AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
				IncludeResponseStatus: true, MultiError: true,
			},
		}
	}
	return nil
}

// check holds an answer, and a request that was served, against the description.
func (d *described) check(
	t testing.TB, input *openapi3filter.RequestValidationInput, w *httptest.ResponseRecorder,
) {
	t.Helper()
	if input == nil {
		if w.Code != http.StatusNotFound && w.Code != http.StatusMethodNotAllowed {
			t.Errorf("the description has no such operation: %d %s", w.Code, w.Body)
		}
		return
	}
	if w.Code < 300 {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			t.Errorf("the request is not as described: %v", err)
		}
	}
	response := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: w.Code, Header: w.Header(),
		Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Options: input.Options,
	}
	if err := openapi3filter.ValidateResponse(context.Background(), response); err != nil {
		t.Errorf("the answer %d %s is not as described: %v", w.Code, w.Body, err)
	}
}

// within asks until a condition holds.
func within(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal(what + " did not come in 20 s")
		}
	}
}

func init() {
	// A text of rules is a text here, and not what it means.
	openapi3filter.RegisterBodyDecoder("application/yaml", openapi3filter.PlainBodyDecoder)
}
