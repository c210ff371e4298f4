package local

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Several is a request for tokens of several keys: all of them, or none. It is for one
// goroutine, while its entries are for all.
//
// Take looks at all entries under their locks, which it takes in one order
// (TestSeveralLocksInOrder). So two requests never wait for each other's locks, and what leases
// hold is decided at once.
//
// Where only a ledger can tell, the request enters the queues of such keys, for tokens that
// are reserved (lease.Reserved): what has come is given back when another key denies. It
// holds some of its tokens only for as long as it asks for others.
type Several struct {
	Parts []*Part // in the order of their locks

	now      time.Duration
	dispatch *Dispatch
	verdicts verdicts // of the parts
}

// verdicts is a set of lease.Verdict.
type verdicts uint8

func (s *verdicts) add(v lease.Verdict)     { *s |= 1 << v }
func (s verdicts) has(v lease.Verdict) bool { return s&(1<<v) != 0 }

// A Part is what a Several wants of one key. Its exported fields but for the first three are
// what Take has found out.
type Part struct {
	Entry *Entry
	N     float64
	Class string

	Verdict lease.Verdict // Admitted, Denied, or Pending if nobody has been asked
	Outage  bool          // the policy has decided
	Asked   bool          // the ledger has been
	Due     bool          // attend to the entry
	Stale   bool          // its limit may have changed: see Recheck
	Lapsed  bool          // it may have, in a pause

	waiter   *Waiter // asks
	holds    bool    // reserved is for this part
	reserved lease.Reserved
	denied   bool // by the ledger, as it was asked
	lost     bool // it was asked, and has not answered
	first    bool // it was asked before others, as it had denied last
	counted  bool // among what is asked of the key: once, however often it is

	bare     bool         // see Bare
	job      *Job         // see For
	pocket   *Pocket      // of the goroutine, or nil
	entitled *entitlement // to a share of the key, nil if that is not known
}

// NewSeveral returns a Several of parts, which it sorts. Of those of the same key only one stays,
// with the sum of their tokens. They must be of one class.
func NewSeveral(parts []*Part) Several {
	slices.SortFunc(parts, (*Part).compare)
	different := parts[:0]
	for i, p := range parts {
		if i > 0 && parts[i-1].compare(p) == 0 {
			different[len(different)-1].N += p.N
		} else {
			different = append(different, p)
		}
	}
	return Several{Parts: different}
}

func (p *Part) compare(q *Part) int { return p.Entry.compare(q.Entry) }

// compare orders entries by the hashes of their keys: keys that begin alike take long to compare.
func (e *Entry) compare(f *Entry) int {
	if by := cmp.Compare(e.hash, f.hash); by != 0 {
		return by
	}
	return strings.Compare(e.Key, f.Key)
}

// raceMemory is for how long keys are asked one by one after a race.
const raceMemory = 10 * time.Second

// A Step is what comes next for a Several.
type Step int

const (
	Decided    Step = iota // all have been taken, or at least one denies
	Asking                 // wait for the Waiters, then Take again
	Gone                   // an entry is out of use: look its key up again
	Lapsed                 // limits may have changed in a pause: Recheck those Parts, then Take
	Exceeds                // one wants more than the Burst in force: see Verdict
	Unanswered             // the ledger of one has not answered, and no policy decides
)

// Take decides, or asks the ledgers of some keys. Tokens of all keys are spent if all have
// them, or, if keep is set, reserved: see Part.Reserved. If one denies, nothing is taken of
// any. Then attend to the entries that are due.
func (s *Several) Take(now time.Duration, d *Dispatch, keep bool) Step {
	s.now, s.dispatch = now, d
	for _, p := range s.Parts {
		p.entitled = nil
	}
	for {
		step, unknown := s.take(keep)
		if !unknown {
			return step
		}
		for _, p := range s.Parts {
			if p.Outage && p.entitled == nil {
				c := d.entitlement(now, p.Entry) // which looks at entries of other Limiters
				p.entitled = &c
			}
		}
	}
}

// take is Take, unless the entitlements of some parts must be known first.
func (s *Several) take(keep bool) (step Step, unknown bool) {
	s.lock()
	defer s.unlock()
	if step, ok := s.readyLocked(); !ok {
		return step, false
	}
	s.verdicts = 0
	for _, p := range s.Parts {
		p.Due, p.Stale = false, p.Entry.staleLocked(s.now)
		p.heard(s.now)
		p.Verdict = p.lookLocked(s.now, s.dispatch)
		s.verdicts.add(p.Verdict)
		unknown = unknown || p.Outage && p.entitled == nil && s.dispatch.outage == Share
	}
	switch {
	case unknown:
		return Decided, true
	case s.verdicts.has(lease.Exceeding):
		s.giveBackLocked()
		return Exceeds, false
	case s.verdicts.has(lease.Unavailable):
		s.giveBackLocked()
		return Unanswered, false
	case s.verdicts.has(lease.Denied):
		s.denyLocked()
		return Decided, false
	case s.verdicts.has(lease.Pending):
		s.askLocked(keep)
		return Asking, false
	case !s.shareLocked():
		return Decided, true
	}
	s.commitLocked(keep)
	return Decided, false
}

// readyLocked reports whether all entries can be asked, or the step that comes before.
func (s *Several) readyLocked() (step Step, ok bool) {
	ok = true
	for _, p := range s.Parts {
		if p.Entry.life != inUse {
			return Gone, false
		}
		if p.Lapsed = p.Entry.lapsedLocked(s.now); p.Lapsed {
			step, ok = Lapsed, false
		}
	}
	return step, ok
}

// lock takes the locks of all entries, in the order of Entry.compare. An entry is locked under
// another one here and in TakeAll, and nowhere else.
func (s *Several) lock() {
	for _, p := range s.Parts {
		p.Entry.lockAs(p.Class)
	}
}

func (s *Several) unlock() {
	for _, p := range s.Parts {
		p.Entry.unlockAs()
	}
}

// Allowed reports whether no part is denied, after a Take that has Decided.
func (s *Several) Allowed() bool { return !s.verdicts.has(lease.Denied) }

// heard takes the verdict of the ledger. A Waiter that has none is one that was withdrawn.
func (p *Part) heard(now time.Duration) {
	w := p.waiter
	if w == nil {
		return
	}
	p.waiter = nil
	switch w.Verdict() {
	case lease.Admitted:
		p.holds, p.reserved = true, w.waiter.Reserved
	case lease.Denied, lease.Exceeding:
		p.denied = true
	default:
		p.lost = true
	}
}

// lookLocked is what the key says, and takes nothing.
func (p *Part) lookLocked(now time.Duration, d *Dispatch) lease.Verdict {
	e := p.Entry
	p.Outage = false
	if p.N == 0 {
		return lease.Admitted // of a blocked key as well, as takeLocked says
	}
	if v, ok := e.fixed.verdict(); ok {
		return v
	}
	switch {
	case p.keepsLocked(now):
		return lease.Admitted
	case !e.holder.Serves(p.N) && !p.jobsLocked():
		return lease.Exceeding
	}
	if e.open > 0 {
		e.makeWayLocked(now, p.N, nil)
	}
	v := e.holder.Look(now, p.N)
	if v == lease.Admitted || v == lease.Exceeding {
		return v
	}
	return p.doubtLocked(now, d, v)
}

// keepsLocked reports whether the part still holds what it has got.
func (p *Part) keepsLocked(now time.Duration) bool {
	if p.holds {
		p.Entry.settleLocked(now)
		if !p.Entry.holder.Keeps(now, p.reserved) {
			p.forget()
		}
	}
	return p.holds
}

// doubtLocked is what a key says that has not the tokens, and whose ledger may be away.
func (p *Part) doubtLocked(now time.Duration, d *Dispatch, v lease.Verdict) lease.Verdict {
	e := p.Entry
	away := d.Away()
	if e.cutLocked(now, away) || p.lost && d.decidesLocked(now, e) {
		p.Outage = true
		if !away {
			p.Due = e.probeLocked(now) || p.Due
		}
		return p.outage(now, d)
	}
	if p.lost {
		return lease.Unavailable
	}
	if p.denied {
		return lease.Denied
	}
	return v
}

// outage is what the policy says, and takes nothing.
func (p *Part) outage(now time.Duration, d *Dispatch) lease.Verdict {
	if d.outage == Share && p.entitled != nil {
		if tokens, _ := d.shares.level(now, d, p.Entry.Key, *p.entitled); tokens >= p.N {
			return lease.Admitted
		}
	}
	if d.allowsLocked(now, p.Entry) {
		return lease.Admitted
	}
	return lease.Denied
}

// shareLocked takes those of the shares, unless others have taken some of them meanwhile.
func (s *Several) shareLocked() bool {
	var shared []*Part
	for _, p := range s.Parts {
		if p.Outage && s.dispatch.outage == Share {
			shared = append(shared, p)
		}
	}
	if len(shared) == 0 || s.dispatch.shares.takeAll(s.now, s.dispatch, shared) {
		return true
	}
	for _, p := range shared {
		p.entitled = nil
	}
	return false
}

// askLocked asks the ledgers of some keys: of those that denied last before others, which
// may then be spared. If keys that were asked first have denied by turns, this request races
// with others, of any process: each of them may win a key that the other one needs. From then on
// keys are asked one by one, in the order of their names, for a time.
//
// What a stray is granted cannot come back. It is asked last.
//
// What is granted is held until all have answered, for two timeouts at most, or is kept.
func (s *Several) askLocked(keep bool) {
	var pending, strays, before []*Part
	races := false
	for _, p := range s.Parts {
		x := p.Entry.extra
		races = races || x != nil && s.now < x.races
		switch {
		case p.Verdict != lease.Pending:
		case p.Entry.stray:
			strays = append(strays, p)
		case p.Entry.holder.Denied():
			before = append(before, p)
			fallthrough
		default:
			pending = append(pending, p)
		}
	}
	switch {
	case len(pending) == 0:
		pending = strays[:1]
	case races:
		pending = []*Part{slices.MinFunc(pending, func(p, q *Part) int {
			return strings.Compare(p.Entry.Key, q.Entry.Key)
		})}
	case len(before) > 0 && len(before) < len(pending):
		pending = before
		for _, p := range before {
			p.first = true
		}
	}
	hold := 2 * s.dispatch.timeout
	if keep {
		hold = lease.WhileOpen
	}
	for _, p := range pending {
		p.waiter = p.Entry.reserveLocked(s.now, p.N, 0, hold, !p.counted)
		p.Asked, p.Due, p.counted = true, true, true
	}
}

// denyLocked lets those keys deny that do, and nothing be taken of the others.
func (s *Several) denyLocked() {
	raced := false
	for _, p := range s.Parts {
		raced = raced || p.holds && p.first
		switch {
		case p.Verdict != lease.Denied:
		case p.Outage:
			p.Entry.decidedLocked(p.N, false)
		case !p.counted:
			p.counted = true
			p.Due = s.takeLocked(p).Due == ReadyDue // it counts the denial
		}
	}
	for _, p := range s.Parts {
		if raced {
			p.Entry.extraLocked().races = s.now + raceMemory
		}
	}
	s.giveBackLocked()
}

// commitLocked takes what all have.
func (s *Several) commitLocked(keep bool) {
	for _, p := range s.Parts {
		s.commitPartLocked(p, keep)
	}
}

// Bare says that all that is wanted is the verdict, as of Entry.Allow, after d was not decided:
// those after it are, in its pocket.
func (p *Part) Bare(d *Draw) {
	if p.bare = p.N == 1; p.Entry == d.Entry {
		p.pocket = d.Pocket
	}
}

// takeLocked takes the tokens of one part.
func (s *Several) takeLocked(p *Part) Result {
	if p.jobsLocked() {
		return p.Entry.acquireLocked(s.now, p.job, 0, false)
	}
	if p.bare {
		return p.Entry.allowLocked(s.now, false, p.pocket)
	}
	return p.Entry.takeLocked(s.now, p.N, 0, false, nil)
}

func (s *Several) commitPartLocked(p *Part, keep bool) {
	e, now := p.Entry, s.now
	switch {
	case p.jobsLocked() && p.beginLocked(now):
	case p.Outage:
		e.decidedLocked(p.N, true)
	case p.holds:
		e.useLocked(now)
		if keep {
			e.reservedLocked(&e.extraLocked().count.Ledger, p.reserved)
			break
		}
		e.ledgerLocked(p.N, true)
		e.backLocked(now, p.reserved, 0)
		p.holds, p.Due = false, true
	case keep && e.fixed == leased && p.N > 0 && !p.jobsLocked():
		e.settleLocked(now)
		e.useLocked(now)
		p.reserved, _ = e.holder.Reserve(now, p.N)
		p.holds, p.Due = true, p.Due || e.holder.Due(now)
		e.reservedLocked(&e.count, p.reserved)
	default:
		p.Due = s.takeLocked(p).Due == ReadyDue || p.Due
	}
}

// giveBackLocked gives back what is held. An entry that is closing hands it back, if its last
// request has not been made.
func (s *Several) giveBackLocked() {
	for _, p := range s.Parts {
		if p.holds && p.Entry.life != gone {
			p.Entry.backLocked(s.now, p.reserved, p.N)
			p.Due = true
		}
		p.forget()
	}
}

// forget is for a part that holds nothing any more. What the outage policy lets it have later is of
// no lease.
func (p *Part) forget() { p.holds, p.reserved = false, lease.Reserved{} }

// Begin forgets what an attempt before has heard, but for what queues or is held.
func (s *Several) Begin() {
	for _, p := range s.Parts {
		if p.waiter == nil && !p.holds {
			p.denied, p.lost, p.Asked, p.first = false, false, false, false
		}
	}
}

// End gives up: those that still ask ask no more, and what is held is given back. Then
// attend to the entries.
func (s *Several) End(now time.Duration) {
	for _, p := range s.Parts {
		if p.waiter != nil {
			p.Withdraw(now)
		}
	}
	s.lock()
	defer s.unlock()
	s.now = now
	for _, p := range s.Parts {
		p.heard(now)
	}
	s.giveBackLocked()
}

// Queue waits for one part through denials, in the order of those that wait for its key,
// for no longer than patience. It reports false if that is not possible: Take says why. Then
// attend to the entry, wait for the Waiter, and Take.
func (s *Several) Queue(now time.Duration, p *Part, patience time.Duration, away bool) bool {
	e := p.Entry
	e.lockAs(p.Class)
	defer e.unlockAs()
	e.settleLocked(now)
	p.denied, p.lost, p.Asked = false, false, false
	switch {
	case e.life != inUse, e.fixed != leased, e.stray, p.N > float64(e.holder.InForce().Burst):
		return false
	case p.holds && e.holder.Keeps(now, p.reserved):
		return true
	case e.cutLocked(now, away):
		return false
	}
	p.waiter = e.reserveLocked(now, p.N, patience, lease.WhileOpen, !p.counted)
	p.Asked, p.counted = true, true
	return true
}

// Hear takes the verdict on a part that has queued, and keeps what it has got.
func (s *Several) Hear(now time.Duration, p *Part) {
	p.Entry.mu.Lock()
	defer p.Entry.mu.Unlock()
	p.heard(now)
}

// Waiter is that of a part that asks, or nil.
func (p *Part) Waiter() *Waiter { return p.waiter }

// Withdraw ends the asking, unless the verdict has come meanwhile.
func (p *Part) Withdraw(now time.Duration) { p.Entry.Withdraw(now, p.waiter) }

// Holds reports whether the part holds what it wants.
func (p *Part) Holds() bool { return p.holds }

// Reserved is what was taken to be kept, after a Take that has decided so.
func (p *Part) Reserved() lease.Reserved { return p.reserved }

// Use begins anew with another entry of the part's key.
func (p *Part) Use(e *Entry) { *p = Part{Entry: e, N: p.N, Class: p.Class} }

// reserveLocked enters the queue for tokens that are to be reserved, and released after hold.
func (e *Entry) reserveLocked(
	now time.Duration, n float64, patience, hold time.Duration, offer bool,
) *Waiter {
	e.settleLocked(now)
	w := &Waiter{done: make(chan struct{})}
	w.waiter = lease.Waiter{N: n, Class: e.holder.Asking(), Hold: hold}
	w.waiter.Tag = w
	if patience > 0 {
		w.waiter.Until = now + min(patience, math.MaxInt64-now)
	}
	if offer {
		e.useLocked(now)
		if r, v := e.holder.Reserve(now, n); v == lease.Admitted {
			w.waiter.Reserved = r
			close(w.done)
			return w
		}
	}
	e.enteredLocked(w)
	return w
}
