package lease

import (
	"math"
	"time"
)

// A slidingHolder spends a sliding window. Spent tokens keep their place in the allotment until
// they leave the holder's own window. Then the tokens can be spent again.
type slidingHolder struct {
	plainHolder
	frame
	used   panes   // spent tokens that are not free again
	excess float64 // freed tokens that go back with the next request
	coming coming

	// demand is what was offered in a part of the Window, as messages tell it. It moves tokens
	// for as long.
	demand  average
	until   time.Duration // until when demand is counted
	offered float64       // tokens until the meter was last folded, since the last message
}

// A coming is when the ledger's panes let go tokens that are missing, as the last answer told: not
// later than that if nothing was missing, or nobody knows.
type coming struct {
	at    time.Duration
	least float64 // so many, or more, come no sooner
}

func spendSliding(limit Limit) spending { return &slidingHolder{frame: frameOf(limit)} }

func (s *slidingHolder) busy() float64 { return s.used.sum }

func (s *slidingHolder) spend(h *Holder, n float64) { s.used.add(s.paneAt(micros(h.at)), n) }

func (s *slidingHolder) unspend(h *Holder, n float64) float64 {
	n = s.used.undo(n)
	s.freed(h, n)
	return n
}

// pass frees the tokens that were spent a Window ago.
func (s *slidingHolder) pass(h *Holder) {
	if len(s.used.list) > 0 {
		s.freed(h, s.used.leave(s.paneAt(micros(h.at))))
	}
}

// freed makes n tokens free that do not count as spent any more. While others are in need, tokens
// above the allotment are for them, and go back with the next message.
func (s *slidingHolder) freed(h *Holder, n float64) {
	more := max(min(n, h.all()+n-h.keep), 0)
	if !h.contended {
		more = 0
	}
	s.excess += more
	h.tokens += n - more
}

func (s *slidingHolder) drop() float64 {
	s.used = panes{}
	return s.take()
}

// handBack: what a lease has that is not renewed counts from its end on. If the pool has no more,
// what is spent by now counts from now on instead (TestSlidingRetryAfter).
func (s *slidingHolder) handBack(h *Holder, quit bool) float64 {
	if quit {
		s.offered = 0
	}
	if quit || h.dry && h.passes() {
		s.used = panes{}
	}
	return s.take()
}

// passes reports whether the lease is not renewed. The ledger lets it end soon.
func (h *Holder) passes() bool { return h.refresh >= h.expires }

// take returns the excess, and forgets it.
func (s *slidingHolder) take() (excess float64) {
	excess, s.excess = s.excess, 0
	return excess
}

// count counts tokens that were offered.
func (s *slidingHolder) count(tokens float64) { s.offered += tokens }

// tell: a lease is worth its calls if demand suffices for the time until a refresh, and the ledger
// judges this.
func (s *slidingHolder) tell(h *Holder, now time.Duration, q Request, quit bool) Request {
	q.Demand = min(s.paced(h, now)+h.backlog(now), MaxRate)
	q.Policy = *h.policy
	q.Policy.Batch, q.Policy.Smallest = h.meter.requests(q.Policy.Batch), h.meter.requests(q.Policy.Smallest)
	young := q.Policy.Mode == Auto && !h.meter.lasting()
	if young || quit || h.debts.first() {
		q.Policy.Mode = PerRequest
	}
	return q
}

// paced is the demand, in tokens/s.
func (s *slidingHolder) paced(h *Holder, now time.Duration) float64 {
	offered, first := s.offered+h.meter.count, s.until == 0
	s.offered = -h.meter.count
	if first {
		s.until = now
		return h.talk.asked // a single request tells nothing
	}
	window := h.limit.Window.Seconds()
	memory := window * slidingMemory
	if h.talk.asked > 0 {
		memory = max(memory, min(window, costMemory*h.meter.cost/h.talk.asked))
	}
	s.demand.fold(offered, max(now-s.until, 0).Seconds(), memory)
	s.until = now
	return min(h.meter.rate(&s.demand), MaxRate)
}

// free: tokens become free as they leave the holder's own window.
func (s *slidingHolder) free(h *Holder, n float64) time.Duration {
	if !h.leased(h.at) {
		return never
	}
	if h.contended {
		n += max(h.all()-h.keep, 0)
	}
	if at := s.leaves(n); at <= h.expires {
		return at
	}
	return never
}

// leaves is when n tokens will have left the holder's own window, or never.
func (s *slidingHolder) leaves(n float64) time.Duration {
	at := s.used.after(n)
	if math.IsInf(at, 1) {
		return never
	}
	return duration(float64(at * s.paneWidth()))
}

// comes: other holders may hand back all tokens at any time.
func (s *slidingHolder) comes(h *Holder, _ time.Duration, n float64) time.Duration {
	return h.windows(max(n-float64(h.limit.Burst), 0))
}

// answer notes when the ledger's panes let go what is missing: of a denied request, if it got
// nothing, or a token.
func (s *slidingHolder) answer(h *Holder, now time.Duration, r Reply) float64 {
	s.coming = coming{at: now + r.Window, least: 1}
	if r.Taken+r.Add == 0 {
		s.coming.least = max(h.talk.first, 1)
	}
	return r.Taken
}

// left: what the panes have let go is in the pool, if nobody else has taken it.
func (s *slidingHolder) left(h *Holder, now time.Duration) float64 {
	left := s.plainHolder.left(h, now)
	if told := s.coming.at > h.pool.heard; told && now >= s.coming.at && h.pool.others == 0 {
		left = max(left, s.coming.least)
	}
	return left
}

// retryAfter: tokens come when they leave the holder's own window, if all that is used is there,
// and when they leave the ledger's panes, if these have too much. If nobody has any, the ledger has
// said when. Else the wait is at most MaxRefresh, as nobody knows what other holders do.
func (s *slidingHolder) retryAfter(h *Holder, now time.Duration, n float64) time.Duration {
	soonest := s.plainHolder.retryAfter(h, now, n)
	_, firm := h.queue.asks()
	n += firm
	told := n >= s.coming.least
	n -= h.tokens
	if h.contended {
		n += max(h.all()-h.keep, 0)
	}
	at, wait := s.leaves(n), h.policy.MaxRefresh
	alone := h.pool.others == 0 && h.tokens+s.used.sum+h.pool.Level >= float64(h.InForce().Burst)
	switch {
	case s.coming.at > now:
		if told {
			wait = s.coming.at - now
		}
		if h.leased(now) && !h.passes() {
			wait = min(wait, at-now)
		}
	case h.pool.others+s.used.sum+h.reserves.tokens == 0:
		wait = 0
	case alone && at < never && h.leased(now):
		wait = at - now
	}
	if at <= h.expires {
		wait = min(wait, at-now)
	}
	return max(soonest, wait)
}

// resetAfter is the time until all tokens count as free. Tokens that others have spent count as
// spent at the last answer, and those of a lease that is not renewed when that ends. The ledger's
// panes begin at other times than the holder's: such tokens count for a whole pane more.
func (s *slidingHolder) resetAfter(h *Holder, now time.Duration) time.Duration {
	missing := h.missing(now)
	if missing < 1 {
		return 0
	}
	until, whole := now, duration((slidingPanes+1)*s.paneWidth())
	if n := len(s.used.list); n > 0 {
		until = duration(s.used.list[n-1].at*s.paneWidth()) + whole
	}
	if missing >= 1+s.used.sum {
		until = max(until, h.pool.heard+whole)
	}
	if h.leased(now) && h.passes() {
		until = max(until, h.expires+duration(micros(h.expires-h.talk.sent)*2*drift)+whole)
	}
	return until - now
}
