package lease

import (
	"math"
	"time"
)

// A quotaHolder spends a quota. Its tokens, its debts and its denials end with the window.
type quotaHolder struct {
	plainHolder
	window boundary
	next   time.Duration // when the pool has more, unless others hand tokens back
	refund returning
}

func spendQuota(Limit) spending { return &quotaHolder{window: boundary{never, never}} }

// quota is the holder, also of one with classes.
func (s *quotaHolder) quota() quotaHolder { return *s }

// spread is the longest time over which holders spread the requests of callers that wait for a
// boundary. For a short window the time is a 64th. A new caller is not denied beyond the boundary.
const spread = time.Second

// A boundary is when the window of the last answer ends, or never.
type boundary struct {
	ends time.Duration // at the latest: nobody is denied from then on
	last time.Duration // at the earliest: nothing is spent from then on
}

// A returning is what was spent in the window, and what of that goes back to the ledger.
//
// A request names the answer before it, by its Seq and its time at the ledger. What it gives back
// was spent in that answer's window, so the ledger takes it only while the record is that of the
// answer: in the same window, and once, whatever is repeated or late (Q1, TestQuotaInvariants).
//
// No answer proves that an amount was not taken: it may answer a repeat, after the record that took
// the amount has ended. So nothing is told again after an answer. If the record may have ended, a
// request without the amount comes first, to make a record (TestRefundOfAWindow).
type returning struct {
	spent float64 // and has not come back
	back  float64 // goes with the next request
	told  float64 // went with the last one, which has had no answer
	asked bool    // the last request was to make a record for it
	at    uint64  // the time of the last answer, its Fence
}

// give is for n tokens that go back, as far as they were spent.
func (b *returning) give(n float64) float64 {
	n = min(n, b.spent)
	b.spent -= n
	b.back += n
	return n
}

// tell is what the request that leaves now gives back: after a lost answer, the same as before.
// lives says whether the record of the last answer lives for sure, and last whether that answers
// the last request.
func (b *returning) tell(lives, last bool) float64 {
	if b.told == 0 && last && (lives || b.asked) {
		b.told, b.back = b.back, 0
	}
	b.asked = b.back > 0
	return b.told
}

// enter takes an answer, and whether it is of the window of the one before for sure.
func (b *returning) enter(r Reply, same bool) {
	if !same {
		b.spent, b.back = 0, 0
	}
	b.told, b.at = 0, r.Fence
}

func (s *quotaHolder) boundary() boundary { return s.window }

func (s *quotaHolder) spend(h *Holder, n float64) {
	s.plainHolder.spend(h, n)
	s.refund.spent += n
}

// unspend: what has no place in the lease goes back to the ledger, while the window surely goes on.
func (s *quotaHolder) unspend(h *Holder, n float64) float64 {
	back := s.plainHolder.unspend(h, n)
	s.refund.spent -= back
	if h.at < s.window.last {
		back += s.refund.give(n - back)
	}
	return back
}

func (s *quotaHolder) untold(h *Holder) bool {
	return s.refund.back+s.refund.told > 0 && h.at < s.window.last
}

// tell: what goes back is a debt below 0.
func (s *quotaHolder) tell(h *Holder, now time.Duration, q Request, quit bool) Request {
	q = s.plainHolder.tell(h, now, q, quit)
	if q.Debt > 0 {
		return q
	}
	if told := s.refund.tell(h.leased(now), h.talk.seen == h.talk.seq); told > 0 {
		q.Debt, q.Since = -told, s.refund.at
	}
	return q
}

// answer: tokens taken for callers may be spent until their window is over. After that the holder
// asks for the callers anew.
func (s *quotaHolder) answer(h *Holder, now time.Duration, r Reply) float64 {
	same := now < s.window.last
	s.window = boundary{never, never}
	if r.Window > 0 {
		s.window = boundary{ends: now + r.Window, last: h.talk.sent + early(r.Window)}
	}
	s.next = s.window.last
	if others := newPool(r.Pool, r.Burst, float64(r.Limit.Burst), 0, 0).others; others == 0 &&
		r.RetryAfter > 0 && r.RetryAfter != r.Window { // as other frames have tokens
		s.next = now + r.RetryAfter
	}
	s.refund.enter(r, same && s.window.ends != never)
	if now < s.window.last {
		return r.Taken
	}
	h.lost(waste{unclaimed: r.Taken})
	return 0
}

// again: a denial ends with its window, and a holder whose answer came after the end asks at once.
// No denial is believed for longer than MaxHold, as nobody tells of a refund, of a raised limit or
// of a Reset (TestUsedUpQuotaIsDoubted).
func (s *quotaHolder) again(h *Holder, now, retry, window time.Duration) time.Duration {
	if window > 0 && retry == window && now >= h.talk.sent+window {
		return 0
	}
	if retry > h.policy.MaxHold {
		retry = h.random.jitter(h.policy.MaxHold)
	}
	return now + retry
}

// left: the tokens that other holders had are counted, up to as many as the pool has, less the
// demand on them since (ADR 81, TestQuotaLevel). They are not after a denial
// (TestQuotaLevelOfDenied).
func (s *quotaHolder) left(h *Holder, now time.Duration) float64 {
	p := &h.pool
	if p.Level > 0 && now >= h.denial.until {
		return max(p.Level+min(p.others, p.Level)+p.flowed(now), 0)
	}
	return s.plainHolder.left(h, now)
}

// comes: a number of windows after next. A debt ends with the present window: no later window has
// less because of the debt.
func (s *quotaHolder) comes(h *Holder, now time.Duration, n float64) time.Duration {
	most := float64(h.limit.Burst)
	if now < s.window.last {
		most = max(h.most(now), h.tokens)
	}
	wait := h.windows(max(n-most, 0))
	if n > most && now < s.window.last && s.window.last != never {
		wait += max(s.next-now, 0)
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
	return max(s.window.ends, s.next) - now
}
