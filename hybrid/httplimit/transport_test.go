package httplimit_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// base is a network that answers at once, and counts.
type base struct{ sent atomic.Int64 }

func (b *base) RoundTrip(*http.Request) (*http.Response, error) {
	b.sent.Add(1)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// closer is a body that says whether it was closed.
type closer struct {
	io.Reader
	closed atomic.Bool
}

func (c *closer) Close() error {
	c.closed.Store(true)
	return nil
}

func TestTransportWaits(t *testing.T) {
	limit := hybrid.PerSecond(2).WithBurst(1)
	after := func(*http.Request, httplimit.End) int { return 1 }
	for name, limits := range map[string]httplimit.Limits{
		"one limit": {{Name: "a", Limit: limit}},
		"several":   {{Name: "a", Limit: limit}, {Name: "b", Limit: hybrid.PerSecond(1000)}},
		"reserved": {
			{Name: "a", Limit: limit, After: after}, {Name: "b", Limit: hybrid.PerSecond(1000)},
		},
		"none applies": {
			{Name: "a", Key: httplimit.Header("User"), Limit: limit},
			{Name: "b", Key: httplimit.Header("User"), Limit: limit},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				network := new(base)
				client := &http.Client{Transport: &httplimit.Transport{
					Guard: newGuard(t, hybrid.NewMemory(), httplimit.Config{Limits: limits}),
					Base:  network,
				}}
				began := time.Now()
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						resp, err := client.Get("http://example.com")
						if err != nil {
							t.Error(err)
							return
						}
						resp.Body.Close()
					})
				}
				all.Wait()
				// One at once, and 9 at 2/s.
				low, high := 4500*time.Millisecond, 7*time.Second
				if name == "none applies" {
					low, high = 0, 0
				}
				if took := time.Since(began); took < low || took > high || network.sent.Load() != 10 {
					t.Errorf("%d were sent in %v", network.sent.Load(), took)
				}
			})
		})
	}
}

// TestTransportDeadline: a request that cannot be in time fails at once, and its body is closed.
func TestTransportDeadline(t *testing.T) {
	after := func(*http.Request, httplimit.End) int { return 1 }
	for name, f := range map[string]func(*http.Request, httplimit.End) int{
		"wait": nil, "reserve": after,
	} {
		for _, onError := range []httplimit.OnError{httplimit.FailOpen, httplimit.FailClosed} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					network := new(base)
					client := &http.Client{Timeout: time.Second, Transport: &httplimit.Transport{
						Guard: newGuard(t, hybrid.NewMemory(), httplimit.Config{
							Limits:  httplimit.Limits{{Name: "a", Limit: hybrid.PerHour(1), After: f}},
							OnError: onError,
						}),
						Base: network,
					}}
					post := func(ctx context.Context) error {
						body := &closer{Reader: strings.NewReader("x")}
						r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://example.com", body)
						if err != nil {
							t.Fatal(err)
						}
						resp, err := client.Do(r)
						if err == nil {
							resp.Body.Close()
						} else if !body.closed.Load() {
							t.Error("the body was left open")
						}
						return err
					}
					if err := post(context.Background()); err != nil {
						t.Error(err)
					}
					began := time.Now()
					err := post(context.Background())
					if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 500*time.Millisecond {
						t.Errorf("%v after %v", err, time.Since(began))
					}
					ctx, cancel := context.WithCancel(context.Background())
					client.Timeout = 0
					time.AfterFunc(time.Minute, cancel)
					if err := post(ctx); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					if time.Since(began) > 62*time.Second || network.sent.Load() != 1 {
						t.Errorf("%d were sent in %v", network.sent.Load(), time.Since(began))
					}
				})
			})
		}
	}
}

// TestTransportFails: what does not wait gets an error that says what denied it, and when to come
// back.
func TestTransportFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told outcomes
		list := new(lists.List)
		network := new(base)
		transport := &httplimit.Transport{
			Guard: newGuard(t, hybrid.NewMemory(), httplimit.Config{
				Limits: httplimit.Limits{
					{Name: "a", Limit: hybrid.PerMinute(1), Cost: func(r *http.Request) int {
						return int(max(r.ContentLength, 1))
					}},
					{Name: "b", Limit: hybrid.PerMinute(1)},
					{Name: "c", Limit: hybrid.PerSecond(1000), Shadow: true},
				},
				Observe: told.observe,
				List: func(r *http.Request) lists.Verdict {
					a, _ := netip.ParseAddr(r.URL.Hostname())
					return list.Addr(a)
				},
			}),
			Base: network, Fail: true,
		}
		client := &http.Client{Transport: transport}
		do := func(host, body string) *httplimit.Error {
			resp, err := client.Post("http://"+host, "text/plain", strings.NewReader(body))
			var e *httplimit.Error
			if err == nil {
				resp.Body.Close()
			} else if !errors.As(err, &e) {
				t.Fatalf("%T %v", err, err)
			}
			return e
		}
		if e := do("192.0.2.7", ""); e != nil {
			t.Error(e)
		}
		e := do("192.0.2.7", "")
		const text = "httplimit: the request is denied by a, b: retry after 1m0s"
		if e == nil || e.Status != 429 || len(e.Denied) != 2 || e.RetryAfter > time.Minute ||
			e.RetryAfter < 59*time.Second || e.Error()[:50] != text[:50] {
			t.Errorf("%v", e)
		}
		e = do("192.0.2.7", "xx")
		if e == nil || !errors.Is(e, hybrid.ErrExceedsBurst) || e.RetryAfter != 0 || e.Denied[0] != "a" {
			t.Errorf("%v", e)
		}
		for verdict, status := range map[lists.Verdict]int{lists.Deny: 403, lists.Allow: 0} {
			err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
				netip.MustParsePrefix("192.0.2.0/24"): verdict,
			}})
			if err != nil {
				t.Fatal(err)
			}
			if e := do("192.0.2.7", ""); status != 0 && (e == nil || e.Status != status) ||
				status == 0 && e != nil {
				t.Errorf("%v: %v", verdict, e)
			}
		}
		if n := network.sent.Load(); n != 2 || len(told.taken()) != 3 {
			t.Errorf("%d were sent", n)
		}
	})
}

// TestTransportBlocked: nobody waits for a blocked key.
func TestTransportBlocked(t *testing.T) {
	after := func(*http.Request, httplimit.End) int { return 1 }
	for name, limits := range map[string]httplimit.Limits{
		"one limit": {{Name: "a", Limit: hybrid.Blocked}},
		"several":   {{Name: "a", Limit: hybrid.Blocked}, {Name: "b", Limit: hybrid.PerSecond(1000)}},
		"reserved":  {{Name: "a", Limit: hybrid.Blocked, After: after}},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &http.Client{Transport: &httplimit.Transport{
				Guard: newGuard(t, hybrid.NewMemory(), httplimit.Config{
					Limits: limits, OnError: httplimit.FailOpen,
				}),
				Base: new(base),
			}}
			resp, err := client.Get("http://example.com")
			if err == nil {
				resp.Body.Close()
			}
			if !errors.Is(err, hybrid.ErrExceedsBurst) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// TestTransportOpen: with Open a client goes on without its Limiter, and with Closed it does not.
func TestTransportOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for onError, sent := range map[httplimit.OnError]bool{
			httplimit.FailOpen: true, httplimit.FailClosed: false,
		} {
			limits := httplimit.Limits{{Name: "a", Limit: hybrid.PerSecond(1)}}
			limiter := newLimiter(t, hybrid.NewMemory(), limits)
			limiter.Close(context.Background())
			guard, err := httplimit.New(limiter, httplimit.Config{Limits: limits, OnError: onError})
			if err != nil {
				t.Fatal(err)
			}
			network := new(base)
			client := &http.Client{Transport: &httplimit.Transport{Guard: guard, Base: network}}
			resp, err := client.Get("http://example.com")
			if err == nil {
				resp.Body.Close()
			}
			if (network.sent.Load() == 1) != sent || !sent && !errors.Is(err, hybrid.ErrClosed) {
				t.Errorf("%d: %d were sent, %v", onError, network.sent.Load(), err)
			}
		}
	})
}

// TestTransportWaitsForReservations: a deadline just after the tokens is kept, and Close ends a
// wait, whether there is a queue or not.
func TestTransportWaitsForReservations(t *testing.T) {
	for name, after := range map[string]func(*http.Request, httplimit.End) int{
		"queued": nil, "reserved": func(*http.Request, httplimit.End) int { return 1 },
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // what is random must not be longer than the second that is left
				synctest.Test(t, func(t *testing.T) { waits(t, after) })
			}
		})
	}
}

func waits(t *testing.T, after func(*http.Request, httplimit.End) int) {
	limits := httplimit.Limits{{Name: "a", Limit: hybrid.PerMinute(1), After: after}}
	limiter := newLimiter(t, hybrid.NewMemory(), limits)
	guard, err := httplimit.New(limiter, httplimit.Config{Limits: limits, OnError: httplimit.FailClosed})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &httplimit.Transport{Guard: guard, Base: new(base)}}
	get := func(timeout time.Duration) error {
		client.Timeout = timeout
		resp, err := client.Get("http://example.com")
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	began := time.Now()
	if err := errors.Join(get(0), get(61*time.Second)); err != nil {
		t.Fatalf("%v after %v", err, time.Since(began))
	}
	began = time.Now()
	time.AfterFunc(5*time.Second, func() { limiter.Close(context.Background()) })
	if err := get(0); !errors.Is(err, hybrid.ErrClosed) || time.Since(began) > 6*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// TestTransportSpreads: requests that were denied together do not come back together.
func TestTransportSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guard := newGuard(t, hybrid.NewMemory(), httplimit.Config{Limits: httplimit.Limits{{
			Name: "a", Limit: hybrid.Quota(50, time.Minute),
			After: func(*http.Request, httplimit.End) int { return 1 },
		}}})
		client := &http.Client{Transport: &httplimit.Transport{Guard: guard, Base: new(base)}}
		var all sync.WaitGroup
		var mu sync.Mutex
		came := map[time.Time]int{}
		for range 100 {
			all.Go(func() {
				resp, err := client.Get("http://example.com")
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				came[time.Now()]++
			})
		}
		all.Wait()
		if len(came) < 20 { // one moment for the first 50
			t.Errorf("100 requests came at %d moments", len(came))
		}
	})
}

// idle is a network that has connections to close.
type idle struct {
	base
	closed int
}

func (i *idle) CloseIdleConnections() { i.closed++ }

func TestTransportClosesIdleConnections(t *testing.T) {
	network := new(idle)
	client := &http.Client{Transport: &httplimit.Transport{Base: network}}
	client.CloseIdleConnections()
	if network.closed != 1 {
		t.Errorf("closed %d times", network.closed)
	}
	(&httplimit.Transport{Base: new(base)}).CloseIdleConnections() // which has none
}

// TestTransportWithoutGuard: the field is named, and the body closed.
func TestTransportWithoutGuard(t *testing.T) {
	body := &closer{Reader: strings.NewReader("x")}
	client := &http.Client{Transport: &httplimit.Transport{Base: new(base)}}
	resp, err := client.Post("http://example.com", "text/plain", body)
	if err == nil {
		resp.Body.Close()
	}
	contains(t, err, "httplimit: Transport.Guard is nil")
	if !body.closed.Load() {
		t.Error("the body was left open")
	}
}
