package hybrid

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

const (
	// mostRecheck is how long a key goes by its limit at most while it is in use.
	mostRecheck = time.Second

	// mostLimitCalls is how many calls of LimitFor by the Limiter's own goroutines are
	// under way at most. Further keys wait for one to return.
	mostLimitCalls = 64

	// mostRecent is how many keys of less than 1 KiB have their limits kept from first
	// calls, in each interval; one that is longer counts once more for each KiB. As many
	// first calls may be left to the goroutines of limits.
	mostRecent = 65_536

	// hung is for how long none of so many calls returns when that is worth a log line.
	hung = 10 * time.Second
)

// limits is the door to Config.LimitFor. The first call for a key is made by the
// goroutine of its first request, and others that come meanwhile wait for it. Further
// calls are made by a few goroutines of its own. So a decision from a lease never waits
// for one, and a call that hangs holds up its own key alone.
//
// Its lock is not held while LimitFor runs, nor while another lock is taken.
type limits struct {
	of       func(key string) (terms, error) // nil: one limit for ever
	fixed    terms
	interval time.Duration // between two calls for a key, at least
	limiter  *Limiter

	mu       sync.Mutex
	first    map[string]*firstCall
	recent   recentLimits
	queue    []limitCall
	posted   int // weight of the first calls in the queue
	workers  int
	returned time.Duration // when a call last did, or the last of the workers began
	warned   time.Duration // when a log line was last written, 0 for never
	hang     bool          // a log line has said that all calls hang
	ended    bool
}

// A limitCall is one to be made by a goroutine of limits: for an entry, or the first
// one for a key.
type limitCall struct {
	key   string
	entry *local.Entry
	done  chan struct{} // closed when it has returned; nil if nobody waits for that
	first *firstCall
}

// weight is for how many first calls it counts.
func (c *limitCall) weight() int {
	if c.first == nil {
		return 0
	}
	return 1 + len(c.key)/1024
}

// A firstCall is one that is under way for a key without an entry.
type firstCall struct{ done chan struct{} }

func newLimits(l *Limiter) *limits {
	x := &limits{
		fixed: terms{l.config.Limit, l.config.Classes}, interval: l.config.recheck(), limiter: l,
	}
	if l.config.LimitFor != nil {
		x.of = l.config.terms
	}
	return x
}

// terms are what a key goes by.
type terms struct {
	limit   Limit
	classes []Class
}

// terms asks LimitFor and ClassesFor. The error says that what they return is invalid.
func (c *Config) terms(key string) (terms, error) {
	t := terms{c.LimitFor(key), c.Classes}
	if err := c.valid(t.limit); err != nil {
		return t, err
	}
	if c.ClassesFor != nil {
		t.classes = c.ClassesFor(key)
		if err := lease.ValidateClasses(t.classes, c.Policy.Resolved()); err != nil {
			return t, fmt.Errorf("%w: ClassesFor: %w", ErrInvalidLimit, err)
		}
	}
	return t, nil
}

// recheck is how long a key goes by its limit, 0 for ever.
func (c Config) recheck() time.Duration {
	if c.LimitFor == nil {
		return 0
	}
	return min(c.Policy.Resolved().MaxRefresh, mostRecheck)
}

// open returns the limit of a key that has no entry. It calls LimitFor, or waits for
// another goroutine that does, until ctx ends and for the timeout at most. A request that
// does not wait leaves the call to others: ErrPending.
func (l *limits) open(ctx context.Context, key string, try bool) (terms, error) {
	if l.of == nil {
		return l.fixed, nil
	}
	for until := l.limiter.now() + l.limiter.config.Timeout; ; {
		known, call, mine := l.begin(key)
		switch {
		case call == nil:
			return known.terms, known.err
		case try:
			l.postFirst(key, call, mine)
			return terms{}, fmt.Errorf("hybrid: limit of %.100q: %w", key, ErrPending)
		case mine:
			l.limiter.waiters.Add(1)
			defer l.limiter.waiters.Add(-1)
			return l.callFirst(key, call)
		}
		told, err := l.limiter.rest(ctx, call.done, until-l.limiter.now())
		switch {
		case errors.Is(err, ErrClosed):
			return terms{}, err
		case err != nil:
			return terms{}, fmt.Errorf("hybrid: limit of %.100q: %w", key, err)
		case !told:
			return terms{}, fmt.Errorf("hybrid: limit of %.100q: LimitFor has not returned: %w",
				key, ErrUnavailable)
		}
	}
}

// begin returns what is known of a key, or the call that is under way for it. mine says
// that the caller has to make it, by callFirst.
func (l *limits) begin(key string) (known recentLimit, call *firstCall, mine bool) {
	now := l.limiter.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.recent.find(now, key); ok {
		return known, nil, false
	}
	if call = l.first[key]; call != nil {
		return known, call, false
	}
	call = &firstCall{done: make(chan struct{})}
	if l.first == nil {
		l.first = map[string]*firstCall{}
	}
	l.first[strings.Clone(key)] = call // it may be a part of something large
	return known, call, true
}

// callFirst makes a first call. If LimitFor panics it does so, too; others that wait for
// the call, or come within the interval, get an error.
func (l *limits) callFirst(key string, call *firstCall) (t terms, err error) {
	defer func() {
		l.mu.Lock()
		known := recentLimit{terms: t, err: err}
		l.recent.put(l.limiter.now(), l.interval, strings.Clone(key), known)
		l.mu.Unlock()
		l.endFirst(key, call)
	}()
	err = fmt.Errorf("hybrid: limit of %.100q: LimitFor has panicked: %w", key, ErrUnavailable)
	if t, err = l.of(key); err != nil {
		err = fmt.Errorf("hybrid: limit of %.100q: %w", key, err)
	}
	return t, err
}

// postFirst leaves a first call to the goroutines of limits, if the caller is to make it.
func (l *limits) postFirst(key string, call *firstCall, mine bool) {
	if mine && !l.post(limitCall{key: strings.Clone(key), first: call}) {
		l.endFirst(key, call)
	}
}

// endFirst ends a first call, which may not have been made.
func (l *limits) endFirst(key string, call *firstCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.first, key)
	close(call.done)
}

// recheck calls LimitFor for an entry whose Recheck has said so. If LimitFor panics it
// does so, too, and the limit stays. The interval begins when it has returned: one that
// takes longer is not called without a pause.
func (l *limits) recheck(e *local.Entry) {
	limit, classes := e.Terms()
	t := terms{Limit(limit), classes}
	defer func() { l.limiter.driver.declare(e, t, l.limiter.now()+l.interval) }()
	told, err := l.of(e.Key)
	if err == nil {
		t = told
	}
	if e.Broken(err != nil) && err != nil {
		l.warn("limit became invalid, the one before stays", keyField(e.Key), zap.Error(err))
	}
}

// post leaves a call to the goroutines of limits. It reports false if that is not possible:
// there is one call at a time for each entry, but first ones are for as many keys as callers
// of Try make up, and while all calls hang none is made (TestTryFlood).
func (l *limits) post(c limitCall) bool {
	now := l.limiter.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || c.first != nil && l.posted >= mostRecent {
		return false
	}
	l.posted += c.weight()
	l.queue = append(l.queue, c)
	if l.workers < mostLimitCalls {
		l.workers++
		l.returned = now
		go l.work()
	}
	return true
}

// watch says so when all calls hang, and forgets what is old.
func (l *limits) watch(now time.Duration) {
	l.mu.Lock()
	l.recent.turn(now, l.interval)
	if len(l.first) == 0 {
		l.first = nil // a map that has been large stays so
	}
	hang := len(l.queue) > 0 && now >= l.returned+hung && !l.hang
	l.hang = l.hang || hang
	l.mu.Unlock()
	if hang {
		l.warn("calls of LimitFor hang, keys keep the limits that they have")
	}
}

// close forgets the calls that have not begun. It does not wait for the others: they
// may hang.
func (l *limits) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended, l.queue = true, nil
}

// work makes calls until none is left. A LimitFor that ends its goroutine (runtime.Goexit)
// gets another one.
func (l *limits) work() {
	returned := false
	defer func() {
		if !returned {
			go l.work()
		}
	}()
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.workers--
			l.mu.Unlock()
			returned = true
			return
		}
		c := l.queue[0]
		l.queue = l.queue[1:]
		l.posted -= c.weight()
		l.mu.Unlock()
		l.call(c)
		now := l.limiter.now()
		l.mu.Lock()
		l.returned, l.hang = now, false
		l.mu.Unlock()
	}
}

// call makes one call, and survives a panic of LimitFor.
func (l *limits) call(c limitCall) {
	if c.done != nil {
		defer close(c.done)
	}
	p := l.limiter.guard(func() {
		if c.entry != nil {
			l.recheck(c.entry)
		} else {
			l.callFirst(c.key, c.first)
		}
	})
	if p != nil {
		l.warn("LimitFor panicked, the limit before stays", keyField(c.key),
			zap.Any("panic", p.Value), zap.ByteString("stack", p.Stack))
	}
}

// warn writes a log line, at most one a minute: there may be many keys.
func (l *limits) warn(message string, fields ...zap.Field) {
	const pause = time.Minute
	now := l.limiter.now()
	l.mu.Lock()
	late := l.warned == 0 || now >= l.warned+pause
	if late {
		l.warned = now
	}
	l.mu.Unlock()
	if late {
		l.limiter.driver.warn(message, fields...)
	}
}

// keyField names a key, which may be long.
func keyField(key string) zap.Field { return zap.String("key", fmt.Sprintf("%.100s", key)) }

// recentLimits is what first calls have returned lately, so that keys that come and go
// at once, or for which there is no room, do not call each time. What has come in one
// interval is forgotten after the next one, all at once.
type recentLimits struct {
	young, old map[string]recentLimit
	weight     int           // of the young
	turns      time.Duration // when the next interval begins
}

type recentLimit struct {
	terms
	err   error         // they are invalid, or there are none
	until time.Duration // they may have changed by then
}

// find returns what is known of a key.
func (r *recentLimits) find(now time.Duration, key string) (recentLimit, bool) {
	known, ok := r.young[key]
	if !ok {
		known, ok = r.old[key]
	}
	return known, ok && now < known.until
}

// put keeps what is known of a key, if there is room.
func (r *recentLimits) put(now, interval time.Duration, key string, known recentLimit) {
	r.turn(now, interval)
	if r.weight < mostRecent {
		if r.young == nil {
			r.young = map[string]recentLimit{}
		}
		known.until = now + interval
		r.young[key] = known
		r.weight += 1 + len(key)/1024
	}
}

// turn begins a new interval when it is time.
func (r *recentLimits) turn(now, interval time.Duration) {
	if now < r.turns {
		return
	}
	r.old, r.young, r.weight = r.young, nil, 0
	if now >= r.turns+interval {
		r.old = nil
	}
	r.turns = now + interval
}
