package lease

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Ledger is the authority of one key: it owns the token bucket, lends parts
// of it to Holders, and knows what is out. Its twin is lua/exchange.lua; the
// two agree to the last bit (I5, lua.TestTwins), and that is why the arithmetic
// here is plain float64 in a fixed order, times are whole microseconds, and
// products are converted before they are added (a fused multiply-add would
// round differently).
//
// The zero Ledger is the bucket of a key that nobody has asked for yet. It is
// not safe for concurrent use.
type Ledger struct {
	rate, burst float64 // the limit in force
	declared    float64 // when somebody last declared it, µs

	at    float64 // time of the last change, µs; never goes back
	ahead float64 // by how much that is ahead of the clock, since the clock stepped back, µs
	pool  float64 // tokens not lent out; below 0 while a lost state is paid back (I6)

	// What is out, kept beside the holders so that an exchange costs the same
	// whatever their number. All are multiples of 1/resolution or whole: exact.
	//
	// I4 (TestInvariants): pool + bursts <= burst and rates <= rate.
	rates, bursts, demand float64

	// Water level of max-min fairness, by consistent marking: holders that want
	// less than the level count in low with their demand, the others share what
	// is left (Charny, Clark and Jain, "Congestion Control with Explicit
	// Rate Indication", ICC 1995). high is the number of the others.
	low, high float64

	// unrest is the demand that has lately jumped or vanished, as a part of
	// all demand, forgotten within a second: while it is large everybody comes
	// back sooner.
	unrest float64

	// born is when this state began. A lease that is claimed soon after is from
	// a state that was lost, and has been running beside it since (I6).
	born float64

	ends    calendar
	holders map[string]*record

	flows Flows
}

// record is what the ledger remembers of a holder: its lease.
type record struct {
	seq    float64
	at     float64 // when seq was answered, µs
	rate   float64
	burst  float64
	until  float64 // µs from at, when self-refill ends
	life   float64 // µs from at, when the tokens die
	demand float64
	add    float64
	high   bool // marked as above the water level
	ended  bool // the rate has flowed back to the pool; tokens may still be held
}

// answer is a new record, and what the holder is told beside.
type answer struct {
	record
	keep    float64
	refresh float64 // µs
	taken   float64
	retry   float64 // µs

	intact, contended bool
	dry               bool
	calm              bool // lent for longer than others, see Ledger.calm and Ledger.steady
}

// A lease's rate ends a little after its Refresh, so that a crashed or silent
// holder's returns early. Its tokens are no one's loss until they are needed:
// they live for tokenLife refreshes more.
const tokenLife = 2

// Unrest halves in half a second; at 1 it makes refreshes two and a half times
// as frequent. Chosen by TestTable: less haste costs fairness when processes
// turn on and off, more costs calls (docs/design.md).
const (
	calmsIn = 500000 // µs
	haste   = 1.5
)

func (r *record) rateUntil() float64 { return r.at + r.until }
func (r *record) expires() float64   { return r.at + r.life }

// granted is the life that the holder is told. The ledger's own may be longer:
// until the holder has heard of a shorter one, it goes by the one before (I2,
// TestShorterLife). A batch of a calm key, which has no time until which a rate
// runs, is refreshed until it ends.
func (a *answer) granted() float64 {
	switch {
	case a.until == 0:
		return a.refresh
	case a.calm:
		return a.until + float64(a.refresh*steadyTail)
	}
	return a.until + float64(a.refresh*tokenLife)
}

// end is when something of the lease next flows back.
func (r *record) end() float64 {
	if r.rate > 0 && !r.ended {
		return r.rateUntil()
	}
	return r.expires()
}

// filled is the part of its burst to which a sub-bucket is filled under
// contention: the rest is room for what it refills and does not use at once.
const filled = 0.5

// Exchange answers one request at time now, counted from any moment that has
// passed. A now before an earlier one counts as that earlier one, and if it is
// more than a second before it, time goes on from there. The request must be
// valid (Request.Validate).
func (l *Ledger) Exchange(now time.Duration, q Request) Reply {
	seq := float64(q.Seq)
	r := l.holders[q.Holder]
	if r != nil && seq <= r.seq {
		return Reply{Seq: q.Seq, Stale: true, Limit: l.Limit()}
	}

	q.Policy = q.Policy.Resolved()
	p := q.Policy
	t := micros(now)
	if r == nil && l.full(max(t+l.ahead, l.at), p) {
		return Reply{Seq: q.Seq, Stale: true, Limit: l.Limit()}
	}
	claimed := q.Claim.Left > 0
	if l.holders == nil {
		l.open(t, q.Limit, p, !claimed)
	}
	t = l.clock(t)
	l.advance(t, p)
	l.declare(t, q.Limit)

	// What the holder comes back with. Its old lease ends here.
	next := answer{record: record{seq: seq, at: t}}
	held, left := q.Held, 0.0 // left: how long the lease that is out may still be spent from
	leased := false
	if r = l.holders[q.Holder]; r != nil { // advance may have ended it
		l.remove(r)
		leased = r.burst > 0
		// It goes by the lease that it claims, not by longer lives of before
		// (TestLongLifeIsForgotten). Its clock may be a little slow.
		left = min(r.expires()-t, math.Ceil(float64(micros(q.Claim.Left)*(1+2*drift)))+1)
		back := q.Give
		if next.intact = float64(q.Seen) == r.seq; !next.intact {
			// The holder never got that reply, and never will accept it: what
			// it added was never used (TestLostReplyRefunded). What it took for
			// those who waited is lost: the pool may have filled up again.
			back += r.add + r.accrued(t)
		}
		// No more than what was set aside for it (I3), and where it used what it
		// held meanwhile, there was no room to refill (TestRefundFits). If it
		// holds more than was set aside, the ledger has forgotten a lease and
		// hears of it from an old message.
		fits := max(min(back, r.burst-above(held+q.Spent)), min(r.burst-above(held), 0))
		l.pool += fits
		l.flows.Refused += back - fits
	} else if claimed {
		left = min(micros(q.Claim.Left), l.ends.width*era)
		l.pool -= above(held)
		if age := t - l.born; age < l.ends.width*longestTerm {
			l.pool -= float64(q.Claim.Rate*age) / 1e6 // the pool got this rate as well
		}
	} else {
		held = 0
	}
	held = min(held, 2*MaxBurst-l.bursts) // the sum stays exact
	floor := above(held)
	l.trim(max(l.burst-l.bursts-floor, 0))

	next.demand = quantize(min(q.Demand, MaxRate, 2*MaxRate-l.demand)) // the sum stays exact
	l.unrest += q.Shift / max(l.demand+next.demand, l.rate)
	share, fair := l.divide(&next, held, leased, q)
	calm := l.calm(next.demand, held, q)
	next.calm = calm == 0 && l.steady(&next, q)
	if calm > 0 {
		next.rate, next.burst, share = 0, calm, 1
	}
	lends := next.burst > 0
	if p.Mode == Batches {
		next.burst, lends = floor, true
	}
	next.keep = next.burst
	next.burst = max(next.burst, floor)

	// Requests that wait come first. A slice of the refill is worth more than
	// the pool's last tokens, which are left to those who own none: no more than
	// flow for them until slices are divided anew, or than newcomers may need.
	scarce := float64(p.Reserve * max(l.burst-l.bursts-next.burst, 0))
	reserve := 0.0
	if next.contended && next.rate > 0 {
		others := max(l.rate-l.rates-next.rate, float64(l.rate*l.unrest))
		reserve = min(scarce, float64(others*micros(p.MaxRefresh))/1e6)
	}
	if avail := l.pool - reserve; q.Take > 0 && avail >= q.Min {
		next.taken = math.Floor(min(avail, q.Take))
		if q.Unit > 1 {
			next.taken = q.Min + float64(math.Floor((next.taken-q.Min)/q.Unit)*q.Unit)
		}
		l.pool -= next.taken
	}

	// Then the sub-bucket is filled: by its share of the pool, and by what the
	// pool has no room for any more.
	if p.Mode == Batches {
		next.add = math.Floor(max(min(l.pool, float64(p.Batch)-held), 0))
		next.burst = above(held + next.add)
		next.keep = next.burst
	} else if lends {
		room := max(l.burst-l.bursts-next.burst, 0)
		most := next.burst
		if next.contended {
			most = float64(next.burst * filled)
		}
		next.add = max(min(float64(l.pool*share), l.pool-reserve, most-held), l.pool-room, 0)
		next.add = min(next.add, next.burst-held)
	}
	l.pool -= next.add
	l.trim(max(l.burst-l.bursts-next.burst, 0))

	next.refresh, next.until = l.term(&next, q)
	if calm >= max(held, 1) { // who holds more brings it back first: it would keep it for as long
		next.refresh, next.until, next.calm = micros(p.MaxHold), 0, true
	}
	next.life = max(next.granted(), left)
	next.dry = next.contended && l.pool < max(scarce, 1)
	next.retry = l.retry(&next, q, fair, scarce)
	kept := next.record
	l.insert(q.Holder, &kept)
	return l.reply(&next)
}

// clockStep is by how much a clock may step back, in µs, without the ledger
// going on from where it was: it stands still for so long, so that two clocks
// that take turns mint nothing.
const clockStep = 1e6

// clock is the ledger's time when its clock shows now.
func (l *Ledger) clock(now float64) float64 {
	t := now + l.ahead
	if t < l.at-clockStep {
		l.ahead = l.at - now
	}
	return max(t, l.at)
}

// raiseAfter is for how many slots of the calendar nobody may have declared the
// limit in force before a higher one is: 126 MaxRefresh, or 1.05 MaxHold if that
// is longer, which is longer than holders that use a key stay away.
const raiseAfter = era + 24

// declare settles which limit is in force while holders declare different ones,
// as in a deployment that changes it: the lowest. (Were it the last one that was
// declared, the limit would move with each exchange.)
func (l *Ledger) declare(t float64, limit Limit) {
	if l.Limit().below(limit) && t-l.declared <= l.ends.width*raiseAfter {
		return
	}
	l.rate, l.burst, l.declared = limit.Rate, float64(limit.Burst), t
}

// Limit returns the limit in force, zero before the first exchange.
func (l *Ledger) Limit() Limit { return Limit{Rate: l.rate, Burst: int64(l.burst)} }

// Idle reports whether at time now the bucket is full and nothing is out, so
// that forgetting the ledger changes nothing.
func (l *Ledger) Idle(now time.Duration) bool {
	t := max(micros(now)+l.ahead, l.at)
	for _, r := range l.holders {
		if r.expires() > t {
			return false
		}
	}
	return l.pool+float64(l.rate*(t-l.at))/1e6 >= l.burst
}

// open starts the bucket: full, unless a holder's claim shows that it has been
// in use and its state was lost.
func (l *Ledger) open(t float64, limit Limit, p Policy, full bool) {
	l.rate, l.burst, l.at = limit.Rate, float64(limit.Burst), t
	l.born, l.declared = t, t
	l.holders = map[string]*record{}
	l.ends = calendar{width: slotWidth(p)}
	if full {
		l.pool = l.burst
	}
}

// advance brings the bucket to time t. All holders are looked at only when a
// lease has ended since the last time.
func (l *Ledger) advance(t float64, p Policy) {
	if l.due(t, p) {
		l.end(t)
		l.ends = calendar{width: max(slotWidth(p), l.ends.width)}
		for _, r := range l.holders {
			l.ends.add(r, 1)
		}
	}
	l.refill(t)
}

// due reports whether a lease may have ended until t.
func (l *Ledger) due(t float64, p Policy) bool {
	return slotWidth(p) > l.ends.width || l.ends.due(l.at, t, l.demand > float64(l.rate*calmDemand))
}

// maxHolders is how many holders there may be: the Lua ledger counts them in two
// bytes. One more is told nothing, and forgotten: it knows no more than after a
// message that was lost.
const maxHolders = 65535

// full reports whether there is no room at time t for one that is not known. It
// changes nothing, since its twin writes nothing then (lua.TestFull).
func (l *Ledger) full(t float64, p Policy) bool {
	n := len(l.holders)
	if n < maxHolders || !l.due(t, p) {
		return n >= maxHolders
	}
	for _, r := range l.holders {
		if r.expires() <= t {
			n--
		}
	}
	return n >= maxHolders
}

// end goes through the leases that ended until t, in the order in which they
// did: the rate of each flows to the pool from that moment.
func (l *Ledger) end(t float64) {
	type event struct {
		at   float64
		id   string
		last bool // the tokens end, too
	}
	var events []event
	for id, r := range l.holders {
		if r.rate > 0 && !r.ended && r.rateUntil() <= t {
			events = append(events, event{r.rateUntil(), id, false})
		}
		if r.expires() <= t {
			events = append(events, event{r.expires(), id, true})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
	for _, e := range events {
		l.refill(max(e.at, l.at))
		r := l.holders[e.id]
		if e.last {
			l.subtract(r)
			delete(l.holders, e.id)
		} else {
			l.rates -= r.rate
			r.ended = true
		}
	}
}

// refill lets the part of the rate that nobody owns flow into the pool, until
// time t, not before l.at.
func (l *Ledger) refill(t float64) {
	free := max(l.rate-l.rates, 0) // a lowered limit may be below what is still out
	room := max(l.burst-l.bursts, min(l.pool, 0))
	flow := float64(free*(t-l.at)) / 1e6
	l.pool += flow
	l.flows.Pooled += flow
	l.trim(room)
	l.unrest /= 1 + (t-l.at)/calmsIn
	l.at = t
}

// trim lets go what the pool has no room for.
func (l *Ledger) trim(room float64) {
	if l.pool > room {
		l.flows.Spilt += l.pool - room
		l.pool = room
	}
}

// Flows are tokens that went through a Ledger's pool since the zero Ledger.
type Flows struct {
	Pooled  float64 // flowed into it: the rate that nobody had on lease
	Spilt   float64 // it had no room for
	Refused float64 // came back with a lease, and were not set aside for it
}

// Flows tells where tokens went, for whoever accounts for them. They are not
// part of the state that the twins share.
func (l *Ledger) Flows() Flows { return l.flows }

// Plus adds up two of them.
func (f Flows) Plus(g Flows) Flows {
	return Flows{f.Pooled + g.Pooled, f.Spilt + g.Spilt, f.Refused + g.Refused}
}

// accrued is what a holder could have added by itself since r was answered.
func (r *record) accrued(t float64) float64 {
	if r.ended {
		return 0
	}
	return float64(r.rate*(min(t, r.rateUntil())-r.at)) / 1e6
}

func (l *Ledger) insert(id string, r *record) {
	l.holders[id] = r
	l.rates += r.rate
	l.bursts += r.burst
	l.demand += r.demand
	if r.high {
		l.high++
	} else {
		l.low += r.demand
	}
	l.ends.add(r, 1)
}

func (l *Ledger) remove(r *record) {
	l.ends.add(r, -1)
	if !r.ended {
		l.rates -= r.rate
	}
	l.subtract(r)
}

// subtract takes r out of the sums, but for its rate.
func (l *Ledger) subtract(r *record) {
	l.bursts -= r.burst
	l.demand -= r.demand
	if r.high {
		l.high--
	} else {
		l.low -= r.demand
	}
}

func (l *Ledger) reply(a *answer) Reply {
	return Reply{
		Seq: uint64(a.seq), Taken: a.taken, Add: a.add, Rate: a.rate, Burst: a.burst, Keep: a.keep,
		Refresh:    duration(a.refresh),
		RateUntil:  duration(a.until),
		Expires:    duration(a.granted()),
		RetryAfter: duration(a.retry),
		Intact:     a.intact, Dry: a.dry, Contended: a.contended, Calm: a.calm,
		Holders: len(l.holders), Limit: l.Limit(),
	}
}

func micros(d time.Duration) float64    { return float64(d / time.Microsecond) }
func duration(us float64) time.Duration { return time.Duration(us) * time.Microsecond }
