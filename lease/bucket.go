package lease

import (
	"fmt"
	"math"
)

// A bucketLedger divides a token bucket: what flows in goes to the leases of holders, by their
// demand, and to the pool.
type bucketLedger struct{ plainLedger }

func divideBucket(l plainLedger) division { return bucketLedger{l} }

// A bucketAnswer is an answer, and what the phases of a bucket's leave to the next ones.
type bucketAnswer struct {
	answer
	hurry   float64 // 1 and above: so many times sooner than in calm times, holders shall be back
	longest float64 // µs that refresh may be
	floor   float64 // held as a burst, which never falls below it
	share   float64 // its part of the bucket, 0 to 1
	fair    float64 // the part of its demand that it is due, tokens/s
	asked   part    // of those, what is of the class that is asked for
	scarce  float64 // tokens in the pool below which it is low
	guarded float64 // those in the pool that are kept for other classes
	turn    float64 // µs, when the holder's turn comes; 0 if it was not denied
	due     float64 // tokens that were kept for it
	stays   bool    // callers wait through the denial, and stand in line
}

// A part is what a class has of a holder: of its demand, of what that is due, and of its lease.
type part struct{ demand, fair, lease float64 }

// exchange answers a request: each phase is a method.
func (l bucketLedger) exchange(t float64, asked Request) Reply {
	q := &asked
	l.advance(t, q)

	a := bucketAnswer{answer: answer{record: record{seq: float64(q.Seq), at: t}}}
	l.declare(&a.answer, q)
	l.deny(q.Denied)
	l.takeBack(&a, q)
	l.divide(&a, q)
	l.serve(&a, q)
	l.fill(&a, q)
	l.takeByClass(&a, q)
	l.term(&a, q)
	l.lineUp(&a, q)
	l.retry(&a, q)
	l.outlive(&a, q)
	l.insert(q.Holder, a.record)
	l.keepRooms()
	return l.reply(&a.answer)
}

// takeBack ends the lease that the holder comes back with, and finds out what it
// holds.
func (l bucketLedger) takeBack(a *bucketAnswer, q *Request) {
	r := l.holders[q.Holder] // advance may have ended it
	if r != nil {
		a.due = r.mark
		if !r.shape.Refills() && r.refills > 0 {
			a.turn = r.rateUntil()
		}
		l.remove(r)
	}
	switch {
	case r != nil && float64(q.Seq) > r.seq:
		l.refund(a, q, r)
	case q.Claim.Left > 0:
		l.adopt(a, q)
	}
	l.debit(q, r)
	a.held = min(a.held, 2*MaxBurst-l.bursts) // the sum stays exact
	a.floor = above(a.held)
	l.trim(max(l.burst-l.bursts-a.floor, 0))
}

// refund takes what the holder hands back of its lease r.
func (l bucketLedger) refund(a *bucketAnswer, q *Request, r *record) {
	a.held = q.Held
	// The holder goes by the lease that it claims, not by longer lives of before
	// (TestLongLifeIsForgotten). Its clock may be a little slow.
	claimed := math.Ceil(float64(micros(q.Claim.Left)*(1+2*drift))) + 1
	if a.held > 0 || r.shape != Batch { // else nothing can be spent before the answer
		a.left = min(r.expires()-a.at, claimed)
	}
	// Lent tokens that did not come to the holder, or found no room there, were never used. These
	// tokens are those of a lost answer, the rate while messages were under way, and the refill of
	// a full lease. Unused tokens come back as far as the lease had room for them beside what the
	// holder held (I1, TestRefundFits). The rest comes back as far as the pool had room (rooms).
	// Tokens that an answer took for waiting requests do not come back: the pool may have filled
	// up again.
	unused, beyond := r.add+r.accrued(a.at), 0.0
	switch {
	case float64(q.Seen) == r.seq:
		unused, beyond = max(unused-q.Got, 0), max(q.Got-unused, 0)
	case float64(q.Seen) > r.seq:
		// The holder has had answers that this state has lost (TestRolledBack).
		unused, beyond = 0, max(q.Give-unused, 0)
	}
	fits := max(min(unused, r.burst-above(q.Peak)), 0)
	returned := l.giveBack(unused-fits, r.at)
	// What a slow way has cost says nothing of the division (TestStalls).
	if !r.ended {
		l.regret(unused - fits - returned)
	}
	// A holder may hand back more than this lease has lent, or hold more than was set aside. The
	// holder then has a lease that the ledger has forgotten: the ledger took an old message for the
	// holder's newest (TestLateRepeats).
	back := min(max(q.Give-beyond, -q.Held)+fits, r.burst-above(q.Held))
	l.pool += back
	l.flows.Returned += returned
	l.flows.Refused += q.Give + fits - back
	a.was = r.demand
}

// adopt debits a lease of a state that was lost: what the holder keeps of it, and
// what it has added by itself since this state began (I6).
func (l bucketLedger) adopt(a *bucketAnswer, q *Request) {
	a.held = q.Held
	a.left = min(micros(q.Claim.Left), l.ends.width*era)
	l.pool -= above(a.held)
	if age := a.at - l.born; age < l.ends.width*longestTerm {
		l.pool -= min(float64(q.Claim.Rate*age)/1e6, q.Got) // the pool got this rate as well
	}
}

// serve takes tokens for the requests that wait: they come first.
//
// Under contention the owner of a slice leaves the pool's last tokens to holders
// without one, if there are others. Nor does any holder take what is earmarked for another one.
func (l bucketLedger) serve(a *bucketAnswer, q *Request) {
	p := &q.Policy
	a.scarce = float64(p.Reserve * max(l.burst-l.bursts-a.burst, 0))
	if a.contended && a.shape.Refills() && l.crowd(q) > 1 {
		a.spared = a.scarce
	}
	if a.guarded > 0 {
		// Beside the request, or none is served; and not all, or the pool is full before one is.
		fits := float64((l.burst - l.bursts - a.burst - max(q.Min, 1)) * mostKept)
		a.guarded = min(a.guarded, fits)
		a.spared = max(a.spared, a.guarded)
	}
	avail := l.pool - max(a.spared, l.earmark)
	if a.turn > 0 && a.at >= a.turn {
		avail = max(avail, min(l.pool-a.spared, max(a.due, q.Min)))
	}
	a.scarce, a.spared = max(a.scarce, l.earmark), max(a.spared, l.earmark)
	if q.Take > 0 && avail >= q.Min {
		a.taken = math.Floor(min(avail, q.Take))
		if q.Unit > 1 {
			a.taken = q.Min + float64(math.Floor((a.taken-q.Min)/q.Unit)*q.Unit)
		}
		l.pool -= a.taken
	}
	if q.Hold > 0 {
		l.reserve(a, p)
	}
}

// reserve puts into the lease what was taken for callers that reserve it. Room is set aside
// in place of the tokens. They may come back with the next exchange, and a long lease would
// keep them for long.
func (l bucketLedger) reserve(a *bucketAnswer, p *Policy) {
	a.kept = a.taken
	a.held += a.kept
	a.burst = max(a.burst, above(a.held))
	if a.burst > a.keep && a.shape == LongBatch {
		a.shape = Batch
	} else if a.burst > a.keep {
		a.longest = micros(p.MaxRefresh)
	}
}

// filled is the part of its burst to which a lease is filled under contention: the
// rest is room for what it refills and does not use at once.
const filled = 0.5

// fill adds to the lease: its part of the pool, and what the pool has no room for any
// more.
func (l bucketLedger) fill(a *bucketAnswer, q *Request) {
	if q.Policy.Mode == Batches {
		a.add = math.Floor(max(min(l.pool-l.earmark, float64(q.Policy.Batch)-a.held), 0))
		a.burst = above(a.held + a.add)
		// What a lowered limit leaves no room for comes back (TestBatchesComeBack).
		a.keep = min(a.burst, max(l.burst-l.bursts-l.earmark, 0))
	} else if a.shape == Batch && a.keep > 0 {
		// Whole tokens, with what it holds: a fraction would be spent by nobody, and count as
		// if it were (TestTable).
		a.add = max(math.Floor(min(l.pool-a.spared+a.held, a.burst))-a.held, 0)
	} else if a.shape != None {
		room := max(l.burst-l.bursts-a.burst, 0)
		most := a.burst
		if a.contended {
			most = float64(a.burst * filled)
		}
		a.add = max(min(float64(l.pool*a.share), l.pool-a.spared, most-a.held), l.pool-room, 0)
		a.add = min(a.add, a.burst-a.held)
	}
	if a.shape == None && a.burst > 0 {
		a.shape = Batch // of tokens that it has and shall bring back
	}
	l.pool -= a.add
	a.add += a.kept
	l.trim(max(l.burst-l.bursts-a.burst, 0))
}

// begin fills the pool, unless a holder's claim shows that the bucket has been in use, and takes
// what the past has used: the pool has it then.
func (l bucketLedger) begin(t float64, claimed bool) {
	if !claimed {
		l.pool = l.burst
	}
	l.pool = min(l.pool, l.burst-max(min(l.past.sum(t), l.burst), l.past.lacks(t)))
	l.past.rate, l.past.full = 0, 0
}

// end is when the rate of a lease flows back to the pool, or all of it.
func (l bucketLedger) end(r *record) float64 {
	if r.shape.Refills() && !r.ended {
		return r.rateUntil()
	}
	return r.expires()
}

// endPart lets the rate of a lease flow into the pool from now on. Its holder is late, and who was
// denied before may be, too: what was denied or lost before counts no more.
func (l bucketLedger) endPart(r *record) {
	l.denied = 0
	l.rates -= r.rate
	r.ended = true
}

// remember adds what the bucket lacks to the past, for as long as it would refill.
func (l bucketLedger) remember(float64) {
	if lacks := l.burst - l.pool; lacks > 0 {
		l.past.rate = l.rate
		l.past.full = l.at + min(math.Ceil(float64(lacks*1e6)/l.rate), longestPast)
	}
}

func (l bucketLedger) idle(t float64) bool {
	return l.plainLedger.idle(t) && l.pool+float64(l.rate*(t-l.at))/1e6 >= l.burst
}

func validateBucket(l Limit) error {
	if !(l.Rate > 0) || l.Rate > MaxRate { // a NaN fails the first comparison
		return fmt.Errorf("lease: %w: Rate %v is not above 0 and at most %d tokens/s", ErrInvalidLimit, l.Rate, int64(MaxRate))
	}
	if err := l.validateBurst(); err != nil {
		return err
	}
	switch {
	case float64(l.Burst)/l.Rate > MaxFill.Seconds():
		return fmt.Errorf("lease: %w: Rate %v fills Burst %d in more than %v", ErrInvalidLimit, l.Rate, l.Burst, MaxFill)
	case l.Window != 0 || l.Offset != 0:
		return fmt.Errorf("lease: %w: Window %v or Offset %v of a token bucket is not 0",
			ErrInvalidLimit, l.Window, l.Offset)
	}
	return nil
}

func bucketText(l Limit) string { return fmt.Sprintf("%.6g/s burst %d", l.Rate, l.Burst) }
