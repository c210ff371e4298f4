package hybrid

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed13b07268/ration/hybrid/internal/foreign"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

const (
	// gather is how often a flight that somebody waits for lets others run before it
	// takes what is posted. Callers that the same answer woke ask again one after the
	// other: they all go with the next exchange then, and not the first of them alone.
	// What only renewals have asked for leaves at once: among goroutines that leave no core
	// idle each turn takes milliseconds, which a lease may not have.
	gather = 3

	sweepInterval = 200 * time.Millisecond // for each part of the table in turn
	sweepParts    = 12
	wakesAtOnce   = 256 // entries between two looks at the clock
)

// A driver drives the dispatch: its goroutines and those of limits, the only ones of the
// Limiter, carry flights to the store and back, and wake entries when it is time.
//
// A call of the user's code (the Store, LimitFor, the Logger) may panic or hang: see package
// foreign. Close does not wait for it longer than its context allows. All else that goroutines
// and timers do is between enter and leave: none of it runs, or writes to the log, once Close has
// returned (TestNothingAfterClose).
//
// # Locks
//
// Those of this package (driver, limits, conflicts, record, recorder, clock, Memory and Process)
// come after those of package local, as the last ones of its order: none of them is held while any
// other is taken (TestLockOrder), nor while the user's code runs.
type driver struct {
	limiter  *Limiter
	store    Store
	dispatch *local.Dispatch
	record   record
	book     foreign.Book

	mu      sync.Mutex
	ended   bool           // nobody enters any more
	inside  sync.WaitGroup // those who have entered and not left
	stopped sync.WaitGroup // goroutines
	done    chan struct{}  // closed when the Limiter is
}

func newDriver(l *Limiter, store Store, common *common) *driver {
	d := &driver{limiter: l, store: store, done: make(chan struct{})}
	d.dispatch = local.NewDispatch(l.now(), local.DispatchConfig{
		Fleet: common.fleet, Timeout: l.config.Timeout, Random: rand.Int64N,
		Outage: l.config.Outage, Shares: common.shares, Keys: l.config.MaxKeys, Table: l.table,
		Processes: l.config.Processes, Route: l.names.route(),
	})
	d.stopped.Go(d.watch)
	return d
}

// enter begins work that Close waits for, and reports false after the end. If it reports
// true, call leave.
func (d *driver) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	d.inside.Add(1)
	return true
}

func (d *driver) leave() { d.inside.Done() }

// attend looks at entries after something happened to them.
func (d *driver) attend(entries ...*local.Entry) {
	now := d.limiter.now()
	for _, e := range entries {
		d.refresh(now, e)
		d.dispatch.Attend(now, e)
	}
	d.launch()
}

// refresh has LimitFor asked again if it is time for that.
func (d *driver) refresh(now time.Duration, e *local.Entry) {
	if e.Recheck(now) {
		d.limiter.limits.post(limitCall{key: e.Key, entry: e})
	}
}

// declare tells an entry the limit of its key, and when that may change next.
func (d *driver) declare(e *local.Entry, t terms, next time.Duration) {
	if !d.enter() {
		return
	}
	defer d.leave()
	d.dispatch.Declare(d.limiter.now(), e, lease.Limit(t.limit), next, t.classes...)
	d.launch()
}

// unanswered is for an entry whose request the store could not be asked for.
func (d *driver) unanswered(now time.Duration, e *local.Entry) {
	d.dispatch.Unanswered(now, e)
	d.launch()
}

// launch starts the flights that the dispatch asks for.
func (d *driver) launch() {
	for {
		t, ok := d.dispatch.Takeoff()
		if !ok {
			return
		}
		if pause := t.Leaves - d.limiter.now(); pause > 0 {
			time.AfterFunc(pause, func() { d.start(t) })
		} else {
			d.start(t)
		}
	}
}

// start has a flight carried to its server and back.
func (d *driver) start(t local.Takeoff) {
	if d.enter() {
		defer d.leave()
		d.stopped.Go(func() { d.fly(t) })
	}
}

func (d *driver) fly(t local.Takeoff) {
	for turn := 0; t.Urgent && turn < gather; turn++ {
		runtime.Gosched()
	}
	if f := d.load(t); f != nil {
		d.exchange(f)
	}
}

// load returns the flight of a takeoff, or nil if there is nothing to deliver.
func (d *driver) load(t local.Takeoff) *local.Flight {
	if !d.enter() {
		return nil
	}
	defer d.leave()
	f := d.dispatch.Board(d.limiter.now(), t, new(local.Flight))
	if f != nil && !d.dispatch.Load(d.limiter.now(), f) {
		f = nil
	}
	d.launch()
	return f
}

// exchange makes one round trip. A store may take longer than its context allows: nobody waits for
// it then.
func (d *driver) exchange(f *local.Flight) {
	timeout := d.limiter.config.Timeout
	ctx, cancel := context.WithTimeout(context.Background(), timeout/8*7)
	defer cancel()
	overdue := time.AfterFunc(timeout, func() {
		if !d.enter() {
			return
		}
		defer d.leave()
		now := d.limiter.now()
		if notices, ok := d.dispatch.Overdue(now, f); ok {
			d.conclude(now, f, notices)
		}
	})
	defer overdue.Stop()
	d.store.Exchange(ctx, f.Calls)
	if !d.enter() {
		return
	}
	defer d.leave()
	now := d.limiter.now()
	notices, ok := d.dispatch.Land(now, f)
	if !ok {
		d.launch()
		return
	}
	d.warnNear(f.Calls)
	d.conclude(now, f, notices)
}

// conclude is for a flight that has landed or is overdue.
func (d *driver) conclude(now time.Duration, f *local.Flight, notices []local.Notice) {
	d.record.landed(now, now-f.Sent, f.Outcomes)
	d.tell(now, notices)
	d.attend(f.Entries...)
}

// tell writes notices to the log, and into the record.
func (d *driver) tell(now time.Duration, notices []local.Notice) {
	for _, n := range notices {
		switch n.News {
		case local.Away:
			d.record.turned(now, d.dispatch.Away)
			d.post(warn, "store does not answer", zap.Duration("for", n.For), zap.Error(n.Err))
		case local.Back:
			d.record.turned(now, d.dispatch.Away)
			d.post(info, "store answers again", zap.Duration("after", n.For))
		case local.Slow:
			d.post(warn, "store is slow: many exchanges have no answer in time, "+
				"and the outage policy decides for those")
		case local.Quick:
			d.post(info, "store is no longer slow")
		case local.Unknown:
			d.post(warn, "it is not known how many processes share the store: a key that it has not "+
				"answered admits nothing; see Config.Processes")
		case local.Unable:
			d.post(warn, "store can serve nobody, the outage policy decides", zap.Error(n.Err))
		case local.KeyFails:
			d.post(warn, "store does not answer for a key, of perhaps several",
				keyField(n.Key), zap.Error(n.Err))
		}
	}
}

// watch wakes entries when their time has come, and sweeps the table.
func (d *driver) watch() {
	l := d.limiter
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	sweep := l.now() + sweepInterval
	for d.enter() {
		l.clock.look()
		now := l.now()
		count := d.dispatch.Count(now)
		due, next := d.dispatch.Due(now, wakesAtOnce)
		d.attend(due...)
		if now >= sweep {
			l.table.Sweep(now, sweepParts)
			l.limits.watch(now)
			sweep = now + sweepInterval
		}
		d.leave()
		timer.Reset(min(next, sweep, count) - l.now())
		select {
		case <-timer.C:
		case <-d.dispatch.Earlier():
		case <-d.done:
			return
		}
	}
}

// unparked is how many parked keys are handed back at a time: each is an entry until then.
const unparked = 4096

// close hands everything back, then stops the goroutines.
func (d *driver) close(ctx context.Context) error {
	l := d.limiter
	err := d.handBack(ctx, l.table.Close(), 0)
	for err == nil {
		entries, left := l.table.Unpark(l.now(), unparked)
		if len(entries) == 0 {
			break
		}
		err = d.handBack(ctx, entries, left)
	}
	d.end()
	if unwritten := d.book.Close(ctx); err == nil && unwritten != nil {
		err = fmt.Errorf("hybrid: close: %w", unwritten)
	}
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		d.stopped.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hybrid: close: an exchange has not returned: %w", ctx.Err())
	}
}

// handBack hands back what entries have, while so many parked keys wait for that.
func (d *driver) handBack(ctx context.Context, entries []*local.Entry, parked int) error {
	var left atomic.Int64
	left.Store(int64(len(entries)) + 1)
	empty := make(chan struct{})
	gone := func() {
		if left.Add(-1) == 0 {
			close(empty)
		}
	}
	for _, e := range entries {
		e.Close(d.limiter.now(), gone)
		d.attend(e)
	}
	gone()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hybrid: close: keys not handed back: %d: %w",
			left.Load()+int64(parked), ctx.Err())
	}
}

// end lets nobody enter any more, and waits for those who have.
func (d *driver) end() {
	d.dispatch.End(d.limiter.now())
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	close(d.done)
	d.inside.Wait()
}

// warn writes a line to the log, but not once Close has returned.
func (d *driver) warn(message string, fields ...zap.Field) {
	if d.enter() {
		defer d.leave()
		d.post(warn, message, fields...)
	}
}

const (
	warn = zap.WarnLevel
	info = zap.InfoLevel
)

// post has a line written. The caller has entered.
func (d *driver) post(level zapcore.Level, message string, fields ...zap.Field) {
	d.book.Post(func() { d.limiter.config.Logger.Log(level, message, fields...) })
}
