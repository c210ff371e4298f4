package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// driver fires the requests of one process at their times and writes down what
// became of them.
//
// Most requests are decided in less than a microsecond, some wait for Redis,
// and which ones is not known before. So each worker takes the next request of
// the schedule, sleeps until its time, fires it, and while it may be waiting
// another one sleeps for the request after it: a wait delays nobody, and no
// request costs a goroutine unless others wait (TestWaitsDelayNobody).
type driver struct {
	limiter  *hybrid.Limiter
	keys     []string
	start    time.Time
	arrivals []arrival
	answers  []answer // of the arrival with the same index

	mu            sync.Mutex
	next          int // arrival to be taken
	workers, busy int // busy ones are inside Take
	fired         int
	admitted      int

	stopped sync.WaitGroup
}

// answer is what became of an arrival. Times count from the start of the run.
type answer struct {
	verdict verdict

	fired time.Duration // just before Take: when it came in truth

	// returned is just after Take: when the request may go on, which is what
	// a protected server sees and the promise is about. A worker that is held
	// up between its admission and this moment makes one request look later
	// than it was; whatever window one looks at, its count is thus off, either
	// way, by no more than the requests which workers held at its edges.
	returned time.Duration
}

type verdict uint8

const (
	unfired  verdict = iota // the run was interrupted before
	admitted                // all tokens taken
	denied                  // not now
	refused                 // never: costs more than the Burst
	unknown                 // no verdict: Redis did not answer
)

// maxWorkers bounds the requests of a process that wait at the same time. When
// more would have to, those behind are late, which the measure of lag shows.
const maxWorkers = 4096

func newDriver(limiter *hybrid.Limiter, keys []string, arrivals []arrival) *driver {
	return &driver{limiter: limiter, keys: keys, arrivals: arrivals, answers: make([]answer, len(arrivals))}
}

// run fires everything, counting time from start, and returns when all answers
// are there. When ctx ends it fires no more.
func (d *driver) run(ctx context.Context, start time.Time) {
	d.start = start
	d.workers = 1
	d.stopped.Go(func() { d.work(ctx) })
	d.stopped.Wait()
}

func (d *driver) work(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		i, ok := d.claim()
		if !ok {
			return
		}
		if wait := d.arrivals[i].at - time.Since(d.start); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		d.enter(ctx)
		d.fire(i)
		if !d.leave(d.answers[i].verdict) {
			return
		}
	}
}

// claim takes the next arrival.
func (d *driver) claim() (i int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == len(d.arrivals) {
		return 0, false
	}
	d.next++
	return d.next - 1, true
}

// enter makes sure that a worker is left to fire what comes next.
func (d *driver) enter(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy++
	if d.busy == d.workers && d.workers < maxWorkers && d.next < len(d.arrivals) {
		d.workers++
		d.stopped.Go(func() { d.work(ctx) })
	}
}

// leave reports whether the worker is still needed: one beside it is enough.
func (d *driver) leave(v verdict) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
	d.fired++
	if v == admitted {
		d.admitted++
	}
	if d.workers-d.busy > 2 {
		d.workers--
		return false
	}
	return true
}

// fire asks for the tokens. The run's context does not cut it short: it ends
// within the limiter's timeout, and a request that was sent should be counted.
func (d *driver) fire(i int) {
	a, r := d.arrivals[i], &d.answers[i]
	r.fired = time.Since(d.start)
	decision, err := d.limiter.Take(context.Background(), d.keys[a.key], a.cost)
	r.returned = time.Since(d.start)
	switch {
	case errors.Is(err, hybrid.ErrExceedsBurst):
		r.verdict = refused
	case err != nil:
		r.verdict = unknown
	case decision.Allowed:
		r.verdict = admitted
	default:
		r.verdict = denied
	}
}

// count returns how many requests were fired and admitted so far.
func (d *driver) count() (fired, admitted int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fired, d.admitted
}
