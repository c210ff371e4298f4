package lease

import (
	"math"
	"time"
)

// A quotaHolder spends a quota. What it holds, what it owes and what it was denied ends with the
// window.
type quotaHolder struct {
	plainHolder
	window boundary
}

func (quota) spend(Limit) spending { return &quotaHolder{window: boundary{never, never}} }

// spread is over how long holders spread the requests of callers that wait for a boundary, at
// most; of a short window it is a 64th. A new caller is not denied beyond the boundary.
const spread = time.Second

// A boundary is when the window ends of which the last answer was, or never.
type boundary struct {
	ends time.Duration // at the latest: nobody is denied from then on
	last time.Duration // at the earliest: nothing is spent from then on
}

func (s *quotaHolder) boundary() boundary { return s.window }

// answer: what was taken for callers may be spent, or nothing of it if its window is over. Then
// the callers are asked for anew.
func (s *quotaHolder) answer(h *Holder, now time.Duration, r Reply) float64 {
	s.window = boundary{never, never}
	if r.Window > 0 {
		s.window = boundary{ends: now + r.Window, last: h.talk.sent + early(r.Window)}
	}
	if now < s.window.last {
		return r.Taken
	}
	h.waste.unclaimed += r.Taken
	return 0
}

// again: a denial ends with its window, and a holder whose answer came after the end asks at once.
func (s *quotaHolder) again(h *Holder, now, retry, window time.Duration) time.Duration {
	if window > 0 && retry == window && now >= h.talk.sent+window {
		return 0
	}
	return now + retry
}

// left: leases are larger than those of a bucket, and nothing flows into the pool. So what other
// holders had is counted, as far as the pool has as much, less what they are asked for since
// (TestQuotaLevel). After a denial it is not: less is there than was asked for
// (TestQuotaLevelOfDenied).
func (s *quotaHolder) left(h *Holder, now time.Duration) float64 {
	p := &h.pool
	if p.Level > 0 && now >= h.denial.until {
		return max(p.Level+min(p.others, p.Level)+p.flowed(now), 0)
	}
	return s.plainHolder.left(h, now)
}

// comes: so many windows after the one that is. A debt ends with that: no other window has less
// for it.
func (s *quotaHolder) comes(h *Holder, now time.Duration, n float64) time.Duration {
	most := float64(h.limit.Burst)
	if now < s.window.last {
		most = max(h.most(now), h.tokens)
	}
	wait := h.windows(max(n-most, 0))
	if n > most && now < s.window.last && s.window.last != never {
		wait += s.window.last - now
	}
	return wait
}

// windows is how long the windows last before the last one of those that have so many tokens.
func (h *Holder) windows(tokens float64) time.Duration {
	if tokens == 0 {
		return 0
	}
	return seconds((math.Ceil(tokens/float64(h.limit.Burst)) - 1) * h.limit.Window.Seconds())
}

func (s *quotaHolder) resetAfter(h *Holder, now time.Duration) time.Duration {
	if h.missing(now) < 1 || s.window.ends == never {
		return 0
	}
	return s.window.ends - now
}
