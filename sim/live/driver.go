package live

import (
	"context"
	"sync"
	"time"

	"github.com/seed13b07268/ration/sim/workload"
)

// driver fires requests at their times and writes down what became of them.
//
// Most requests are decided in less than a microsecond, some wait for Redis,
// and which ones is not known before. So each worker takes the next request of
// the list, sleeps until its time, fires it, and while it may be waiting
// another one sleeps for the request after it: a wait delays nobody, and no
// request costs a goroutine unless others wait (TestWaitsDelayNobody).
type driver struct {
	take     func(*workload.Request) answer
	ended    func(int) // told the index of each request that has its answer
	start    time.Time
	requests []workload.Request
	answers  []answer // of the request with the same index

	mu            sync.Mutex
	next          int // request to be taken
	workers, busy int // busy ones are inside take

	stopped sync.WaitGroup
}

// answer is what became of a request. Times count from the start of the run.
type answer struct {
	Verdict  verdict
	ByOutage bool // decided by the outage policy
	Waited   bool // for the ledger

	Denying uint16 // the limits that deny, a bit each, where there are several

	Fired time.Duration // just before it asks: when it came in truth

	// Returned is just after: when the request may go on, which is what
	// a protected server sees and the promise is about. A worker that is held
	// up between its admission and this moment makes one request look later
	// than it was; whatever window one looks at, its count is thus off, either
	// way, by no more than the requests which workers held at its edges.
	Returned time.Duration

	Held time.Duration // how long a job has had its slot since; of one that got none, its Hold

	retryAfter time.Duration
}

type verdict uint8

const (
	unfired  verdict = iota // the run was interrupted before
	admitted                // all tokens taken
	denied                  // not now
	refused                 // never: costs more than the Burst
	unknown                 // no verdict: Redis did not answer
	unrouted                // no process was up
)

// A shot is a request that was fired.
type shot struct {
	workload.Request
	answer
}

// maxWorkers bounds the requests of a process that wait at the same time. When
// more would have to, those behind are late, which the measure of lag shows.
const maxWorkers = 4096

func newDriver(requests []workload.Request, take func(*workload.Request) answer, ended func(int)) *driver {
	return &driver{take: take, ended: ended, requests: requests, answers: make([]answer, len(requests))}
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
		if wait := d.requests[i].At - time.Since(d.start); wait > 0 {
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
		d.answers[i] = d.take(&d.requests[i])
		d.ended(i)
		if !d.leave() {
			return
		}
	}
}

// claim takes the next request.
func (d *driver) claim() (i int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == len(d.requests) {
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
	if d.busy == d.workers && d.workers < maxWorkers && d.next < len(d.requests) {
		d.workers++
		d.stopped.Go(func() { d.work(ctx) })
	}
}

// leave reports whether the worker is still needed: one beside it is enough.
func (d *driver) leave() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
	if d.workers-d.busy > 2 {
		d.workers--
		return false
	}
	return true
}

// shots are the requests that were fired; call it after run.
func (d *driver) shots() (fired []shot) {
	for i, a := range d.answers {
		if a.Verdict != unfired {
			fired = append(fired, shot{d.requests[i], a})
		}
	}
	return fired
}
