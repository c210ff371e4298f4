package httplimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
)

// metered is a guard with a limit of a million bytes a day for each user, and one of requests.
// What After is told comes out of ends.
type metered struct {
	limiter *hybrid.Limiter
	guard   *httplimit.Guard
	ends    chan httplimit.End
}

const estimate, million = 1000, 1_000_000

func newMetered(t *testing.T, store hybrid.Store) *metered {
	m := &metered{ends: make(chan httplimit.End, 100)}
	limits := httplimit.Limits{
		{
			Name: "bytes", Limit: hybrid.Quota(million, hybrid.Day),
			Cost: func(*http.Request) int { return estimate },
			After: func(_ *http.Request, e httplimit.End) int {
				m.ends <- e
				return int(e.Bytes)
			},
		},
		{Name: "requests", Limit: hybrid.Quota(1000, hybrid.Day)},
	}
	m.limiter = newLimiter(t, store, limits)
	var err error
	m.guard, err = httplimit.New(m.limiter, httplimit.Config{
		Limits: limits, OnError: httplimit.FailClosed,
		Observe: func(_ *http.Request, o httplimit.Outcome) {
			if o.Err != nil {
				t.Errorf("told %v", o.Err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// serve starts a real server. With h2 it speaks HTTP/2.
func serve(t *testing.T, h http.Handler, h2 bool) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = h2
	if h2 {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// TestEndOfResponse: what a handler writes is counted, however it is written and however the
// handler ends, over HTTP/1.1 and HTTP/2.
func TestEndOfResponse(t *testing.T) {
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		method  string
		want    httplimit.End
	}{
		{"nothing", func(http.ResponseWriter, *http.Request) {}, "GET",
			httplimit.End{Status: 200, Completed: true}},
		{"Write", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }, "GET",
			httplimit.End{Status: 200, Bytes: 5, Completed: true}},
		{"WriteString", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			w.WriteHeader(http.StatusTeapot) // too late
			io.WriteString(w, "hello")
		}, "GET", httplimit.End{Status: 201, Bytes: 5, Completed: true}},
		{"ReadFrom", func(w http.ResponseWriter, _ *http.Request) {
			io.Copy(w, io.LimitReader(strings.NewReader(strings.Repeat("x", 9999)), 5000))
		}, "GET", httplimit.End{Status: 200, Bytes: 5000, Completed: true}},
		{"stream", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			for range 3 {
				w.Write([]byte("data\n"))
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		}, "GET", httplimit.End{Status: 200, Bytes: 15, Completed: true}},
		{"early hints", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte("no"))
		}, "GET", httplimit.End{Status: 404, Bytes: 2, Completed: true}},
		{"HEAD", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) }, "HEAD",
			httplimit.End{Status: 200, Completed: true}},
		{"no body allowed", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
			w.Write([]byte("hello"))
		}, "GET", httplimit.End{Status: 204, Completed: true}},
		{"panic", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "GET",
			httplimit.End{}},
		{"panic after a flush", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "GET", httplimit.End{Status: 200}},
		{"panic in a stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte("hello"))
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "GET", httplimit.End{Status: 200, Bytes: 5}},
		{"deadline of the controller", func(w http.ResponseWriter, _ *http.Request) {
			err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
			if err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusAccepted)
		}, "GET", httplimit.End{Status: 202, Completed: true}},
	} {
		for _, h2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", c.name, h2), func(t *testing.T) {
				m := newMetered(t, hybrid.NewMemory())
				s := serve(t, m.guard.Handler(c.handler), h2)
				r, err := http.NewRequest(c.method, s.URL, nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp, err := s.Client().Do(r); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if want := map[bool]int{false: 1, true: 2}[h2]; resp.ProtoMajor != want {
						t.Errorf("it was HTTP/%d", resp.ProtoMajor)
					}
				}
				e := await(t, "the end", m.ends)
				e.Header = nil
				if fmt.Sprint(e) != fmt.Sprint(c.want) {
					t.Errorf("%+v, not %+v", e, c.want)
				}
			})
		}
	}
}

// TestHijack: a handler takes its connection over, by the interface and by the controller.
func TestHijack(t *testing.T) {
	m := newMetered(t, hybrid.NewMemory())
	s := serve(t, m.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var conn net.Conn
		var buffer *bufio.ReadWriter
		var err error
		if r.URL.Path == "/controller" {
			conn, buffer, err = http.NewResponseController(w).Hijack()
		} else {
			conn, buffer, err = w.(http.Hijacker).Hijack()
		}
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		buffer.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nmine")
		buffer.Flush()
	})), false)
	for _, path := range []string{"/controller", "/interface"} {
		resp, err := s.Client().Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if e := await(t, "the end", m.ends); string(body) != "mine" || e.Status != 0 || e.Bytes != 0 ||
			!e.Completed {
			t.Errorf("%s: %q, %+v", path, body, e)
		}
	}
}

// TestClientGone: a client that leaves in the middle of a stream pays for what was written.
func TestClientGone(t *testing.T) {
	m := newMetered(t, hybrid.NewMemory())
	s := serve(t, m.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write(make([]byte, 5000))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})), false)
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if e := await(t, "the end", m.ends); e.Status != 200 || e.Bytes != 5000 {
		t.Errorf("%+v", e)
	}
}

// TestSettled: requests pay what they cost, and no more is left reserved, whether that is below
// the estimate or above it, and however they end.
func TestSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetered(t, hybrid.NewMemory())
		write := func(n int, then func()) {
			defer func() { _ = recover() }()
			get(m.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Write(make([]byte, n))
				if reserved := left(t, m.limiter, "bytes:"); reserved > million-estimate {
					t.Errorf("%d are left while %d are reserved", reserved, estimate)
				}
				then()
			})))
		}
		cost := 0
		for i, n := range []int{0, 10, estimate, 7 * estimate, 3} {
			write(n, func() {
				if i == 4 {
					panic("handler")
				}
			})
			cost += n
			time.Sleep(time.Second)
			if n := left(t, m.limiter, "bytes:"); n != int64(million-cost) {
				t.Errorf("after %d requests %d are left, not %d", i+1, n, million-cost)
			}
		}
		write(2*million, func() {}) // a debt
		if r := get(m.guard.Handler(hello)); r.StatusCode != http.StatusTooManyRequests {
			t.Errorf("with a debt: %s", r.Status)
		}
		time.Sleep(time.Second)
		if n := left(t, m.limiter, "requests:"); n != 994 {
			t.Errorf("%d requests are left", n)
		}
	})
}

// TestAfterIsOff: an After that panics or returns nonsense leaves nothing reserved.
func TestAfterIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after := map[string]func() int{
			"negative": func() int { return -1 }, "panics": func() int { panic("After") },
			"good": func() int { return 30 }, "huge": func() int { return int(^uint(0) >> 1) },
		}
		var limits httplimit.Limits
		for _, name := range []string{"negative", "panics", "good", "huge"} {
			limits = append(limits, httplimit.Limit{
				Name: name, Limit: hybrid.Quota(1000, hybrid.Day),
				Cost:  func(*http.Request) int { return 100 },
				After: func(*http.Request, httplimit.End) int { return after[name]() },
			})
		}
		limiter := newLimiter(t, hybrid.NewMemory(), limits)
		guard, err := httplimit.New(limiter, httplimit.Config{Limits: limits, OnError: httplimit.FailOpen})
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() {
				if x := recover(); x != "After" {
					t.Errorf("panicked with %v", x)
				}
			}()
			get(guard.Handler(hello))
		}()
		time.Sleep(time.Second)
		for name, want := range map[string]int64{
			"negative": 1000, "panics": 900, "good": 970, "huge": 0,
		} {
			if n := left(t, limiter, name+":"); n != want {
				t.Errorf("%s: %d left, not %d", name, n, want)
			}
		}
	})
}

// TestShadowIsCharged: the cost of a request reaches a shadow as well, whether it is known before
// the shadow has decided or after that, and not if the shadow would have denied.
func TestShadowIsCharged(t *testing.T) {
	for _, handler := range []time.Duration{0, time.Second} {
		for _, way := range []time.Duration{0, 100 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				limits := httplimit.Limits{{
					Name: "tried", Limit: hybrid.Quota(100, hybrid.Day), Shadow: true,
					After: func(*http.Request, httplimit.End) int { return 60 },
				}}
				limiter := newLimiter(t, far{hybrid.NewMemory(), way}, limits)
				guard, err := httplimit.New(limiter, httplimit.Config{
					Limits: limits, OnError: httplimit.FailClosed,
				})
				if err != nil {
					t.Fatal(err)
				}
				for range 4 {
					ctx, cancel := context.WithCancel(context.Background())
					get(guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
						time.Sleep(handler)
					})), func(r *http.Request) { *r = *r.WithContext(ctx) })
					cancel() // as net/http does
					time.Sleep(2 * time.Second)
				}
				if n := guard.Denied()["tried"]; n != 2 {
					t.Errorf("handler %v, way %v: %d denied, not 2", handler, way, n)
				}
			})
		}
	}
}

// TestShadowGetsItsRest: a shadow denies nothing that the same limit in force would not: what a
// request has cost less than its estimate comes back.
func TestShadowGetsItsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := func(name string, shadow bool) httplimit.Limit {
			return httplimit.Limit{
				Name: name, Limit: hybrid.Quota(million, hybrid.Day), Shadow: shadow,
				Cost:  func(*http.Request) int { return 10 * estimate },
				After: func(_ *http.Request, e httplimit.End) int { return int(e.Bytes) },
			}
		}
		guard := newGuard(t, hybrid.NewMemory(), httplimit.Config{
			Limits: httplimit.Limits{limit("real", false), limit("tried", true)},
		})
		for range 300 { // 3 million by the estimate, and 1800 bytes
			get(guard.Handler(hello))
			time.Sleep(10 * time.Millisecond)
		}
		if n := guard.Denied(); n["real"] > 0 || n["tried"] > 0 {
			t.Errorf("denied %v", n)
		}
	})
}

// TestShadowHasItsOwnRequest: what a handler writes to its request does not reach Observe.
func TestShadowHasItsOwnRequest(t *testing.T) {
	writing, seen := make(chan struct{}), make(chan string, 1)
	h := newGuard(t, hybrid.NewMemory(), httplimit.Config{
		Limits: httplimit.Limits{{Name: "tried", Limit: hybrid.Blocked, Shadow: true}},
		Observe: func(r *http.Request, _ httplimit.Outcome) {
			<-writing
			seen <- r.Header.Get("User")
		},
	}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Header.Set("User", "changed")
		close(writing)
	}))
	get(h, user("x"))
	if name := await(t, "Observe", seen); name != "x" {
		t.Errorf("Observe saw %q", name)
	}
}

// TestShadowOutlivesPanics: a LimitFor that panics beside a request ends neither it nor the
// process, and a store that is slow has no more decisions under way than there may be.
func TestShadowOutlivesPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told outcomes
		release := make(chan struct{})
		var mu sync.Mutex
		hanging := 0
		guard := newGuard(t, hybrid.NewMemory(), httplimit.Config{
			Limits: httplimit.Limits{{
				Name: "tried", Key: httplimit.Header("User"), Shadow: true,
				For: func(key string) hybrid.Limit {
					if key == "panics" {
						panic("LimitFor")
					}
					mu.Lock()
					hanging++
					mu.Unlock()
					<-release
					return hybrid.PerSecond(10)
				},
			}},
			Observe: told.observe,
		})
		h := guard.Handler(hello)
		if r := get(h, user("panics")); r.StatusCode != http.StatusOK {
			t.Error(r.Status)
		}
		synctest.Wait()
		if all := told.taken(); len(all) != 1 || !strings.Contains(fmt.Sprint(all[0].Err), "panic: Lim") {
			t.Errorf("told %+v", all)
		}
		for i := range 1000 {
			if r := get(h, user(fmt.Sprint(i))); r.StatusCode != http.StatusOK {
				t.Fatal(r.Status)
			}
		}
		synctest.Wait()
		if n := guard.Skipped(); hanging != 256 || len(n) != 1 || n["tried"] != 1000-256 {
			t.Errorf("%d decisions are under way, skipped are %v", hanging, n)
		}
		close(release)
		synctest.Wait()
	})
}

// TestSettledTooLate: a request that outlives the Limiter is nobody's business: newMetered fails
// the test if Observe is told.
func TestSettledTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetered(t, hybrid.NewMemory())
		get(m.guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write(make([]byte, 2*estimate)) // more than was reserved
			m.limiter.Close(context.Background())
		})))
		if e := <-m.ends; e.Bytes != 2*estimate {
			t.Errorf("%+v", e)
		}
	})
}

// upgraded is a network that answers with a connection.
type upgraded struct{ net.Conn }

func (u upgraded) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: u}, nil
}

// TestTransportUpgrades: a request for a connection ends with the response, whose body stays one
// that can be written.
func TestTransportUpgrades(t *testing.T) {
	m := newMetered(t, hybrid.NewMemory())
	one, other := net.Pipe()
	defer other.Close()
	client := &http.Client{Transport: &httplimit.Transport{Guard: m.guard, Base: upgraded{one}}}
	resp, err := client.Get("http://example.com")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := resp.Body.(io.Writer); !ok {
		t.Errorf("a %T cannot be written", resp.Body)
	}
	if e := await(t, "the end", m.ends); e.Status != 101 || !e.Completed {
		t.Errorf("%+v", e)
	}
	resp.Body.Close()
	if len(m.ends) > 0 {
		t.Error("it ended twice")
	}
}

// TestTransportSettles: a client's request ends with the body of its response.
func TestTransportSettles(t *testing.T) {
	m := newMetered(t, hybrid.NewMemory())
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		w.Write(make([]byte, 5000))
	}), false)
	client := &http.Client{Transport: &httplimit.Transport{Guard: m.guard, Base: s.Client().Transport}}
	for _, read := range []int64{0, 2000, 5000} {
		resp, err := client.Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		if read == 5000 {
			io.Copy(io.Discard, resp.Body)
		} else {
			io.CopyN(io.Discard, resp.Body, read)
		}
		resp.Body.Close()
		resp.Body.Close()
		e := await(t, "the end", m.ends)
		if e.Status != 202 || e.Bytes != read || e.Completed != (read == 5000) {
			t.Errorf("%d bytes: %+v", read, e)
		}
	}
	s.Close()
	resp, err := client.Get(s.URL)
	if err == nil {
		resp.Body.Close()
		t.Error("there is no server any more")
	}
	if e := await(t, "the end", m.ends); e.Status != 0 || e.Completed {
		t.Errorf("without a response: %+v", e)
	}
	if len(m.ends) > 0 {
		t.Errorf("%d more ends", len(m.ends))
	}
}

// TestSlotsAreRefused: slots, which can be reserved, are not a limit of a Guard, whichever of its
// limits has an After. No request passes, whether slots are free or not, and none keeps any.
func TestSlotsAreRefused(t *testing.T) {
	one := func(*http.Request, httplimit.End) int { return 1 }
	for name, limits := range map[string]httplimit.Limits{
		"beside an After": {{Name: "calls"}, {Name: "tokens", After: one}},
		"with an After":   {{Name: "calls", After: one}, {Name: "tokens"}},
		"in shadow":       {{Name: "calls", After: one, Shadow: true}, {Name: "tokens"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{LimitFor: func(key string) hybrid.Limit {
				if strings.HasPrefix(key, "calls:") {
					return hybrid.Slots(1)
				}
				return hybrid.PerSecond(10)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer limiter.Close(context.Background())
			var told outcomes
			g, err := httplimit.New(limiter, httplimit.Config{
				Limits: limits, OnError: httplimit.FailClosed, Observe: told.observe,
			})
			if err != nil {
				t.Fatal(err)
			}
			h := g.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { synctest.Wait() }))
			play := func(what string) {
				t.Helper()
				want := 503
				if limits[0].Shadow {
					want = 200
				}
				if r := get(h); r.StatusCode != want {
					t.Errorf("%s, slots are %s: %s", name, what, r.Status)
				}
				synctest.Wait()
				if all := told.taken(); len(all) != 1 || !errors.Is(all[0].Err, hybrid.ErrKind) {
					t.Errorf("%s, slots are %s: told %+v", name, what, all)
				}
			}
			play("free")
			if n := left(t, limiter, "calls:"); n != 1 {
				t.Errorf("%s: %d slots are left of 1", name, n)
			}
			slot, err := limiter.Acquire(context.Background(), "calls:", 1)
			if err != nil {
				t.Fatal(err)
			}
			play("in use")
			if err := slot.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}
