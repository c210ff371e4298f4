package hybrid

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// A request is for n tokens of a key.
type request struct {
	key      string
	known    *slot // remembers the key's entry, or nil
	n        int
	patience time.Duration // how long it would wait through denials
	bare     bool          // one token, and all that is wanted is the verdict
	try      bool          // it does not wait
	waits    bool          // for the store
	came     time.Duration // when it began to
}

func (l *Limiter) allow(q *request) bool {
	e := l.find(q)
	var p *local.Pocket
	if q.bare = q.n == 1; q.bare && e != nil {
		if p = e.Pocket(); p != nil {
			if admitted, ok := p.Take(l.now()); ok {
				return admitted
			}
		}
	}
	e, r, err := l.ask(context.Background(), e, p, q)
	if err != nil {
		return false
	}
	if r.Verdict == lease.Admitted || r.Verdict == lease.Denied {
		l.leave(e)
		return r.Verdict == lease.Admitted
	}
	d, err := l.settle(context.Background(), e, q, r)
	return err == nil && d.Allowed
}

func (l *Limiter) take(ctx context.Context, q *request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, fmt.Errorf("hybrid: take %d of %.100q: %w", q.n, q.key, err)
	}
	e, r, err := l.ask(ctx, l.find(q), nil, q)
	if err != nil {
		return Decision{}, err
	}
	return l.settle(ctx, e, q, r)
}

// attempt decides without waiting.
func (l *Limiter) attempt(q *request) (Decision, error) {
	q.try = true
	e, r, err := l.ask(context.Background(), l.find(q), nil, q)
	if err != nil {
		return Decision{}, err
	}
	return l.settle(context.Background(), e, q, r)
}

// wait asks with patience: the request stays in the entry's queue. It comes
// back without its tokens only when the deadline is too near or the outage
// policy has decided; then it is for the context to say how long to try.
func (l *Limiter) wait(ctx context.Context, q *request) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("hybrid: wait for %d of %.100q: %w", q.n, q.key, err)
		}
		q.patience = math.MaxInt64
		if deadline, ok := ctx.Deadline(); ok {
			q.patience = max(time.Until(deadline), 1)
		}
		e, r, err := l.ask(ctx, l.find(q), nil, q)
		if err != nil {
			return err
		}
		d, err := l.settle(ctx, e, q, r)
		if err != nil || d.Allowed {
			return err
		}
		if d.Limit == Blocked {
			return exceeds(fmt.Sprint("take ", q.n), q.key, d.Limit)
		}
		if d.RetryAfter > q.patience {
			return fmt.Errorf("hybrid: wait for %d of %.100q: %v is needed: %w",
				q.n, q.key, d.RetryAfter, context.DeadlineExceeded)
		}
		l.pause(ctx, d.RetryAfter)
	}
}

// pause waits for d, or until ctx or the Limiter ends.
func (l *Limiter) pause(ctx context.Context, d time.Duration) {
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-l.driver.done:
	}
}

// find returns the entry of the key, or nil if there is none yet.
func (l *Limiter) find(q *request) *local.Entry {
	if q.known != nil {
		if e := q.known.Load(); e != nil {
			return e
		}
	}
	e := l.table.Find(q.key)
	if q.known != nil && e != nil {
		q.known.Store(e)
	}
	return e
}

// ask takes the tokens from e, of which the caller has the Pocket p, or, if
// that is nil or out of use, from a new entry.
func (l *Limiter) ask(
	ctx context.Context, e *local.Entry, p *local.Pocket, q *request,
) (*local.Entry, local.Result, error) {
	if q.n < 0 {
		return nil, local.Result{}, fmt.Errorf("hybrid: n %d is not at least 0", q.n)
	}
	for {
		if l.closed.Load() {
			return nil, local.Result{}, ErrClosed
		}
		if e == nil {
			var err error
			if e, err = l.open(ctx, q); err != nil {
				return nil, local.Result{}, err
			}
		}
		now := l.clock.awake()
		r := q.of(e, now, l.driver.dispatch.Away(), p)
		if r.Gone {
			e, p = nil, nil
			continue
		}
		if r.Due == local.LimitFirst || r.Verdict == lease.Exceeding {
			if err := l.limitFirst(ctx, now, e, q, r); err != nil {
				return nil, r, err
			}
			continue
		}
		if r.Verdict == lease.Unavailable {
			l.driver.unanswered(now, e)
		}
		if r.Due != local.NothingDue {
			l.attend(e, r.Due)
		}
		return e, r, nil
	}
}

// attend does what is due after a Take.
func (l *Limiter) attend(e *local.Entry, due local.Due) {
	switch due {
	case local.ReadyDue:
		l.driver.attend(e)
	case local.LimitDue:
		l.driver.refresh(l.now(), e)
	}
}

// exceeding ends a request for more than the Burst in force.
func (l *Limiter) exceeding(e *local.Entry, q *request, r local.Result) error {
	defer l.leave(e)
	l.attend(e, r.Due)
	return exceeds(fmt.Sprint("take ", q.n), q.key, Limit(e.InForce()))
}

// of asks an entry for the tokens.
func (q *request) of(e *local.Entry, now time.Duration, away bool, p *local.Pocket) local.Result {
	switch {
	case q.bare:
		return e.Allow(now, away, p)
	case q.try:
		return e.Try(now, float64(q.n), away)
	}
	return e.Take(now, float64(q.n), q.patience, away)
}

// open finds the entry of the key or makes it. Then call leave.
func (l *Limiter) open(ctx context.Context, q *request) (*local.Entry, error) {
	limit, err := l.limitOf(ctx, q)
	if err != nil {
		return nil, err
	}
	e := l.table.Open(l.now(), q.key, lease.Limit(limit))
	if e == nil {
		return nil, ErrClosed
	}
	if q.known != nil && !e.Stray() {
		q.known.Store(e)
	}
	return e, nil
}

// checkKey returns an error if key is empty: it was forgotten. All that name an empty key, whatever
// they mean by it, would share a bucket.
func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("hybrid: key %q is empty", key)
	}
	return nil
}

// limitOf returns the limit of a key that has no entry. LimitFor may take its time.
func (l *Limiter) limitOf(ctx context.Context, q *request) (Limit, error) {
	if err := checkKey(q.key); err != nil {
		return Limit{}, err
	}
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	return l.limits.open(ctx, q.key, q.try)
}

// recheck has LimitFor asked for an entry whose Recheck has said so, and waits until it has
// returned, for the timeout and until ctx ends at most. The limit before stays until then.
func (l *Limiter) recheck(ctx context.Context, e *local.Entry) {
	done := make(chan struct{})
	if !l.limits.post(limitCall{key: e.Key, entry: e, done: done}) {
		return
	}
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	timer := time.NewTimer(l.config.Timeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-ctx.Done():
	case <-l.driver.done:
	}
}

// limitFirst is for an entry whose limit may have changed in a pause, or have been raised since
// it was exceeded. If it returns nil, ask again.
func (l *Limiter) limitFirst(
	ctx context.Context, now time.Duration, e *local.Entry, q *request, r local.Result,
) error {
	switch lapsed := r.Due == local.LimitFirst; {
	case lapsed && q.try:
		l.driver.refresh(now, e)
		return fmt.Errorf("hybrid: limit of %.100q: %w", q.key, ErrPending)
	case !q.try && e.Recheck(now):
		l.recheck(ctx, e)
		return nil
	case lapsed:
		return nil // another request has it asked
	}
	return l.exceeding(e, q, r)
}

// leave ends the use of an entry that open has returned.
func (l *Limiter) leave(e *local.Entry) {
	if e.Stray() {
		l.table.Absorb(l.now(), e)
	}
}

// settle waits for the verdict if it is pending and the request waits, and makes a Decision
// of it.
func (l *Limiter) settle(
	ctx context.Context, e *local.Entry, q *request, r local.Result,
) (Decision, error) {
	defer l.leave(e)
	v, source := r.Verdict, Lease
	if v == lease.Pending && q.try {
		return Decision{}, fmt.Errorf("hybrid: try %d of %.100q: %w", q.n, q.key, ErrPending)
	}
	if v == lease.Pending {
		source = Ledger
		var err error
		if v, err = l.await(ctx, e, q, r.Waiter); err != nil {
			return Decision{}, fmt.Errorf("hybrid: take %d of %.100q: %w", q.n, q.key, err)
		}
	}
	if constant, ok := e.Constant(); ok && v == lease.Unavailable {
		v, source = constant, Lease // so it has become while the request waited
	}
	switch v {
	case lease.Unavailable:
		if e.Gone() && !l.closed.Load() { // it has been reset, or evicted just now
			e, r, err := l.ask(ctx, nil, nil, q)
			if err != nil {
				return Decision{}, err
			}
			return l.settle(ctx, e, q, r)
		}
		return l.outage(e, q)
	case lease.Exceeding:
		return Decision{}, exceeds(fmt.Sprint("take ", q.n), q.key, Limit(e.InForce()))
	}
	s := e.State(l.now(), float64(q.n))
	d := Decision{
		Allowed: v == lease.Admitted, Remaining: s.Level, Held: s.Held, ResetAfter: s.ResetAfter,
		Limit: Limit(s.Limit), Source: source,
	}
	if !d.Allowed {
		d.RetryAfter = s.RetryAfter
		d.Remaining = min(d.Remaining, int64(q.n)-1)
	}
	return d, nil
}

// await waits for the verdict, for an impatient request no longer than Entry.Until says,
// however often it asks anew.
func (l *Limiter) await(
	ctx context.Context, e *local.Entry, q *request, w *local.Waiter,
) (lease.Verdict, error) {
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	if !q.waits {
		q.waits, q.came = true, l.now()
	}
	err := l.hear(ctx, e, w, q.came)
	switch {
	case err == nil || !e.Withdraw(l.now(), w): // it came at the same moment
		<-w.Done()
		return w.Verdict(), nil
	case errors.Is(err, ErrClosed), errors.Is(err, ErrUnavailable):
		return lease.Unavailable, nil
	}
	return lease.Unavailable, err
}

// hear waits for the verdict on a request that came then. It returns ErrUnavailable when an
// impatient one gives up, ErrClosed, or the error of ctx.
func (l *Limiter) hear(
	ctx context.Context, e *local.Entry, w *local.Waiter, came time.Duration,
) error {
	for {
		var timeout <-chan time.Time
		if !w.Patient() {
			left := e.Until(came) - l.now()
			if left <= 0 {
				return ErrUnavailable
			}
			timer := time.NewTimer(left)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-w.Done():
			return nil
		case <-timeout: // it may have got longer
		case <-ctx.Done():
			return ctx.Err()
		case <-l.driver.done: // an entry that the table does not know is not closed with it
			return ErrClosed
		}
	}
}

// outage decides when the store has not.
func (l *Limiter) outage(e *local.Entry, q *request) (Decision, error) {
	if l.closed.Load() {
		return Decision{}, ErrClosed
	}
	now, n := l.now(), float64(q.n)
	if !l.driver.dispatch.Decides(now, e) {
		return Decision{}, fmt.Errorf("hybrid: take %d of %.100q: %w", q.n, q.key, ErrUnavailable)
	}
	allowed := l.driver.dispatch.Outage(now, e, n)
	s := l.driver.dispatch.OutageState(now, e, n)
	d := Decision{
		Allowed: allowed, Remaining: s.Level, Held: s.Held, ResetAfter: s.ResetAfter,
		Limit: Limit(s.Limit), Source: OutagePolicy,
	}
	if !d.Allowed {
		d.RetryAfter = s.RetryAfter
		if d.RetryAfter == 0 {
			d.RetryAfter = local.ProbeInterval
		}
	}
	return d, nil
}

func exceeds(verb, key string, limit Limit) error {
	if limit.Kind == KindSlots {
		return wrongVerb(verb, key, limit)
	}
	return fmt.Errorf("hybrid: %s of %.100q, limit %v: %w", verb, key, limit, ErrExceedsBurst)
}
