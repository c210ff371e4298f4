package local

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/lease"
)

// An Entry guards the Holder of one key. Its methods are safe for concurrent
// use. Time is counted from any fixed moment.
type Entry struct {
	// What a Take reads and writes comes first, see lease.Holder.

	pockets atomic.Pointer[[]Pocket] // nil unless it is hot

	mu      sync.Mutex
	used    time.Duration // the last Take
	limit   lease.Limit
	share   *rate.Limiter // the outage policy Share, nil while the ledger answers
	gone    bool          // evicted or closed: look the key up again
	closing bool
	stray   bool   // not in the table: its caller's alone
	broken  bool   // its limit is invalid, the one before stays
	beside  bool   // the share is beside a lease that still refills
	wanted  uint8  // said by Wants since the last Poll
	dense   uint8  // requests in a row without a pause, up to denseRun
	open    int16  // pockets
	settled uint32 // waiters that have had their verdict
	count   Count
	holder  lease.Holder

	Key     string
	serial  uint64        // of the holder
	hot     *atomic.Int32 // how many entries of its table have pockets
	given   int64         // tokens of the holder that are in pockets
	ends    time.Duration // when the last of the open pockets does
	timeout time.Duration
	recheck time.Duration // how often a key that is only denied is polled, to learn a changed limit
	sent    time.Duration // when the outstanding request left
	polled  time.Duration // the last Poll
	latest  time.Duration // of the times that Outage was told
	shared  lease.Limit   // of which share is a part
	closed  func()        // when closing: hand everything back, end, and call it

	// of the Schedule, guarded by its mutex
	due   time.Duration
	index int
}

// NewEntry returns an entry that no Table knows. timeout is that of an
// exchange; limit and policy are the holder's.
func NewEntry(now time.Duration, key string, holder *lease.Holder, limit lease.Limit, policy lease.Policy, timeout time.Duration) *Entry {
	return &Entry{
		Key: key, holder: *holder, limit: limit, timeout: timeout, used: now, polled: now,
		recheck: policy.Resolved().MaxRefresh,
	}
}

// Count is what an entry has decided.
type Count struct {
	Lease, Ledger, Outage struct{ Admitted, Denied uint64 }
}

func (c *Count) add(x Count) {
	c.Lease.Admitted += x.Lease.Admitted
	c.Lease.Denied += x.Lease.Denied
	c.Ledger.Admitted += x.Ledger.Admitted
	c.Ledger.Denied += x.Ledger.Denied
	c.Outage.Admitted += x.Outage.Admitted
	c.Outage.Denied += x.Outage.Denied
}

// A Waiter waits for the verdict of the ledger.
type Waiter struct {
	waiter lease.Waiter
	done   chan struct{}
}

// Done is closed when the verdict is there.
func (w *Waiter) Done() <-chan struct{} { return w.done }

// Patient reports whether it stays through denials.
func (w *Waiter) Patient() bool { return w.waiter.Until > 0 }

// Verdict is valid after Done.
func (w *Waiter) Verdict() lease.Verdict { return w.waiter.Verdict }

// Result is the answer to a Take.
type Result struct {
	Verdict lease.Verdict
	Waiter  *Waiter // to wait for, if the Verdict is Pending
	Poll    bool    // call Poll now
	Gone    bool    // the entry is out of use: look the key up again
}

// Take asks for n tokens, at least 1. A patient request stays
// in the queue through denials, unless it would have to wait longer than
// patience; zero is an impatient one. While away, nobody waits: what the lease
// cannot admit and does not deny is Unavailable. More than the limit's Burst is
// Exceeding.
func (e *Entry) Take(now time.Duration, n float64, patience time.Duration, away bool) Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.takeLocked(now, n, patience, away, nil)
}

// Allow is an impatient Take of one token whose verdict is all that is wanted. When
// many come, those after it are decided in the goroutine's Pocket.
func (e *Entry) Allow(now time.Duration, away bool, p *Pocket) Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.takeLocked(now, 1, 0, away, p)
	switch {
	case r.Verdict > lease.Denied || r.Gone || r.Poll:
	case p != nil && !p.old:
		e.openLocked(now, p)
	case e.dense == denseRun && e.pockets.Load() == nil && !e.stray:
		e.heatLocked()
	}
	return r
}

func (e *Entry) takeLocked(now time.Duration, n float64, patience time.Duration, away bool, p *Pocket) Result {
	if e.gone || e.closing {
		return Result{Gone: true}
	}
	if n > float64(e.limit.Burst) {
		return Result{Verdict: lease.Exceeding, Poll: e.staleLocked(now)}
	}
	if e.open > 0 {
		e.makeWayLocked(now, n, p)
	}
	if now-e.used > densePause {
		e.dense = 0
	} else if e.dense < denseRun {
		e.dense++
	}
	e.used = now
	if e.share != nil && !away && !e.failing() {
		e.share = nil // the next outage starts with an empty one
	}
	v := e.holder.Take(now, n)
	r := Result{Verdict: v, Poll: e.holder.Due(now)}
	switch v {
	case lease.Admitted:
		e.count.Lease.Admitted++
		return r
	case lease.Exceeding: // as the ledger has just said
		return Result{Verdict: v, Poll: e.staleLocked(now)}
	}
	failing := e.failing()
	if (away || failing) && !e.holder.Running(now) {
		r.Verdict = lease.Unavailable
		r.Poll = r.Poll || e.staleLocked(now)
		if failing && !away && e.holder.Outstanding() == 0 {
			e.holder.Probe(now, false) // the store answers other keys: this one is tried by itself
			r.Poll = r.Poll || e.holder.Due(now)
		}
		return r
	}
	if v == lease.Denied && (patience == 0 || e.holder.RetryAfter(now, n) > patience) {
		e.count.Lease.Denied++
		r.Poll = r.Poll || e.staleLocked(now)
		return r
	}
	w := &Waiter{waiter: lease.Waiter{N: n}, done: make(chan struct{})}
	w.waiter.Tag = w
	if patience > 0 {
		w.waiter.Until = now + min(patience, math.MaxInt64-now)
	}
	e.holder.Enter(&w.waiter)
	return Result{Verdict: lease.Pending, Waiter: w, Poll: true}
}

// staleLocked reports whether the key's limit may have changed since the last Poll.
func (e *Entry) staleLocked(now time.Duration) bool { return now >= e.polled+e.recheck }

// failsInARow is how many exchanges of a key must fail, one after the other, to
// treat the store as away for this key though it answers others: a node of a
// cluster may be down, or the key's state unreadable.
const failsInARow = 3

func (e *Entry) failing() bool { return e.holder.Failures() >= failsInARow }

// FailsAlone reports whether this key fails and the store has answered others at a
// time since it began to: that says nothing of the store then.
func (e *Entry) FailsAlone(answered time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder.Failures() > 0 && e.holder.FailingSince() < answered
}

// Failing reports whether the store has not answered this key's last requests.
func (e *Entry) Failing() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failing()
}

// Stray reports whether the entry is its caller's alone, because the table is
// full. It is for one request; then Table.Absorb it.
func (e *Entry) Stray() bool { return e.stray }

// Broken notes whether the key's limit is invalid now and reports whether that
// has changed.
func (e *Entry) Broken(broken bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	changed := e.broken != broken
	e.broken = broken
	return changed
}

// Probe makes the next Poll ask the ledger, though nobody waits for it.
func (e *Entry) Probe(now time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if !e.gone {
		e.holder.Probe(now, true)
	}
}

// Withdraw ends a wait whose caller has gone. It reports false if the verdict
// has come meanwhile.
func (e *Entry) Withdraw(now time.Duration, w *Waiter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return e.holder.Withdraw(now, &w.waiter)
}

// Poll serves those who wait, ends an exchange that has taken too long, and
// returns the request to deliver, if there is one. limit is what the key's
// limit is now. wake is when to call again, math.MaxInt64 for not.
func (e *Entry) Poll(now time.Duration, limit lease.Limit) (q lease.Request, ok bool, wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = nothing
	if !e.attendLocked(now, limit) {
		return q, false, math.MaxInt64
	}
	if !e.closing {
		q, ok = e.holder.Poll(now)
	} else if e.holder.Outstanding() == 0 {
		if q, ok = e.holder.Quit(now); !ok {
			e.endLocked()
			return q, false, math.MaxInt64
		}
	}
	e.resolve()
	if ok {
		e.sent = now
	}
	return q, ok, e.wakeLocked()
}

// Wants does what Poll does, but for the request: ask says that there is one to
// make, that no Wants has said so since the last Poll, and urgent that somebody
// waits for it. Then Poll, or PutOff, when it can be delivered or not. wake does
// not count the timeout of an exchange, which is for who delivers it to watch.
func (e *Entry) Wants(now time.Duration, limit lease.Limit) (ask, urgent bool, wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.attendLocked(now, limit) {
		return false, false, math.MaxInt64
	}
	if e.closing {
		if ask = e.holder.Owes(now); !ask && e.holder.Outstanding() == 0 {
			e.endLocked()
			return false, false, math.MaxInt64
		}
	} else {
		ask, urgent = e.holder.Wants(now)
		e.resolve()
	}
	if !ask && e.holder.Outstanding() != 0 {
		return false, false, math.MaxInt64
	}
	if !ask {
		return false, false, e.holder.Wake()
	}
	want := renewal
	if urgent {
		want = waited
	}
	ask = want > e.wanted
	e.wanted = max(e.wanted, want)
	return ask, urgent, math.MaxInt64
}

// What a Wants since the last Poll has said.
const (
	nothing = uint8(iota)
	renewal
	waited
)

// PutOff is for when what Poll would return cannot be delivered. All who wait
// are sent away as Unavailable. wake is when to call Wants again. An entry that
// is closing ends: what it holds will end by itself.
func (e *Entry) PutOff(now time.Duration) (wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	e.wanted = nothing
	if e.gone {
		return math.MaxInt64
	}
	if e.closing && e.holder.Outstanding() == 0 {
		e.endLocked()
		return math.MaxInt64
	}
	e.holder.PutOff(now)
	e.resolve()
	return e.wakeLocked()
}

// endLocked ends an entry that is closing and has handed everything back.
func (e *Entry) endLocked() {
	e.gone = true
	e.closed()
}

// attendLocked brings the entry to now, and reports whether it is in use.
func (e *Entry) attendLocked(now time.Duration, limit lease.Limit) bool {
	e.settleLocked(now)
	if e.gone {
		return false
	}
	e.polled = now
	e.limit = limit
	e.holder.SetLimit(limit)
	if e.holder.Outstanding() != 0 && now >= e.sent+e.timeout {
		e.failLocked(now)
	}
	return true
}

// failLocked ends the outstanding request without an answer. When that was the last
// of a few, nobody waits for another one.
func (e *Entry) failLocked(now time.Duration) {
	e.holder.Fail(now)
	if e.failing() {
		e.holder.Dismiss(now)
	}
	e.resolve()
}

// wakeLocked is when the entry wants attention next.
func (e *Entry) wakeLocked() time.Duration {
	if e.holder.Outstanding() != 0 {
		return e.sent + e.timeout
	}
	return e.holder.Wake()
}

// Answer ends the exchange of q with a reply, or, if err is not nil, without.
// Then call Poll. It reports whether the answer came in time.
func (e *Entry) Answer(now time.Duration, q lease.Request, r lease.Reply, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.gone || e.holder.Outstanding() != q.Seq {
		return false
	}
	if err == nil && now < e.sent+e.timeout {
		e.holder.Handle(now, r)
		e.resolve()
		return true
	}
	e.failLocked(now)
	return err != nil
}

func (e *Entry) resolve() {
	for _, x := range e.holder.Resolved() {
		switch x.Verdict {
		case lease.Admitted:
			e.count.Ledger.Admitted++
		case lease.Denied:
			e.count.Ledger.Denied++
		}
		close(x.Tag.(*Waiter).done)
		e.settled++
	}
}

// Settled counts the waiters that have had their verdict, and begins anew after
// 2^32: while it stays the same, none of them need be looked at.
func (e *Entry) Settled() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled
}

// Outage decides n tokens while the ledger is away: all of them, none, or a
// share of the limit's rate through a bucket that starts empty. fleet is the
// number of processes, as far as it is known.
func (e *Entry) Outage(now time.Duration, n float64, policy Outage, fleet int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gone {
		return policy == Allow // what it has counted has been added up already
	}
	ok := policy == Allow
	if policy == Share {
		// Time is told before the lock is taken, and a step back would make a
		// rate.Limiter credit the step twice.
		e.latest = max(e.latest, now)
		ok = e.limiter(e.latest, fleet).AllowN(at(e.latest), int(n))
	}
	if ok {
		e.count.Outage.Admitted++
	} else {
		e.count.Outage.Denied++
	}
	return ok
}

// OutageRetryAfter is how long a request for n tokens that Outage denied
// should wait, or false if the share of this process will never have so many.
func (e *Entry) OutageRetryAfter(now time.Duration, n float64) (time.Duration, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.share == nil || e.share.Limit() == 0 || int(n) > e.share.Burst() {
		return 0, false
	}
	missing := n - e.share.TokensAt(at(max(e.latest, now)))
	wait := min(max(missing, 0)/float64(e.share.Limit()), lease.MaxFill.Seconds())
	return time.Duration(wait * 1e9), true
}

// limiter returns the outage bucket. A rate.Limiter starts full, and every
// outage would mint a Burst in every process: it is emptied first. When the lease
// stops to refill itself, its rate becomes the bucket's.
func (e *Entry) limiter(now time.Duration, fleet int) *rate.Limiter {
	beside := e.holder.Running(now)
	if e.share != nil && e.beside == beside && e.shared == e.limit {
		return e.share
	}
	tokens, limit := e.holder.Share(now, fleet), e.holder.InForce()
	// What the lease still holds is a part of this process's part of the Burst.
	burst := int(max(math.Ceil(float64(limit.Burst)*tokens/limit.Rate-e.holder.Remaining(now)), 1))
	if e.share == nil {
		e.share = rate.NewLimiter(rate.Limit(tokens), burst)
		e.share.AllowN(at(now), burst)
	} else {
		e.share.SetLimitAt(at(now), rate.Limit(tokens))
		e.share.SetBurstAt(at(now), burst)
	}
	e.beside, e.shared = beside, e.limit
	return e.share
}

func at(now time.Duration) time.Time { return time.Unix(0, 0).Add(now) }

// State is what a Decision tells of the key.
type State struct {
	Remaining              float64 // tokens that can be spent without asking
	RetryAfter, ResetAfter time.Duration
	Limit                  lease.Limit
}

// State describes the entry for a request of n tokens.
func (e *Entry) State(now time.Duration, n float64) State {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return State{
		Remaining:  e.holder.Remaining(now),
		RetryAfter: e.holder.RetryAfter(now, n),
		ResetAfter: e.holder.ResetAfter(now),
		Limit:      e.holder.InForce(),
	}
}

// Lease is what the entry holds now.
func (e *Entry) Lease(now time.Duration) lease.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return e.holder.Lease(now)
}

// Limit is the key's limit as last declared.
func (e *Entry) Limit() lease.Limit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limit
}

// InForce is the key's limit as far as this process knows: as last declared, or a
// lower one that another process declares.
func (e *Entry) InForce() lease.Limit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holder.InForce()
}

// Close sends those who wait away, as Unavailable, and makes Poll hand
// everything back, end the entry, and call gone.
func (e *Entry) Close(now time.Duration, gone func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.gone {
		gone()
		return
	}
	e.closing, e.closed = true, gone
	e.holder.Dismiss(now)
	e.resolve()
}

// evict ends the entry, and calls forget, if nobody has used it since before and
// the ledger need not know; one with tokens of a calm key only after idle. It
// returns what it has counted.
func (e *Entry) evict(now, before, idle time.Duration, forget func()) (Count, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.used < before && !e.closing && e.holder.Idle(now) && (e.holder.Held() == 0 || e.used < now-idle) {
		e.gone = true
	}
	if e.gone || now-e.used >= pocketIdle {
		e.coolLocked()
	}
	if e.gone {
		forget() // before anybody sees that it has gone, and looks for another one
	}
	return e.count, e.gone
}

// counted returns what the entry has decided until now.
func (e *Entry) counted(now time.Duration) Count {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return e.count
}
