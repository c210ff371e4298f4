package hybrid

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid/internal/foreign"
	"github.com/seed13b07268/ration/local"
)

// A Limiter limits the rates of any number of keys. Its methods are safe for
// concurrent use.
type Limiter struct {
	config   Config
	id       string // random; what the ids of its holders begin with
	place    place
	clock    *clock // of all Limiters of its Process whose keys are in the store
	limits   *limits
	names    *namespace
	table    *local.Table
	driver   *driver
	recorder *recorder // nil if nothing is recorded
	closed   atomic.Bool
	ending   error         // of the first Close
	ended    chan struct{} // closed when it has returned

	waiters atomic.Int64  // callers that wait, but those of Close
	panics  atomic.Uint64 // of the user's code on goroutines of ours, without log lines
}

// New returns a Limiter whose buckets are kept in store, or an error that names
// the field of config that is wrong. Close it when it is no longer needed.
func New(store Store, config Config) (*Limiter, error) {
	// A nil *Memory is a Store that is not nil.
	if v := reflect.ValueOf(store); store == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("hybrid: store is nil")
	}
	config, err := config.resolve()
	if err != nil {
		return nil, err
	}
	publisher, ok := store.(Publisher)
	if !ok && config.Publish > 0 {
		return nil, fmt.Errorf("hybrid: Config.Publish %v: a %T is no Publisher",
			config.Publish, store)
	}
	at := placeOf(store, config.Namespace)
	common := config.Process.join(at)
	l := &Limiter{
		config: config, id: randomID(), place: at, clock: common.clock, ended: make(chan struct{}),
	}
	l.table = local.NewTable(local.Config{
		Holder: l.id, Policy: config.Policy, Timeout: config.Timeout,
		Recheck: config.recheck(), MaxKeys: config.MaxKeys, Idle: idleKey, Shares: common.shares,
		Eager: float64(config.Eager),
	})
	l.limits = newLimits(l)
	l.names = &namespace{store: store, limiter: l, conflicts: &conflicts{limiter: l}}
	if config.Namespace != "" {
		l.names.prefix = config.Namespace + ":"
	}
	l.driver = newDriver(l, l.names, common)
	l.recorder = newRecorder(l)
	if config.Publish > 0 {
		l.driver.stopped.Go(func() { l.publish(publisher) })
	}
	return l, nil
}

// guard calls the user's code on a goroutine of ours, and counts and returns its panic.
func (l *Limiter) guard(f func()) *foreign.Panic {
	p := foreign.Call(f)
	if p != nil {
		l.panics.Add(1)
	}
	return p
}

// now is the time since the first New of those that have this clock.
func (l *Limiter) now() time.Duration { return l.clock.now() }

// Allow reports whether one token of key may be taken now, and takes it. It may block for
// a round trip to the store, at most [Config.Timeout] (see the package's introduction), and
// for the first call of LimitFor. Try never blocks. It is false where Take returns an error.
func (l *Limiter) Allow(key string) bool { return l.AllowN(key, 1) }

// AllowN reports whether n tokens of key may be taken now, and takes them. It is true for an n
// of 0, and false where Take would return an error. It may block as Allow does.
func (l *Limiter) AllowN(key string, n int) bool {
	return l.allow(&request{key: key, n: n})
}

// Take asks for n tokens of key. A denial is a Decision, not an error. Where
// only the ledger can tell (see the package's introduction) it waits for it, no
// longer than ctx and [Config.Timeout], or twice that behind an exchange of the key.
//
// Errors: [ErrExceedsBurst] when n is above the Burst in force (see [Config.LimitFor]);
// [ErrUnavailable] when the store did not answer and the outage policy does not decide either;
// [ErrKind] if the key has slots; [ErrInvalidLimit]; [ErrClosed]; the error of ctx; and an empty
// key or an n below 0. An n of 0 is allowed, and asks nobody: the Decision tells what this process
// knows.
func (l *Limiter) Take(ctx context.Context, key string, n int) (Decision, error) {
	return l.take(ctx, &request{key: key, n: n})
}

// TakeUpTo takes as many tokens of key as there are, from 1 to n, and returns how many. It asks for
// n. If they are denied, it asks for what is left, which others may take first, and at last for
// one. So it makes four calls of Take at most, and blocks as long as they do. The RetryAfter of a
// denial is that of one token. Stats count each call.
//
// Errors are those of Take: an n above the Burst is [ErrExceedsBurst], and takes nothing. An n of 0
// takes nothing and is allowed.
func (l *Limiter) TakeUpTo(ctx context.Context, key string, n int) (int, Decision, error) {
	return l.takeUpTo(ctx, &request{key: key, n: n})
}

// Try is a Take that never blocks: it decides by what this process holds, by a denial
// that it remembers, or by the outage policy. Where Take would wait, Try begins to ask the
// store for the n tokens and returns an error that wraps [ErrPending]. A Try of the key
// within [Config.Timeout] of that may have them; else they are lost.
//
// If a program lets requests through on ErrPending, one of them is counted in each round trip.
// If it turns them away, requests are served after that round trip. A key in steady use has a
// lease, and hardly ever gets ErrPending. A key whose limit is too small for leases gets it at
// each first request. Some keys get it always, and need Take: those for which MaxKeys leaves no
// room, and those that are asked for less often than their leases last, or, with LimitFor, than
// each MaxRefresh.
//
// Its other errors are those of Take.
func (l *Limiter) Try(key string, n int) (Decision, error) {
	return l.take(context.Background(), &request{key: key, n: n, try: true})
}

// Wait takes n tokens of key, and waits until it can. Requests that wait in
// this process are served in their order, except during an outage; nobody
// overtakes. It returns an error that wraps context.DeadlineExceeded as soon as it
// knows that the deadline of ctx is too near. Its other errors are those of Take.
//
// A large n may wait long while other processes use the limit up: tokens are
// not saved for it.
func (l *Limiter) Wait(ctx context.Context, key string, n int) error {
	return l.wait(ctx, &request{key: key, n: n})
}

// Key returns a handle to a key that is used often: it spares the look-up.
func (l *Limiter) Key(key string) *Key { return &Key{limiter: l, name: key} }

// Close hands all leases back, until ctx ends, and stops the Limiter's
// goroutines. Keys that were in use within half a minute may have leases, too: a call of the
// store has many of them. Requests that wait, and all later ones, get [ErrClosed]. A second
// Close waits for the first, until its own ctx ends, and returns its result.
//
// It ends the Contexts of all Slots, and hands their slots back at once: jobs that should
// finish are to Release before.
//
// Once Close has returned, also with the error of ctx, the Limiter does nothing and begins no log
// line. A call of the Store, of LimitFor or of the Logger that has not returned by then ends
// without effect on the Limiter. Close waits for log lines until ctx ends; so a Logger must not
// call it.
func (l *Limiter) Close(ctx context.Context) error {
	if l.closed.Swap(true) {
		select {
		case <-l.ended:
			return l.ending
		case <-ctx.Done():
		}
		select {
		case <-l.ended: // before its ctx, perhaps
			return l.ending
		default:
			return fmt.Errorf("hybrid: close: another Close is at it: %w", ctx.Err())
		}
	}
	l.limits.close()
	l.ending = l.driver.close(ctx)
	if err := l.recorder.close(ctx); l.ending == nil {
		l.ending = err
	}
	l.config.Process.leave(l.place)
	close(l.ended)
	return l.ending
}
