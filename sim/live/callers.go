package live

import (
	"context"
	"sync"
	"time"

	"github.com/seed13b07268/ration/sim/workload"
)

// answer plays the requests that depend on answers: it finds their process when
// they are fired, lets the denied ones come back, and clients think.
func (f *fleet) answer(ctx context.Context) {
	var running sync.WaitGroup
	for i := range f.plan.load.Clients() {
		running.Go(func() { f.think(ctx, i) })
	}
	d := newDriver(f.plan.open, nil, func(int) {})
	d.take = func(q *workload.Request) answer {
		first := *q
		a := f.ask(q)
		if f.again(a, 0) > 0 {
			running.Go(func() { f.insist(ctx, first, a) })
		}
		return a
	}
	d.run(ctx, f.start)
	running.Wait()
}

// think is the life of a client: it thinks, asks, and thinks again.
func (f *fleet) think(ctx context.Context, client int) {
	for now := time.Duration(0); ; now = time.Since(f.start) {
		f.mu.Lock()
		q := f.plan.load.Think(now, client)
		f.mu.Unlock()
		if q.At >= f.plan.setting.Duration || !sleepUntil(ctx, f.start, q.At) {
			return
		}
		first := q
		f.insist(ctx, first, f.ask(&q))
	}
}

// insist asks again for a request that was answered with a, as often as the
// scenario has it.
func (f *fleet) insist(ctx context.Context, q workload.Request, a answer) {
	for tries := 0; ; tries++ {
		wait := f.again(a, tries)
		if wait == 0 {
			return
		}
		q.At = a.Returned + wait
		if q.At >= f.plan.setting.Duration || !sleepUntil(ctx, f.start, q.At) {
			return
		}
		retry := q
		a = f.ask(&retry)
	}
}

// again is how long after its answer a request comes back, zero if it does not.
func (f *fleet) again(a answer, tries int) time.Duration {
	r := f.plan.scenario.Load.Retry
	if r == nil || tries >= r.Times || a.Verdict != denied && a.Verdict != unknown {
		return 0
	}
	wait := r.After
	if wait == 0 {
		if wait = a.retryAfter; a.Verdict == unknown {
			wait = f.plan.setting.Timeout // there is no hint in an error
		}
		f.mu.Lock()
		wait = time.Duration(float64(wait) * (1 + 0.1*f.plan.retries.Uniform()))
		f.mu.Unlock()
	}
	return max(wait, time.Microsecond)
}

// ask finds a process for a request and asks it.
func (f *fleet) ask(q *workload.Request) answer {
	p, ok := f.route(q)
	var a answer
	if !ok {
		now := time.Since(f.start)
		a = answer{Verdict: unrouted, Fired: now, Returned: now}
	} else {
		a = p.take(q)
		f.answered(q.Process, a)
	}
	f.progress.add(a.Verdict)
	f.note([]shot{{*q, a}}, traffic{}, nil)
	return a
}

func (f *fleet) route(q *workload.Request) (*process, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	to, ok := f.plan.load.Route(q)
	if !ok {
		return nil, false
	}
	q.Process = to
	f.plan.load.Busy(to, 1)
	return f.up[to], true
}

// answered tells the balancer when the process is idle again.
func (f *fleet) answered(number int, a answer) {
	idle := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.plan.load.Busy(number, -1)
	}
	mean := f.plan.scenario.Balance.Service
	if a.Verdict != admitted || mean == 0 {
		idle()
		return
	}
	f.mu.Lock()
	work := time.Duration(f.plan.service.Exponential() * float64(mean))
	f.mu.Unlock()
	time.AfterFunc(work, idle)
}
