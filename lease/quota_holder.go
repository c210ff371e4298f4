package lease

import (
	"math"
	"time"
)

// A quotaHolder spends a quota. Its tokens, its debts and its denials end with the window.
type quotaHolder struct {
	plainHolder
	window boundary
}

func (quota) spend(Limit) spending { return &quotaHolder{window: boundary{never, never}} }

// spread is the longest time over which holders spread the requests of callers that wait for a
// boundary. For a short window the time is a 64th. A new caller is not denied beyond the boundary.
const spread = time.Second

// A boundary is when the window of the last answer ends, or never.
type boundary struct {
	ends time.Duration // at the latest: nobody is denied from then on
	last time.Duration // at the earliest: nothing is spent from then on
}

func (s *quotaHolder) boundary() boundary { return s.window }

// answer: tokens taken for callers may be spent until their window is over. After that the holder
// asks for the callers anew.
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

// left: a quota's leases are larger than a bucket's, and nothing flows into the pool. So the tokens
// that other holders had are counted, up to as many as the pool has, less the demand on them since
// (TestQuotaLevel). After a denial they are not counted: fewer tokens were there than a request
// asked for (TestQuotaLevelOfDenied).
func (s *quotaHolder) left(h *Holder, now time.Duration) float64 {
	p := &h.pool
	if p.Level > 0 && now >= h.denial.until {
		return max(p.Level+min(p.others, p.Level)+p.flowed(now), 0)
	}
	return s.plainHolder.left(h, now)
}

// comes: a number of windows after the present window. A debt ends with the present window: no
// later window has less because of the debt.
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

// windows is the time from the first to the last of the windows that the tokens need.
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
