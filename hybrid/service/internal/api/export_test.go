package api

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// Description is the OpenAPI document.
var Description = description

// ParseLimit reads the limit of a request.
func ParseLimit(text string) (hybrid.Limit, error) { return parseLimit(text) }

// Route is one of the API.
type Route struct {
	Method, Path string
	Query        []string
}

// Routes are all of them.
func Routes() (list []Route) {
	for _, r := range (&api{}).routes() {
		list = append(list, Route{r.method, r.path, r.query})
	}
	return list
}

// A Fake is a Limiter of one domain, that allows everything and notes how reservations end.
type Fake struct {
	Set  *rules.Rules
	Deny bool
	Each rules.Status // of each descriptor
	Err  error        // of all verbs
	End  error        // of Settle

	// Made is called when a reservation was made.
	Made func()

	mu      sync.Mutex
	settled [][]int
	charged []rules.Descriptor
}

// NewFake is New of a Fake.
func NewFake(
	f *Fake, b rules.Book, auth func(*http.Request) (Caller, error), c Config,
) http.Handler {
	return newAPI(f, b, auth, c)
}

func (f *Fake) Rules() *rules.Rules { return f.Set }

func (f *Fake) Take(
	_ context.Context, _ string, asks ...rules.Descriptor,
) (rules.Result, error) {
	if f.Err != nil {
		return rules.Result{Denied: -1}, f.Err
	}
	r := rules.Result{Allowed: !f.Deny, Denied: -1, Each: slices.Repeat([]rules.Status{f.Each}, len(asks))}
	if f.Deny {
		r.Denied = 0
	}
	return r, nil
}

func (f *Fake) Peek(
	ctx context.Context, domain string, asks ...rules.Descriptor,
) (rules.Result, error) {
	return f.Take(ctx, domain, asks...)
}

func (f *Fake) Reserve(
	ctx context.Context, domain string, asks ...rules.Descriptor,
) (holds.Tokens, rules.Result, error) {
	r, err := f.Take(ctx, domain, asks...)
	if err == nil && f.Made != nil {
		f.Made()
	}
	return f, r, err
}

// Settle notes what was used.
func (f *Fake) Settle(used ...int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settled = append(f.settled, used)
	return f.End
}

// Charge notes what is charged.
func (f *Fake) Charge(_ string, ds ...rules.Descriptor) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.charged = append(f.charged, ds...)
	return f.End
}

// Ends returns how reservations have ended, and what was charged.
func (f *Fake) Ends() (settled [][]int, charged []rules.Descriptor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.settled), slices.Clone(f.charged)
}
