package lease

import "time"

// A Waiter is a request that waits for its verdict inside a Holder.
type Waiter struct {
	N       float64       // tokens, 1 to the limit's Burst
	Until   time.Duration // stays through denials if it may be served by then; 0 is impatient
	Verdict Verdict       // set when Resolved returns it
	Tag     any           // the caller's
}

// Enter puts w at the end of the queue. Then call Poll.
func (h *Holder) Enter(w *Waiter) {
	w.Verdict = Pending
	h.queue.push(w)
}

// Withdraw takes w out of the queue, because its caller has gone, and reports
// whether it was still there.
func (h *Holder) Withdraw(now time.Duration, w *Waiter) bool {
	h.advance(now)
	return h.queue.remove(w)
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
		w := h.queue.pop()
		h.tokens -= w.N
		h.resolve(w, Admitted)
	}
}

// turnAway resolves those in the queue to whom it applies.
func (h *Holder) turnAway(v Verdict, applies func(*Waiter) bool) {
	all := h.queue.list
	h.queue = waiters{}
	for _, w := range all {
		if applies(w) {
			h.resolve(w, v)
		} else {
			h.queue.push(w)
		}
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

// waiters is a queue in order of arrival.
type waiters struct {
	list []*Waiter
	sum  float64
}

func (q *waiters) len() int { return len(q.list) }

func (q *waiters) first() float64 {
	if len(q.list) == 0 {
		return 0
	}
	return q.list[0].N
}

// run is the sum of the first and of those right behind it that ask for as
// much: what the ledger can grant in part without a remainder.
func (q *waiters) run() (sum float64) {
	for _, w := range q.list {
		if w.N != q.list[0].N {
			break
		}
		sum += w.N
	}
	return sum
}

func (q *waiters) push(w *Waiter) {
	q.list = append(q.list, w)
	q.sum += w.N
}

func (q *waiters) pop() *Waiter {
	if len(q.list) == 0 {
		return nil
	}
	w := q.list[0]
	q.list[0] = nil
	q.list = q.list[1:]
	q.sum -= w.N
	return w
}

func (q *waiters) remove(w *Waiter) bool {
	for i, x := range q.list {
		if x == w {
			q.list = append(q.list[:i], q.list[i+1:]...)
			q.sum -= w.N
			return true
		}
	}
	return false
}
