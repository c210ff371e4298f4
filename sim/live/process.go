package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/sim/workload"
)

// A process is one life of a process of the scenario: a limiter, its link, and
// the requests that come to it.
type process struct {
	life    *life
	setting *setting
	keys    []string
	start   time.Time // of the run
	link    *link
	limiter *hybrid.Limiter
	classes []*hybrid.Classed // of it
	over    <-chan struct{}   // the run has been interrupted
	hangUp  func()            // closes the store's connections
}

func newProcess(s *setting, l *life, keys []string, space ledgers, start time.Time) (*process, error) {
	store, hangUp := space.open()
	p := &process{life: l, setting: s, keys: keys, start: start, link: newLink(store, s, l, start), hangUp: hangUp}
	var err error
	p.limiter, err = hybrid.New(p.link, hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			return hybrid.Limit(s.limitOf(key, time.Since(start)))
		},
		Policy: s.Policy, Outage: s.Outage, Eager: s.Eager, Timeout: s.Timeout, Process: hybrid.NewProcess(),
		Classes: s.Classes,
	})
	for i := 0; i < len(s.Classes) && err == nil; i++ {
		var c *hybrid.Classed
		c, err = p.limiter.As(s.Classes[i].Name)
		p.classes = append(p.classes, c)
	}
	return p, err
}

// take asks for the tokens of a request, or lets a job have its slot until it is over. The
// run's context does not cut it short: it ends within the limiter's timeout, and a request that was
// sent should be counted.
func (p *process) take(q *workload.Request) (a answer) {
	if q.Hold > 0 {
		return p.acquire(q)
	}
	a.Fired = time.Since(p.start)
	p.link.asks(a.Fired)
	defer p.link.decided(a.Fired)
	var d hybrid.Decision
	var err error
	switch {
	case len(p.setting.Each) > 1:
		d, err = p.takeAll(q, &a)
	case len(p.classes) > 0:
		d, err = p.classes[q.Class].Take(context.Background(), p.keys[q.Key], int(q.Cost))
	default:
		d, err = p.limiter.Take(context.Background(), p.keys[q.Key], int(q.Cost))
	}
	a.Returned = time.Since(p.start)
	a.ByOutage = a.ByOutage || d.Source == hybrid.OutagePolicy
	a.Waited = a.Waited || d.Source == hybrid.Ledger
	a.retryAfter = d.RetryAfter
	switch {
	case errors.Is(err, hybrid.ErrExceedsBurst):
		a.Verdict = refused
	case err != nil:
		a.Verdict, a.Waited, a.ByOutage = unknown, true, false
	case d.Allowed:
		a.Verdict = admitted
	default:
		a.Verdict = denied
	}
	return a
}

// acquire lets a job wait for its slot, and have it.
func (p *process) acquire(q *workload.Request) answer {
	a := answer{Fired: time.Since(p.start), Held: q.Hold}
	ctx, cancel := context.WithTimeout(context.Background(), p.setting.Patience)
	defer cancel()
	slot, err := p.limiter.Acquire(ctx, p.keys[q.Key], int(q.Cost))
	a.Returned = time.Since(p.start)
	a.Waited = a.Returned > a.Fired
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		a.Verdict = denied
	case err != nil:
		a.Verdict = unknown
	default:
		a.Verdict, a.ByOutage = admitted, slot.Fence() == 0
		p.hold(slot, &a)
	}
	return a
}

// hold lets a job have its slot until it is done, or its context ends. One that is under way as
// the run ends keeps it: it counts as if it went on.
func (p *process) hold(slot *hybrid.Slot, a *answer) {
	ends := a.Returned + a.Held
	timer := time.NewTimer(min(ends, p.setting.Duration) - time.Since(p.start))
	defer timer.Stop()
	select {
	case <-timer.C:
		if ends > p.setting.Duration {
			return
		}
	case <-p.over:
		return
	case <-slot.Context().Done():
	}
	a.Held = time.Since(p.start) - a.Returned
	_ = slot.Release() // an error says that its context had ended
}

// takeAll asks for the tokens of all keys of a request. It returns the decision of the limit
// that denies longest, or of one that allows.
func (p *process) takeAll(q *workload.Request, a *answer) (hybrid.Decision, error) {
	var asks []hybrid.Ask
	for _, n := range p.setting.keysOf(q) {
		asks = append(asks, hybrid.Ask{Key: p.keys[n], N: int(q.Cost)})
	}
	all, err := p.limiter.TakeAll(context.Background(), asks...)
	if err != nil {
		return hybrid.Decision{}, err
	}
	for i, d := range all.Each {
		a.ByOutage = a.ByOutage || d.Source == hybrid.OutagePolicy
		a.Waited = a.Waited || d.Source == hybrid.Ledger
		if !d.Allowed {
			a.Denying |= 1 << i
		}
	}
	return all.Each[max(all.Denied, 0)], nil
}

// play lives the life: it fires its requests until its end, that of the run, or
// that of ctx. At the end of the run, or after an interrupt, requests under way
// get their answers; at that of a life they do not.
func (p *process) play(ctx context.Context, d *driver) {
	p.over = ctx.Done()
	var firing sync.WaitGroup
	firing.Go(func() { d.run(ctx, p.start) })
	if !sleepUntil(ctx, p.start, p.life.To) || !p.life.Ends {
		firing.Wait()
		p.end(false)
		return
	}
	p.end(p.life.Crash)
	firing.Wait()
}

// closeTime is how long a limiter may take to hand its leases back.
const closeTime = 2 * time.Second

// end hands leases back, or, by a crash, does not. What cannot be handed back in time runs out
// by itself, and spoils no figure.
func (p *process) end(crash bool) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	if crash {
		p.link.crash()
		cancel()
	}
	_ = p.limiter.Close(ctx)
	p.link.close()
	p.hangUp()
}
