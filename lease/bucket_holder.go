package lease

import "time"

// A bucketHolder spends a token bucket. It needs no state beside the Holder's.
type bucketHolder struct{ plainHolder }

func spendBucket(Limit) spending { return bucketHolder{} }

// tell: a lease of which something is reserved lives for long.
func (s bucketHolder) tell(h *Holder, now time.Duration, q Request, quit bool) Request {
	if h.reserves.tokens > 0 {
		q.Hold = WhileOpen
	}
	return s.plainHolder.tell(h, now, q, quit)
}

// comes: the whole Rate brings the missing tokens. A bucket that is below 0 must pay its debt
// first.
func (s bucketHolder) comes(h *Holder, now time.Duration, n float64) time.Duration {
	most := h.most(now)
	if h.tokens > 0 {
		most = max(most, h.tokens)
	}
	return seconds(max(n-most, 0) / h.limit.Rate)
}

func (s bucketHolder) resetAfter(h *Holder, now time.Duration) time.Duration {
	limit := h.InForce()
	return seconds(max(float64(limit.Burst)-h.level(now), 0) / limit.Rate)
}
