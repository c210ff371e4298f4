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

	Reserve  bool     // its tokens are to be reserved
	Reserved Reserved // those of an admitted one

	entered    time.Duration
	next, prev *Waiter // in the queue; the first has no prev, the last no next
	leads      bool    // one of the first, which ask for as much as each other
	seen       bool    // by a denial
}

// Enter puts w at the end of the queue. Then call Ready.
func (h *Holder) Enter(w *Waiter) {
	w.Verdict, w.entered = Pending, h.at
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

// serve admits from the front of the queue while the tokens last. Nobody
// overtakes: were small requests let past a large one, it might wait for ever.
func (h *Holder) serve() {
	for h.queue.len() > 0 && !h.debts.indebted() && h.tokens >= h.queue.first() {
		w := h.queue.head
		h.queue.resolve(w, Admitted)
		if w.Reserve {
			w.Reserved = h.reserve(w.N)
		} else {
			h.spend(w.N)
		}
	}
}

// front is how many callers at the head of the queue each denial looks at.
const front = 64

// deny turns away callers that would not wait for another exchange, or cannot wait for long enough.
// It looks at those in front, and at those that have entered since the last denial
// (TestLongQueueIsCheap). A caller in between could be served in time when it entered.
func (h *Holder) deny(now time.Duration) {
	q := h.queue
	if q == nil {
		return
	}
	ahead, first := 0.0, 0.0 // tokens, of those that stay
	looked := 0
	for w := q.head; w != nil; looked++ {
		if looked == front && w.seen {
			if ahead, w = q.seen, q.latest.next; w == nil {
				break
			}
		}
		next := w.next
		q.looks++
		if w.Until == 0 || now+h.soonest(now, ahead, first, w.N) > w.Until {
			q.resolve(w, Denied)
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
// it cannot have them sooner if the patient callers in the queue get theirs first. Under
// contention it goes by a slice's own refill.
func (h *Holder) RetryAfter(now time.Duration, n float64) time.Duration {
	now = h.advance(now)
	return h.kind.retryAfter(h, now, n)
}

// soonest is how long n tokens take at least, behind so many that callers wait for ahead
// (TestNeverTooLate). The first of these wants first tokens; that is 0 if there is none.
//
// The tokens must be there, and the holder must have asked for them: when the denial of the first
// has ended, when its lease is due, or as soon as the lease has served the first. Under contention
// a slice's refill is all that counts, since others seldom hand back anything.
func (h *Holder) soonest(now time.Duration, ahead, first, n float64) time.Duration {
	slice := h.rate > 0 && h.leased(now)
	if slice && h.contended && n <= h.burst {
		return max(seconds(max(ahead+n-h.tokens, 0)/h.rate), time.Millisecond)
	}
	wait := h.kind.comes(h, now, ahead+n)
	if wait < 0 {
		return time.Millisecond
	}
	if first == 0 {
		first = n
	}
	if now < h.denial.until && first >= h.denial.least {
		asks := min(h.denial.until, h.renewAt(now)) - now
		asks = min(asks, max(h.kind.free(h, first-h.tokens)-now, 0))
		if slice && first <= h.burst {
			asks = min(asks, seconds(max(first-h.tokens, 0)/h.rate))
		}
		wait = max(wait, asks)
	}
	return max(wait, time.Millisecond)
}

// deferral is how long after the end of a denial its remaining callers ask. A holder that got
// something asks later than others: all are told the same moment, and the holder with the shortest
// way to the ledger would win each time (engine.TestWaitingClientsShareEvenly). At a boundary of a
// quota there is enough for all, but all would ask at once.
func (h *Holder) deferral() time.Duration {
	if h.talk.holders < 2 || h.shape.Refills() {
		return 0
	}
	defers, random := min(h.denial.until-h.talk.sent, h.policy.MaxRefresh)/8, h.random
	switch {
	case h.denial.until == h.kind.boundary().ends:
		defers = min(h.limit.Window/64, spread)
		defers = 8 * (defers - h.random.jitter(defers))
	case !h.talk.served:
		defers = (defers - h.random.jitter(defers)) * 2 // up to a quarter: by chance
	}
	h.random = random // it stays as it is: all looks at a denial say the same
	return defers
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

// waiters is a queue in order of arrival. When a crowd goes away, each withdraws under
// its caller's lock. So the queue is linked, and none is searched for (TestWithdrawAll).
// A Holder has one only while somebody waits, and until the driver has been told the verdicts.
type waiters struct {
	head, tail *Waiter
	done       []*Waiter // have their verdict since the last Ready
	n          int
	sum        float64 // of what they ask for: whole numbers, so it is exact
	firm       float64 // the part of those that stay through denials
	reserving  int     // how many want their tokens reserved

	edge   *Waiter // the last of those that lead, as far as they were looked at
	lead   float64 // what those ask for
	latest *Waiter // the last that a denial has seen; all before it were seen as well
	seen   float64 // what those ask for
	looks  uint64  // waiters that run and deny have looked at
}

func (q *waiters) len() int {
	if q == nil {
		return 0
	}
	return q.n
}

func (q *waiters) first() float64 {
	if q.len() == 0 {
		return 0
	}
	return q.head.N
}

// asks is what they ask for, and the part of it that stays through denials.
func (q *waiters) asks() (sum, firm float64) {
	if q == nil {
		return 0, 0
	}
	return q.sum, q.firm
}

// tell completes a request by what to ask for beside the tokens held. Of requests of one size the
// ledger serves as many as it can. Requests of several sizes are a single unit beside the first
// request, all or none: a remainder would be lost. So the unit is asked for only where the pool may
// well have its tokens.
func (q *waiters) tell(r *Request, held float64, plenty bool) {
	if q == nil {
		return
	}
	missing := func(n float64) float64 { return max(math.Ceil(n-held), 0) }
	take, least, unit := missing(q.run()), missing(q.first()), q.first()
	if all := missing(q.sum); plenty && all > take {
		take, unit = all, all-least
	}
	r.Take, r.Min, r.Unit, r.Hold = min(take, MaxBurst), least, unit, q.reserving > 0
}

// end returns those that have their verdict, and what is left of the queue.
func (q *waiters) end() (done []*Waiter, left *waiters) {
	if q == nil {
		return nil, nil
	}
	if done = q.done; q.n == 0 {
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
	if q == nil {
		return
	}
	for w := q.head; w != nil; {
		next := w.next
		if applies(w) {
			q.resolve(w, v)
		}
		w = next
	}
}

// patient reports whether the first of them stays through denials.
func (q *waiters) patient() bool { return q.len() > 0 && q.head.Until > 0 }

// run is the sum of the first and of those right behind it that ask for as much: what
// the ledger can grant in part without a remainder. A request that leads does so until
// it goes: each is looked at once.
func (q *waiters) run() (sum float64) {
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

func (q *waiters) push(w *Waiter) {
	w.prev = q.tail
	if q.tail == nil {
		q.head = w
	} else {
		q.tail.next = w
	}
	q.tail = w
	q.n++
	q.sum += w.N
	if w.Reserve {
		q.reserving++
	}
	if !impatient(w) {
		q.firm += w.N
	}
}

// see notes that a denial has seen w. Those before it were seen as well.
func (q *waiters) see(w *Waiter) {
	if !w.seen {
		w.seen, q.latest = true, w
		q.seen += w.N
	}
}

// remove unlinks w and reports whether it was queued. A nil prev means head or not
// queued; comparing with head tells which.
func (q *waiters) remove(w *Waiter) bool {
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
	if w.Reserve {
		q.reserving--
	}
	if !impatient(w) {
		q.firm -= w.N
	}
	return true
}

// forget takes w, which is still linked, out of the sums of parts of the queue.
func (q *waiters) forget(w *Waiter) {
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
