package lease

import (
	"math"
	"time"
)

// A Waiter is a request that waits for its verdict inside a Holder.
type Waiter struct {
	N       float64       // tokens, 1 to the limit's Burst
	Until   time.Duration // stays through denials if it may be served by then; 0 is impatient
	Verdict Verdict       // set when Resolved returns it
	Tag     any           // the caller's

	entered    time.Duration
	next, prev *Waiter // in the queue; the first has no prev, the last no next
}

// Enter puts w at the end of the queue. Then call Poll.
func (h *Holder) Enter(w *Waiter) {
	w.Verdict, w.entered = Pending, h.at
	h.queue.push(w)
}

// Withdraw takes w, which has entered this Holder, out of the queue, because its
// caller has gone, and reports whether it was still there.
func (h *Holder) Withdraw(now time.Duration, w *Waiter) bool {
	h.advance(now)
	return h.queue.remove(w)
}

// backlog is the demand, in tokens/s, of those who wait: they send no new
// requests, and the meter only hears of them when they have been served. It
// would serve them all within one refresh of a process that owns the whole
// rate: a time that is the same for all, or the one with more would ask for more.
// Requests that have waited for less than a round trip do not count; the
// meter has just done so (TestQueuesAreDemand).
func (h *Holder) backlog(now time.Duration) float64 {
	if !h.queue.patient() || h.seq == 0 || now-h.queue.head.entered <= h.lag() {
		return 0
	}
	refresh := seconds(float64(h.requests(h.policy.Batch)) / h.InForce().Rate)
	return h.queue.sum / min(max(refresh, h.policy.MinRefresh), h.policy.MaxRefresh).Seconds()
}

// need is what to ask for those who wait, see Request. Of requests of one size the
// ledger serves as many as it can. Those of several sizes are one unit beside the
// first, all or none, since a remainder would be lost.
func (h *Holder) need() (take, least, unit float64) {
	missing := func(n float64) float64 { return max(math.Ceil(n-h.tokens), 0) }
	take, least, unit = missing(h.queue.run()), missing(h.queue.first()), h.queue.first()
	if all := missing(h.queue.sum); !h.dry && h.retryAt == 0 && h.seq > 0 && all > take {
		take, unit = all, all-least
	}
	return min(take, MaxBurst), least, unit
}

// Resolved returns those whose verdict has come since the last call, in order.
func (h *Holder) Resolved() []*Waiter {
	done := h.done
	h.done = nil
	return done
}

// serve admits from the front of the queue while the tokens last. Nobody
// overtakes: were small requests let past a large one, it might wait for ever.
func (h *Holder) serve() {
	for h.queue.len() > 0 && h.tokens >= h.queue.first() {
		w := h.queue.head
		h.queue.remove(w)
		h.tokens -= w.N
		h.resolve(w, Admitted)
	}
}

// turnAway resolves those in the queue to whom it applies.
func (h *Holder) turnAway(v Verdict, applies func(*Waiter) bool) {
	for w := h.queue.head; w != nil; {
		next := w.next
		if applies(w) {
			h.queue.remove(w)
			h.resolve(w, v)
		}
		w = next
	}
}

// deny turns away those who would not wait for another exchange, or cannot
// wait for long enough.
func (h *Holder) deny(now time.Duration) {
	ahead, first := 0.0, 0.0 // of those who stay
	h.turnAway(Denied, func(w *Waiter) bool {
		if w.Until == 0 || now+h.soonest(now, ahead, first, w.N) > w.Until {
			return true
		}
		if ahead == 0 {
			first = w.N
		}
		ahead += w.N
		return false
	})
}

// yield lets the callers of others go first who got nothing. All are told to
// ask again when the pool has a token, at the same moment: the shortest way to the
// ledger would win each time (engine.TestWaitingClientsShareEvenly). A process that is
// alone, or has a slice, has nobody to yield to.
func (h *Holder) yield(r Reply) {
	if !h.queue.patient() || r.Holders < 2 || h.shape.Refills() {
		return
	}
	later := min(r.RetryAfter, h.policy.MaxRefresh) / 8
	if r.Taken == 0 {
		later = (later - h.jitter(later)) * 2 // up to a quarter: among those who got nothing, too
	}
	h.retryAt += later
}

// exceed turns those away who ask for more than the Burst in force. They may ask
// again soon, as it may be raised by then; those behind them have not been asked for.
func (h *Holder) exceed(now time.Duration) {
	most := float64(h.InForce().Burst)
	h.turnAway(Exceeding, func(w *Waiter) bool { return w.N > most })
	h.retryAt, h.denied = min(h.retryAt, now+h.policy.MaxRefresh), most+1
	if h.queue.len() > 0 {
		h.retryAt = 0
	}
}

// impatient are those who would not wait for another exchange.
func impatient(w *Waiter) bool { return w.Until == 0 }

func (h *Holder) resolve(w *Waiter, v Verdict) {
	w.Verdict = v
	h.done = append(h.done, w)
}

// waiters is a queue in order of arrival. When a crowd goes away, each withdraws
// under its caller's lock: so it is linked, and nobody is looked for
// (TestWithdrawAll). Nothing points to it, so that a Holder can be moved.
type waiters struct {
	head, tail *Waiter
	n          int
	sum        float64 // of what they ask for: whole numbers, so it is exact
}

func (q *waiters) len() int { return q.n }

func (q *waiters) first() float64 {
	if q.head == nil {
		return 0
	}
	return q.head.N
}

// patient reports whether the first of them stays through denials.
func (q *waiters) patient() bool { return q.head != nil && q.head.Until > 0 }

// run is the sum of the first and of those right behind it that ask for as
// much: what the ledger can grant in part without a remainder.
func (q *waiters) run() (sum float64) {
	for w := q.head; w != nil && w.N == q.head.N; w = w.next {
		sum += w.N
	}
	return sum
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
}

// remove reports whether w was in the queue: who is not has nobody before it,
// and yet is not the first.
func (q *waiters) remove(w *Waiter) bool {
	if w.prev == nil && w != q.head {
		return false
	}
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
	return true
}
