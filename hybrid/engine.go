package hybrid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// All verbs have one engine. A verb finds an entry (look), asks the entry (ask, or for several keys
// local.Several.Take), waits (rest), and explains the verdict (explain); see TestOneEngine.

// A request is for n tokens of a key.
type request struct {
	key      string
	known    *memo // of the key's entry, or nil
	n        int
	patience time.Duration // how long it would wait through denials
	bare     bool          // one token, and all that is wanted is the verdict
	try      bool          // it does not wait
	waits    bool          // for the store
	class    string        // or "" if it does not say one
	came     time.Duration // when it began to wait
}

// A memo remembers the entry of a key.
type memo = atomic.Pointer[local.Entry]

func (l *Limiter) allow(q *request) bool {
	e := l.find(q)
	var p *local.Pocket
	if q.bare = q.n == 1 && q.class == ""; q.bare && e != nil {
		if p = e.Pocket(); p != nil {
			if admitted, ok := p.Take(l.now()); ok {
				l.noted(q, admitted, nil)
				return admitted
			}
		}
	}
	e, r, err := l.ask(context.Background(), e, p, q)
	admitted := r.Verdict == lease.Admitted
	switch {
	case err != nil:
		admitted = false
	case admitted || r.Verdict == lease.Denied:
		l.leave(e)
	default:
		var d Decision
		d, err = l.settle(context.Background(), e, q, r)
		admitted = err == nil && d.Allowed
	}
	l.noted(q, admitted, err)
	return admitted
}

// take decides, and notes it.
func (l *Limiter) take(ctx context.Context, q *request) (Decision, error) {
	d, err := l.decide(ctx, q)
	l.noted(q, d.Allowed, err)
	return d, err
}

// wait asks with patience: the request stays in the entry's queue. It comes
// back without its tokens only when the deadline is too near or the outage
// policy has decided; then it is for the context to say how long to try.
func (l *Limiter) wait(ctx context.Context, q *request) error {
	err := l.queue(ctx, q)
	l.noted(q, err == nil, err)
	return err
}

func (l *Limiter) queue(ctx context.Context, q *request) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("hybrid: wait for %d of %.100q: %w", q.n, q.key, err)
		}
		q.patience = patience(ctx)
		d, err := l.decide(ctx, q)
		if err != nil || d.Allowed {
			return err
		}
		if err = hopeless(ctx, q.taking(), float64(q.n), q.key, d); err != nil {
			return err
		}
		_, _ = l.rest(ctx, nil, d.RetryAfter)
	}
}

// takeUpTo asks for all, then twice for what a denial says is left, then for one token. So the
// RetryAfter of a denial is that of one token.
func (l *Limiter) takeUpTo(ctx context.Context, q *request) (taken int, d Decision, err error) {
	for less := 2; ; less-- {
		d, err = l.take(ctx, q)
		if err != nil {
			return 0, d, err
		}
		if d.Allowed {
			return q.n, d, nil
		}
		if q.n == 1 {
			return 0, d, nil
		}
		n := 1
		if less > 0 {
			n = max(int(d.Remaining), 1) // below what was denied
		}
		q = &request{key: q.key, known: q.known, n: n, class: q.class}
	}
}

// decide asks the entry of the key, and waits for what only the ledger can tell.
func (l *Limiter) decide(ctx context.Context, q *request) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, fmt.Errorf("hybrid: take %d of %.100q: %w", q.n, q.key, err)
	}
	e, r, err := l.ask(ctx, l.find(q), nil, q)
	if err != nil {
		return Decision{}, err
	}
	return l.settle(ctx, e, q, r)
}

// look finds an entry of the key that is in use, or makes one. Then call leave.
func (l *Limiter) look(ctx context.Context, q *request) (*local.Entry, error) {
	if l.closed.Load() {
		return nil, ErrClosed
	}
	if e := l.find(q); e != nil && !e.Gone() {
		return e, nil
	}
	return l.open(ctx, q)
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

// open finds the entry of the key or makes it. Then call leave.
func (l *Limiter) open(ctx context.Context, q *request) (*local.Entry, error) {
	if err := checkKey(q.key); err != nil {
		return nil, err
	}
	t, err := l.limits.open(ctx, q.key, q.try) // LimitFor may take its time
	if err != nil {
		return nil, err
	}
	e := l.table.Open(l.now(), q.key, lease.Limit(t.limit), t.classes...)
	if e == nil {
		return nil, ErrClosed
	}
	if q.known != nil && !e.Stray() {
		q.known.Store(e)
	}
	return e, nil
}

// checkKey returns an error if key is empty: it was forgotten. All callers with an empty key,
// whatever they mean by it, would share a bucket.
func checkKey(key string) error {
	if key == "" {
		return fmt.Errorf("hybrid: key %q is empty", key)
	}
	return nil
}

// leave ends the use of an entry that open has returned.
func (l *Limiter) leave(e *local.Entry) {
	if e.Stray() {
		l.table.Absorb(l.now(), e)
	}
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
		if r.Due != local.NothingDue || r.Verdict == lease.Unavailable {
			l.follow(now, e, r)
		}
		return e, r, nil
	}
}

// of asks an entry for the tokens.
func (q *request) of(e *local.Entry, now time.Duration, away bool, p *local.Pocket) local.Result {
	switch {
	case q.bare:
		return e.Allow(now, away, p)
	case q.try:
		return e.Try(now, float64(q.n), away)
	case q.class != "":
		return e.TakeAs(now, float64(q.n), q.patience, away, q.class)
	}
	return e.Take(now, float64(q.n), q.patience, away)
}

// taking is the request in words.
func (q *request) taking() string { return fmt.Sprint("take ", q.n) }

// follow does what is due after an entry was asked.
func (l *Limiter) follow(now time.Duration, e *local.Entry, r local.Result) {
	if r.Verdict == lease.Unavailable {
		l.driver.unanswered(now, e)
	}
	switch r.Due {
	case local.ReadyDue:
		l.driver.attend(e)
	case local.LimitDue:
		l.driver.refresh(l.now(), e)
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
	case !q.try && l.recheck(ctx, now, e):
		return nil
	case lapsed:
		return nil // another request has it asked
	}
	defer l.leave(e)
	l.follow(now, e, r)
	return exceeds(q.taking(), q.key, Limit(e.InForce()))
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
	if v == lease.Unavailable {
		if e.Gone() && !l.closed.Load() { // it has been reset, or evicted just now
			return l.decide(ctx, q)
		}
		var err error
		if v, source, err = l.silent(e, q); err != nil {
			return Decision{}, err
		}
	}
	if v == lease.Exceeding {
		return Decision{}, exceeds(q.taking(), q.key, Limit(e.InForce()))
	}
	return l.explain(l.now(), e, float64(q.n), q.class, v, source), nil
}

// silent decides a request that the store has not answered.
func (l *Limiter) silent(e *local.Entry, q *request) (lease.Verdict, Source, error) {
	if v, constant := e.Constant(); constant {
		return v, Lease, nil // it has become constant while the request waited
	}
	if l.closed.Load() {
		return lease.Unavailable, Lease, ErrClosed
	}
	v := l.driver.dispatch.Decide(l.now(), e, float64(q.n))
	if v == lease.Unavailable {
		return v, Lease, fmt.Errorf("hybrid: take %d of %.100q: %w", q.n, q.key, ErrUnavailable)
	}
	return v, OutagePolicy, nil
}

// forever is how long a caller without a deadline waits.
const forever = time.Duration(math.MaxInt64)

// rest waits until heard is closed, for d, and until ctx or the Limiter ends: then it returns the
// error of ctx, or ErrClosed. All verbs wait here, except in user code that they call.
func (l *Limiter) rest(
	ctx context.Context, heard <-chan struct{}, d time.Duration,
) (told bool, err error) {
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	var over <-chan time.Time
	if d != forever {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-heard:
		return true, nil
	case <-over:
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	case <-l.driver.done: // an entry that the table does not know is not closed with it
		return false, ErrClosed
	}
}

// hear waits for the verdict on a request that came at came. It returns ErrUnavailable when an
// impatient request gives up, ErrClosed, or the error of ctx.
func (l *Limiter) hear(
	ctx context.Context, e *local.Entry, w *local.Waiter, came time.Duration,
) error {
	for {
		left := forever
		if !w.Patient() {
			if left = e.Until(came) - l.now(); left <= 0 { // it may have got longer
				return ErrUnavailable
			}
		}
		if told, err := l.rest(ctx, w.Done(), left); told || err != nil {
			return err
		}
	}
}

// await waits for the verdict, for an impatient request no longer than Entry.Until says,
// however often it asks anew.
func (l *Limiter) await(
	ctx context.Context, e *local.Entry, q *request, w *local.Waiter,
) (lease.Verdict, error) {
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

// recheck has LimitFor asked for an entry whose limit may have changed. It waits until LimitFor has
// returned, for the timeout and until ctx ends at most. Until LimitFor returns, the old limit stays
// in force. recheck reports false if there is nothing to ask, or if another caller has asked.
func (l *Limiter) recheck(ctx context.Context, now time.Duration, e *local.Entry) bool {
	if !e.Recheck(now) {
		return false
	}
	done := make(chan struct{})
	if l.limits.post(limitCall{key: e.Key, entry: e, done: done}) {
		_, _ = l.rest(ctx, done, l.config.Timeout)
	}
	return true
}

// patience is how long ctx lets a request wait.
func patience(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return max(time.Until(deadline), 1)
	}
	return forever
}

// hopeless returns an error if waiting for n tokens is certain to be of no use. taking is the
// request in words.
func hopeless(ctx context.Context, taking string, n float64, key string, d Decision) error {
	switch {
	case d.Limit == Blocked:
		return exceeds(taking, key, d.Limit)
	case d.Limit.Kind.Jobs(): // nobody knows when a job ends
	case d.RetryAfter > patience(ctx):
		return fmt.Errorf("hybrid: wait for %.0f of %.100q: %v is needed: %w",
			n, key, d.RetryAfter, context.DeadlineExceeded)
	}
	return nil
}

// explain makes a Decision of the verdict on n tokens of an entry. The verdict is Pending for a
// request that takes nothing: then the Decision tells what the tokens that are left allow.
func (l *Limiter) explain(
	now time.Duration, e *local.Entry, n float64, class string, v lease.Verdict, source Source,
) Decision {
	var s local.State
	if source == OutagePolicy {
		s = l.driver.dispatch.OutageState(now, e, n)
	} else {
		s = e.State(now, n, class)
	}
	d := Decision{
		Allowed:   v == lease.Admitted || v == lease.Pending && float64(s.Level) >= n,
		Remaining: s.Level, Held: s.Held, ResetAfter: s.ResetAfter, Limit: Limit(s.Limit), Source: source,
	}
	if !d.Allowed {
		d.Remaining = min(d.Remaining, int64(n)-1)
		d.RetryAfter = cmp.Or(s.RetryAfter, local.ProbeInterval)
	}
	return d
}

// full is the error of a verb that needs an entry which the table keeps.
func (l *Limiter) full() error {
	return fmt.Errorf("Config.MaxKeys %d leaves no room for it: %w", l.config.MaxKeys, ErrUnavailable)
}

func exceeds(verb, key string, limit Limit) error {
	if limit.Kind.Jobs() {
		return wrongVerb(verb, key, limit)
	}
	return fmt.Errorf("hybrid: %s of %.100q, limit %v: %w", verb, key, limit, ErrExceedsBurst)
}

// wrongVerb is the error of a verb that makes no sense for slots.
func wrongVerb(verb, key string, limit Limit) error {
	return fmt.Errorf("hybrid: %s of %.100q, limit %v, is for Acquire and Reserve: %w", verb, key, limit, ErrKind)
}
