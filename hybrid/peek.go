package hybrid

import (
	"context"
	"fmt"
	"time"

	"github.com/seed13b07268/ration/local"
)

// Peek tells what is left of key, and takes nothing. Allowed says whether a request for one
// token would be admitted now, and RetryAfter when one would, as far as is known; others may
// take the token first.
//
// If the store has not answered for this key in the last MaxRefresh, Peek asks it. That may
// block for a round trip, at most Config.Timeout and until ctx ends. A first Peek of a key
// blocks for the first call of LimitFor, too, as a Take does.
//
// Where the outage policy would decide a Take, as the store is away or slow, or does not
// answer for this key, Peek tells what the lease still has, and then what the policy would
// admit in this process. Its errors are those of Take, but for ErrKind: it serves slots, too.
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
	now := l.now()
	since := now - l.config.Policy.Resolved().MaxRefresh
	if _, constant := e.Constant(); constant {
		return l.view(e.State(now, 1), Lease), nil
	}
	source, heard := Lease, e.Heard(since)
	if !heard && !l.driver.dispatch.Away() {
		source = Ledger
		if err := l.listen(ctx, e, now); err != nil {
			return Decision{}, fmt.Errorf("hybrid: peek at %.100q: %w", q.key, err)
		}
		heard = e.Heard(now)
	}
	if !heard && (e.Gone() || l.closed.Load()) { // it has been reset, or evicted just now
		return l.peek(ctx, q)
	}
	now = l.now()
	_, constant := e.Constant() // by now
	if !constant && (l.driver.dispatch.Away() || e.Failing() || !heard) {
		if !l.driver.dispatch.Decides(now, e) {
			return Decision{}, fmt.Errorf("hybrid: peek at %.100q: %w", q.key, ErrUnavailable)
		}
		// What a lease has is taken first, as by Take.
		if s := l.driver.dispatch.OutageState(now, e, 1); s.Held == 0 {
			if s.Level == 0 && s.RetryAfter == 0 {
				s.RetryAfter = local.ProbeInterval
			}
			return l.view(s, OutagePolicy), nil
		}
		source = Lease
	}
	return l.view(e.State(now, 1), source), nil
}

// listen waits until the ledger has answered for e since then, or has failed to. For an
// entry that it does not answer it asks, and does not wait.
func (l *Limiter) listen(ctx context.Context, e *local.Entry, since time.Duration) error {
	told := e.Listen(l.now(), since)
	l.driver.attend(e)
	if told == nil || e.Failing() {
		return nil
	}
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	timer := time.NewTimer(l.config.Timeout)
	defer timer.Stop()
	select {
	case <-told:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.driver.done:
		return ErrClosed
	}
	return nil
}

// view is a Decision that takes nothing.
func (l *Limiter) view(s local.State, source Source) Decision {
	d := Decision{
		Allowed: s.Level >= 1, Remaining: s.Level, Held: s.Held,
		ResetAfter: s.ResetAfter, Limit: Limit(s.Limit), Source: source,
	}
	if !d.Allowed {
		d.RetryAfter = max(s.RetryAfter, time.Millisecond)
	}
	return d
}
