package httplimit

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/internal/foreign"
)

// shadow asks the limits that only look on. A Take may wait for the store, so it runs beside the
// request. (A Try does not do: it learns nothing of a key that is asked for now and then.)
func (p *pass) shadow() {
	g := p.guard
	if g.shadows == nil {
		return
	}
	var copied *http.Request
	for i := range g.config.Limits {
		l := &g.config.Limits[i]
		if !l.Shadow {
			continue
		}
		a, ok := l.try(p.r)
		if !ok {
			continue
		}
		select {
		case g.shadows <- struct{}{}:
		default: // the store is slow
			g.skipped[i].Add(1)
			continue
		}
		if copied == nil { // handlers write to the request, and its context ends with them
			copied = p.r.Clone(context.WithoutCancel(p.r.Context()))
		}
		t := &trial{guard: g, limit: i, ask: a}
		if l.After != nil {
			p.ends = append(p.ends, ending{l, a, t.settle})
		}
		go t.run(copied)
	}
}

// try is ask for a shadow, whose Key or Cost must not fail the request.
func (l *Limit) try(r *http.Request) (a hybrid.Ask, ok bool) {
	defer l.rescue()
	return l.ask(r)
}

// rescue keeps a panic of what a shadow has called from the request and from the process. It is
// to be deferred.
func (l *Limit) rescue() {
	if x := recover(); x != nil {
		stack := string(debug.Stack())
		foreign.Call(func() {
			slog.Error("httplimit: panic at a shadow", "limit", l.Name, "panic", x, "stack", stack)
		})
	}
}

// A trial is a request at a shadow.
type trial struct {
	guard *Guard
	limit int
	ask   hybrid.Ask

	mu       sync.Mutex
	reserved *hybrid.Reservation // once the shadow has admitted the request
	ended    bool
	cost     int // of the request, once it has ended
}

// run decides.
func (t *trial) run(r *http.Request) {
	g := t.guard
	l := &g.config.Limits[t.limit]
	defer func() { <-g.shadows }()
	defer l.rescue()
	d, err := t.take(r.Context())
	switch {
	case err != nil:
		g.config.Observe(r, Outcome{Err: err})
	case !d.Allowed:
		g.denied[t.limit].Add(1)
		g.config.Observe(r, Outcome{
			States: []State{{Name: l.Name, Key: t.ask.Key, Decision: d}}, Denied: []string{l.Name},
			RetryAfter: d.RetryAfter,
		})
	}
}

// take takes the tokens, or reserves them. A LimitFor that panics must not end the process.
func (t *trial) take(ctx context.Context) (d hybrid.Decision, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("httplimit: take %d of %.100q: panic: %v", t.ask.N, t.ask.Key, x)
		}
	}()
	limiter := t.guard.limiter
	if t.guard.config.Limits[t.limit].After == nil {
		return limiter.Take(ctx, t.ask.Key, t.ask.N)
	}
	r, err := limiter.Reserve(ctx, t.ask.Key, t.ask.N)
	if err != nil {
		return d, err
	}
	if err := slotsError(t.ask.Key, r.Limit); err != nil {
		_ = r.Cancel() // which can only have been denied
		return d, err
	}
	if r.Allowed {
		err = t.hold(r)
	}
	return r.Decision, err
}

// hold keeps a reservation until settle, or settles it if the request has ended by now.
func (t *trial) hold(r *hybrid.Reservation) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return r.Settle(t.cost)
	}
	t.reserved = r
	return nil
}

// settle is told what the request has cost.
func (t *trial) settle(cost int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended, t.cost = true, cost
	if t.reserved == nil {
		return nil
	}
	return t.reserved.Settle(cost)
}
