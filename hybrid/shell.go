package hybrid

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
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
	// gather is how often a flight that somebody waits for lets others run before it
	// takes what is posted. Callers that the same answer woke ask again one after the
	// other: they all go with the next exchange then, and not the first of them alone.
	// A renewal leaves at once: among goroutines that leave no core idle each turn
	// takes milliseconds, which its lease may not have.
	gather = 3
	// maxFlights is how many round trips are under way at most. What comes
	// meanwhile is gathered for the next one.
	maxFlights = 16

	// witness is how long an answer for one key says that failures of others are
	// theirs alone.
	witness = 2 * time.Second

	sweepInterval = 200 * time.Millisecond // for each part of the table in turn
	sweepParts    = 12
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
	census   *local.Entry

	sent, failed atomic.Uint64 // exchanges
	complained   atomic.Int64  // when, ns

	mu               sync.Mutex
	urgent, renewals []*local.Entry            // the outbox: somebody waits, or nobody does
	standing         map[*local.Entry]struct{} // those in renewals
	probes           []*local.Entry            // before both, and all that is sent while the store is away
	flights          int                       // round trips under way
	flying           int                       // exchanges in them
	window           window
	ended            bool

	askers askers // while the store is away

	done    chan struct{} // closed when the Limiter is
	stopped sync.WaitGroup
}

func newShell(l *Limiter, store Store, holder string) *shell {
	s := &shell{limiter: l, store: store, schedule: local.NewSchedule(), census: newCensus(l, holder), done: make(chan struct{})}
	s.window.size, s.standing = leastWindow, map[*local.Entry]struct{}{}
	s.health = local.NewHealth(l.config.Timeout, rand.Int64N)
	s.stopped.Go(s.watch)
	return s
}

// drive looks at an entry after something happened to it, and posts it if it
// has a request to send. While the store is away only probes are sent.
func (s *shell) drive(e *local.Entry) {
	limit := s.limit(e)
	now := s.limiter.now() // LimitFor may have taken long
	ask, urgent, wake := e.Ready(now, limit)
	switch {
	case !ask:
	case s.health.Away():
		s.schedule.Set(e, e.PutOff(now))
		s.probe(now, e)
		return
	case !s.post(e, urgent):
		wake = e.PutOff(now)
	}
	s.schedule.Set(e, wake)
}

// probe tries with e whether the store answers, if it is time for that. While it is
// away others that were asked for take part, as it may be back for some keys only.
func (s *shell) probe(now time.Duration, e *local.Entry) {
	away := s.health.Away()
	if !s.health.Probe(now) {
		if away && !e.Stray() {
			s.askers.add(e)
		}
		return
	}
	all := []*local.Entry{e}
	if away {
		all = s.askers.take(s.census, e)
	}
	var probes []*local.Entry
	for _, x := range all {
		x.Probe(now)
		if ask, _, _ := x.Ready(now, s.limit(x)); ask {
			probes = append(probes, x)
		}
	}
	if !s.postProbes(probes) {
		for _, x := range probes {
			s.schedule.Set(x, x.PutOff(now))
		}
	}
}

// limit is what the limit of the entry's key is now, or, where that is invalid,
// what it was.
func (s *shell) limit(e *local.Entry) Limit {
	if e == s.census {
		return e.Limit()
	}
	limit := s.limiter.config.LimitFor(e.Key)
	err := limit.Validate()
	if err != nil {
		limit = e.Limit()
	}
	if e.Broken(err != nil) {
		s.limiter.config.Logger.Warn("limit became invalid, the one before stays, or valid again", zap.String("key", fmt.Sprintf("%.100s", e.Key)), zap.Error(err))
	}
	return limit
}

// postProbes puts entries into the outbox that are sent though the store is away,
// and reports false after the end.
func (s *shell) postProbes(probes []*local.Entry) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.probes = append(s.probes, probes...)
	s.launchLocked(true)
	return true
}

// post puts an entry into the outbox, and reports false after the end.
func (s *shell) post(e *local.Entry, urgent bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	if urgent {
		s.urgent = append(s.urgent, e)
	} else if _, stands := s.standing[e]; !stands {
		s.renewals = append(s.renewals, e)
		s.standing[e] = struct{}{}
	}
	s.launchLocked(urgent)
	return true
}

// launchLocked starts a flight if there may be one more.
func (s *shell) launchLocked(urgent bool) {
	if s.flights < maxFlights && (urgent || s.flying < s.window.size) {
		s.flights++
		s.stopped.Go(func() { s.fly(urgent) })
	}
}

// fly carries batches until the outbox is empty. What is posted leaves with the
// flight that it starts, or with the next one when all are busy: who is waited
// for first. It is then that an entry makes its request, so that one which
// stands in the outbox for long, as its store is slow, asks for what it needs by
// then, or for nothing any more.
func (s *shell) fly(urgent bool) {
	for {
		for turn := 0; urgent && turn < gather; turn++ {
			runtime.Gosched()
		}
		s.mu.Lock()
		var batch []*local.Entry
		batch, s.probes = next(batch, s.probes, maxBatch)
		probes := len(batch)
		batch, s.urgent = next(batch, s.urgent, maxBatch-probes)
		waited := len(batch)
		batch, s.renewals = next(batch, s.renewals, min(maxBatch-waited, s.window.size-s.flying))
		for _, e := range batch[waited:] {
			delete(s.standing, e)
		}
		n := len(batch)
		if n == 0 {
			s.flights--
			s.mu.Unlock()
			return
		}
		s.flying += n
		s.mu.Unlock()
		sent := s.limiter.now()
		if s.health.Away() {
			for _, e := range batch[probes:] { // posted before
				if !slices.Contains(batch[:probes], e) {
					s.schedule.Set(e, e.PutOff(sent))
				}
			}
			batch = batch[:probes]
		}
		s.exchange(sent, batch)
		s.mu.Lock()
		s.flying -= n
		urgent = len(s.urgent) > 0
		s.mu.Unlock()
	}
}

// next moves up to most entries from the front of a queue to a batch.
func next(batch, queue []*local.Entry, most int) (b, q []*local.Entry) {
	n := min(len(queue), max(most, 0))
	if n < len(queue) {
		return append(batch, queue[:n]...), queue[n:]
	}
	return append(batch, queue...), nil
}

// exchange makes one round trip.
func (s *shell) exchange(sent time.Duration, batch []*local.Entry) {
	l := s.limiter
	calls := make([]*lease.Call, 0, len(batch))
	entries := batch[:0] // of the calls
	for _, e := range batch {
		q, ok, wake := e.Request(sent, s.limit(e))
		if !ok {
			s.schedule.Set(e, wake)
			continue
		}
		calls = append(calls, &lease.Call{Key: e.Key, Request: q})
		entries = append(entries, e)
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Timeout/8*7)
	defer cancel()
	// The store may take longer than its context allows.
	overdue := time.AfterFunc(l.config.Timeout, func() { s.driveAll(entries) })
	defer overdue.Stop()
	s.store.Exchange(ctx, calls)
	now := l.now()

	var err error // that says something of the store
	answered, refused := 0, 0
	last := s.health.Answered()
	recent := now < last+witness
	for i, c := range calls {
		if c.Err == nil && c.Reply.Seq != c.Request.Seq {
			c.Err = fmt.Errorf("hybrid: store answered request %d of %.100q with seq %d", c.Request.Seq, c.Key, c.Reply.Seq)
		}
		inTime := entries[i].Answer(now, c.Request, c.Reply, c.Err)
		switch {
		case errors.Is(c.Err, lease.ErrRefused):
			refused++
			s.complain(now, c)
		case c.Err == nil && inTime:
			answered++
			if !entries[i].Stray() { // each of these is a holder of its own
				s.fleet.Heard(c.Reply.Holders)
			}
		case recent && entries[i].FailsAlone(last):
			s.complain(now, c)
		case c.Err != nil:
			err = c.Err
		case now-sent >= l.config.Timeout:
			err = fmt.Errorf("answer after %v: %w", now-sent, ErrUnavailable)
		}
	}
	if answered > 0 || now-sent >= l.config.Timeout { // a refusal tells nothing of how long it takes
		s.mu.Lock()
		s.window.landed(sent, now, l.config.Timeout, len(calls), s.flying)
		s.mu.Unlock()
	}
	s.sent.Add(uint64(len(calls)))
	s.failed.Add(uint64(len(calls) - answered))
	if answers := answered+refused > 0; answers || err != nil {
		s.report(now, answers, err)
	}
	if answered < len(calls) && now >= last+witness/2 && entries[0] != s.census {
		s.ask(now) // does the store answer others?
	}
	s.driveAll(entries)
}

func (s *shell) driveAll(entries []*local.Entry) {
	for _, e := range entries {
		s.drive(e)
	}
}

// complain says that a key fails though the store answers, but not for each key:
// there may be many.
func (s *shell) complain(now time.Duration, c *lease.Call) {
	const pause = time.Minute
	last := s.complained.Load()
	if c.Err == nil || last > 0 && now < time.Duration(last)+pause || !s.complained.CompareAndSwap(last, int64(now)) {
		return
	}
	s.limiter.config.Logger.Warn("store does not answer for a key, of perhaps several", zap.String("key", fmt.Sprintf("%.100s", c.Key)), zap.Error(c.Err))
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
	count := l.now() + censusFirst
	for {
		now := l.now()
		count = s.count(now, count)
		due, next := s.schedule.Due(now, maxBatch)
		for _, e := range due {
			s.drive(e)
		}
		if now >= sweep {
			l.table.Sweep(now, sweepParts)
			sweep = now + sweepInterval
		}
		if now >= forget && !s.health.Away() {
			s.fleet.Forget()
			s.mu.Lock()
			s.window.forget()
			s.mu.Unlock()
			forget = now + fleetMemory
		}
		timer.Reset(min(next, sweep, count) - l.now())
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
		s.drive(e)
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
	s.probes, s.urgent, s.renewals, s.standing = nil, nil, nil, nil
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
