package live

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// network is the way to Redis and back, as scenario.Redis describes it.
type network struct {
	workload.RoundTrip
	Lost, Repeated float64
}

func networkOf(r *scenario.Redis) network {
	return network{workload.RoundTripOf(r), r.Lost, r.Repeated}
}

// A link is a process's way to Redis: a Store that takes as long as the
// scenario says, loses and repeats messages, and falls silent. What the Store
// behind it takes is part of that time: a round trip lasts as long as the drawn
// one or the real one, whichever is longer, and the ledger is asked in its
// middle.
//
// All the exchanges of a round trip share what befalls it.
type link struct {
	store   hybrid.Store
	start   time.Time
	setting *setting
	process int // its number
	silent  []interval
	crashed chan struct{} // closed when the process is

	gate   sync.RWMutex // read-locked while the store is asked
	closed bool

	mu      sync.Mutex
	random  *workload.Random
	own     time.Duration // what the store takes, smoothed
	traffic traffic
	flying  int                // exchanges
	first   time.Duration      // when the request was fired that the next exchange is for; 0 if none
	held    map[string]holding // in the warm-up, by key
}

// traffic is what a link carried in the time that is measured.
type traffic struct {
	Calls, Failed, RoundTrips int64
	Trips                     []Lapse         // see Extra.Trips
	Gathered                  []time.Duration // see Extra.gathered
	Held                      []holding       // when the warm-up ended
}

func (t *traffic) add(x traffic) {
	t.Calls += x.Calls
	t.Failed += x.Failed
	t.RoundTrips += x.RoundTrips
	t.Trips = append(t.Trips, x.Trips...)
	t.Gathered = append(t.Gathered, x.Gathered...)
	t.Held = append(t.Held, x.Held...)
}

var errSilent = errors.New("live: no answer, as the scenario has it")

func newLink(store hybrid.Store, s *setting, l *life, start time.Time) *link {
	return &link{
		store: store, start: start, setting: s, silent: l.Silent, crashed: make(chan struct{}), process: l.Process, held: map[string]holding{},
		random: workload.NewRandom(s.Seed, s.Replication, l.Process, workload.Messages+workload.Purpose(16*l.Number)),
	}
}

// fate is what a round trip will meet.
type fate struct {
	there, trip              time.Duration
	lost, lostBack, repeated bool
	again                    time.Duration // how much later the copy arrives
}

func (l *link) draw() (f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := &l.setting.Redis
	f.trip = n.Draw(l.random)
	f.there = max(f.trip-l.own, 0) / 2
	if n.Lost > 0 {
		f.lost, f.lostBack = l.random.Uniform() < n.Lost, l.random.Uniform() < n.Lost
	}
	if n.Repeated > 0 && l.random.Uniform() < n.Repeated {
		f.repeated, f.again = true, n.Draw(l.random)
	}
	return f
}

// asks notes that a request is fired.
func (l *link) asks(fired time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flying == 0 && l.first == 0 {
		l.first = fired
	}
}

// decided notes that a request has its answer.
func (l *link) decided(fired time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == fired {
		l.first = 0
	}
}

// leaves notes that an exchange does, and how long it has gathered.
func (l *link) leaves(sent time.Time, calls []*lease.Call) {
	at := sent.Sub(l.start)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying++
	if l.first > 0 {
		l.traffic.Gathered = append(l.traffic.Gathered, at-l.first)
	}
	l.first = 0
	l.hold(at, calls, func(h *holding, c *lease.Call) { h.asks(at, &c.Request) })
}

// Exchange implements hybrid.Store.
func (l *link) Exchange(ctx context.Context, calls []*lease.Call) {
	sent := time.Now()
	l.leaves(sent, calls)
	f := l.draw()
	err := l.carry(ctx, sent, &f, calls)
	if err != nil {
		for _, c := range calls {
			c.Reply, c.Err = lease.Reply{}, err
		}
	}
	l.count(sent, calls, !errors.Is(err, errSilent))
}

// carry takes the calls there and back. It returns an error if nothing comes
// back.
func (l *link) carry(ctx context.Context, sent time.Time, f *fate, calls []*lease.Call) error {
	if err := l.wait(ctx, sent.Add(f.there)); err != nil {
		return err
	}
	var copied <-chan []*lease.Call
	if f.repeated {
		copied = l.repeat(calls, f.again)
	}
	if !f.lost && !l.isSilent() {
		l.ask(ctx, calls)
		if !f.lostBack {
			if err := l.wait(ctx, sent.Add(f.trip)); err != nil {
				return err
			}
			if !l.isSilent() {
				return nil
			}
		}
	}
	select {
	case answered := <-copied:
		if err := l.wait(ctx, time.Now().Add(f.trip-f.there)); err != nil || l.isSilent() {
			return errSilent
		}
		for i, c := range answered {
			*calls[i] = *c
		}
		return nil
	case <-l.crashed:
	case <-ctx.Done():
	}
	return errSilent
}

// ask passes calls on to the store, unless the link is closed.
func (l *link) ask(ctx context.Context, calls []*lease.Call) {
	l.gate.RLock()
	defer l.gate.RUnlock()
	if l.closed {
		for _, c := range calls {
			c.Err = errSilent
		}
		return
	}
	asked := time.Now()
	l.store.Exchange(ctx, calls)
	l.took(time.Since(asked))
}

// repeat sends a copy of the calls on its way, which arrives later. The channel
// yields it with its answers.
func (l *link) repeat(calls []*lease.Call, later time.Duration) <-chan []*lease.Call {
	copied := make([]*lease.Call, len(calls))
	for i, c := range calls {
		copied[i] = &lease.Call{Key: c.Key, Request: c.Request}
	}
	done := make(chan []*lease.Call, 1)
	go func() {
		// As long as an exchange may take: nobody waits for it any longer.
		ctx, cancel := context.WithTimeout(context.Background(), l.setting.Timeout)
		defer cancel()
		if l.wait(ctx, time.Now().Add(later)) == nil && !l.isSilent() {
			l.ask(ctx, copied)
			done <- copied
		}
	}()
	return done
}

// wait returns at a time, or earlier with an error when ctx or the process ends.
func (l *link) wait(ctx context.Context, until time.Time) error {
	d := time.Until(until)
	if d <= 0 {
		select {
		case <-l.crashed:
			return errSilent
		default:
			return nil
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-l.crashed:
		return errSilent
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *link) isSilent() bool { return during(l.silent, time.Since(l.start)) }

// took smooths what the store takes by itself.
func (l *link) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == 0 {
		l.own = d
	}
	l.own += (d - l.own) / 8
}

// count notes a round trip. Those that the scenario has lost, and those that
// were refused, say nothing of how long a trip takes.
func (l *link) count(sent time.Time, calls []*lease.Call, natural bool) {
	at, took := sent.Sub(l.start), time.Since(sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying--
	l.hold(at+took, calls, func(h *holding, c *lease.Call) {
		if c.Err == nil && !c.Reply.Stale && took < l.setting.Timeout {
			h.answered(at, at+took, &c.Request, &c.Reply)
		}
	})
	if at < l.setting.Warmup || at >= l.setting.Duration {
		return
	}
	l.traffic.RoundTrips++
	l.traffic.Calls += int64(len(calls))
	failed := int64(0)
	for _, c := range calls {
		if c.Err != nil {
			failed++
		}
	}
	l.traffic.Failed += failed
	if natural && (failed == 0 || took >= l.setting.Timeout) {
		l.traffic.Trips = append(l.traffic.Trips, Lapse{at, took})
	}
}

// hold notes what the process holds of the keys that it asks for, or has asked for, while it
// warms up.
func (l *link) hold(at time.Duration, calls []*lease.Call, note func(*holding, *lease.Call)) {
	if at >= l.setting.Warmup {
		return
	}
	for _, c := range calls {
		h := l.held[c.Key]
		h.Process, h.Key = l.process, c.Key
		note(&h, c)
		l.held[c.Key] = h
	}
}

// drain returns the traffic since the last call.
func (l *link) drain() (t traffic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, l.traffic = l.traffic, traffic{}
	if time.Since(l.start) >= l.setting.Warmup {
		for _, h := range l.held {
			t.Held = append(t.Held, h)
		}
		clear(l.held)
	}
	return t
}

// crash lets nothing through any more, and whoever waits for an answer gets none.
func (l *link) crash() { close(l.crashed) }

// close returns when the store is asked for nothing more.
func (l *link) close() {
	l.gate.Lock()
	defer l.gate.Unlock()
	l.closed = true
}
