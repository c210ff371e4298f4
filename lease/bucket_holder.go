package lease

import "time"

// A bucketHolder spends a token bucket: all that it needs to know is the Holder's.
type bucketHolder struct{ plainHolder }

func (bucket) spend(Limit) spending { return bucketHolder{} }

// comes: as the whole rate brings what is not there yet. Below 0 with a debt, the bucket must
// pay that first.
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
