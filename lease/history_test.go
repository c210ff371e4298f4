package lease_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A history plays an adversary: holders that ask, freeze, crash and quit, over
// a network that delays, reorders, repeats and loses messages in any way, with
// exchanges that time out. After each step it checks the invariants, and keeps
// the first violation.
type history struct {
	rng     *rand.Rand
	now     time.Duration
	ledger  *lease.Ledger
	seen    lease.View    // of viewed, since its last exchange
	viewed  *lease.Ledger // nil if seen is out of date
	limit   lease.Limit
	largest lease.Limit // of all limits declared
	policy  lease.Policy
	actors  []*actor
	net     []packet

	waits   bool // whether those who are told to wait for the ledger do
	steady  bool // whether requests come as time passes, so that slices are earned
	sparse  bool // whether requests are few, so that the key is calm
	changes bool // whether limits change
	lossy   bool
	settles bool // whether tokens are reserved, and used later
	charges bool // whether some are charged that were used already
	refunds bool // whether some are given back that were not reserved
	flushed bool // whether the state was lost
	old     bool // whether an old message was taken for a new one
	calm    int  // batches of a calm key that were seen to be out
	parked  int  // holders that were

	level  float64 // of a leaky bucket into which all admissions are poured
	leaked time.Duration
	excess float64 // worst level above Burst
	back   float64 // reserved tokens that came back
	ended  float64 // that were forfeited
	chains int     // reservations that were made after others had come back
	owed   float64 // the most that was charged and not paid
	lost   float64 // debts of crashed processes that their ledger may not know of
	books  books

	spent    []spending
	refunded float64 // that came back of it

	windows windows // of a quota
	jobs    jobs    // that use slots
	sliding sliding // of a sliding window
	turns   *turns  // of limits of other frames, if there are any
	eager   eager
	classes []lease.Class // of requests, if they have any

	regroups bool // they change

	err error
}

// books account for each token: in any window those that left, used or of no
// use, and those that are there at its end, are at most Burst + Rate*T. Tokens
// taken for who waits leave when the ledger answers, so nothing is owed to
// messages under way, and a history that admits little shows what was minted.
type books struct {
	level    float64       // tokens that left in the worst window, less Rate*T
	at       time.Duration // of level
	left     float64       // tokens that left since the last look
	sum      float64       // tokens that ever left
	answered map[string]uint64
	wasted   float64 // by holders, when last looked at
	apart    float64 // wasted by holders that are no more, less what is not counted
	returned float64 // found no room in a lease, and came back: not wasted

	// What the ledger's pool had no room for is known only when it is asked
	// next. It left between two such moments.
	asked             time.Duration
	askedLevel, spilt float64
	askedSum          float64
}

// An actor is a process with its holder. Its clock starts anywhere and may be
// slow by up to a thousandth.
type actor struct {
	holder *lease.Holder
	id     string
	slow   float64
	zero   time.Duration
	sent   time.Duration // true time of the outstanding request
	frozen time.Duration // it does nothing until then
	last   *lease.Waiter // the last to wait, if it has not gone away
	spilt  float64       // as the holder said after its last answer

	reserved []lease.Reserved
	turn     int // of the last answer
}

// A packet is a request on its way, or a reply.
type packet struct {
	to      *actor
	holder  *lease.Holder // the life it belongs to
	request *lease.Request
	reply   lease.Reply
	turn    int     // of the reply
	spilt   float64 // what has found no room since the answer before the request
}

const historyTimeout = 50 * time.Millisecond

func newHistory(seed uint64) *history {
	h := &history{rng: rand.New(rand.NewPCG(seed, 2)), ledger: new(lease.Ledger), now: time.Hour}
	rates := []float64{0.5, 10, 333.3, 1000, 100000}
	h.limit = lease.Limit{Rate: rates[h.rng.IntN(len(rates))], Burst: 1 + h.rng.Int64N(2000)}
	h.largest = h.limit
	h.policy = lease.Policy{
		Mode:       lease.Mode(h.rng.IntN(4)),
		Fairness:   lease.Fairness(h.rng.IntN(2)),
		Batch:      1 + h.rng.Int64N(200),
		MaxRefresh: time.Duration(20+h.rng.IntN(500)) * time.Millisecond,
		BurstShare: 0.3 + 0.7*h.rng.Float64(),
	}
	h.policy.MaxHold = h.policy.MaxRefresh * []time.Duration{1, 3, 40}[seed%3]
	h.waits = h.rng.IntN(2) == 0
	if h.steady = h.rng.IntN(2) == 0; h.steady {
		h.limit.Rate = max(h.limit.Rate, 100)
		h.largest = h.limit
		if h.policy.Mode == lease.PerRequest {
			h.policy.Mode = lease.Shares
		}
	}
	h.lossy = h.rng.IntN(3) > 0
	h.settles, h.charges = seed%4 == 1, seed%8 == 1
	h.refunds = seed%5 == 2 || seed%5 == 4
	if h.sparse = seed%5 == 4; h.sparse {
		h.steady, h.policy.Mode = false, lease.Auto
		h.limit = lease.Limit{Rate: 333.3, Burst: 500 + h.rng.Int64N(2000)}
		h.largest = h.limit
		h.policy.MaxHold = h.policy.MaxRefresh * (3 + time.Duration(h.rng.Int64N(40)))
	}
	for i := range 1 + h.rng.IntN(5) {
		a := &actor{slow: h.rng.Float64() / 1000, zero: time.Duration(h.rng.Int64N(int64(50 * time.Minute)))}
		h.start(a, i)
		h.actors = append(h.actors, a)
	}
	h.leaked = h.now
	h.books = books{at: h.now, asked: h.now, answered: map[string]uint64{}}
	return h
}

func (h *history) start(a *actor, i int) {
	if a.holder != nil {
		h.books.apart += h.wasted(a)
		h.used(a)
		h.lost += a.holder.Owed()
		h.eager.crashes++
	}
	a.id = fmt.Sprintf("h%d-%x", i, h.rng.Uint32())
	a.holder, a.last, a.spilt = lease.NewHolder(a.id, h.limit, &h.policy, h.rng.Uint64()), nil, 0
	a.holder.Divide(h.classes)
}

func (a *actor) limit() lease.Limit { return a.holder.Declared() }
func (a *actor) slots() bool        { return a.limit().Kind == lease.KindSlots }

func (a *actor) clock(now time.Duration) time.Duration {
	return now - a.zero - time.Duration(float64(now)*a.slow)
}

func (h *history) run(steps int) {
	for i := 0; i < steps && h.err == nil; i++ {
		h.step()
		h.check()
	}
}

func (h *history) step() {
	a := h.actors[h.rng.IntN(len(h.actors))]
	switch k := h.rng.IntN(100); {
	case k < 30:
		h.pass()
	case k < 55:
		h.demand(a)
	case k < 94:
		h.deliver()
		for n := h.rng.IntN(6); h.steady && n > 0; n-- {
			h.deliver()
		}
	case k < 97:
		if a.last != nil && h.now >= a.frozen {
			a.holder.Withdraw(a.clock(h.now), a.last)
			a.last = nil
		}
	case k == 97:
		a.frozen = h.now + time.Duration(h.rng.Int64N(int64(2*time.Second)>>h.rng.IntN(8)))
	case k == 98 && h.rng.IntN(4) == 0: // a crash
		h.start(a, len(h.actors))
	case k == 99 && h.changes && h.rng.IntN(4) == 0:
		h.sliding.allowed(h.now, float64(h.limit.Burst))
		h.limit.Rate *= 0.5 + h.rng.Float64() // a quota has none
		h.limit.Burst = 1 + h.rng.Int64N(2000)
		h.largest.Rate = max(h.largest.Rate, h.limit.Rate)
		h.largest.Burst = max(h.largest.Burst, h.limit.Burst)
		for _, a := range h.actors {
			a.holder.SetLimit(h.limit)
		}
	case k == 99:
		if q, ok := a.holder.Quit(a.clock(h.now)); ok {
			h.forfeited(h.now)
			h.send(a, q)
		}
	}
}

// view returns the ledger's View. It is made once for each exchange: nothing else changes a ledger.
func (h *history) view() lease.View {
	if h.viewed != h.ledger {
		h.seen, h.viewed = h.ledger.View(), h.ledger
	}
	return h.seen
}

// pass lets time go on. Now and then it is the moment just after a lease has
// ended at the ledger, the one at which its holder must not think otherwise.
func (h *history) pass() {
	before := h.now
	h.now += time.Duration(h.rng.ExpFloat64() * float64(h.scale())).Round(time.Microsecond) // the ledger's clock has no finer
	if all := h.view().Holders; len(all) > 0 && h.rng.IntN(8) == 0 {
		r := all[h.rng.IntN(len(all))]
		end := duration(r.At + r.Until)
		if h.rng.IntN(2) == 0 {
			end = r.Expires()
		}
		h.now = max(before, end+time.Duration(h.rng.IntN(100))*time.Microsecond)
	}
	after := h.now
	h.now = before
	h.forfeited(after)
	h.close()
	h.now = after
	for _, a := range h.actors {
		if h.steady {
			h.arrive(a, min(int(a.limit().Rate*(h.now-before).Seconds()*(0.2+h.rng.Float64())), 200))
		}
		h.tend(a)
	}
}

// scale is a typical time between two events: mostly less than a round trip,
// at times longer than a lease.
func (h *history) scale() time.Duration {
	scales := []time.Duration{20 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 100 * time.Millisecond}
	if h.sparse {
		scales = []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, h.policy.MaxHold / 10}
	}
	if h.steady {
		scales[3] = 20 * time.Millisecond // a longer pause would be a lull
	}
	return scales[h.rng.IntN(4)]
}

// demand lets a few requests arrive at once.
func (h *history) demand(a *actor) {
	most := 40
	if h.sparse {
		most = 4
	}
	h.arrive(a, 1+h.rng.IntN(most))
	h.tend(a)
}

func (h *history) arrive(a *actor, requests int) {
	if h.now < a.frozen {
		return
	}
	if h.settles || a.slots() {
		h.settle(a)
	}
	if h.refunds && h.rng.IntN(3) == 0 {
		h.refund(a)
	}
	for range requests {
		n := 1.0
		if most := a.limit().Burst; h.rng.IntN(10) == 0 {
			if h.steady || h.sparse {
				most = 1 + most/20 // a larger one would go without a lease
			}
			n = float64(1 + h.rng.Int64N(most))
		}
		reserve := a.slots() || h.settles && h.rng.IntN(3) == 0
		switch h.take(a, n, reserve) {
		case lease.Admitted:
			if !reserve {
				h.admit(a, n)
			}
		case lease.Pending:
			if !reserve && a.holder.Eager(a.clock(h.now), n, h.eager.most) {
				h.admit(a, n)
				h.spent[len(h.spent)-1].debt = true
				h.eager.ran++
				continue
			}
			if !h.waits {
				a.holder.Probe(a.clock(h.now), false) // else nobody would ever ask
				continue
			}
			a.last = &lease.Waiter{N: n, Class: a.holder.Asking()}
			if reserve {
				a.last.Hold = h.hold(a)
			}
			if h.rng.IntN(4) == 0 {
				a.last.Until = a.clock(h.now) + time.Duration(h.rng.Int64N(int64(5*time.Second)))
			}
			a.holder.Enter(a.last)
		}
	}
}

// hold is for how long a caller may hold what it reserves.
func (h *history) hold(a *actor) time.Duration {
	if a.holder.InForce().Kind != lease.KindBucket || h.rng.IntN(2) == 0 {
		return lease.WhileOpen
	}
	return time.Microsecond + time.Duration(h.rng.Int64N(int64(5*time.Second)))
}

// take asks for tokens, to be used now or later.
func (h *history) take(a *actor, n float64, reserve bool) lease.Verdict {
	if len(h.classes) > 0 {
		if h.regroups && h.rng.IntN(20) == 0 {
			a.holder.Divide(h.classes[:h.rng.IntN(len(h.classes)+1)])
		}
		a.holder.As(uint8(h.rng.IntN(len(h.classes))))
	}
	if !reserve {
		return a.holder.Take(a.clock(h.now), n)
	}
	r, v := a.holder.Reserve(a.clock(h.now), n)
	if v == lease.Admitted {
		a.reserved = append(a.reserved, r)
		if h.back > 0 {
			h.chains++
		}
	}
	return v
}

// settle ends some of the reservations, with all, a part or none of the tokens used, or
// with more than them. Chains of refunds and new reservations come about.
func (h *history) settle(a *actor) {
	now := a.clock(h.now)
	for len(a.reserved) > 0 && h.rng.IntN(3) > 0 {
		i := h.rng.IntN(len(a.reserved))
		r := a.reserved[i]
		a.reserved = append(a.reserved[:i], a.reserved[i+1:]...)
		back := math.Floor(r.Tokens * float64(h.rng.IntN(4)) / 3)
		if a.slots() {
			back = r.Tokens
		}
		h.admit(a, r.Tokens-back)
		h.back += back
		a.holder.Release(now, r, back)
	}
	if h.charges && !a.slots() && h.rng.IntN(8) == 0 {
		n := float64(1 + h.rng.Int64N(1+a.limit().Burst/4))
		h.admit(a, n)
		h.spent[len(h.spent)-1].debt = true
		a.holder.Charge(now, n)
	}
	h.tend(a)
}

// forfeited counts what was reserved in leases that end until then as used now: it could
// have been.
func (h *history) forfeited(until time.Duration) {
	for _, a := range h.actors {
		a.reserved = slices.DeleteFunc(a.reserved, func(r lease.Reserved) bool {
			ended := !a.holder.Keeps(a.clock(until), r)
			if ended {
				h.admit(a, r.Tokens)
				h.ended += r.Tokens
			}
			return ended
		})
	}
}

// used counts all that a has reserved as used.
func (h *history) used(a *actor) {
	for _, r := range a.reserved {
		h.admit(a, r.Tokens)
	}
	a.reserved = nil
}

// tend does a driver's duties for one holder.
func (h *history) tend(a *actor) {
	if h.now < a.frozen {
		return
	}
	if a.holder.Outstanding() != 0 && h.now >= a.sent+historyTimeout {
		a.holder.Fail(a.clock(h.now))
	}
	if p, ok := a.holder.Park(a.clock(h.now)); ok && h.rng.IntN(4) == 0 {
		h.books.apart += h.wasted(a)
		a.holder = p.Resume(a.clock(h.now), a.id, &h.policy, h.rng.Uint64())
		a.spilt = 0
		h.parked++
	}
	r := a.holder.Ready(a.clock(h.now))
	for _, w := range r.Resolved {
		if w.Verdict == lease.Admitted && w.Hold > 0 && a.holder.Keeps(a.clock(h.now), w.Reserved) && !w.Reserved.Taken() {
			a.reserved = append(a.reserved, w.Reserved)
		} else if w.Verdict == lease.Admitted {
			h.admit(a, w.N)
		}
	}
	if r.Ask {
		q, _ := a.holder.Request(a.clock(h.now))
		h.send(a, q)
	}
}

func (h *history) send(a *actor, q lease.Request) {
	if err := q.Validate(); err != nil {
		h.fail("invalid request: %v", err)
	}
	a.sent = h.now
	spilt := a.holder.Lease(a.clock(h.now)).Spilt - a.spilt
	h.net = append(h.net, packet{to: a, holder: a.holder, request: &q, spilt: spilt})
}

// deliver picks any packet: early or late, once, twice or never.
func (h *history) deliver() {
	if len(h.net) == 0 {
		return
	}
	i := h.rng.IntN(len(h.net))
	if h.rng.IntN(2) == 0 {
		i = len(h.net) - 1 // most often the newest
	}
	p := h.net[i]
	if !h.lossy || h.rng.IntN(10) > 0 { // else it stays, to come again
		h.net = append(h.net[:i], h.net[i+1:]...)
	}
	if h.lossy && h.rng.IntN(10) == 0 {
		return // lost
	}
	if p.request != nil {
		before := h.ledger.Flows().Returned
		r := h.ledger.Exchange(h.now, *p.request)
		h.viewed = nil
		h.books.returned += min(h.ledger.Flows().Returned-before, p.spilt)
		if p.request.Seq > h.books.answered[p.request.Holder] {
			h.books.answered[p.request.Holder] = p.request.Seq
			h.books.left += r.Taken
		} else if !r.Stale {
			h.old = true
		}
		h.net = append(h.net, packet{to: p.to, holder: p.holder, reply: r, turn: h.turns.see(h)})
		return
	}
	if h.now < p.to.frozen || p.holder != p.to.holder {
		return
	}
	if p.holder.Outstanding() != 0 && h.now >= p.to.sent+historyTimeout {
		p.holder.Fail(p.to.clock(h.now))
	}
	awaited := p.reply.Seq == p.holder.Outstanding()
	if awaited {
		p.to.turn = p.turn
		h.books.left -= p.reply.Taken // it left when the ledger answered
	}
	before := h.wasted(p.to)
	p.holder.Handle(p.to.clock(h.now), p.reply)
	h.forfeited(h.now)
	if awaited { // not a repeat
		p.to.spilt = p.to.holder.Lease(p.to.clock(h.now)).Spilt
	}
	h.books.apart -= h.wasted(p.to) - before // what makes good for a pause and has no room left during that
	h.tend(p.to)
}

func (h *history) admit(a *actor, n float64) {
	h.windows.count(h, n)
	h.sliding.count(h, n)
	h.spent = append(h.spent, h.turns.spending(a, h.now, n))
	h.pour(len(h.spent) - 1)
	h.excess = max(h.excess, h.level-float64(h.largest.Burst))
	h.books.left += n
}

// wasted is how many tokens a's holder had no use for.
func (h *history) wasted(a *actor) float64 {
	l := a.holder.Lease(a.clock(h.now))
	return l.Spilt + l.Expired
}

// close brings the books to now.
func (h *history) close() {
	b := &h.books
	wasted := b.apart - b.returned
	for _, a := range h.actors {
		wasted += h.wasted(a)
	}
	passed := wasted - b.wasted // at any time since the last look, so at its beginning
	b.level = max(b.level+passed-h.largest.Rate*(h.now-b.at).Seconds(), 0)
	b.level = max(b.level+b.left, 0)
	b.sum += passed + b.left
	if spilt := h.ledger.Flows().Spilt; spilt != b.spilt {
		b.level = max(b.level, b.askedLevel+b.sum-b.askedSum+spilt-b.spilt-h.largest.Rate*(h.now-b.asked).Seconds())
		b.sum += spilt - b.spilt
		b.spilt = spilt
	}
	if at := duration(h.view().At); at == h.now {
		b.asked, b.askedLevel, b.askedSum = at, b.level, b.sum
	}
	b.at, b.left, b.wasted = h.now, 0, wasted
}

func (h *history) fail(format string, args ...any) {
	if h.err == nil {
		h.err = fmt.Errorf(format, args...)
	}
}

// rounding is what sums of float64 tokens may be off by: far below a token,
// far above 2^-53 of any of them.
const rounding = 1e-6

// nanoseconds is what the actors' clocks may be off by, as they count whole
// ones: a hundred of them at the highest rate.
const nanoseconds = 0.01

func (h *history) check() {
	if h.turns != nil {
		h.checkTurns()
		return
	}
	switch h.limit.Kind {
	case lease.KindQuota:
		h.checkQuota()
		return
	case lease.KindSlots:
		h.checkSlots()
		return
	case lease.KindSliding:
		h.checkSliding()
		return
	}
	v := h.view()
	for _, r := range v.Holders {
		if r.Shape == lease.LongBatch {
			h.calm++
		}
	}

	// I1. What was granted to those who wait is on its way for less than the
	// timeout; without any, the bound needs no such time.
	slack := 0.0
	if h.waits {
		slack = h.largest.Rate * historyTimeout.Seconds()
	}
	owed := h.owes()
	h.checkSettled(slack, owed+max(-v.Pool, 0))

	// I2. Whoever can still spend or refill has a lease that the ledger still counts.
	spendable := 0.0
	for _, a := range h.actors {
		held := a.holder.Lease(a.clock(h.now)).Tokens
		spendable += held + a.holder.Reserving()
		if l := a.holder.Lease(a.clock(h.now)); held+a.holder.Reserving() > l.Burst+rounding {
			h.fail("I1: %s holds %v tokens and %v that are reserved, in a lease of %v", a.id, held, a.holder.Reserving(), l.Burst)
		}
		record := find(v, a.id)
		if h.flushed || a.holder.Outstanding() != 0 && record == nil {
			continue
		}
		switch {
		case held > 0 && (record == nil || record.Expires() <= h.now):
			h.fail("I2: %s holds %v tokens of a lease that has ended: %+v", a.id, held, record)
		case a.holder.Running(a.clock(h.now)) && (record == nil || duration(record.At+record.Until) <= h.now):
			h.fail("I2: %s refills after the end of its rate: %+v", a.id, record)
		}
	}

	// I3. What is left and what was admitted has come from somewhere.
	if !h.flushed {
		if all := v.Pool + spendable - owed; all > float64(h.largest.Burst)+rounding {
			h.fail("I3: %v tokens exist at once, Burst is %d", all, h.largest.Burst)
		}
		h.close()
		if all := v.Pool + spendable - owed + h.books.level; all > float64(h.largest.Burst)+nanoseconds {
			h.fail("I3: %v tokens left or are left, Burst + Rate*T is %v", all, h.largest.Burst)
		}
	}

	// I4, without any rounding.
	if err := divided(v); err != nil {
		h.fail("%v", err)
	}
	if !h.changes && (v.Pool+v.Bursts > float64(v.Limit.Burst) || v.Rates > v.Limit.Rate) {
		h.fail("I4: more is divided than there is: %+v", v)
	}
}

// owes is what was charged and may not be known to the ledger.
func (h *history) owes() float64 {
	owed := h.lost
	for _, a := range h.actors {
		owed += a.holder.Owed()
	}
	return owed
}

// checkSettled is I1: of what is settled in any window that ends now, and what is owed at its
// end. Without charges nothing is owed, and the worst window of all is as good.
func (h *history) checkSettled(slack, owed float64) {
	excess := h.excess
	if h.charges {
		excess = h.above()
	}
	h.owed = max(h.owed, owed)
	if excess > slack+owed+rounding {
		h.fail("I1: %.3f tokens above Burst + Rate*T, %.3f allowed, and %.3f owed", excess, slack, owed)
	}
}

// above is how much more than Burst + Rate*T was settled in a window that ends now.
func (h *history) above() float64 {
	return max(h.level-h.largest.Rate*(h.now-h.leaked).Seconds(), 0) - float64(h.largest.Burst)
}

// divided returns an error unless the sums are what they sum.
func divided(v lease.View) error {
	var rates, bursts, demand, low, high float64
	var classes [lease.MaxClasses]float64
	for _, r := range v.Holders {
		if !r.Ended {
			rates += r.Rate
		}
		bursts += r.Burst
		demand += r.Demand
		for c, d := range r.Classes {
			classes[c] += d
		}
		if r.High {
			high++
		} else {
			low += r.Demand
		}
	}
	if rates != v.Rates || bursts != v.Bursts || demand != v.Demand || low != v.Low || high != v.High {
		return fmt.Errorf("I4: sums are wrong: %+v", v)
	}
	if v.Classes != nil && [lease.MaxClasses]float64(v.Classes) != classes {
		return fmt.Errorf("I4: sums by class are wrong: %+v", v)
	}
	return nil
}

func duration(us float64) time.Duration { return time.Duration(us * 1000) }

func find(v lease.View, id string) *lease.HolderView {
	for i := range v.Holders {
		if v.Holders[i].ID == id {
			return &v.Holders[i]
		}
	}
	return nil
}
