package lease

import (
	"math"
	"time"
)

// A Ledger is the authority of one key: it owns the token bucket, lends parts of it to
// Holders, and knows what is out.
//
// Its twin is lua/exchange.lua, and the two agree to the last bit (I5, lua.TestTwins).
// So the arithmetic here is plain float64 in a fixed order, and times are whole
// microseconds. Products are converted before they are added: a fused multiply-add would
// round differently.
//
// The zero Ledger is the bucket of a key that nobody has asked for yet. It is
// not safe for concurrent use.
type Ledger struct {
	bucket
	sums
	ends    calendar
	panes   panes // of a sliding window: what counts and is in no lease
	holders map[string]*record
}

// sums of what is out are kept beside the holders, so that an exchange costs the
// same whatever their number. All but unrest are multiples of 1/resolution or whole:
// exact.
//
// I4 (TestInvariants): pool + bursts <= burst and rates <= rate.
type sums struct {
	rates, bursts, demand float64

	earmark float64 // what the pool keeps for one holder, see earmark.go

	// Water level of max-min fairness, by consistent marking. Holders that want
	// less than the level count in low with their demand. The others, high of them,
	// share what is left (Charny, Clark and Jain, "Congestion Control with Explicit
	// Rate Indication", ICC 1995).
	low, high float64

	// unrest is the demand that has lately jumped or vanished, as a part of all
	// demand. It halves in half a second. While it is large all come back sooner.
	unrest float64
}

// record is what the ledger remembers of a holder: its lease.
type record struct {
	seq     float64
	at      float64 // when seq was answered, µs
	rate    float64
	burst   float64
	refills float64 // µs from at, when self-refill ends
	life    float64 // µs from at, when the tokens die
	demand  float64
	add     float64
	shape   Shape
	limit   int  // its place among those that are declared
	place   int  // in the calendar
	high    bool // marked as above the water level
	marked  bool // has the earmark
	ended   bool // the rate has flowed back to the pool; tokens may still be held
}

// answer is a new record, what the holder is told beside, and what one phase of
// an exchange leaves to the next ones.
type answer struct {
	record
	keep    float64
	refresh float64 // µs
	longest float64 // µs that it may be
	granted float64 // the life that the holder is told, µs
	taken   float64
	kept    float64 // of those, in the lease
	retry   float64 // µs

	contended, dry bool

	held   float64 // tokens that the holder keeps
	floor  float64 // the same as a burst, which never falls below it
	left   float64 // µs for which the lease that is out may still be spent from
	leased bool    // the holder comes back with a lease
	was    float64 // its demand when it last asked

	used  float64 // of a sliding window: those of the held tokens that are spent
	free  float64 // the others, which are free or reserved
	wants float64 // how many of these the holder should have
	usual float64 // µs that it stays away if nobody is in need

	share  float64 // its part of the bucket, 0 to 1
	fair   float64 // the part of its demand that it is due, tokens/s
	scarce float64 // tokens in the pool below which it is low
	spared float64 // tokens of the pool that are not for this holder
}

func (r *record) rateUntil() float64 { return r.at + r.refills }
func (r *record) expires() float64   { return r.at + r.life }

// Exchange answers one request at time now, counted from any moment that has passed. A
// now before an earlier one counts as that earlier one. If it is more than a second
// before it, time goes on from there. The request must be valid (Request.Validate).
func (l *Ledger) Exchange(now time.Duration, q Request) Reply {
	q.Policy = q.Policy.Resolved()
	t := micros(now)
	if l.refuses(t, &q) {
		return Reply{Seq: q.Seq, Stale: true, Limit: l.Limit()}
	}
	if !l.prepare(t, &q) {
		return l.elsewhere(&q)
	}
	t = l.clock(t)
	switch l.kind {
	case KindQuota:
		return l.quota(t, &q)
	case KindSlots:
		return l.slots(t, &q)
	case KindSliding:
		return l.sliding(t, &q)
	}
	l.advance(t, &q.Policy)

	a := answer{record: record{seq: float64(q.Seq), at: t}}
	l.declare(&a, &q)
	l.earmark = min(l.earmark, l.burst) // of a limit that was lowered
	l.takeBack(&a, &q)
	l.divide(&a, &q)
	l.serve(&a, &q)
	l.fill(&a, &q)
	l.term(&a, &q)
	l.retry(&a, &q)
	l.earmarks(&a, &q)
	l.insert(q.Holder, a.record)
	l.keepRooms()
	return l.reply(&a)
}

// refuses reports whether q is a repeat, was overtaken, or is from a holder that there
// is no room for. None of these changes anything. A lease that has ended does not
// count: its holder may be another one by now, under the same id (TestReturns).
func (l *Ledger) refuses(t float64, q *Request) bool {
	t = max(t+l.ahead, l.at)
	if r := l.holders[q.Holder]; r != nil {
		return float64(q.Seq) <= r.seq && r.expires() > t
	}
	return l.full(t, &q.Policy)
}

// takeBack ends the lease that the holder comes back with, and finds out what it
// holds.
func (l *Ledger) takeBack(a *answer, q *Request) {
	r := l.holders[q.Holder] // advance may have ended it
	if r != nil {
		a.marked = r.marked
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
func (l *Ledger) refund(a *answer, q *Request, r *record) {
	a.held, a.leased = q.Held, r.burst > 0
	// The holder goes by the lease that it claims, not by longer lives of before
	// (TestLongLifeIsForgotten). Its clock may be a little slow.
	claimed := math.Ceil(float64(micros(q.Claim.Left)*(1+2*drift))) + 1
	a.left = min(r.expires()-a.at, claimed)
	// What was lent and did not come to the holder, or found no room there, was never used:
	// the tokens of an answer that was lost, the rate while messages were under way, and what
	// a full lease has refilled. It comes back as far as the lease had room for it beside what
	// the holder held (I1, TestRefundFits), or else the pool (rooms). What an answer took for
	// requests that waited does not come back: the pool may have filled up again.
	unused := r.add + r.accrued(a.at)
	switch {
	case float64(q.Seen) == r.seq:
		unused = max(unused-q.Got, 0)
	case float64(q.Seen) > r.seq:
		unused = 0 // it has had answers that this state has lost (TestRolledBack)
	}
	fits := max(min(unused, r.burst-above(q.Peak)), 0)
	returned := l.giveBack(unused-fits, r.at)
	// A holder that holds more than was set aside has a lease that the ledger has
	// forgotten: an old message was taken for its newest.
	back := min(q.Give+fits, r.burst-above(q.Held))
	l.pool += back
	l.flows.Returned += returned
	l.flows.Refused += q.Give + fits - back
	a.was = r.demand
}

// adopt debits a lease of a state that was lost: what the holder keeps of it, and
// what it has added by itself since this state began (I6).
func (l *Ledger) adopt(a *answer, q *Request) {
	a.held = q.Held
	a.left = min(micros(q.Claim.Left), l.ends.width*era)
	l.pool -= above(a.held)
	if age := a.at - l.born; age < l.ends.width*longestTerm {
		l.pool -= float64(q.Claim.Rate*age) / 1e6 // the pool got this rate as well
	}
}

// poolLast is which part of the pool, at most, is kept for holders without a slice.
const poolLast = 20

// serve takes tokens for the requests that wait: they come first.
//
// Under contention the owner of a slice leaves the pool's last tokens to holders
// without one: what flows in MinRefresh, as the next of them may come by then. Nor does
// any holder take what is earmarked for another one.
func (l *Ledger) serve(a *answer, q *Request) {
	room := max(l.burst-l.bursts-a.burst, 0)
	a.scarce = min(float64(l.rate*micros(q.Policy.MinRefresh))/1e6, room/poolLast)
	if a.contended && a.shape.Refills() {
		a.spared = a.scarce
	}
	a.scarce, a.spared = max(a.scarce, l.earmark), max(a.spared, l.earmark)
	if avail := l.pool - a.spared; q.Take > 0 && avail >= q.Min {
		a.taken = math.Floor(min(avail, q.Take))
		if q.Unit > 1 {
			a.taken = q.Min + float64(math.Floor((a.taken-q.Min)/q.Unit)*q.Unit)
		}
		l.pool -= a.taken
	}
	if q.Hold {
		l.reserve(a)
	}
}

// filled is the part of its burst to which a lease is filled under contention: the
// rest is room for what it refills and does not use at once.
const filled = 0.5

// fill adds to the lease: its part of the pool, and what the pool has no room for any
// more.
func (l *Ledger) fill(a *answer, q *Request) {
	if q.Policy.Mode == Batches {
		a.add = math.Floor(max(min(l.pool-l.earmark, float64(q.Policy.Batch)-a.held), 0))
		a.burst = above(a.held + a.add)
		// What a lowered limit leaves no room for comes back (TestBatchesComeBack).
		a.keep = min(a.burst, max(l.burst-l.bursts-l.earmark, 0))
	} else if a.shape == Batch && a.keep > 0 {
		// Whole tokens, with what it holds: a fraction would be spent by nobody, and count as
		// if it were (TestQueuesAreDemand).
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

// insert adds a record, or replaces that of a lease that has been removed.
func (l *Ledger) insert(id string, r record) {
	l.rates += r.rate
	l.bursts += r.burst
	l.demand += r.demand
	if r.high {
		l.high++
	} else {
		l.low += r.demand
	}
	l.ends.add(&r)
	l.holders[id] = &r
}

// remove takes a lease out of the sums and the calendar. Its record stays.
func (l *Ledger) remove(r *record) {
	l.ends.count[r.place]--
	l.subtract(r)
}

// subtract takes r out of the sums.
func (l *Ledger) subtract(r *record) {
	if !r.ended {
		l.rates -= r.rate
	}
	l.bursts -= r.burst
	l.demand -= r.demand
	if r.marked {
		l.earmark = 0
	}
	if r.high {
		l.high--
	} else {
		l.low -= r.demand
	}
}

func (l *Ledger) reply(a *answer) Reply {
	pool := Pool{Level: l.pool, Flow: max(l.rate-l.rates, 0), Room: l.burst - l.bursts}
	if !a.marked {
		pool.Earmark = l.earmark
	}
	return Reply{
		Seq: uint64(a.seq), Taken: a.taken - a.kept, Add: a.add,
		Shape: a.shape, Rate: a.rate, Burst: a.burst, Keep: a.keep,
		Refresh:    duration(a.refresh),
		RateUntil:  duration(a.refills),
		Expires:    duration(a.granted),
		RetryAfter: duration(a.retry),
		Dry:        a.dry, Contended: a.contended,
		Holders: len(l.holders), Limit: l.Limit(),
		Pool: pool,
	}
}

func micros(d time.Duration) float64    { return float64(d / time.Microsecond) }
func duration(us float64) time.Duration { return time.Duration(us) * time.Microsecond }
