package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// A Transport is an http.RoundTripper that keeps a client within limits. A request waits until
// all limits of the Guard admit it, or until its context ends. It gets an error that wraps
// context.DeadlineExceeded as soon as it is known that the deadline is too near; the Timeout of
// an http.Client is such a deadline. Requests are served by hybrid.Limiter.Wait and WaitAll. If a
// limit in force has an After they have no queue, and no turn: each tries again after RetryAfter,
// and others may be faster. Close of the Limiter ends their wait within a second.
//
// Its fields must not be changed once it is in use. It does not obey the Retry-After of servers.
type Transport struct {
	// Guard has the limits. Its Fields and Refuse are not used. Required: RoundTrip returns an
	// error without it.
	Guard *Guard

	// Base sends requests. Default: http.DefaultTransport.
	Base http.RoundTripper

	// Fail is for requests that do not wait: one that is denied gets an *Error at once. It may
	// block for a round trip to the store, as hybrid.Limiter.TakeAll does.
	Fail bool
}

// An Error is that of a request that a Transport has not sent.
type Error struct{ Outcome }

// Error names the limits that deny, and RetryAfter.
func (e *Error) Error() string {
	switch {
	case e.Status == http.StatusForbidden:
		return "httplimit: the request is denied by a list"
	case e.Err != nil:
		return fmt.Sprintf("httplimit: the request is not sent: %v", e.Err)
	}
	return fmt.Sprintf("httplimit: the request is denied by %s: retry after %v",
		strings.Join(e.Denied, ", "), e.RetryAfter)
}

// Unwrap returns the error of the Limiter, if there was one.
func (e *Error) Unwrap() error { return e.Err }

// RoundTrip implements http.RoundTripper. If the request is not sent the error is an *Error, for
// errors.As. Else it is that of Base.
//
// What a limit's After says is counted when the body of the response has been read or closed.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	g, base := t.Guard, t.base()
	if g == nil {
		closeBody(r)
		return nil, errors.New("httplimit: Transport.Guard is nil")
	}
	switch g.listed(r) {
	case lists.Allow:
		return base.RoundTrip(r)
	case lists.Deny:
		return nil, g.unsent(r, Outcome{Status: http.StatusForbidden})
	}
	p := g.ask(r)
	attempt := p.wait
	if t.Fail {
		attempt = p.take
	}
	followed := false
	defer func() {
		if !followed { // Base has failed, or something has panicked
			p.end(End{})
		}
	}()
	allowed, err := attempt(r.Context())
	switch {
	case err != nil:
		o := p.failure(r.Context(), err)
		if o.Status != 0 {
			return nil, g.unsent(r, o)
		}
		g.config.Observe(r, o)
	case !allowed:
		return nil, g.unsent(r, p.denial())
	}
	p.shadow()
	resp, err := base.RoundTrip(r)
	if err == nil {
		p.follow(resp)
		followed = true
	}
	return resp, err
}

// CloseIdleConnections closes those of Base, if it can: http.Client.CloseIdleConnections calls it.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// unsent ends a request that is not sent.
func (g *Guard) unsent(r *http.Request, o Outcome) error {
	defer closeBody(r)
	g.config.Observe(r, o)
	return &Error{o}
}

// closeBody is for a request that Base does not get: the RoundTripper's contract demands it.
func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// wait takes the tokens of all limits, as soon as it can.
func (p *pass) wait(ctx context.Context) (bool, error) {
	var err error
	switch l := p.guard.limiter; {
	case len(p.asks) == 0:
	case p.guard.later:
		err = p.waitReserve(ctx)
	case len(p.asks) == 1:
		err = l.Wait(ctx, p.asks[0].Key, p.asks[0].N)
	default:
		err = l.WaitAll(ctx, p.asks...)
	}
	return err == nil, err
}

const (
	// mostSpread is how far apart requests come back at most that were denied together.
	mostSpread = 250 * time.Millisecond
	// lookout is how often one that waits looks whether the Limiter is closed.
	lookout = time.Second
)

// waitReserve tries again when the longest RetryAfter has passed. Reservations have no queue.
func (p *pass) waitReserve(ctx context.Context) error {
	for {
		ok, err := p.reserve(ctx)
		if ok || err != nil {
			return err
		}
		var wait time.Duration
		for i, d := range p.each {
			if d.Limit == hybrid.Blocked {
				return fmt.Errorf("wait for %q, which is blocked: %w", p.asks[i].Key,
					hybrid.ErrExceedsBurst)
			}
			wait = max(wait, d.RetryAfter)
		}
		spread := min(wait/4, mostSpread)
		if deadline, ok := ctx.Deadline(); ok {
			spare := time.Until(deadline) - wait
			if spare < 0 {
				return fmt.Errorf("%v is needed: %w", wait, context.DeadlineExceeded)
			}
			spread = min(spread, spare/2)
		}
		if err := p.pause(ctx, wait+rand.N(spread+1)); err != nil {
			return err
		}
	}
}

// pause waits for so long, or until ctx or the Limiter ends.
func (p *pass) pause(ctx context.Context, wait time.Duration) error {
	for until := time.Now().Add(wait); ; {
		left := time.Until(until)
		if left <= 0 {
			return nil
		}
		timer := time.NewTimer(min(left, lookout))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		// A Take of nothing asks nobody, and gets ErrClosed.
		if _, err := p.guard.limiter.Take(ctx, p.asks[0].Key, 0); err != nil {
			return err
		}
	}
}

// follow has limits told how a response ends.
func (p *pass) follow(resp *http.Response) {
	switch {
	case len(p.ends) == 0:
	case resp.StatusCode == http.StatusSwitchingProtocols: // its body can be written, too
		p.end(End{Status: resp.StatusCode, Header: resp.Header, Completed: true})
	default:
		resp.Body = &body{ReadCloser: resp.Body, pass: p, response: resp}
	}
}

// A body is that of a response. It tells limits when it ends.
type body struct {
	io.ReadCloser
	pass     *pass
	response *http.Response
	bytes    atomic.Int64
	once     sync.Once
}

func (b *body) Read(to []byte) (int, error) {
	n, err := b.ReadCloser.Read(to)
	b.bytes.Add(int64(n))
	if err == io.EOF {
		b.end(true)
	}
	return n, err
}

func (b *body) Close() error {
	err := b.ReadCloser.Close()
	b.end(false)
	return err
}

func (b *body) end(completed bool) {
	b.once.Do(func() {
		b.pass.end(End{
			Status: b.response.StatusCode, Header: b.response.Header, Bytes: b.bytes.Load(),
			Completed: completed,
		})
	})
}
