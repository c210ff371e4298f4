package httplimit_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
)

// logged collects what slog.Default is told during a test.
func logged(t *testing.T) func() string {
	var mu sync.Mutex
	var all strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		all.Write(b)
		panic("it was the logger")
	}), nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return all.String()
	}
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestShadowsPanic: what panics at a shadow is logged. It fails no request, ends no process, and
// keeps no tokens reserved of the limits in force.
func TestShadowsPanic(t *testing.T) {
	key := func(*http.Request) (string, bool) { panic("it was Key") }
	cost := func(*http.Request) int { panic("it was Cost") }
	after := func(*http.Request, httplimit.End) int { panic("it was After") }
	for name, shadow := range map[string]httplimit.Limit{
		"Key":     {Key: httplimit.KeyFunc(key), Limit: hybrid.PerSecond(1)},
		"Cost":    {Cost: cost, Limit: hybrid.PerSecond(1)},
		"After":   {After: after, Limit: hybrid.PerSecond(1)},
		"Observe": {Limit: hybrid.Blocked},
	} {
		t.Run(name, func(t *testing.T) {
			log := logged(t)
			synctest.Test(t, func(t *testing.T) {
				shadow.Name, shadow.Shadow = "tried", true
				limits := httplimit.Limits{shadow, {
					Name: "real", Limit: hybrid.Quota(100, hybrid.Day),
					Cost:  func(*http.Request) int { return 40 },
					After: func(*http.Request, httplimit.End) int { return 1 },
				}}
				limiter := newLimiter(t, hybrid.NewMemory(), limits)
				guard, err := httplimit.New(limiter, httplimit.Config{
					Limits: limits, OnError: httplimit.FailClosed,
					Observe: func(*http.Request, httplimit.Outcome) { panic("it was Observe") },
				})
				if err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if r := get(guard.Handler(hello)); r.Body != "hello\n" {
						t.Errorf("%+v", r)
					}
				}
				time.Sleep(time.Second)
				if n := left(t, limiter, "real:"); n != 98 {
					t.Errorf("%d are left", n)
				}
				if text := log(); !strings.Contains(text, "limit=tried panic=\"it was "+name) {
					t.Errorf("logged %q", text)
				}
			})
		})
	}
}

// panicking is a network that panics.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("Base") }

// TestPanicLeavesNothingReserved: whatever panics between the reservation and the end, After is
// called once, and what it says is what the request has cost.
func TestPanicLeavesNothingReserved(t *testing.T) {
	serve := func(g *httplimit.Guard) { get(g.Handler(hello)) }
	send := func(g *httplimit.Guard) {
		r, _ := http.NewRequest(http.MethodGet, "http://example.com", nil)
		resp, err := (&httplimit.Transport{Guard: g, Base: panicking{}}).RoundTrip(r)
		if err == nil {
			resp.Body.Close()
		}
	}
	for name, c := range map[string]struct {
		config  httplimit.Config
		request func(g *httplimit.Guard)
		after   any // what After panics with
	}{
		"Fields": {
			httplimit.Config{Fields: func(http.Header, []httplimit.State) { panic("Fields") }}, serve, nil,
		},
		"Base":           {httplimit.Config{}, send, nil},
		"Base and After": {httplimit.Config{}, send, "After"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ends := 0
				c.config.Limits, c.config.OnError = httplimit.Limits{
					{
						Name: "bytes", Limit: hybrid.Quota(100, hybrid.Day),
						Cost: func(*http.Request) int { return 40 },
						After: func(*http.Request, httplimit.End) int {
							if ends++; c.after != nil {
								panic(c.after)
							}
							return 1
						},
					},
					{Name: "requests", Limit: hybrid.Quota(100, hybrid.Day)},
				}, httplimit.FailClosed
				limiter := newLimiter(t, hybrid.NewMemory(), c.config.Limits)
				guard, err := httplimit.New(limiter, c.config)
				if err != nil {
					t.Fatal(err)
				}
				func() {
					defer func() {
						if recover() == nil {
							t.Error("the panic was lost")
						}
					}()
					c.request(guard)
				}()
				time.Sleep(2 * time.Second)
				if ends != 1 {
					t.Errorf("After was called %d times", ends)
				}
				want := int64(99)
				if c.after != nil {
					want = 60
				}
				if n := left(t, limiter, "bytes:"); n != want {
					t.Errorf("%d are left, not %d", n, want)
				}
			})
		})
	}
}
