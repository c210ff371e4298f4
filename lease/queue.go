package lease

import (
	"math"
	"time"
)

// A Waiter is a request that waits for its verdict inside a Holder.
type Waiter struct {
	N       float64       // tokens, 1 to the limit's Burst
	Until   time.Duration // stays through denials if it may be served by then; 0 is impatient
	Verdict Verdict       // set when Ready returns it
	Tag     any           // the caller's

	Class    uint8         // 0 is the highest, or none
	Hold     time.Duration // its tokens are reserved for so long at most; 0 takes them for good
	Reserved Reserved      // those of an admitted one

	entered    time.Duration
	next, prev *Waiter // in the queue; the first has no prev, the last no next
	leads      bool    // one of the first, which ask for as much as each other
	seen       bool    // by a denial
}

// Enter puts w at the end of the line of its class. Then call Ready. A request that Take has denied
// has that Verdict: who waits is not denied, and Take has counted too early.
func (h *Holder) Enter(w *Waiter) {
	if w.Verdict == Denied {
		h.talk.denied = max(h.talk.denied-float32(w.N), 0)
	}
	w.Verdict, w.entered, w.Class = Pending, h.at, min(w.Class, h.lowest())
	if h.queue == nil {
		h.queue = new(waiters)
	}
	h.queue.push(w)
}

// Withdraw takes w, which has entered this Holder, out of the queue, because its
// caller has gone, and reports whether it was still there.
func (h *Holder) Withdraw(now time.Duration, w *Waiter) bool {
	now = h.advance(now)
	if h.queue == nil || !h.queue.remove(w) {
		return false
	}
	h.kind.forsaken(h, now)
	return true
}

// serve admits from the front of each line while the tokens last. Nobody overtakes in a line: were
// small requests let past a large one, it might wait for ever.
func (h *Holder) serve() {
	for l := h.queue.top(); l != nil; l = l.below {
		for l.n > 0 && !h.indebted() && h.usable(l.class) >= l.head.N {
			h.admit(l.head)
		}
	}
}

// admit gives w, which is in the queue, its tokens.
func (h *Holder) admit(w *Waiter) {
	h.queue.resolve(w, Admitted)
	asking := h.Asking()
	h.As(w.Class)
	if w.Hold > 0 {
		w.Reserved = h.reserve(w.N)
	} else {
		h.spend(w.N)
	}
	h.As(asking)
}

// before is how many callers go before a request of a class, what those of them ask for that stay
// through denials, and what the first asks for: those of its class, and of higher ones unless
// credits divide the lease.
func (h *Holder) before(class uint8) (n int, firm, first float64) {
	for l := h.queue.top(); l != nil && l.class <= class; l = l.below {
		if l.n == 0 || l.class < class && h.divided() {
			continue
		}
		if n == 0 {
			first = l.head.N
		}
		n += l.n
		firm += l.firm
	}
	return n, firm, first
}

// front is how many callers at the head of a line each denial looks at.
const front = 64

// deny turns away callers that would not wait for another exchange, or cannot wait for long enough,
// of the classes that are denied.
func (h *Holder) deny(now time.Duration) {
	asking := h.Asking()
	for l := h.queue.top(); l != nil; l = l.below {
		if h.As(l.class); now < h.denied(l.class).until {
			h.denyLine(now, l)
		}
	}
	h.As(asking)
}

// denyLine looks at those in front, and at those that have entered since the last denial
// (TestLongQueueIsCheap). A caller in between could be served in time when it entered.
func (h *Holder) denyLine(now time.Duration, q *line) {
	n, firm, first := h.before(q.class)
	if n == q.n {
		first = 0
	}
	above := firm - q.firm
	ahead, looked := above, 0 // tokens, of those that stay
	for w := q.head; w != nil; looked++ {
		if looked == front && w.seen {
			if ahead, w = above+q.seen, q.latest.next; w == nil {
				break
			}
		}
		next := w.next
		q.looks++
		if w.Until == 0 || now+h.soonest(now, w.Class, ahead, first, w.N) > w.Until {
			h.queue.resolve(w, Denied)
			h.talk.denied += float32(w.N)
		} else {
			if ahead == 0 {
				first = w.N
			}
			ahead += w.N
			q.see(w)
		}
		w = next
	}
}

// RetryAfter is how long from now the caller of a denied request for n tokens should wait:
// it cannot have them sooner if the patient callers before it get theirs first. Under
// contention it goes by a slice's own refill.
func (h *Holder) RetryAfter(now time.Duration, n float64) time.Duration {
	now = h.advance(now)
	return h.kind.retryAfter(h, now, n)
}

// soonest is how long n tokens of a class take at least, behind so many that callers wait for ahead
// (TestNeverTooLate). The first of these wants first tokens; that is 0 if there is none.
//
// The tokens must be there, and the holder must have asked for them: when the denial of the first
// has ended, when its lease is due, or as soon as the lease has served the first. Under contention
// a slice's refill is all that counts, since others seldom hand back anything.
func (h *Holder) soonest(now time.Duration, class uint8, ahead, first, n float64) time.Duration {
	slice := h.rate > 0 && h.leased(now)
	switch own := h.contended && slice && n <= h.burst; {
	case own && h.classed:
		return h.kind.(*classedHolder).soonest(h, now, class, ahead+n)
	case own:
		return max(seconds(max(ahead+n-h.tokens, 0)/h.rate), time.Millisecond)
	}
	wait := h.kind.comes(h, now, ahead+n)
	if wait < 0 {
		return time.Millisecond
	}
	if first == 0 {
		first = n
	}
	if d := h.denied(class); now < d.until && first >= d.least {
		asks := min(max(d.until, d.told), h.renewAt(now)) - now
		asks = min(asks, max(h.kind.free(h, first-h.tokens)-now, 0))
		if slice && first <= h.burst {
			asks = min(asks, seconds(max(first-h.tokens, 0)/h.rate))
		}
		wait = max(wait, asks)
	}
	return max(wait, time.Millisecond)
}

// asksAfter is when the callers of a line that stay through a denial until then ask: their request
// is to arrive as that ends. All are told the same moment, and the holder with the shortest way to
// the ledger would win each time (engine.TestWaitingClientsShareEvenly). So they ask in the order
// in which they were served: the last one latest. A class that has had more of its due asks later,
// also than others of its process. At a boundary of a quota there is enough for all, but all would
// ask at once.
func (h *Holder) asksAfter(l *line, until time.Duration) time.Duration {
	sent, early, others := h.talk.sent, h.early(until), h.holders > 1
	if h.classed {
		later := h.byClass().later(h, l.class)
		if sent, early = h.ranks().turns[l.class], 0; later {
			early = 1
		}
		others = others || later && h.queue.len() > l.n
	}
	switch {
	case h.shape.Refills():
		return until
	case h.limit.Kind.of().turns && !h.classed && h.talk.inLine && until-sent < era*duration(tickWidth(h.policy)):
		return until - h.talk.least()
	case !others:
	case until == h.kind.boundary().ends:
		defers, random := min(h.limit.Window/64, spread), h.random
		until += 8 * (defers - h.random.jitter(defers))
		h.random = random // it stays as it is: all looks at a denial say the same
		return until - h.talk.least()
	default:
		until += time.Duration(early * float64(min(until-sent, h.policy.MaxRefresh)/8))
	}
	return h.inTime(until)
}

// early is how much earlier than its turn a holder asks when a denial ends, 0 to 1: each holder has
// one turn in as many denials as there are holders.
func (h *Holder) early(until time.Duration) float64 {
	turn := (until - h.talk.sent).Seconds() * float64(h.holders)
	return max(1-(until-h.talk.served).Seconds()/max(turn, 1e-9), 0)
}

// severalTokens is how many come while a request is under way that need not hurry.
const severalTokens = 2

// inTime is when a request leaves to arrive at a time. Where it is too late for that, and a token
// comes while it is under way, which others take, it is to arrive with a later one (TestFarWaits).
// Of several that come meanwhile, who arrives later finds more: it leaves no sooner than at that
// time.
func (h *Holder) inTime(at time.Duration) time.Duration {
	mean := h.InForce().Mean()
	if mean == 0 {
		return at
	}
	trip, token := h.talk.least(), seconds(1/mean)
	late := max(h.pool.heard-(at-trip), 0)
	switch {
	case trip < token:
		return at - trip
	case trip > severalTokens*token:
		late = trip
	}
	return at - trip + (late+token-1)/token*token
}

// exceed turns away callers that ask for more than the Burst in force. They may ask
// again soon, as it may be raised by then. Those behind them have not been asked for.
func (h *Holder) exceed(now time.Duration) {
	most := float64(h.InForce().Burst)
	h.queue.turnAway(Exceeding, func(w *Waiter) bool { return w.N > most })
	h.denial = denial{until: min(h.denial.until, now+h.policy.MaxRefresh), least: most + 1}
	if h.queue.len() > 0 {
		h.denial.until = 0
	}
}

// impatient callers would not wait for another exchange.
func impatient(w *Waiter) bool { return w.Until == 0 }

// waiters is a queue: a line for each class that has callers, the highest first. Without classes
// there is one. A Holder has a queue only while somebody waits, and until the driver has been told
// the verdicts.
type waiters struct {
	line           // the highest
	done []*Waiter // have their verdict since the last Ready
}

// A line is the callers of a class, in order of arrival. When a crowd goes away, each withdraws
// under its caller's lock. So the line is linked, and none is searched for (TestWithdrawAll).
type line struct {
	class uint8
	below *line // of a lower class

	head, tail *Waiter
	n          int
	sum        float64       // of what they ask for: whole numbers, so it is exact
	firm       float64       // the part of those that stay through denials
	reserving  int           // how many want their tokens reserved,
	hold       time.Duration // and for how long at most

	edge   *Waiter // the last of those that lead, as far as they were looked at
	lead   float64 // what those ask for
	latest *Waiter // the last that a denial has seen; all before it were seen as well
	seen   float64 // what those ask for
	looks  uint64  // waiters that run and deny have looked at
}

// top is the first line, or nil. Lines may be empty.
func (q *waiters) top() *line {
	if q == nil {
		return nil
	}
	return &q.line
}

// at is the line of a class, or nil.
func (q *waiters) at(class uint8) *line {
	for l := q.top(); l != nil && l.class <= class; l = l.below {
		if l.class == class {
			return l
		}
	}
	return nil
}

// above reports whether somebody of a higher class waits.
func (q *waiters) above(class uint8) bool {
	l := q.top()
	for l != nil && l.n == 0 {
		l = l.below
	}
	return l != nil && l.class < class
}

// make is at, of a line that is made if there is none.
func (q *waiters) make(class uint8) *line {
	l := &q.line
	switch {
	case l.n == 0 && l.below == nil:
		l.class = class
	case class < l.class:
		q.line = line{class: class, below: new(q.line)}
	}
	for l.below != nil && l.below.class <= class {
		l = l.below
	}
	if l.class < class {
		l.below = &line{class: class, below: l.below}
		l = l.below
	}
	return l
}

func (q *waiters) len() (n int) {
	for l := q.top(); l != nil; l = l.below {
		n += l.n
	}
	return n
}

// asks is what they ask for, and the part of it that stays through denials.
func (q *waiters) asks() (sum, firm float64) {
	for l := q.top(); l != nil; l = l.below {
		sum += l.sum
		firm += l.firm
	}
	return sum, firm
}

// exceeds reports whether the first of a line asks for more than most.
func (q *waiters) exceeds(most float64) bool {
	for l := q.top(); l != nil; l = l.below {
		if l.first() > most {
			return true
		}
	}
	return false
}

// end returns those that have their verdict, and what is left of the queue.
func (q *waiters) end() (done []*Waiter, left *waiters) {
	if q == nil {
		return nil, nil
	}
	if done = q.done; q.len() == 0 {
		return done, nil
	}
	q.done = nil
	return done, q
}

// resolve takes w, which is in the queue, out of it with a verdict.
func (q *waiters) resolve(w *Waiter, v Verdict) {
	q.remove(w)
	w.Verdict = v
	q.done = append(q.done, w)
}

// turnAway resolves the waiters for which applies is true.
func (q *waiters) turnAway(v Verdict, applies func(*Waiter) bool) {
	for l := q.top(); l != nil; l = l.below {
		for w := l.head; w != nil; {
			next := w.next
			if applies(w) {
				q.resolve(w, v)
			}
			w = next
		}
	}
}

// regroup puts the waiters of each class into the line of its new place, in their order.
func (q *waiters) regroup(places *[MaxClasses]uint8) {
	if q == nil {
		return
	}
	was := q.line
	q.line = line{}
	for l := &was; l != nil; l = l.below {
		for w := l.head; w != nil; {
			next := w.next
			w.next, w.prev, w.leads, w.seen = nil, nil, false, false
			w.Class = places[w.Class]
			q.push(w)
			w = next
		}
	}
}

func (q *waiters) push(w *Waiter) { q.make(w.Class).push(w) }

// remove takes w out of the queue and reports whether it was there.
func (q *waiters) remove(w *Waiter) bool {
	l := q.at(w.Class)
	return l != nil && l.remove(w)
}

// first is what the first of the line asks for, 0 if there is nobody.
func (q *line) first() float64 {
	if q.len() == 0 {
		return 0
	}
	return q.head.N
}

func (q *line) len() int {
	if q == nil {
		return 0
	}
	return q.n
}

// patient reports whether the first of the line stays through denials.
func (q *line) patient() bool { return q.len() > 0 && q.head.Until > 0 }

// tell completes a request by what to ask for beside the tokens held. Of requests of one size the
// ledger serves as many as it can. Requests of several sizes are a single unit beside the first
// request, all or none: a remainder would be lost. So the unit is asked for only where the pool may
// well have its tokens.
func (q *line) tell(r *Request, held float64, plenty bool) {
	missing := func(n float64) float64 { return max(math.Ceil(n-held), 0) }
	take, least, unit := missing(q.run()), missing(q.first()), q.first()
	if all := missing(q.sum); plenty && all > take {
		take, unit = all, all-least
	}
	r.Take, r.Min, r.Unit, r.Hold = min(take, MaxBurst), least, unit, q.hold
}

// run is the sum of the first and of those right behind it that ask for as much: what
// the ledger can grant in part without a remainder. A request that leads does so until
// it goes: each is looked at once.
func (q *line) run() (sum float64) {
	w := q.head
	if q.edge != nil {
		w = q.edge.next
	}
	for ; w != nil && w.N == q.head.N; w = w.next {
		q.looks++
		w.leads = true
		q.edge = w
		q.lead += w.N
	}
	return q.lead
}

// push puts w at the end.
func (q *line) push(w *Waiter) {
	if w.prev = q.tail; w.prev == nil {
		q.head = w
	} else {
		w.prev.next = w
	}
	q.tail = w
	q.n++
	q.sum += w.N
	if w.Hold > 0 {
		q.reserving++
		q.hold = max(q.hold, w.Hold)
	}
	if !impatient(w) {
		q.firm += w.N
	}
}

// see notes that a denial has seen w. Those before it were seen as well.
func (q *line) see(w *Waiter) {
	if !w.seen {
		w.seen, q.latest = true, w
		q.seen += w.N
	}
}

// remove unlinks w and reports whether it was queued. A nil prev means head or not
// queued; comparing with head tells which.
func (q *line) remove(w *Waiter) bool {
	if w.prev == nil && w != q.head {
		return false
	}
	q.forget(w)
	if w.prev == nil {
		q.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.next, w.prev = nil, nil
	q.n--
	q.sum -= w.N
	if w.Hold > 0 {
		q.reserving--
	}
	if q.reserving == 0 {
		q.hold = 0
	}
	if !impatient(w) {
		q.firm -= w.N
	}
	return true
}

// forget takes w, which is still linked, out of the sums of parts of the line.
func (q *line) forget(w *Waiter) {
	if w.leads {
		q.lead -= w.N
		if q.edge == w {
			q.edge = w.prev // which leads as well, or is nobody
		}
		w.leads = false
	}
	if w.seen {
		q.seen -= w.N
		if q.latest == w {
			q.latest = w.prev
		}
		w.seen = false
	}
}
