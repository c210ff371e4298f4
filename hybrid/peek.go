package hybrid

import (
	"context"
	"fmt"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// Peek tells what is left of key, and takes nothing. Allowed says whether a request for one
// token would be admitted now, and RetryAfter when one would, as far as is known; others may
// take the token first.
//
// If the store has not answered for this key in the last MaxRefresh, Peek asks it. That may
// block for a round trip, at most [Config.Timeout] and until ctx ends. A first Peek of a key
// blocks for the first call of LimitFor, too, as a Take does.
//
// Of a key with classes it tells what the last class may spend: see [Classed.Peek].
//
// Where the outage policy would decide a Take, as the store is away or slow, or does not
// answer for this key, Peek tells what the lease still has, and then what the policy would
// admit in this process. Its errors are those of Take, but for [ErrKind]: it serves slots, too.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.peek(ctx, &request{key: key})
}

func (l *Limiter) peek(ctx context.Context, q *request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, fmt.Errorf("hybrid: peek at %.100q: %w", q.key, err)
	}
	e, _, err := l.ask(ctx, l.find(q), nil, q)
	if err != nil {
		return Decision{}, err
	}
	defer l.leave(e)
	now, source := l.now(), Lease
	heard := e.Heard(now - l.config.Policy.Resolved().MaxRefresh)
	_, constant := e.Constant()
	if !constant && !heard && !l.driver.dispatch.Away() {
		if err := l.listen(ctx, e, now); err != nil {
			return Decision{}, fmt.Errorf("hybrid: peek at %.100q: %w", q.key, err)
		}
		if heard = e.Heard(now); heard {
			source = Ledger
		}
	}
	if !constant && !heard && (e.Gone() || l.closed.Load()) { // reset, or evicted just now
		return l.peek(ctx, q)
	}
	now = l.now()
	byPolicy, ok := l.driver.dispatch.Foresee(now, e, heard, q.class)
	if !ok {
		return Decision{}, fmt.Errorf("hybrid: peek at %.100q: %w", q.key, ErrUnavailable)
	}
	if byPolicy {
		source = OutagePolicy
	}
	d := l.explain(now, e, 1, q.class, lease.Pending, source)
	l.follow(now, e, local.Result{Due: e.Looked(now, !d.Allowed, q.class)})
	return d, nil
}

// listen waits until the ledger has answered for e since then, or has failed to. For an
// entry that it does not answer it asks, and does not wait.
func (l *Limiter) listen(ctx context.Context, e *local.Entry, since time.Duration) error {
	told := e.Listen(l.now(), since)
	l.driver.attend(e)
	if told == nil || e.Failing() {
		return nil
	}
	_, err := l.rest(ctx, told, l.config.Timeout)
	return err
}
