package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
)

// TestStrict: what makes no sense is refused with the name of the field, and nothing is taken.
func TestStrict(t *testing.T) {
	s := newService(t)
	entry := `{"key": "user", "value": "ann"}`
	with := func(fields string) string {
		return `{"domain": "shop", "descriptors": [{"entries": [` + entry + `]` + fields + `}]}`
	}
	many := func(n int, x string) string { return strings.TrimSuffix(strings.Repeat(x+",", n), ",") }
	for _, wrong := range []struct{ body, field, value, detail string }{
		{`{"domain": "shop"}`, "descriptors", "<nil>", "descriptors: the field is missing"},
		{`{"descriptors": []}`, "descriptors", "<nil>", "descriptors: the list is empty"},
		{`{"domain": "shop", "domain": "shop"}`, "domain", "<nil>",
			"domain: the field stands there twice"},
		{`{"Domain": "shop"}`, "Domain", "<nil>",
			"Domain: the field is unknown: there are descriptors, domain"},
		{`{"domain": ""}`, "domain", `""`, "domain: it has 0 bytes, not 1 to 256"},
		{`{"domain": null}`, "domain", "null", "domain: it is not a text"},
		{`{"domain": {"a": 1}}`, "domain", "an object", "domain: it is not a text"},
		{`{"domain": "shop", "ttl": 3}`, "ttl", "<nil>",
			"ttl: the field is unknown: there are descriptors, domain"},
		{`[]`, "the body", "a list", "the body: it is not an object"},
		{`"x"`, "the body", `"x"`, "the body: it is not an object"},
		{with("") + "{}", "<nil>", "<nil>", "the body is no JSON: byte 84: " +
			"invalid character '{' after top-level value"},
		{`{"domain": "shop",}`, "<nil>", "<nil>", "the body is no JSON: byte 19: " +
			"invalid character '}' looking for beginning of object key string"},
		{`{`, "<nil>", "<nil>", "the body is no JSON: byte 1: unexpected end of JSON input"},
		{"{\"domain\": \"sh\xffop\"}", "<nil>", "<nil>", "the body is not valid UTF-8"},
		{with(`, "hits": 0`), "descriptors[0].hits", "0",
			"descriptors[0].hits: it is not a whole number from 1 to 1099511627776"},
		{with(`, "hits": 1.5`), "descriptors[0].hits", "1.5",
			"descriptors[0].hits: it is not a whole number from 1 to 1099511627776"},
		{with(`, "hits": -1`), "descriptors[0].hits", "-1",
			"descriptors[0].hits: it is not a whole number from 1 to 1099511627776"},
		{with(`, "hits": "1"`), "descriptors[0].hits", `"1"`,
			"descriptors[0].hits: it is not a whole number from 1 to 1099511627776"},
		{with(`, "hits": 99999999999999999999999`), "descriptors[0].hits", "99999999999999999999999",
			"descriptors[0].hits: it is not a whole number from 1 to 1099511627776"},
		{with(`, "limit": "5/mintue"`), "descriptors[0].limit", `"5/mintue"`,
			`descriptors[0].limit: unknown unit "mintue": "minute" is the nearest one`},
		{with(`, "limit": "many"`), "descriptors[0].limit", `"many"`, "descriptors[0].limit: it is " +
			`not like "5/minute", "5/minute burst 10", "5/minute by the calendar" or "5 in any minute"`},
		{`{"domain": "shop", "descriptors": [` + many(17, with("")) + `]}`, "descriptors[0].domain",
			"<nil>", "descriptors[0].domain: the field is unknown: there are entries, hits, limit"},
		{`{"domain": "shop", "descriptors": [` + many(17, `{"entries": [`+entry+`]}`) + `]}`,
			"descriptors", "<nil>", "descriptors: the list is longer than 16"},
		{`{"domain": "shop", "descriptors": [{"entries": [` + many(17, entry) + `]}]}`,
			"descriptors[0].entries", "<nil>", "descriptors[0].entries: the list is longer than 16"},
		{`{"domain": "shop", "descriptors": [{"entries": [{"key": "user"}]}]}`,
			"descriptors[0].entries[0].value", "<nil>",
			"descriptors[0].entries[0].value: the field is missing"},
		{`{"domain": "shop", "descriptors": [{"entries": [{"key": "` + strings.Repeat("k", 2049) +
			`", "value": "` + strings.Repeat("v", 2048) + `"}]}]}`, "descriptors[0].entries", "<nil>",
			"descriptors[0].entries: keys and values have 4097 bytes, more than 4096"},
	} {
		for _, verb := range []string{"take", "peek"} {
			got := s.do(t, "eve", "POST", "/v1/"+verb, wrong.body, http.StatusBadRequest,
				"Content-Type", "application/json")
			if got.at("field") != wrong.field || got.at("value") != wrong.value ||
				got.detail() != wrong.detail {
				t.Errorf("%.200s:\n%s", wrong.body, got.Body)
			}
		}
	}
	got := s.do(t, "eve", "POST", "/v1/take", one("shop", "user", "ann"), http.StatusOK)
	if got.at("each", 0, "remaining") != "2" {
		t.Errorf("something was taken: %s", got.Body)
	}
}

// TestKindOfBody: only JSON in UTF-8 is read, which no form of another origin sends.
func TestKindOfBody(t *testing.T) {
	s := newService(t)
	body := one("shop", "user", "ann")
	for kind, status := range map[string]int{
		"application/json":                  http.StatusOK,
		"application/json; charset=utf-8":   http.StatusOK,
		"application/json; charset=latin-1": http.StatusUnsupportedMediaType,
		"text/plain":                        http.StatusUnsupportedMediaType,
		"application/x-www-form-urlencoded": http.StatusUnsupportedMediaType,
		"application/yaml":                  http.StatusUnsupportedMediaType,
		"":                                  http.StatusUnsupportedMediaType,
	} {
		s.do(t, "eve", "POST", "/v1/take", body, status, "Content-Type", kind)
	}
}

// TestOrigins: a page of another origin is refused, whatever token it has.
func TestOrigins(t *testing.T) {
	s := newService(t)
	body := one("shop", "user", "ann")
	s.do(t, "eve", "POST", "/v1/take", body, http.StatusForbidden, "Sec-Fetch-Site", "cross-site")
	s.do(t, "eve", "POST", "/v1/take", body, http.StatusForbidden, "Origin", "https://example.org")
	s.do(t, "eve", "POST", "/v1/take", body, http.StatusOK, "Sec-Fetch-Site", "same-origin")
}

// TestPaths: what is no path or verb of the API is a problem, too.
func TestPaths(t *testing.T) {
	s := newService(t)
	s.do(t, "eve", "GET", "/v1/nothing", "", http.StatusNotFound)
	s.do(t, "eve", "GET", "/v2/take", "", http.StatusNotFound)
	got := s.do(t, "eve", "GET", "/v1/take", "", http.StatusMethodNotAllowed)
	if got.Header().Get("Allow") != "POST" || !strings.Contains(got.detail(), `"GET"`) {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
	got = s.do(t, "eve", "POST", "/v1/take?dryrun=1", one("shop", "user", "x"), http.StatusBadRequest)
	if got.at("field") != "dryrun" {
		t.Error(got.Body)
	}
	s.do(t, "eve", "GET", "/v1/domains?a=%zz", "", http.StatusBadRequest)
	s.do(t, "eve", "GET", "/v1/domains", "{}", http.StatusBadRequest)
	s.do(t, "ann", "GET", "/v1/domains/%ff", "", http.StatusNotFound)
	s.do(t, "ann", "GET", "/v1/domains/a%00b", "", http.StatusNotFound)
	s.do(t, "ann", "GET", "/v1/domains/"+strings.Repeat("a", 257), "", http.StatusNotFound)
}

// endless is a body without an end. It counts what is read of it.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, bytes.Repeat([]byte("["), len(b)))
	e.read += int64(n)
	return n, nil
}

// TestLargeBodies: a body that is too large is not read to its end. One that says so itself is not
// read at all.
func TestLargeBodies(t *testing.T) {
	s := newService(t)
	for _, c := range []struct {
		method, target string
		length, most   int64
	}{
		{"POST", "/v1/take", -1, 1 << 20},
		{"POST", "/v1/take", 1 << 30, 0},
		{"POST", "/v1/domains/shop/rollback", -1, 1 << 20},
		{"PUT", "/v1/domains/shop?reason=r", -1, 9 << 20},
	} {
		body := &endless{}
		r := httptest.NewRequestWithContext(t.Context(), c.method, c.target, io.NopCloser(body))
		r.ContentLength = c.length
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer ann")
		r.Header.Set("If-Match", `"1"`)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || body.read > c.most+1<<16 {
			t.Errorf("%v: %d %s after %d bytes", c, w.Code, w.Body, body.read)
		}
	}
}

// TestDeepBodies: depth costs no more than length.
func TestDeepBodies(t *testing.T) {
	s := newService(t)
	deep := strings.Repeat("[", 1<<20-100)
	for _, body := range []string{
		deep, `{"domain": ` + deep, `{"x": ` + deep[:5000] + strings.Repeat("]", 5000) + `}`,
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.do(t, "eve", "POST", "/v1/take", body, http.StatusBadRequest,
			"Content-Type", "application/json")
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
			t.Errorf("%d MiB for a body of %d bytes", used>>20, len(body))
		}
	}
}

// TestManyErrors: a caller who sends what is wrong in large numbers is told the first of it.
func TestManyErrors(t *testing.T) {
	s := newService(t)
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, `{"entries": [{"key": "user", "value": "%d"}]},`, i)
	}
	got := s.do(t, "eve", "POST", "/v1/take", `{"domain": "shop", "descriptors": [`+
		strings.TrimSuffix(b.String(), ",")+`]}`, http.StatusBadRequest)
	if got.detail() != "descriptors: the list is longer than 16" {
		t.Error(got.Body)
	}
}

// A pipe is a listener of one connection in memory.
type pipe struct {
	connection chan net.Conn
	done       chan struct{}
}

func (p pipe) Accept() (net.Conn, error) {
	select {
	case c := <-p.connection:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p pipe) Close() error   { close(p.done); return nil }
func (p pipe) Addr() net.Addr { return &net.UnixAddr{} }

// TestSlowBodies: a body that stops in the middle ends its request, and keeps nobody else from a
// place.
func TestSlowBodies(t *testing.T) {
	s := newService(t)
	for name, c := range map[string]struct{ request, headers string }{
		"take": {"POST /v1/take", "Content-Type: application/json\r\n"},
		"put": {"PUT /v1/domains/shop?reason=r",
			"Content-Type: application/yaml\r\nIf-Match: \"1\"\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := api.NewFake(&api.Fake{Set: s.limiter.Rules()}, stillBook{}, auth,
					api.Config{Log: quiet})
				listener := pipe{make(chan net.Conn), make(chan struct{})}
				server := &http.Server{Handler: handler}
				go func() { _ = server.Serve(listener) }()
				client, far := net.Pipe()
				listener.connection <- far
				start := time.Now()
				_, err := fmt.Fprintf(client, "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ann\r\n"+
					"%sContent-Length: 100\r\n\r\n{", c.request, c.headers)
				must(t, err)
				r, err := http.ReadResponse(bufio.NewReader(client), nil)
				must(t, err)
				defer r.Body.Close()
				if r.StatusCode != http.StatusRequestTimeout || time.Since(start) > 21*time.Second {
					t.Errorf("%d after %v", r.StatusCode, time.Since(start))
				}
				must(t, client.Close())
				must(t, server.Close())
			})
		})
	}
}

// A stillBook is never asked.
type stillBook struct{ rules.Book }

// FuzzTake: whatever a body is, it is answered or refused, by an answer that is as described.
func FuzzTake(f *testing.F) {
	for _, body := range []string{
		one("shop", "user", "ann"), two("a", "b", 3), estimate, "", "{", `{"domain": "\ud800"}`,
		`{"domain": "shop", "descriptors": [{"entries": [{"key": "k", "value": ""}], "limit": "5/day"}]}`,
	} {
		f.Add(body)
	}
	s, _ := newFake(f)
	f.Fuzz(func(t *testing.T, body string) {
		r := request("ann", "POST", "/v1/take", body)
		r.Header.Set("Content-Type", "application/json")
		input := s.api.input(r, body)
		w := serve(s, r)
		s.api.check(t, input, w)
		switch w.Code {
		case http.StatusOK:
			if !json.Valid([]byte(body)) {
				t.Errorf("%q is no JSON", body)
			}
		case http.StatusBadRequest, http.StatusNotFound:
		default:
			t.Errorf("%q: %d %s", body, w.Code, w.Body)
		}
	})
}
