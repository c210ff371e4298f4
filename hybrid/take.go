package hybrid

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

func (l *Limiter) allow(key string, known *slot, n int) bool {
	e, r, err := l.ask(key, known, n, 0)
	if err != nil {
		return false
	}
	if r.Verdict == lease.Admitted || r.Verdict == lease.Denied {
		return r.Verdict == lease.Admitted
	}
	d, err := l.settle(context.Background(), key, e, r, n)
	return err == nil && d.Allowed
}

func (l *Limiter) take(ctx context.Context, key string, known *slot, n int) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, fmt.Errorf("hybrid: take %d of %.100q: %w", n, key, err)
	}
	e, r, err := l.ask(key, known, n, 0)
	if err != nil {
		return Decision{}, err
	}
	return l.settle(ctx, key, e, r, n)
}

// wait asks with patience: the request stays in the entry's queue. It comes
// back without its tokens only when the deadline is too near or the outage
// policy has decided; then it is for the context to say how long to try.
func (l *Limiter) wait(ctx context.Context, key string, known *slot, n int) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("hybrid: wait for %d of %.100q: %w", n, key, err)
		}
		patience := time.Duration(math.MaxInt64)
		if deadline, ok := ctx.Deadline(); ok {
			patience = max(time.Until(deadline), 1)
		}
		e, r, err := l.ask(key, known, n, patience)
		if err != nil {
			return err
		}
		d, err := l.settle(ctx, key, e, r, n)
		if err != nil || d.Allowed {
			return err
		}
		if d.RetryAfter > patience {
			return fmt.Errorf("hybrid: wait for %d of %.100q: %v is needed: %w", n, key, d.RetryAfter, context.DeadlineExceeded)
		}
		timer := time.NewTimer(d.RetryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		case <-l.shell.done:
			timer.Stop()
		}
	}
}

// ask takes n tokens from the key's entry, which it looks up unless known has
// it, and makes one for a new key.
func (l *Limiter) ask(key string, known *slot, n int, patience time.Duration) (*local.Entry, local.Result, error) {
	if n < 1 {
		return nil, local.Result{}, fmt.Errorf("hybrid: n %d is not at least 1", n)
	}
	for {
		if l.closed.Load() {
			return nil, local.Result{}, ErrClosed
		}
		var e *local.Entry
		if known != nil {
			e = known.Load()
		}
		if e == nil {
			var err error
			if e, err = l.open(key); err != nil {
				return nil, local.Result{}, err
			}
			if known != nil && !e.Stray() {
				known.Store(e)
			}
		}
		now := l.now()
		r := e.Take(now, float64(n), patience, l.shell.health.Away())
		if r.Gone {
			if known != nil {
				known.CompareAndSwap(e, nil)
			}
			continue
		}
		if r.Exceeds {
			if r.Poll && !e.Stray() {
				l.shell.drive(e, false) // the limit may have been raised
				continue
			}
			return nil, r, exceeds(key, n, e.Limit())
		}
		probe := r.Verdict == lease.Unavailable && l.shell.health.Probe(now)
		if probe {
			e.Probe()
		}
		if r.Poll || probe {
			l.shell.drive(e, probe)
		}
		return e, r, nil
	}
}

// open finds the entry of key or makes it.
func (l *Limiter) open(key string) (*local.Entry, error) {
	if e := l.table.Find(key); e != nil {
		return e, nil
	}
	limit := l.config.LimitFor(key)
	if err := limit.Validate(); err != nil {
		return nil, fmt.Errorf("hybrid: limit of %.100q: %w", key, err)
	}
	if e := l.table.Open(l.now(), key, limit); e != nil {
		return e, nil
	}
	return nil, ErrClosed
}

// settle waits for the verdict if it is pending, and makes a Decision of it.
func (l *Limiter) settle(ctx context.Context, key string, e *local.Entry, r local.Result, n int) (Decision, error) {
	if e.Stray() {
		defer l.table.Absorb(e)
	}
	v, source := r.Verdict, Lease
	if v == lease.Pending {
		source = Ledger
		var err error
		if v, err = l.await(ctx, e, r.Waiter); err != nil {
			return Decision{}, fmt.Errorf("hybrid: take %d of %.100q: %w", n, key, err)
		}
	}
	switch v {
	case lease.Unavailable:
		return l.outage(key, e, n)
	case lease.Exceeding:
		return Decision{}, exceeds(key, n, e.Limit())
	}
	s := e.State(l.now(), float64(n))
	d := Decision{
		Allowed: v == lease.Admitted, Remaining: int64(s.Remaining), ResetAfter: s.ResetAfter,
		Limit: s.Limit, Source: source,
	}
	if !d.Allowed {
		d.RetryAfter = s.RetryAfter
	}
	return d, nil
}

// await waits for the verdict, for an impatient request no longer than the
// timeout.
func (l *Limiter) await(ctx context.Context, e *local.Entry, w *local.Waiter) (lease.Verdict, error) {
	var timeout <-chan time.Time
	if !w.Patient() {
		timer := time.NewTimer(l.config.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	select {
	case <-w.Done():
		return w.Verdict(), nil
	case <-timeout:
		if e.Withdraw(l.now(), w) {
			return lease.Unavailable, nil
		}
	case <-ctx.Done():
		if e.Withdraw(l.now(), w) {
			return 0, ctx.Err()
		}
	case <-l.shell.done: // an entry that the table does not know is not closed with it
		if e.Withdraw(l.now(), w) {
			return lease.Unavailable, nil
		}
	}
	<-w.Done() // it came at the same moment
	return w.Verdict(), nil
}

// outage decides when the store has not.
func (l *Limiter) outage(key string, e *local.Entry, n int) (Decision, error) {
	if l.closed.Load() {
		return Decision{}, ErrClosed
	}
	policy := l.config.Outage
	if policy != Allow && !l.shell.health.Away() && !e.Failing() {
		// One lost message is no outage: by now the share of this process may
		// be with another one.
		return Decision{}, fmt.Errorf("hybrid: take %d of %.100q: %w", n, key, ErrUnavailable)
	}
	d := Decision{Limit: e.Limit(), Source: OutagePolicy}
	now := l.now()
	d.Allowed = e.Outage(now, float64(n), policy, l.shell.fleet.Size())
	if !d.Allowed {
		d.RetryAfter = local.ProbeInterval
		if policy == Share {
			if wait, ok := e.OutageRetryAfter(now, float64(n)); ok {
				d.RetryAfter = max(wait, time.Millisecond)
			}
		}
	}
	return d, nil
}

func exceeds(key string, n int, limit Limit) error {
	return fmt.Errorf("hybrid: take %d of %.100q, limit %v: %w", n, key, limit, ErrExceedsBurst)
}
