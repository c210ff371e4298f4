package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/lease"
)

// slotted returns Slots with a Limiter of its own.
func slotted(
	t *testing.T, store hybrid.Store, n int64, config httplimit.SlotsConfig,
) *httplimit.Slots {
	t.Helper()
	limiter, err := hybrid.New(store, hybrid.Config{Limit: hybrid.Slots(n)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close(context.Background()) })
	config.Name = "busy"
	if config.OnError == 0 {
		config.OnError = httplimit.FailClosed
	}
	s, err := httplimit.NewSlots(limiter, config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSlots: no more requests are served at once than there are slots. Further ones wait for a
// second, and are refused then. A handler that panics keeps no slot.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, most atomic.Int64
		var told outcomes
		h := slotted(t, hybrid.NewMemory(), 3, httplimit.SlotsConfig{Observe: told.observe}).Handler(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				most.Store(max(most.Load(), busy.Add(1)))
				defer busy.Add(-1)
				time.Sleep(400 * time.Millisecond)
				if r.Header.Get("User") == "panics" {
					panic("handler")
				}
			}))
		for _, who := range []string{"panics", "x"} {
			var all sync.WaitGroup
			var counted sync.Map
			for range 12 { // 3 at once, 3 after 0.4 s, 3 after 0.8 s
				all.Go(func() {
					defer func() { _ = recover() }()
					r := get(h, user(who))
					n, _ := counted.LoadOrStore(r.StatusCode, new(atomic.Int64))
					n.(*atomic.Int64).Add(1)
					if r.StatusCode == 429 && r.Header.Get("Retry-After") != "1" {
						t.Errorf("%v", r.Header)
					}
				})
			}
			all.Wait()
			served, _ := counted.Load(200)
			refused, _ := counted.Load(429)
			if most.Load() != 3 || refused.(*atomic.Int64).Load() != 3 ||
				who == "x" && served.(*atomic.Int64).Load() != 9 {
				t.Errorf("%s: at most %d at once, %v refused", who, most.Load(), refused)
			}
		}
		for _, o := range told.taken() {
			if o.Status != 429 || o.Denied[0] != "busy" || !errors.Is(o.Err, context.DeadlineExceeded) {
				t.Errorf("told %+v", o)
			}
		}
	})
}

// cut is a store that can be cut off.
type cut struct {
	hybrid.Store
	off atomic.Bool
}

func (c *cut) Exchange(ctx context.Context, calls []*lease.Call) {
	if c.off.Load() {
		silent{}.Exchange(ctx, calls)
		return
	}
	c.Store.Exchange(ctx, calls)
}

// TestSlotLost: the context of a handler ends as its slot is lost, and as its client leaves.
func TestSlotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &cut{Store: hybrid.NewMemory()}
		var told outcomes
		causes := make(chan error, 1)
		h := slotted(t, store, 3, httplimit.SlotsConfig{Observe: told.observe}).Handler(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				causes <- context.Cause(r.Context())
			}))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(time.Second, cancel)
		get(h, func(r *http.Request) { *r = *r.WithContext(ctx) })
		if cause := <-causes; !errors.Is(cause, context.Canceled) || len(told.taken()) > 0 {
			t.Error(cause)
		}
		time.AfterFunc(time.Second, func() { store.off.Store(true) })
		get(h)
		if cause := <-causes; !errors.Is(cause, hybrid.ErrSlotLost) {
			t.Error(cause)
		}
		if all := told.taken(); len(all) != 1 || !errors.Is(all[0].Err, hybrid.ErrSlotLost) {
			t.Errorf("told %+v", all)
		}
	})
}

// TestSlotsOnError: what each error means.
func TestSlotsOnError(t *testing.T) {
	for name, c := range map[string]struct {
		limit        hybrid.Limit
		closed       bool
		ended        bool
		err          error
		open, shut   int
		needsNoSlots bool
	}{
		"closed":        {hybrid.Slots(1), true, false, hybrid.ErrClosed, 200, 503, false},
		"kind":          {hybrid.PerSecond(1), false, false, hybrid.ErrKind, 200, 503, false},
		"blocked":       {hybrid.Blocked, false, false, hybrid.ErrExceedsBurst, 429, 429, false},
		"context ended": {hybrid.Slots(1), false, true, context.Canceled, 503, 503, false},
		"needs none":    {hybrid.Blocked, false, false, nil, 200, 200, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
				LimitFor: func(string) hybrid.Limit { return c.limit },
			})
			if err != nil {
				t.Fatal(err)
			}
			if c.closed {
				limiter.Close(context.Background())
			}
			defer limiter.Close(context.Background())
			for onError, want := range map[httplimit.OnError]int{
				httplimit.FailOpen: c.open, httplimit.FailClosed: c.shut,
			} {
				var told outcomes
				config := httplimit.SlotsConfig{Name: "a", OnError: onError, Observe: told.observe}
				if c.needsNoSlots {
					config.Key = httplimit.Header("User")
				}
				s, err := httplimit.NewSlots(limiter, config)
				if err != nil {
					t.Fatal(err)
				}
				r := httptest.NewRequest("GET", "/", nil)
				if c.ended {
					ctx, cancel := context.WithCancel(r.Context())
					cancel()
					r = r.WithContext(ctx)
				}
				w := httptest.NewRecorder()
				s.Handler(hello).ServeHTTP(w, r)
				all := told.taken()
				if w.Code != want || (len(all) == 1) != (c.err != nil) ||
					c.err != nil && !errors.Is(all[0].Err, c.err) {
					t.Errorf("%s, %d: %d, told %+v", name, onError, w.Code, all)
				}
				retryAfter := ""
				if want == 503 {
					retryAfter = "1"
				}
				if got := w.Header().Get("Retry-After"); got != retryAfter {
					t.Errorf("%s, %d: Retry-After %q", name, onError, got)
				}
			}
		})
	}
}

// TestSlotOfAClosedLimiter: a handler that outlives the Limiter is nobody's business.
func TestSlotOfAClosedLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Slots(1)})
		if err != nil {
			t.Fatal(err)
		}
		var told outcomes
		s, err := httplimit.NewSlots(limiter, httplimit.SlotsConfig{
			Name: "a", OnError: httplimit.FailClosed, Observe: told.observe,
		})
		if err != nil {
			t.Fatal(err)
		}
		get(s.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			limiter.Close(context.Background())
		})))
		if all := told.taken(); len(all) > 0 {
			t.Errorf("told %+v", all)
		}
	})
}

func TestNewSlots(t *testing.T) {
	limiter := newLimiter(t, hybrid.NewMemory(), nil)
	for want, c := range map[string]httplimit.SlotsConfig{
		"SlotsConfig.Wait 1ns is not from 1ms":  {Name: "a", Wait: 1, OnError: httplimit.FailOpen},
		"SlotsConfig.Wait 2h0m0s is not from":   {Name: "a", Wait: 2 * time.Hour, OnError: httplimit.FailOpen},
		"SlotsConfig.OnError 0 is not FailOpen": {Name: "a"},
		`SlotsConfig.Name "" has 0 bytes`:       {OnError: httplimit.FailOpen},
		"SlotsConfig.Key: Client.V4 99": {
			Name: "a", OnError: httplimit.FailOpen, Key: httplimit.Client{V4: 99},
		},
		`SlotsConfig.Key: Header "host" never applies: use a KeyFunc of r.Host`: {
			Name: "a", OnError: httplimit.FailOpen, Key: httplimit.Header("host"),
		},
	} {
		_, err := httplimit.NewSlots(limiter, c)
		contains(t, err, "httplimit: "+want)
	}
	_, err := httplimit.NewSlots(nil, httplimit.SlotsConfig{})
	contains(t, err, "httplimit: limiter is nil")
}
