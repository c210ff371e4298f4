package local

import (
	"hash/crc32"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// An Entry guards the Holder of one key. Its methods are safe for concurrent
// use. Time is counted from any fixed moment.
type Entry struct {
	// What a Take reads and writes comes first, see lease.Holder. What few keys need is in
	// extra (TestEntrySize).

	pockets atomic.Pointer[pockets] // nil unless it is hot

	mu      sync.Mutex
	used    time.Duration // the last Take
	recheck time.Duration // when the limit may have changed, MaxInt64 for not
	life    life
	fixed   fixed    // the limit, if it is none of the holder's
	open    uint8    // pockets
	dense   uint8    // requests in a row without a pause, up to denseRun
	stray   bool     // not in the table
	wanted  uint8    // what ready has said since the last request
	broken  bool     // its limit is invalid, the one before stays
	refused bool     // by the last answer of the store
	count   Verdicts // by leases; see also extra.count, and common
	holder  lease.Holder

	denied  uint64 // requests that the list of denied keys has not been told
	waiting int32  // waiters that have not had their verdict
	patient int32  // of these
	settled uint32 // waiters that have

	hash uint32 // of the key, see Entry.compare

	// fields of the schedule, guarded by its mutex
	index int32
	due   time.Duration

	Key    string
	Tag    any // whatever the caller wants to find with an Entry; the simulator's
	common *Common
	extra  *extra        // nil before it is needed
	serial uint64        // of the holder
	heard  time.Duration // when the ledger answered last, 0 for never
	lent   term          // of the lease that the last answer has brought
}

// A Common is what the entries of a table, or of a driver without one, share.
type Common struct {
	timeout time.Duration // of an exchange
	recheck time.Duration // how long an entry goes by its limit
	eager   float64       // tokens that its holder may owe
	hot     atomic.Int32  // entries with pockets

	mu     sync.Mutex // the last of all locks
	ledger Verdicts
}

// NewCommon returns that of entries that no Table knows. timeout is that of an exchange; their
// holders may owe eager tokens.
func NewCommon(timeout time.Duration, eager float64) *Common {
	return &Common{timeout: timeout, eager: eager}
}

// decided counts a verdict of a ledger.
func (c *Common) decided(n float64, admitted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.decide(n, admitted)
}

// An extra is what few entries need.
type extra struct {
	tries  tries
	jobs   jobs
	told   chan struct{} // closed with the next end of an exchange, nil if nobody waits
	name   *Name         // by which its ledger knows it, or nil: as the holder
	signed uint64        // Seq of the outstanding request, if it has a name
	guests int           // requests that share a stray entry; guarded by the table's lock
	races  time.Duration // until then requests for several keys ask one by one, see Several
	closed func()        // when closing: hand everything back, end, and call it
	count  Count         // of what others than leases have decided
}

// extraLocked makes that of the entry if there is none.
func (e *Entry) extraLocked() *extra {
	if e.extra == nil {
		e.extra = new(extra)
	}
	return e.extra
}

// A life is how far an entry is.
type life uint8

const (
	inUse   life = iota
	closing      // it hands everything back, and serves nobody
	gone         // evicted or closed: look the key up again
)

// NewEntry returns an entry of a key. limit is the holder's, and stays until Declare gives another
// one.
func NewEntry(
	now time.Duration, key string, holder *lease.Holder, limit lease.Limit, c *Common,
) *Entry {
	e := new(Entry)
	e.Init(now, key, holder, limit, c)
	return e
}

// Init makes a zero Entry what NewEntry returns, inside of something larger.
func (e *Entry) Init(
	now time.Duration, key string, holder *lease.Holder, limit lease.Limit, c *Common,
) {
	e.Key, e.hash, e.common = key, crc32.ChecksumIEEE([]byte(key)), c
	e.holder, e.fixed, e.used, e.recheck = *holder, fixedOf(limit), now, math.MaxInt64
}

// A Waiter waits for the verdict of the ledger.
type Waiter struct {
	waiter lease.Waiter
	done   chan struct{}
	job    *Job // that wants slots, or nil
}

// Done is closed when the verdict is there.
func (w *Waiter) Done() <-chan struct{} { return w.done }

// Patient reports whether it stays through denials.
func (w *Waiter) Patient() bool { return w.waiter.Until > 0 }

// Verdict is valid after Done.
func (w *Waiter) Verdict() lease.Verdict { return w.waiter.Verdict }

// Due is what there is to do after a Take.
type Due uint8

const (
	NothingDue Due = iota
	LimitDue       // the limit may have changed: see Recheck
	ReadyDue       // call Ready now, and see Recheck
	LimitFirst     // nothing was decided: the limit may have changed in a pause. Recheck, and ask again
)

// Result is the answer to a Take. It has four fields, as larger structs are not kept in
// registers (TestSpeed).
type Result struct {
	Verdict lease.Verdict
	Waiter  *Waiter // to wait for, if the Verdict is Pending
	Due     Due
	Gone    bool // the entry is out of use: look the key up again
}

// Take asks for n tokens, of which 0 are always admitted. A patient request stays
// in the queue through denials, unless it would have to wait longer than
// patience; zero is an impatient one. While away, nobody waits: what the lease
// cannot admit and does not deny is Unavailable. More than the limit's Burst is
// Exceeding, and so are slots, which Acquire asks for.
func (e *Entry) Take(now time.Duration, n float64, patience time.Duration, away bool) Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.askLocked(now, n, patience, away, nil)
}

// lockAs takes the lock for requests of a class, by its name, until unlockAs. A name that is none of
// the key's stands for the last one, and so does "".
func (e *Entry) lockAs(class string) {
	if e.mu.Lock(); class != "" {
		e.holder.As(e.holder.Place(class))
	}
}

func (e *Entry) unlockAs() {
	e.holder.As(lease.MaxClasses) // others have the last one
	e.mu.Unlock()
}

// TakeAs is a Take of a class.
func (e *Entry) TakeAs(
	now time.Duration, n float64, patience time.Duration, away bool, class string,
) Result {
	e.lockAs(class)
	defer e.unlockAs()
	return e.askLocked(now, n, patience, away, nil)
}

// Allow is an impatient Take of one token whose verdict is all that is wanted. When
// many come, those after it are decided in the goroutine's Pocket.
func (e *Entry) Allow(now time.Duration, away bool, p *Pocket) Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.allowLocked(now, away, p)
}

func (e *Entry) allowLocked(now time.Duration, away bool, p *Pocket) Result {
	r := e.askLocked(now, 1, 0, away, p)
	switch {
	case r.Verdict > lease.Denied || r.Gone || r.Due != NothingDue,
		e.fixed != leased:
	case p != nil && !p.old:
		e.openLocked(now, p)
	case e.dense == denseRun && e.pockets.Load() == nil && !e.stray:
		e.heatLocked()
	}
	return r
}

// askLocked is takeLocked, unless the limit must be known first.
func (e *Entry) askLocked(
	now time.Duration, n float64, patience time.Duration, away bool, p *Pocket,
) Result {
	if e.lapsedLocked(now) {
		return Result{Verdict: lease.Pending, Due: LimitFirst}
	}
	return e.takeLocked(now, n, patience, away, p)
}

func (e *Entry) takeLocked(
	now time.Duration, n float64, patience time.Duration, away bool, p *Pocket,
) Result {
	if e.life != inUse {
		return Result{Gone: true}
	}
	switch {
	case n == 0:
		return Result{Verdict: lease.Admitted, Due: e.limitDueLocked(now)}
	case e.fixed != leased:
		return e.takeConstantLocked(now, n)
	case !e.holder.Serves(n):
		return Result{Verdict: lease.Exceeding, Due: e.limitDueLocked(now)}
	}
	if e.open > 0 {
		e.makeWayLocked(now, n, p)
	}
	e.useLocked(now)
	v := e.holder.Take(now, n)
	r := Result{Verdict: v, Due: e.dueLocked(now)}
	switch v {
	case lease.Admitted:
		e.count.admit(n)
		return r
	case lease.Exceeding: // as the ledger has just said
		return Result{Verdict: v, Due: e.limitDueLocked(now)}
	}
	return e.unheldLocked(now, n, patience, away, r)
}

// unheldLocked goes on with a request that the lease does not admit, after its Take.
func (e *Entry) unheldLocked(
	now time.Duration, n float64, patience time.Duration, away bool, r Result,
) Result {
	v := r.Verdict
	if e.cutLocked(now, away) {
		r.Verdict = lease.Unavailable
		if !away && e.probeLocked(now) {
			r.Due = ReadyDue
		}
		return r
	}
	if v == lease.Pending && !e.stray && e.holder.Eager(now, n, e.common.eager) {
		e.count.admit(n)
		return Result{Verdict: lease.Admitted, Due: e.dueLocked(now)}
	}
	// Behind others it is known at once that a deadline is too near. The first of them
	// is for the ledger to judge (TestWaitBehindOthers).
	known := v == lease.Denied || e.waiting > 0
	if v == lease.Denied && patience == 0 ||
		known && patience > 0 && e.holder.RetryAfter(now, n) > patience {
		e.denyLocked(n)
		r.Verdict = lease.Denied
		return r
	}
	return e.enterLocked(now, n, patience, v, nil)
}

// enterLocked puts a request into the queue, for a job or for tokens, on which v was the verdict.
func (e *Entry) enterLocked(
	now time.Duration, n float64, patience time.Duration, v lease.Verdict, j *Job,
) Result {
	w := &Waiter{done: make(chan struct{}), job: j}
	w.waiter = lease.Waiter{N: n, Verdict: v, Class: e.holder.Asking()}
	w.waiter.Tag = w
	if j != nil {
		w.waiter.Hold = lease.WhileOpen
	}
	if patience > 0 {
		w.waiter.Until = now + min(patience, math.MaxInt64-now)
	}
	e.enteredLocked(w)
	return Result{Verdict: lease.Pending, Waiter: w, Due: ReadyDue}
}

// enteredLocked lets w wait, and leftLocked counts that it no longer does.
func (e *Entry) enteredLocked(w *Waiter) {
	e.holder.Enter(&w.waiter)
	e.waiting++
	if w.Patient() {
		e.patient++
	}
}

func (e *Entry) leftLocked(w *Waiter) {
	e.waiting--
	if w.Patient() {
		e.patient--
	}
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

// lapsedLocked reports whether nobody has asked for the key for so long that nobody has noticed
// that its limit may have changed. Requests in a row learn of it beside them (LimitDue), and none
// of them waits; after a pause the first one would go by a limit as old as the pause
// (TestLimitForAfterAPause).
func (e *Entry) lapsedLocked(now time.Duration) bool {
	return e.staleLocked(now) && now-e.used >= e.common.recheck && e.life == inUse
}

func (e *Entry) dueLocked(now time.Duration) Due {
	if e.holder.Due(now) {
		return ReadyDue
	}
	return e.limitDueLocked(now)
}

func (e *Entry) limitDueLocked(now time.Duration) Due {
	if e.staleLocked(now) {
		return LimitDue
	}
	return NothingDue
}

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

// Declare tells the key's limit and classes, and when they may change next. It reports whether they
// are others than before. Then Attend: another limit is due to go to the ledger
// (TestAnotherLimitIsDue), and classes go with the next exchange.
func (e *Entry) Declare(
	now time.Duration, limit lease.Limit, next time.Duration, classes ...lease.Class,
) (another bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	e.recheck = next
	if e.life == gone {
		return false
	}
	another = e.declareLocked(now, limit)
	return e.holder.Divide(classes) && e.fixed == leased || another
}

func (e *Entry) declareLocked(now time.Duration, limit lease.Limit) (another bool) {
	if limit == e.limitLocked() {
		return false
	}
	if e.fixed = fixedOf(limit); e.fixed != leased {
		if e.extra != nil {
			e.extra.tries.fetched = 0
		}
		e.holder.Dismiss(now) // Constant tells them the verdict
		e.readyLocked(now)
	} else {
		e.holder.SetLimit(limit)
		e.endJobsLocked(now, false) // of another kind
		e.holder.Probe(now, true)
	}
	return true
}

// look is when the entry wants attention whatever its holder says.
func (e *Entry) look() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lookLocked(math.MaxInt64)
}

// failsInARow is how many exchanges of a key must fail, one after the other, to
// treat the store as away for this key though it answers others: a node of a
// cluster may be down. One is enough if the store has said that it cannot serve the key.
const failsInARow = 3

func (e *Entry) failing() bool { return e.refused || e.holder.Failures() >= failsInARow }

// silentAfter timeouts without an answer a ledger is silent. One whose store is slow is late for
// three exchanges in a row now and then, and for so many seldom.
const silentAfter = 8

// silentLocked reports whether the ledger does not answer: it has not for long, or has said that
// it cannot.
func (e *Entry) silentLocked(now time.Duration) bool {
	return e.refused || e.heard == 0 || now >= e.heard+silentAfter*e.common.timeout
}

// failsAlone reports whether this key fails and the store has answered other keys since the
// failures began: then the failures say nothing of the store.
func (e *Entry) failsAlone(answered time.Duration) bool {
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

// Until is when a caller that came then, and does not stay through denials, gives up: a timeout
// after it came. If an exchange was out then, its own left with the answer: the timeout counts
// from that answer then (TestBehindAnExchange). It is later once that has come: look again.
func (e *Entry) Until(came time.Duration) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(came, min(e.heard, came+e.common.timeout)) + e.common.timeout
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
	e.leftLocked(w)
	return true
}

// Settled counts the waiters that have had their verdict, and begins anew after
// 2^32: while it stays the same, none of them need be looked at.
func (e *Entry) Settled() uint32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settled
}
