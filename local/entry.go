package local

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// An Entry guards the Holder of one key. Its methods are safe for concurrent
// use. Time is counted from any fixed moment.
type Entry struct {
	// What a Take reads and writes comes first, see lease.Holder.

	pockets atomic.Pointer[[]Pocket] // nil unless it is hot

	mu      sync.Mutex
	used    time.Duration // the last Take
	recheck time.Duration // when the limit may have changed, MaxInt64 for not
	limit   lease.Limit
	life    life
	broken  bool   // its limit is invalid, the one before stays
	refused bool   // by the last answer of the store
	wanted  uint8  // said by Ready since the last Request
	dense   uint8  // requests in a row without a pause, up to denseRun
	open    int16  // pockets
	settled uint32 // waiters that have had their verdict
	waiting int    // waiters that have not
	count   Count
	holder  lease.Holder

	Key      string
	stray    bool // not in the table
	tries    tries
	audience audience
	serial   uint64        // of the holder
	name     *Name         // by which its ledger knows it, or nil: as the holder
	signed   uint64        // Seq of the outstanding request, if it has a name
	guests   int           // requests that share a stray entry; guarded by the table's lock
	hot      *atomic.Int32 // how many entries of its table have pockets
	listed   uint64        // denials that the list of denied keys has been told
	given    int64         // tokens of the holder that are in pockets
	ends     time.Duration // when the last of the open pockets does
	timeout  time.Duration
	sent     time.Duration // when the outstanding request left
	lent     term          // of the lease that the last answer has brought
	closed   func()        // when closing: hand everything back, end, and call it

	// of the Schedule, guarded by its mutex
	due   time.Duration
	index int
}

// A life is how far an entry is.
type life uint8

const (
	inUse   life = iota
	closing      // it hands everything back, and serves nobody
	gone         // evicted or closed: look the key up again
)

// NewEntry returns an entry that no Table knows. timeout is that of an
// exchange; limit is the holder's. It stays until Declare gives another one.
func NewEntry(now time.Duration, key string, holder *lease.Holder, limit lease.Limit, timeout time.Duration) *Entry {
	return &Entry{
		Key: key, holder: *holder, limit: limit, timeout: timeout, used: now, recheck: math.MaxInt64,
	}
}

// Count is what an entry has decided.
type Count struct{ Lease, Ledger, Outage Verdicts }

// Verdicts counts requests and their tokens.
type Verdicts struct{ Admitted, Denied, AdmittedTokens, DeniedTokens uint64 }

func (c *Count) add(x Count) {
	c.Lease.add(x.Lease)
	c.Ledger.add(x.Ledger)
	c.Outage.add(x.Outage)
}

func (v *Verdicts) add(x Verdicts) {
	v.Admitted += x.Admitted
	v.Denied += x.Denied
	v.AdmittedTokens += x.AdmittedTokens
	v.DeniedTokens += x.DeniedTokens
}

func (v *Verdicts) admit(n float64) {
	v.Admitted++
	v.AdmittedTokens += uint64(n)
}

func (v *Verdicts) deny(n float64) {
	v.Denied++
	v.DeniedTokens += uint64(n)
}

// newlyDeniedLocked is how many requests were denied since it was called last.
func (e *Entry) newlyDeniedLocked() uint64 {
	all := e.count.Lease.Denied + e.count.Ledger.Denied + e.count.Outage.Denied
	n := all - e.listed
	e.listed = all
	return n
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
	Due     bool    // call Ready now
	Gone    bool    // the entry is out of use: look the key up again
}

// Take asks for n tokens, of which 0 are always admitted. A patient request stays
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
	case r.Verdict > lease.Denied || r.Gone || r.Due || e.limit == Unlimited || e.limit == Blocked:
	case p != nil && !p.old:
		e.openLocked(now, p)
	case e.dense == denseRun && e.pockets.Load() == nil && !e.stray:
		e.heatLocked()
	}
	return r
}

func (e *Entry) takeLocked(now time.Duration, n float64, patience time.Duration, away bool, p *Pocket) Result {
	if e.life != inUse {
		return Result{Gone: true}
	}
	switch {
	case n == 0:
		return Result{Verdict: lease.Admitted, Due: e.staleLocked(now)}
	case e.limit.Rate > lease.MaxRate, e.limit.Burst == 0:
		return e.takeConstantLocked(now, n)
	case n > float64(e.limit.Burst):
		return Result{Verdict: lease.Exceeding, Due: e.staleLocked(now)}
	}
	if e.open > 0 {
		e.makeWayLocked(now, n, p)
	}
	e.useLocked(now)
	v := e.holder.Take(now, n)
	r := Result{Verdict: v, Due: e.holder.Due(now) || e.staleLocked(now)}
	switch v {
	case lease.Admitted:
		e.count.Lease.admit(n)
		return r
	case lease.Exceeding: // as the ledger has just said
		return Result{Verdict: v, Due: e.staleLocked(now)}
	}
	if (away || e.failing()) && !e.holder.Running(now) {
		r.Verdict = lease.Unavailable
		r.Due = r.Due || !away && e.probeLocked(now)
		return r
	}
	// Behind others it is known at once that a deadline is too near. The first of them
	// is for the ledger to judge (TestWaitBehindOthers).
	known := v == lease.Denied || e.waiting > 0
	if v == lease.Denied && patience == 0 ||
		known && patience > 0 && e.holder.RetryAfter(now, n) > patience {
		e.count.Lease.deny(n)
		r.Verdict = lease.Denied
		return r
	}
	return e.enterLocked(now, n, patience)
}

// enterLocked puts a request into the queue.
func (e *Entry) enterLocked(now time.Duration, n float64, patience time.Duration) Result {
	w := &Waiter{waiter: lease.Waiter{N: n}, done: make(chan struct{})}
	w.waiter.Tag = w
	if patience > 0 {
		w.waiter.Until = now + min(patience, math.MaxInt64-now)
	}
	e.holder.Enter(&w.waiter)
	e.waiting++
	return Result{Verdict: lease.Pending, Waiter: w, Due: true}
}

// probeLocked tries a key that fails by itself, as the store answers others. It reports
// whether a request is due.
func (e *Entry) probeLocked(now time.Duration) bool {
	if e.holder.Outstanding() == 0 {
		e.holder.Probe(now, false)
	}
	return e.holder.Due(now)
}

// useLocked notes that a request has come.
func (e *Entry) useLocked(now time.Duration) {
	if now-e.used > densePause {
		e.dense = 0
	} else if e.dense < denseRun {
		e.dense++
	}
	e.used = now
}

// staleLocked reports whether the key's limit may have changed since the entry was told.
func (e *Entry) staleLocked(now time.Duration) bool { return now >= e.recheck }

// Recheck reports whether the key's limit may have changed. After that it reports false
// until Declare has told.
func (e *Entry) Recheck(now time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.staleLocked(now) || e.life == gone || e.stray {
		return false
	}
	e.recheck = math.MaxInt64
	return true
}

// Declare tells the key's limit, and when it may change next. Then call Ready: another
// limit than before is due to go to the ledger (TestAnotherLimitIsDue).
func (e *Entry) Declare(now time.Duration, limit lease.Limit, next time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	e.recheck = next
	if e.life == gone || limit == e.limit {
		return
	}
	e.limit = limit
	if _, ok := constant(limit); ok {
		e.tries.fetched = 0
		e.holder.Dismiss(now) // Constant tells them the verdict
		e.readyLocked(now)
	} else {
		e.holder.SetLimit(limit)
		e.holder.Probe(now, true)
	}
}

// failsInARow is how many exchanges of a key must fail, one after the other, to
// treat the store as away for this key though it answers others: a node of a
// cluster may be down. One is enough if the store has said that it cannot serve the key.
const failsInARow = 3

func (e *Entry) failing() bool { return e.refused || e.holder.Failures() >= failsInARow }

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

// Stray reports whether the entry is not in the table, because that is full. It is for
// one request; then Table.Absorb it.
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

// Probe makes a request due, though nobody waits for it. It reports whether that is news,
// as Ready does; until the next Request or PutOff, Ready does not say so again.
func (e *Entry) Probe(now time.Duration) (ask bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.life == gone {
		return false
	}
	e.holder.Probe(now, true)
	return e.readyLocked(now).Ask && e.wantLocked(renewal)
}

// Withdraw ends a wait whose caller has gone. It reports false if the verdict
// has come meanwhile.
func (e *Entry) Withdraw(now time.Duration, w *Waiter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if !e.holder.Withdraw(now, &w.waiter) {
		return false
	}
	e.waiting--
	return true
}

// Ready serves those who wait and ends an exchange that has taken too long. ask says
// that a request is due, which no Ready has said since the last Request, and urgent that
// somebody waits for it. Then call Request when
// it can be delivered, or PutOff. wake is when to call Ready again, math.MaxInt64 for
// not. It does not count the timeout of an exchange: who delivers that watches it.
func (e *Entry) Ready(now time.Duration) (ask, urgent bool, wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wake = math.MaxInt64
	if !e.attendLocked(now) {
		return false, false, wake
	}
	if e.life == closing {
		if ask = e.holder.Owes(now); !ask && e.holder.Outstanding() == 0 {
			e.endLocked()
		}
	} else {
		r := e.readyLocked(now)
		ask, urgent, wake = r.Ask, r.Urgent, e.lookLocked(r.Wake)
	}
	if !ask {
		return false, false, wake
	}
	want := renewal
	if urgent {
		want = waited
	}
	return e.wantLocked(want), urgent, wake
}

// wantLocked notes that a request is wanted, and reports whether that was not known.
func (e *Entry) wantLocked(want uint8) (news bool) {
	news = want > e.wanted
	e.wanted = max(e.wanted, want)
	return news
}

// What a Ready since the last Request has said.
const (
	nothing = uint8(iota)
	renewal
	waited
)

// Request does what Ready does, and makes the request that is due by now, if there is
// one. Its exchange ends with Answer, or with a Ready after the timeout: wake counts
// that.
func (e *Entry) Request(now time.Duration) (q lease.Request, ok bool, wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = nothing
	if !e.attendLocked(now) {
		return q, false, math.MaxInt64
	}
	var r lease.Ready
	if e.life == inUse {
		if r = e.readyLocked(now); r.Ask {
			q, ok = e.holder.Request(now)
		}
	} else if e.holder.Outstanding() == 0 {
		if q, ok = e.holder.Quit(now); !ok {
			e.endLocked()
			return q, false, math.MaxInt64
		}
	}
	if ok {
		e.sent = now
		if e.name != nil {
			e.name.sign(&q)
			e.signed = q.Seq
		}
	}
	return q, ok, e.wakeLocked(r)
}

// PutOff is for when a request that is due cannot be delivered. All who wait
// are sent away as Unavailable. wake is when to call Ready again. An entry that
// is closing ends: what it holds will end by itself.
func (e *Entry) PutOff(now time.Duration) (wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	e.wanted = nothing
	if e.life == gone {
		return math.MaxInt64
	}
	if e.life == closing && e.holder.Outstanding() == 0 {
		e.endLocked()
		return math.MaxInt64
	}
	e.holder.PutOff(now)
	e.audience.tell()
	return e.wakeLocked(e.readyLocked(now))
}

// endLocked ends an entry that is closing and has handed everything back.
func (e *Entry) endLocked() {
	e.life = gone
	e.audience.tell()
	e.closed()
}

// attendLocked brings the entry to now, and reports whether it is in use.
func (e *Entry) attendLocked(now time.Duration) bool {
	e.settleLocked(now)
	if e.life == gone {
		return false
	}
	if e.holder.Outstanding() != 0 && now >= e.sent+e.timeout {
		e.failLocked(now)
	}
	return true
}

// failLocked ends the outstanding request without an answer. When that was the last
// of a few, nobody waits for another one.
func (e *Entry) failLocked(now time.Duration) {
	e.holder.Fail(now)
	e.audience.tell()
	e.giveUpLocked(now)
	if e.failing() {
		e.holder.Dismiss(now)
	}
	e.readyLocked(now)
}

// wakeLocked is when the entry wants attention next, after its holder said r.
func (e *Entry) wakeLocked(r lease.Ready) time.Duration {
	if e.holder.Outstanding() != 0 {
		return e.lookLocked(e.sent + e.timeout)
	}
	return e.lookLocked(r.Wake)
}

// lookLocked is wake, or when the limit may have changed if that is earlier and somebody
// waits: nothing else may happen for long then.
func (e *Entry) lookLocked(wake time.Duration) time.Duration {
	if e.waiting > 0 {
		return min(wake, e.recheck)
	}
	return wake
}

// Answer ends the exchange of q with a reply, or, if err is not nil, without.
// Then call Ready. It reports whether the answer came in time.
func (e *Entry) Answer(now time.Duration, q lease.Request, r lease.Reply, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	seq := e.holder.Outstanding()
	if e.name != nil && q.Seq == e.signed {
		r.Seq = seq
	} else if e.name != nil || q.Seq != seq {
		return false
	}
	if e.life == gone || seq == 0 {
		return false
	}
	e.refused = errors.Is(err, lease.ErrRefused) || errors.Is(err, lease.ErrUnable)
	if err == nil && now < e.sent+e.timeout {
		e.holder.Handle(now, r)
		e.lent = term{ends: e.sent + min(r.Expires, lease.MaxFill), size: r.Burst}
		if r.Shape.Refills() {
			e.lent.refills = e.sent + min(r.RateUntil, lease.MaxFill)
		}
		e.audience.heard = max(now, 1)
		e.audience.tell()
		e.readyLocked(now)
		return true
	}
	e.failLocked(now)
	return err != nil
}

// readyLocked asks what the holder wants, and wakes those whose verdict has come.
func (e *Entry) readyLocked(now time.Duration) lease.Ready {
	r := e.holder.Ready(now)
	for _, x := range r.Resolved {
		if e.tries.resolvedLocked(x.Tag.(*Waiter)) {
			continue
		}
		switch x.Verdict {
		case lease.Admitted:
			e.count.Ledger.admit(x.N)
		case lease.Denied:
			e.count.Ledger.deny(x.N)
		}
		close(x.Tag.(*Waiter).done)
		e.settled++
	}
	e.waiting -= len(r.Resolved)
	return r
}

// Settled counts the waiters that have had their verdict, and begins anew after
// 2^32: while it stays the same, none of them need be looked at.
func (e *Entry) Settled() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled
}

// State is what a Decision tells of the key.
type State struct {
	Level                  int64 // tokens of the limit that are left, as far as is known
	Held                   int64 // tokens that can be spent without asking
	RetryAfter, ResetAfter time.Duration
	Limit                  lease.Limit
}

// State describes the entry for a request of n tokens.
func (e *Entry) State(now time.Duration, n float64) State {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if _, ok := constant(e.limit); ok {
		return constantState(e.limit)
	}
	return State{
		Level:      e.holder.Level(now),
		Held:       int64(e.holder.Remaining(now)),
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
	if _, ok := constant(e.limit); ok {
		return e.limit
	}
	return e.holder.InForce()
}

// Close sends those who wait away, as Unavailable, and makes Request hand
// everything back, and then Ready end the entry and call ended, under the entry's lock.
func (e *Entry) Close(now time.Duration, ended func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.life == gone {
		ended()
		return
	}
	e.life, e.closed = closing, ended
	e.holder.Dismiss(now)
	e.readyLocked(now)
}

// A legacy is what is left of an entry that was evicted.
type legacy struct {
	count  Count
	denied uint64 // denials that are new
	lent   term
	holder lease.Parked
	parked bool // there is a holder
}

// evict ends the entry if nobody has used it since before and the ledger need not know;
// one with tokens of a calm key only after idle. Denials are told of others, too.
func (e *Entry) evict(now, before, idle time.Duration) (x legacy, evicted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.used < before && e.life == inUse && e.holder.Idle(now) && (e.holder.Held() == 0 || e.used < now-idle) {
		e.life = gone
		x.holder, x.parked = e.holder.Park(now)
	}
	if e.life == gone || now-e.used >= pocketIdle {
		e.coolLocked()
	}
	x.count, x.denied, x.lent = e.count, e.newlyDeniedLocked(), e.termLocked(now)
	return x, e.life == gone
}

// counted returns what the entry has decided until now, and how many denials are new.
func (e *Entry) counted(now time.Duration) (Count, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return e.count, e.newlyDeniedLocked()
}
