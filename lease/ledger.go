package lease

import (
	"math"
	"time"
)

// A Ledger is the authority of one key: it owns the limit, lends parts of it to Holders, and
// knows what is out. A division (kind.go) decides what is lent.
//
// Its twin is lua/exchange.lua, and the two agree to the last bit (I5, lua.TestTwins).
// So the arithmetic here is plain float64 in a fixed order, and times are whole
// microseconds. Products are converted before they are added: a fused multiply-add would
// round differently.
//
// Time never goes back, and each token that flows is in the pool, in a lease's
// own refill, or in flows as spilt: never in two of them (I4, TestInvariants).
//
// The zero Ledger is the bucket of a key that nobody has asked for yet. It is
// not safe for concurrent use.
type Ledger struct {
	rate, burst float64 // the limit in force
	limits      limits  // of which it is the lowest
	frame               // what it has beside these numbers

	at    float64 // time of the last change, µs; never goes back
	ahead float64 // by how much that is ahead of the clock, since the clock stepped back, µs
	pool  float64 // tokens not lent out; below 0 while a lost state is paid back (I6)

	// born is when this state began. A lease that is claimed soon after is from
	// a state that was lost, and has been running beside it since (I6).
	born float64

	rooms rooms
	losses
	flows Flows
	past  past // of other frames

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

	earmark float64 // what the pool keeps for holders, see earmark.go

	// Water level of max-min fairness, by consistent marking (ADR 6): the demand of holders that
	// want less, and the number of the others, which share what is left.
	low, high float64

	// unrest is the demand that has jumped or vanished while the pool could fill, as a part of
	// all demand. While it is large all come back sooner.
	unrest float64

	classes demands // of holders with classes
	lent    *lent   // by class; nil until a holder has classes
}

// record is what the ledger remembers of a holder: its lease.
type record struct {
	seq     float64
	at      float64 // when seq was answered, µs
	rate    float64
	burst   float64
	refills float64 // µs from at, when self-refill ends; of no slice, when a denied holder has its turn
	life    float64 // µs from at, when the tokens die
	demand  float64
	add     float64
	mark    float64  // tokens of the pool that are kept for it
	classes *demands // nil without classes
	adds    *demands // of a quota: of add, what is lent for each class
	shape   Shape
	limit   int  // its place among those that are declared
	place   int  // in the calendar
	high    bool // marked as above the water level
	marked  bool // of a quota, see comeBack
	ended   bool // the rate has flowed back to the pool; tokens may still be held
}

func (r *record) rateUntil() float64 { return r.at + r.refills }
func (r *record) expires() float64   { return r.at + r.life }

// accrued is what has flowed into a lease since r was answered, as far as its
// holder may have added it.
func (r *record) accrued(t float64) float64 {
	return float64(r.rate*(min(t, r.rateUntil())-r.at)) / 1e6
}

// answer is a new record, what the holder is told beside, and what one phase of
// an exchange leaves to the next ones.
type answer struct {
	record
	keep    float64
	refresh float64 // µs
	granted float64 // the life that the holder is told, µs
	taken   float64
	kept    float64 // of those, in the lease
	retry   float64 // µs
	frees   float64 // µs until other frames leave what is missing; 0 if nothing is

	contended, dry, ahead bool

	held  float64 // tokens that the holder keeps
	left  float64 // µs for which the lease that is out may still be spent from
	parts [MaxClasses]uint16
	was   float64 // its demand when it last asked

	spared  float64       // tokens of the pool that are not for this holder
	byClass *quotaClasses // of a quota whose holder has classes
}

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
	d := l.division()
	return d.exchange(d.clock(t), q)
}

// Idle reports whether at time now the bucket is full and nothing is out, so
// that forgetting the ledger changes nothing.
func (l *Ledger) Idle(now time.Duration) bool {
	t := max(micros(now)+l.ahead, l.at)
	return l.past.ends() <= t && l.division().idle(t)
}

// clockStep is how far the clock may step back, in µs, for the ledger to stand still
// until it has caught up: so two clocks that take turns mint nothing. After a larger
// step the ledger goes on from where it was.
const clockStep = 1e6

// clock is the ledger's time when its clock shows now.
func (l *Ledger) clock(now float64) float64 {
	t := now + l.ahead
	if t < l.at-clockStep {
		l.ahead = l.at - now
	}
	return max(t, l.at)
}

// refuses reports whether q is a repeat, was overtaken, or is from a holder that there
// is no room for. None of these changes anything. A lease that has ended does not
// count: its holder may be another one by now, under the same id (TestReturns).
func (l *Ledger) refuses(t float64, q *Request) bool {
	t = max(t+l.ahead, l.at)
	if r := l.holders[q.Holder]; r != nil {
		return float64(q.Seq) <= r.seq && r.expires() > t
	}
	return l.full(t, q)
}

// insert adds a record, or replaces that of a lease that has been removed. What the holder has told
// of its classes stands until it tells anew, or goes: the script does not look for it where a request
// tells of none. (A Holder that has had classes always does: undivided.)
func (l *Ledger) insert(id string, r record) {
	known := l.holders[id]
	if known == nil {
		known = new(record)
		l.holders[id] = known
	}
	if r.classes == nil {
		r.classes, r.adds = known.classes, known.adds
	}
	l.rates += r.rate
	l.bursts += r.burst
	l.demand += r.demand
	l.earmark += r.mark
	l.sums.classes.add(r.classes, 1)
	if r.high {
		l.high++
	} else {
		l.low += r.demand
	}
	*known = r
	l.ends.add(known, l.division().end(known))
}

// remove takes a lease out of the sums and the calendar. Its record stays.
func (l *Ledger) remove(r *record) {
	l.ends.count[r.place]--
	l.subtract(r)
}

// rejoin takes the lease of a holder that comes back out of the sums, and returns its record.
func (l *Ledger) rejoin(q *Request) *record {
	r := l.holders[q.Holder]
	if r != nil {
		l.remove(r)
	}
	return r
}

// subtract takes r out of the sums.
func (l *Ledger) subtract(r *record) {
	if !r.ended {
		l.rates -= r.rate
	}
	l.bursts -= r.burst
	l.demand -= r.demand
	l.sums.classes.add(r.classes, -1)
	l.earmark -= r.mark
	if r.high {
		l.high--
	} else {
		l.low -= r.demand
	}
}

// whole is how many of up to most tokens serve whole requests of those that wait.
func (q *Request) whole(most float64) float64 {
	taken := math.Floor(min(most, q.Take))
	if q.Unit > 1 {
		taken = q.Min + float64(math.Floor((taken-q.Min)/q.Unit)*q.Unit)
	}
	return taken
}

// debit takes a debt from the pool, which may be below 0 then, unless the record says that an
// earlier request has brought it. It reports whether it has.
func (l *Ledger) debit(q *Request, r *record) bool {
	if r == nil || float64(q.Since) > r.seq {
		l.pool -= q.Debt
		l.flows.Debited += q.Debt
		return true
	}
	return false
}

func (l *Ledger) reply(a *answer) Reply {
	if a.frees > 0 {
		a.retry = min(a.retry, a.frees)
	}
	pool := Pool{Level: l.pool, Flow: max(l.rate-l.rates, 0), Room: l.burst - l.bursts}
	pool.Earmark = l.earmark - a.mark
	return Reply{
		Seq: uint64(a.seq), Taken: a.taken - a.kept, Add: a.add,
		Shape: a.shape, Rate: a.rate, Burst: a.burst, Keep: a.keep,
		Refresh:    duration(a.refresh),
		RateUntil:  duration(a.refills),
		Expires:    duration(a.granted),
		RetryAfter: duration(a.retry),
		Dry:        a.dry, Contended: a.contended, Ahead: a.ahead,
		Holders: len(l.holders), Limit: l.Limit(),
		Pool: pool, Parts: a.parts,
	}
}

// calmsIn is the µs in which unrest halves, or as long as the pool takes to fill.
const calmsIn = 500000

// fills is how long an empty pool takes to fill, in µs, at most a sixth of an era. Leases last about
// as long, and what was before counts little. Of a limit without a Rate it is 0.
func (l *Ledger) fills() float64 {
	if l.rate == 0 {
		return 0
	}
	return min(float64(l.burst*1e6)/l.rate, l.ends.width*era/6)
}

// refill lets the rate that nobody has on lease flow into the pool until time t,
// which is not before l.at.
func (l *Ledger) refill(t float64) {
	free := max(l.rate-l.rates, 0) // a lowered limit may be below what is still out
	room := max(l.burst-l.bursts, min(l.pool, 0))
	flow := float64(free*(t-l.at)) / 1e6
	l.pool += flow
	l.flows.Pooled += flow
	l.calm(t - l.at) // first: a silence loses tokens at its end
	l.trim(room)
	l.unrest /= 1 + (t-l.at)/max(calmsIn, l.fills())
	from := l.at
	l.at = t
	l.noteRoom(from)
}

// trim lets go what the pool has no room for. While it is full nobody misses what was lost before.
func (l *Ledger) trim(room float64) {
	if l.pool < room {
		return
	}
	l.flows.Spilt += l.pool - room
	l.regret(l.pool - room)
	l.pool, l.denied = room, max(l.denied, 0)
}

// Flows are tokens that went through a Ledger's pool since the zero Ledger.
type Flows struct {
	Pooled   float64 // flowed into it: the rate that nobody had on lease
	Spilt    float64 // it had no room for
	Refused  float64 // came back with a lease, and found no room
	Returned float64 // found no room in a lease, and came back by that of the pool
	Debited  float64 // had been spent before
}

// Flows tells where tokens went, for whoever accounts for them. They are not
// part of the state that the twins share.
func (l *Ledger) Flows() Flows { return l.flows }

// Plus adds up two of them.
func (f Flows) Plus(g Flows) Flows {
	return Flows{
		f.Pooled + g.Pooled, f.Spilt + g.Spilt, f.Refused + g.Refused, f.Returned + g.Returned,
		f.Debited + g.Debited,
	}
}

func micros(d time.Duration) float64    { return float64(d / time.Microsecond) }
func duration(us float64) time.Duration { return time.Duration(us) * time.Microsecond }
