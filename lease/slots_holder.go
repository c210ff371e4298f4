package lease

import "time"

// A slotsHolder spends slots, which are its reserves: jobs put back the slots that they took.
type slotsHolder struct {
	plainHolder
	most   float64 // in use or wanted at once, since the last request
	newest uint64  // the fence of the last answer
}

func spendSlots(Limit) spending { return new(slotsHolder) }

// unspend: slots are released, and not refunded.
func (s *slotsHolder) unspend(*Holder, float64) float64 { return 0 }

func (s *slotsHolder) reserve(h *Holder) { s.most = max(s.most, h.reserves.tokens) }

func (s *slotsHolder) fence() uint64 { return s.newest }

func (s *slotsHolder) answer(_ *Holder, _ time.Duration, r Reply) float64 {
	s.newest = r.Fence
	return r.Taken
}

// again: after a half of retry up to all of retry. Were holders in step, the same holder would be
// the first each time that slots come back.
func (s *slotsHolder) again(h *Holder, now, retry, _ time.Duration) time.Duration {
	return now + retry/2 + 8*(retry/2-h.random.jitter(retry/2))
}

// wanted is how many slots are in use or wanted.
func (s *slotsHolder) wanted(h *Holder) float64 {
	sum, _ := h.queue.asks()
	return h.reserves.tokens + sum
}

// tell: the demand is the slots in use or wanted. Idle slots are not asked for where they are of no
// use now.
func (s *slotsHolder) tell(h *Holder, _ time.Duration, q Request, quit bool) Request {
	q.Demand = min(s.wanted(h), MaxBurst)
	q.Peak = min(max(s.most, q.Demand), MaxBurst)
	q.Got = h.reserves.tokens
	s.most = q.Demand
	q.Policy = *h.policy
	if quit || h.meter.unused(h.policy) || !h.meter.lasting() {
		q.Policy.Mode = PerRequest
	}
	return q
}

// handBack lowers what the holder keeps to the slots in use or wanted. While the key is not
// contended, it takes the most slots in use or wanted since the last request.
func (s *slotsHolder) handBack(h *Holder, quit bool) float64 {
	if h.clings() {
		return 0
	}
	needed := s.wanted(h)
	if !h.contended {
		needed = max(needed, s.most)
	}
	h.keep = min(h.keep, needed)
	return 0
}

// returned: slots above what the holder may keep are not used again. The ledger does not know yet
// of idle slots, or of slots that were let go while a request was under way (TestSlotsReturned).
// It hears of them at once if the key is contended, and soon in any case.
func (s *slotsHolder) returned(h *Holder, now time.Duration) {
	if h.shape != Block {
		return
	}
	h.tokens -= max(min(h.tokens+h.reserves.tokens-h.keep, h.tokens), 0)
	h.serve()
	idle := h.tokens > 0 && h.queue.len() == 0 // else they are gathered for the first that waits
	switch news := idle || h.tokens+h.reserves.tokens < h.burst; {
	case news && h.contended:
		h.refresh = min(h.refresh, now)
	case news:
		h.refresh = min(h.refresh, now+h.random.jitter(h.policy.MaxRefresh))
	}
}

// forsaken: what was gathered for the job goes to the next ones, or back. The ledger keeps slots
// for it, or counts them as wanted: if nobody else waits it hears at once that they are not
// (TestSlotsForsaken).
func (s *slotsHolder) forsaken(h *Holder, now time.Duration) {
	s.most = s.wanted(h)
	s.returned(h, now)
	if h.queue.len() == 0 && (h.talk.out || h.denial.until > 0) {
		h.probe = true
	}
}

// comes: nobody knows when a job ends.
func (s *slotsHolder) comes(*Holder, time.Duration, float64) time.Duration { return -1 }

// retryAfter is how often waiting callers are asked for.
func (s *slotsHolder) retryAfter(h *Holder, _ time.Duration, _ float64) time.Duration {
	return h.policy.MaxRefresh
}

func (s *slotsHolder) resetAfter(*Holder, time.Duration) time.Duration { return 0 }

// clings reports whether idle slots are kept, as the last request has had no answer: slots handed
// back with the next request might be nobody's. Meanwhile slots go from job to job, and pauses
// between jobs may be longer than pauses between requests. So is a lease of which a class pays what it
// owes.
func (h *Holder) clings() bool {
	return h.shape == Block && h.failed.count() > 0 || h.Owed() > h.debts.owed()
}
