package hybrid

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

const (
	// maxBatch is how many exchanges share a round trip at most: enough to
	// make its cost small beside theirs, few enough that the first of them
	// does not wait for the last.
	maxBatch = 256
	// maxFlights is how many round trips are under way at most. What comes
	// meanwhile is gathered for the next one.
	maxFlights = 16

	sweepInterval = 200 * time.Millisecond // for each part of the table in turn
	sweepParts    = 16
	fleetMemory   = time.Minute // how long a number of processes is remembered, at least
)

// A shell carries the requests of all entries to the store and the answers
// back, and wakes entries when it is time. Its goroutines are the only ones.
type shell struct {
	limiter  *Limiter
	store    Store
	schedule *local.Schedule
	health   *local.Health
	fleet    local.Fleet

	sent, failed atomic.Uint64 // exchanges

	mu      sync.Mutex
	outbox  []call
	flights int // round trips under way
	ended   bool

	done    chan struct{} // closed when the Limiter is
	stopped sync.WaitGroup
}

type call struct {
	entry *local.Entry
	lease.Call
}

func newShell(l *Limiter, store Store) *shell {
	s := &shell{limiter: l, store: store, schedule: local.NewSchedule(), done: make(chan struct{})}
	s.health = local.NewHealth(l.config.Timeout, rand.Int64N)
	s.stopped.Go(s.watch)
	return s
}

// drive polls an entry after something happened to it. While the store is
// away a request is sent only as a probe; all others fail at once.
func (s *shell) drive(e *local.Entry, probe bool) {
	l := s.limiter
	limit := l.config.LimitFor(e.Key)
	err := limit.Validate()
	if err != nil {
		limit = e.Limit()
	}
	if e.Broken(err != nil) {
		l.config.Logger.Warn("limit became invalid, the one before stays, or valid again", zap.String("key", e.Key), zap.Error(err))
	}
	now := l.now()
	q, ok, wake := e.Poll(now, limit)
	if ok && (s.health.Away() && !probe && !s.health.Probe(now) || !s.post(call{e, lease.Call{Key: e.Key, Request: q}})) {
		e.Answer(now, q, lease.Reply{}, ErrUnavailable)
		e.Dismiss(now)
		_, _, wake = e.Poll(now, limit) // only to know when it will ask again
	}
	s.schedule.Set(e, wake)
}

// post puts a call into the outbox, and reports false after the end.
func (s *shell) post(c call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.outbox = append(s.outbox, c)
	if s.flights < maxFlights {
		s.flights++
		s.stopped.Go(s.fly)
	}
	return true
}

// fly carries batches until the outbox is empty. A request is sent by the
// flight that it starts, or with the next batch when all flights are busy.
func (s *shell) fly() {
	for {
		s.mu.Lock()
		n := min(len(s.outbox), maxBatch)
		if n == 0 {
			s.flights--
			s.mu.Unlock()
			return
		}
		batch := s.outbox[:n:n]
		s.outbox = s.outbox[n:]
		s.mu.Unlock()
		s.exchange(batch)
	}
}

// exchange makes one round trip.
func (s *shell) exchange(batch []call) {
	l := s.limiter
	calls := make([]*lease.Call, 0, len(batch))
	for i := range batch {
		if c := &batch[i]; c.entry.Asks(c.Request.Seq) { // it may have timed out in the outbox
			calls = append(calls, &c.Call)
		}
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout)
	defer cancel()
	sent := l.now()
	s.store.Exchange(ctx, calls)
	now := l.now()

	var err error
	answered := 0
	for i := range batch {
		c := &batch[i]
		switch inTime := c.entry.Answer(now, c.Request, c.Reply, c.Err); {
		case c.Err != nil:
			err = c.Err
		case inTime:
			answered++
			if !c.entry.Stray() { // each of these is a holder of its own
				s.fleet.Heard(c.Reply.Holders)
			}
		}
	}
	s.sent.Add(uint64(len(calls)))
	s.failed.Add(uint64(len(calls) - answered))
	if err == nil && now-sent >= l.config.Timeout {
		err = fmt.Errorf("answer after %v: %w", now-sent, ErrUnavailable)
	}
	if answered > 0 || err != nil {
		s.report(now, answered > 0, err)
	}
	for i := range batch {
		s.drive(batch[i].entry, false)
	}
}

// report tells the health how a round trip went, and people when that changes.
func (s *shell) report(now time.Duration, answered bool, err error) {
	switch changed, lasted := s.health.Report(now, answered); {
	case changed && answered:
		s.limiter.config.Logger.Info("store answers again", zap.Duration("after", lasted))
	case changed:
		s.limiter.config.Logger.Warn("store does not answer", zap.Duration("for", lasted), zap.Error(err))
	}
}

// watch wakes entries when their time has come, and sweeps the table.
func (s *shell) watch() {
	l := s.limiter
	timer := time.NewTimer(sweepInterval)
	defer timer.Stop()
	sweep := l.now() + sweepInterval
	forget := l.now() + fleetMemory
	for {
		now := l.now()
		due, next := s.schedule.Due(now, maxBatch)
		for _, e := range due {
			s.drive(e, false)
		}
		if now >= sweep {
			l.table.Sweep(now, sweepParts)
			sweep = now + sweepInterval
		}
		if now >= forget && !s.health.Away() {
			s.fleet.Forget()
			forget = now + fleetMemory
		}
		timer.Reset(min(next, sweep) - l.now())
		select {
		case <-timer.C:
		case <-s.schedule.Earlier():
		case <-s.done:
			return
		}
	}
}

// close hands everything back, then stops the goroutines.
func (s *shell) close(ctx context.Context) error {
	l := s.limiter
	entries := l.table.Close()
	var left atomic.Int64
	left.Store(int64(len(entries)) + 1)
	empty := make(chan struct{})
	gone := func() {
		if left.Add(-1) == 0 {
			close(empty)
		}
	}
	for _, e := range entries {
		e.Close(l.now(), gone)
		s.drive(e, true)
	}
	gone()

	var err error
	select {
	case <-empty:
	case <-ctx.Done():
		err = fmt.Errorf("hybrid: close: keys not handed back: %d: %w", left.Load(), ctx.Err())
	}
	s.mu.Lock()
	s.ended = true
	s.outbox = nil
	s.mu.Unlock()
	close(s.done)
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	go func() {
		s.stopped.Wait()
		close(stopped)
	}()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hybrid: close: an exchange has not returned: %w", ctx.Err())
	}
}
