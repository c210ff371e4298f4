package lease

import (
	"math"
	"time"
)

// A Holder is one process's half of a key: it spends from its lease without
// asking, and says when and what to ask. Time is passed in, counted from any
// moment that has passed, on a clock that never steps back; a time before an
// earlier one counts as that one. A Holder is not safe for concurrent use.
type Holder struct {
	// What Take reads and writes stands together: among many keys, a decision
	// costs as many cache lines as it touches.
	// State that few keys need, or none for long, is made on demand (TestHolderSize).
	holding
	queue    *waiters // nil while nobody waits
	debts    *debts   // nil before the first Charge
	kind     spending
	next     agenda
	meter    meter
	limit    Limit
	reserves reserves
	denial   denial
	policy   *Policy // resolved; other holders may share it

	talk   conversation
	failed *failures // nil while the ledger answers
	pool   pool
	others numbers // what is lower in those that others declare, as last replied
	id     string
	random random
	waste  *waste // nil while all tokens were of use
}

// A holding is the lease, in force until expires.
type holding struct {
	at      time.Duration // tokens are counted up to here
	tokens  float64
	expires time.Duration

	// running says that no request is unanswered. From the moment at which the first
	// unanswered one left, nothing is added: the ledger may have given the rate to
	// another holder (I1, TestRefillPausesWhileAsking). The next request tells what
	// came, and the ledger takes back what did not.
	running   bool
	shape     Shape
	contended bool    // as last replied
	dry       bool    // as last replied
	classed   bool    // the kind is a classed
	probe     bool    // the next request is due though nobody waits
	holders   uint16  // as last replied
	spent     float64 // since the last answer, and has not come back, see Refund

	rate, burst float64
	rateUntil   time.Duration
	got, peak   float64 // since the request that was answered last, see Request

	keep    float64       // the next request hands back all above this
	refresh time.Duration // when to make it
}

// waste is tokens that were of no use, see Lease.
type waste struct{ spilt, expired, lapsed, unclaimed float64 }

// wasted returns what was of no use until now.
func (h *Holder) wasted() waste {
	if h.waste == nil {
		return waste{}
	}
	return *h.waste
}

// lost counts tokens more.
func (h *Holder) lost(w waste) {
	if w == (waste{}) {
		return
	}
	if h.waste == nil {
		h.waste = new(waste)
	}
	h.waste.spilt += w.spilt
	h.waste.expired += w.expired
	h.waste.lapsed += w.lapsed
	h.waste.unclaimed += w.unclaimed
}

// NewHolder returns a Holder for one key of one process. id must be unique per
// process start, see Request.Holder; limit and policy must be valid. A policy that
// is resolved is shared: nobody may change it. The seed spreads refreshes and retries
// of different holders.
func NewHolder(id string, limit Limit, policy *Policy, seed uint64) *Holder {
	h := new(Holder) // on the stack of a caller that copies it
	h.begin(id, limit, policy, seed)
	return h
}

func (h *Holder) begin(id string, limit Limit, policy *Policy, seed uint64) {
	if resolved := policy.Resolved(); resolved != *policy {
		policy = new(resolved)
	}
	*h = Holder{
		id: id, limit: limit, policy: policy, random: random(seed),
		next:     agenda{alarm: math.Inf(1)}, // nothing is known yet: the first Ready says
		reserves: reserves{lease: 1},
		talk:     conversation{served: longAgo},
		meter:    newMeter(0, arrivals{since: never}),
		kind:     limit.Kind.of().spend(limit),
	}
}

// A Verdict is what became of a request.
type Verdict int

const (
	Admitted    Verdict = iota
	Denied              // for now; see RetryAfter
	Pending             // wait: the answer comes with the next exchange
	Unavailable         // the exchange failed: no verdict
	Exceeding           // more than the Burst in force, or than one that was set meanwhile
)

// Take asks for n tokens, 1 to the limit's Burst. Pending means that only the
// ledger can tell: the caller either enters a Waiter at once or treats it as
// denied. After Take, call Ready if Due says so.
func (h *Holder) Take(now time.Duration, n float64) Verdict {
	now = h.advance(now)
	h.offered(now, n)
	if h.admits(n) {
		h.spend(n)
		return Admitted
	}
	v := h.refuses(now, n)
	if v == Denied {
		h.talk.denied += float32(n)
	}
	return v
}

// admits reports whether n tokens can be spent without asking.
func (h *Holder) admits(n float64) bool {
	free := h.queue.len() == 0 && h.tokens >= n
	if h.classed {
		class := h.Asking()
		free = h.queue.at(class).len() == 0 && h.usable(class) >= n
	}
	return free && !h.indebted()
}

// refuses is the verdict on a request that cannot be served from here.
func (h *Holder) refuses(now time.Duration, n float64) Verdict {
	switch {
	case !h.denies(now, n):
		return Pending
	case n <= float64(h.InForce().Burst):
		return Denied
	case h.talk.out || now < h.talk.sent+h.policy.MaxRefresh:
		return Exceeding
	}
	h.probe = true // whatever the denial says: a larger Burst may be in force by now
	return Pending
}

// denies reports whether a request that cannot be served from here is denied
// without asking. It is inside a denial's retry time, unless it asks for less than
// what was denied and no caller is before it. It also is while a slice is being
// renewed, if the last reply said that the pool was dry.
func (h *Holder) denies(now time.Duration, n float64) bool {
	if d := h.denied(h.Asking()); now < d.until {
		if ahead, _, _ := h.before(h.Asking()); n >= d.least || ahead > 0 {
			return true
		}
	}
	return h.talk.out && h.dry && h.holds(now) && h.shape.Refills()
}

// SetLimit declares another limit from the next request on. Waiters for more than its
// Burst will never be served, nor will those for slots of a key that has none any more, or for
// tokens of one that has slots now: they are resolved as Exceeding.
func (h *Holder) SetLimit(limit Limit) {
	if limit == h.limit {
		return
	}
	if frameOf(limit) != frameOf(h.limit) {
		h.forfeit()
		h.kind, h.classed = limit.Kind.of().spend(limit), false
	}
	if limit.Rate > h.limit.Rate || limit.Burst > h.limit.Burst {
		h.denial.until = 0 // it was denied by the old one
		if h.classed {
			h.ranks().denials = [MaxClasses]denial{}
		}
	}
	h.refresh = min(h.refresh, h.meter.last) // the lease is of the old limit
	other := limit.Kind.Jobs() != h.limit.Kind.Jobs()
	h.limit = limit
	h.queue.turnAway(Exceeding, func(w *Waiter) bool { return other || w.N > float64(limit.Burst) })
}

// forfeit drops what is held, and what is known, of a limit of another kind. The ledger forgets
// the holder's lease as well (Ledger.leave).
func (h *Holder) forfeit() {
	h.lose()
	h.shareDebts()
	// It may turn back (TestTurnAndBack).
	h.holding = holding{at: h.at, got: h.got, peak: h.peak, holders: h.holders, probe: h.probe}
	h.others, h.denial, h.pool = numbers{}, denial{}, pool{}
	h.talk.turned = true
}

// lower has the numbers of the limit in force that are lower than declared. There are none if the
// limit in force is of another kind, since this holder is denied then.
func (h *Holder) lower(inForce Limit) numbers {
	if frameOf(inForce) != frameOf(h.limit) {
		return numbers{}
	}
	return inForce.numbers().below(h.talk.declared)
}

// Declared is the limit that the holder declares.
func (h *Holder) Declared() Limit { return h.limit }

// Serves reports whether that limit may admit n tokens by Take.
func (h *Holder) Serves(n float64) bool {
	return n <= float64(h.limit.Burst) && !h.limit.Kind.Jobs()
}

// InForce is the limit in force as far as the holder knows: the lower Rate and the
// lower Burst of the limit that it declares, and of those that others do. One that
// SetLimit has raised counts at once, until a reply says that others are lower.
func (h *Holder) InForce() Limit { return h.limit.lowest(h.others) }

// advance adds the refill until now and ends the lease when its time has come.
func (h *Holder) advance(now time.Duration) time.Duration {
	if now <= h.at {
		return h.at
	}
	h.refill(now)
	h.expire(now)
	return now
}

// refill adds what came until now, which is after h.at.
func (h *Holder) refill(now time.Duration) {
	if h.shape.Refills() && h.at < h.rateUntil {
		added := float64(h.rate * float64(float64(min(now, h.rateUntil)-h.at)*1e-9))
		if h.running {
			h.hold(added)
		}
	}
	h.at = now
	h.kind.pass(h)
}

// expire ends the lease if its time has come.
func (h *Holder) expire(now time.Duration) {
	if !h.leased(now) {
		h.lose()
	}
}

// lose lets go what the lease had, as it has ended.
func (h *Holder) lose() {
	h.lost(waste{expired: h.tokens + h.kind.drop()})
	h.tokens, h.spent = 0, 0
	h.endReserves()
}

// hold adds tokens as far as there is room beside those that are reserved.
func (h *Holder) hold(tokens float64) {
	h.tokens += tokens
	over := h.fit()
	h.lost(waste{spilt: over})
	came := max(tokens-over, 0)
	h.got += came
	h.peak = max(h.peak, h.all()) // before classes pay with it what they owe
	if h.classed {
		h.byClass().earn(h, came)
	}
}

// fit drops the tokens without room, and returns how many.
func (h *Holder) fit() (over float64) {
	if over = max(h.all()-h.burst, 0); over > 0 {
		h.tokens = h.burst - h.reserves.tokens - h.kind.busy()
	}
	return over
}

// all is how many tokens take up room: free, reserved, or spent and still counted.
func (h *Holder) all() float64 { return h.tokens + h.reserves.tokens + h.kind.busy() }

// spend takes n of the free tokens.
func (h *Holder) spend(n float64) {
	h.give(n)
	h.kind.spend(h, n)
}

// give takes n of the free tokens out, for the class that asks.
func (h *Holder) give(n float64) {
	h.tokens -= n
	if h.classed {
		h.byClass().pay(h, n)
	}
}

func (h *holding) leased(now time.Duration) bool { return now < h.expires }

// holds reports whether there is a lease to renew or to hand back.
func (h *holding) holds(now time.Duration) bool { return h.burst > 0 && h.leased(now) }

// A random is the state of a generator, splitmix64.
type random uint64

// jitter shortens d by up to an eighth, so that processes that started
// together do not stay together.
func (r *random) jitter(d time.Duration) time.Duration {
	*r += 0x9e3779b97f4a7c15
	z := *r
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return d - time.Duration(float64(d)/8*float64(z>>11)/(1<<53))
}

// seconds converts s to a Duration, rounded up, and at most MaxFill.
func seconds(s float64) time.Duration {
	return time.Duration(math.Ceil(min(s, MaxFill.Seconds()) * 1e9))
}
