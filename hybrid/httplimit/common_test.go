package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/lease"
)

// newLimiter returns a Limiter for the limits, whose store has its time on a busy machine. It is
// closed with the test.
func newLimiter(t testing.TB, store hybrid.Store, limits httplimit.Limits) *hybrid.Limiter {
	t.Helper()
	limiter, err := hybrid.New(store, hybrid.Config{LimitFor: limits.For, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { limiter.Close(context.Background()) })
	return limiter
}

// newGuard returns a Guard with a Limiter of its own.
func newGuard(t testing.TB, store hybrid.Store, config httplimit.Config) *httplimit.Guard {
	t.Helper()
	if config.OnError == 0 {
		config.OnError = httplimit.FailClosed
	}
	guard, err := httplimit.New(newLimiter(t, store, config.Limits), config)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

// hello is a handler.
var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "hello")
})

// A reply is what a handler has answered.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
	Body       string
}

// get plays a request without a network.
func get(h http.Handler, edit ...func(r *http.Request)) reply {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for _, f := range edit {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	status := fmt.Sprint(w.Code, " ", http.StatusText(w.Code))
	return reply{w.Code, status, w.Header(), w.Body.String()}
}

// from sets the address of the client.
func from(address string) func(r *http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address + ":1234" }
}

// user sets a header that names a user.
func user(name string) func(r *http.Request) {
	return func(r *http.Request) { r.Header.Set("User", name) }
}

// outcomes collects what Observe is told.
type outcomes struct {
	mu  sync.Mutex
	all []httplimit.Outcome
}

func (o *outcomes) observe(_ *http.Request, x httplimit.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, x)
}

// taken returns what has been told since the last call.
func (o *outcomes) taken() []httplimit.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := o.all
	o.all = nil
	return all
}

// silent is a store that loses every message.
type silent struct{}

func (silent) Exchange(_ context.Context, calls []*lease.Call) {
	for _, c := range calls {
		c.Err = errors.New("lost")
	}
}

// contains fails the test if an error is nil or does not have the text.
func contains(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v does not say %q", err, text)
	}
}

// await waits for something that happens beside the test.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case x := <-c:
		return x
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// left peeks at how many tokens of a key are left.
func left(t testing.TB, limiter *hybrid.Limiter, key string) int64 {
	t.Helper()
	d, err := limiter.Peek(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// far is a store that is so far away.
type far struct {
	hybrid.Store
	way time.Duration
}

func (f far) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(f.way)
	f.Store.Exchange(ctx, calls)
}
