package live

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A fleet are the processes of a run in this program. They share nothing but
// the ledgers in the store.
type fleet struct {
	plan     *plan
	space    ledgers
	start    time.Time
	progress *Progress

	mu      sync.Mutex // guards all below, and plan.load, .service and .retries
	up      []*process // the life of each process, nil while it is down
	shots   []shot
	traffic traffic
	errs    []error
}

// playHere plays a run with all processes in this program.
func playHere(ctx context.Context, p *plan, space ledgers, progress *Progress) (recording, error) {
	f := &fleet{plan: p, space: space, progress: progress, up: make([]*process, p.load.Processes())}
	var r recording
	f.start = time.Now().Add(f.lead())
	err := r.beside(ctx, p, space, f.start, f.run)
	r.shots, r.traffic = f.shots, f.traffic
	r.turnAway(p)
	return r, errors.Join(err, errors.Join(f.errs...))
}

// lead is the time to make all limiters in, before the run starts.
func (f *fleet) lead() time.Duration {
	return 20*time.Millisecond + time.Duration(len(f.up))*time.Millisecond/5
}

// run plays all lives, and requests that depend on answers.
func (f *fleet) run(ctx context.Context) {
	var running sync.WaitGroup
	for i := range f.plan.lives {
		running.Go(func() { f.live(ctx, &f.plan.lives[i]) })
	}
	if f.plan.answering {
		running.Go(func() { f.answer(ctx) })
	}
	running.Wait()
}

// ahead is how long before its life a process is made, to be there in time.
const ahead = time.Millisecond

// live plays one life.
func (f *fleet) live(ctx context.Context, l *life) {
	if !sleepUntil(ctx, f.start, l.From-ahead) {
		return
	}
	p, err := newProcess(&f.plan.setting, l, f.plan.keys, f.space, f.start)
	if err != nil {
		f.note(nil, traffic{}, err)
		return
	}
	d := newDriver(l.Requests, p.take, nil)
	d.ended = func(i int) { f.progress.add(d.answers[i].Verdict) }
	if f.plan.answering {
		if sleepUntil(ctx, f.start, l.From) {
			f.set(l.Process, p)
		}
		if l.Ends {
			down := time.AfterFunc(l.To-time.Since(f.start), func() { f.clear(p) })
			defer down.Stop()
		}
	}
	p.play(ctx, d)
	f.note(d.shots(), p.link.drain(), nil)
}

func (f *fleet) note(shots []shot, t traffic, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shots = append(f.shots, shots...)
	f.traffic.add(t)
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

// set lets requests come to a process.
func (f *fleet) set(number int, p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up[number] = p
	f.plan.load.SetUp(number, true)
}

// clear lets no more requests come to a process, unless it has a new life.
func (f *fleet) clear(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number := slices.Index(f.up, p); number >= 0 {
		f.up[number] = nil
		f.plan.load.SetUp(number, false)
	}
}
