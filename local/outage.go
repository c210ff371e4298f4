package local

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// Outage says what decides while the ledger is away.
type Outage int

const (
	// Share goes on with an equal part of the limit's rate.
	Share Outage = iota
	// Deny admits nothing.
	Deny
	// Allow admits everything.
	Allow
)

// String returns the policy's name in lower case.
func (o Outage) String() string {
	switch o {
	case Share:
		return "share"
	case Deny:
		return "deny"
	case Allow:
		return "allow"
	}
	return fmt.Sprintf("Outage(%d)", int(o))
}

// Shares are what this process may admit of each key while the store is away: a bucket
// for each, which outlives the key's entry. It is safe for concurrent use.
//
// A share is empty when the outage begins: had it been full, each outage would mint a
// Burst. From then on its part of the rate flows in, whether or not the key is asked for:
// so a key without a bucket here has what has flowed since, and only those that have spent
// need one. In T seconds of an outage a process admits at most its part of
// Burst + Rate*T (TestSharesKeepTheirPart), where
//
//   - a lease that ran on into the outage is the share until its rate ends, and what it
//     may hold is a part of this process's part of the Burst until it ends;
//   - a bucket that is forgotten, because there are too many, counts as empty at the
//     last time at which it may have been asked for.
type Shares struct {
	most int // weight of each of the two generations

	mu         sync.Mutex
	away       bool
	since      time.Duration    // it is
	empty      time.Duration    // a share that is in no generation was empty then, or later
	young, old map[string]share // asked for since began, or not
	began      time.Duration
	weight     int           // of young
	latest     time.Duration // time is told before the lock is taken: it may step back
}

// A share is the bucket of one key.
type share struct {
	tokens float64       // there were
	at     time.Duration // then
	rate   float64       // tokens/s that flow in from then on, at most
	outage time.Duration // when that began of which it is
	lent   term          // as its last entry knew it
}

// A term is when a lease was out.
type term struct {
	refills time.Duration // its rate ends
	ends    time.Duration // its tokens die
	size    float64       // most tokens that it may hold
}

// A part is what of a key's limit this process may admit now.
type part struct {
	rate, burst float64
	lent        term          // of the last lease
	failing     bool          // the key has a share though the store is not away
	since       time.Duration // when it began to fail
}

// NewShares returns Shares of a store that answers, which remember at most twice as many
// keys as most.
func NewShares(most int) *Shares { return &Shares{most: most} }

// follow begins or ends an outage, after the health has changed. It looks at what that says by
// now: flights land beside each other, and of two changes the later one may be told first
// (TestSharesFollow).
func (s *Shares) follow(now time.Duration, h *Health) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch away := h.Away(); {
	case !away:
		s.endLocked()
	case !s.away:
		s.beginLocked(now)
	}
}

// beginLocked starts an outage.
func (s *Shares) beginLocked(now time.Duration) {
	s.away, s.since, s.empty, s.began, s.latest = true, now, now, now, max(s.latest, now)
	s.young, s.old, s.weight = nil, nil, 0
}

// endLocked forgets everything: the ledgers decide.
func (s *Shares) endLocked() {
	s.away, s.young, s.old, s.weight = false, nil, nil, 0
}

// take takes n tokens of a key's share, if they are there.
func (s *Shares) take(now time.Duration, key string, n float64, p part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away && !p.failing {
		return false
	}
	x, known := s.look(now, key, p)
	ok := x.tokens >= n
	if ok {
		x.tokens -= n
	}
	if ok || known || !s.away {
		s.put(key, x)
	}
	return ok
}

// level is how many tokens a key's share has.
func (s *Shares) level(now time.Duration, key string, p part) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away && !p.failing {
		return 0
	}
	x, _ := s.look(now, key, p)
	return x.tokens
}

// evicted notes the last lease of a key whose entry goes.
func (s *Shares) evicted(now time.Duration, key string, lent term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away || max(lent.refills, lent.ends) <= s.empty {
		return
	}
	x, known := s.find(key)
	if !known {
		x = share{at: max(s.empty, min(lent.refills, now)), rate: math.Inf(1), outage: s.since}
	}
	x.lent = lent
	s.put(key, x)
}

// look returns a key's share as of now, and whether it is remembered.
func (s *Shares) look(now time.Duration, key string, p part) (x share, known bool) {
	now = max(now, s.latest)
	s.latest = now
	outage := p.since
	if s.away {
		outage = s.since
	}
	x, known = s.find(key)
	switch {
	case known && x.outage == outage:
		if p.lent == (term{}) {
			p.lent = x.lent
		}
	case s.away && p.lent.refills > now:
		x = share{at: s.empty, rate: p.rate} // beside the lease, which has run since then
	case s.away:
		x = share{at: max(s.empty, p.lent.refills), rate: p.rate}
	default:
		x = share{at: now, rate: p.rate}
	}
	x.fill(min(now, p.lent.ends), p.rate, p.burst-p.lent.size)
	x.fill(now, p.rate, p.burst)
	x.rate, x.outage, x.lent = p.rate, outage, p.lent
	return x, known
}

// fill adds what flows in until then, of a bucket of which so much is this process's,
// rounded up to a token.
func (x *share) fill(until time.Duration, rate, burst float64) {
	if until <= x.at {
		return
	}
	x.tokens += float64(min(x.rate, rate) * (until - x.at).Seconds())
	x.tokens = min(x.tokens, max(math.Ceil(burst), 1))
	x.at = until
}

func (s *Shares) find(key string) (x share, known bool) {
	if x, known = s.young[key]; !known {
		x, known = s.old[key]
	}
	return x, known
}

// put remembers a share. When there are too many, those go that were not asked for since
// the young generation began.
func (s *Shares) put(key string, x share) {
	if _, known := s.young[key]; !known {
		if s.weight >= s.most {
			if len(s.old) > 0 {
				s.empty = max(s.empty, s.began)
			}
			s.old, s.young, s.weight, s.began = s.young, nil, 0, s.latest
		}
		if s.young == nil {
			s.young = map[string]share{}
		}
		s.weight += weight(key)
		delete(s.old, key)
	}
	s.young[key] = x
}

// Outage decides n tokens while the ledger is away: all of them, none, or those of the
// key's share. processes is their number, as far as it is known.
func (e *Entry) Outage(now time.Duration, n float64, policy Outage, shares *Shares, processes int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	ok := policy == Allow || policy == Share && shares.take(now, e.Key, n, e.partLocked(now, processes))
	if ok {
		e.count.Outage.admit(n)
	} else {
		e.count.Outage.deny(n)
	}
	return ok
}

// partLocked is this process's part of the key's limit.
func (e *Entry) partLocked(now time.Duration, processes int) part {
	limit, rate := e.holder.InForce(), e.holder.Share(now, processes)
	p := part{rate: rate, lent: e.termLocked(now), failing: e.failing(), since: e.holder.FailingSince()}
	p.burst = float64(limit.Burst) * rate / limit.Rate
	return p
}

// termLocked is that of the last lease. One that was parked only the holder knows.
func (e *Entry) termLocked(now time.Duration) term {
	if l := e.holder.Lease(now); l.Burst > 0 {
		t := term{refills: e.lent.refills, ends: now + l.Lives, size: l.Burst}
		if l.Refills > 0 {
			t.refills = now + l.Refills
		}
		return t
	}
	return e.lent
}

// OutageState describes the entry for a request of n tokens that Outage has decided. The
// level is what the policy would still admit here: nobody knows how much is left of the
// limit. RetryAfter is 0 if the policy will never admit so many.
func (e *Entry) OutageState(now time.Duration, n float64, policy Outage, shares *Shares, processes int) State {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	s := State{Held: int64(e.holder.Remaining(now)), Limit: e.holder.InForce()}
	if policy == Allow {
		s.Level = s.Limit.Burst
	}
	if policy != Share {
		return s
	}
	p := e.partLocked(now, processes)
	if p.rate == 0 {
		return s
	}
	tokens := shares.level(now, e.Key, p)
	after := func(n float64) time.Duration {
		return time.Duration(min(max(n-tokens, 0)/p.rate, lease.MaxFill.Seconds()) * 1e9)
	}
	most := max(math.Ceil(p.burst), 1)
	s.Level, s.ResetAfter = int64(tokens), after(most)
	if n <= most {
		s.RetryAfter = max(after(n), time.Millisecond)
	}
	return s
}
