package local

import (
	"math"
	"slices"
	"sync"
	"time"
)

// Shares are what this process may admit of each key while the store is away: a bucket
// for each, which outlives the key's entry. All Dispatches of a process that limit the
// same keys have one Shares, and count time from the same moment. It is safe for
// concurrent use.
//
// A share is empty when the outage begins: had it been full, each outage would mint a
// Burst. From then on its part of the rate flows in, whether or not the key is asked for:
// so a key without a bucket here has what has flowed since, and only those that have spent
// need one. In T seconds of an outage a process admits at most its part of
// Burst + Rate*T (TestSharesKeepTheirPart, TestShareBesideLeases), where
//
//   - leases that ran on into the outage are a part of it: until its rate ends each takes
//     from what flows in, and until its tokens die what it may hold is taken from the part
//     of the Burst;
//   - a bucket that is forgotten, because there are too many, counts as empty at the
//     last time at which it may have been asked for.
//
// The outage begins with the first Dispatch to find the store away. With each one that
// hears from the store again it ends, and begins anew for the others.
type Shares struct {
	mu         sync.Mutex
	members    []*Dispatch // a new slice with each change
	most       int         // weight of each of the two generations
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
	rate   float64       // tokens/s of the process's part from then on, at most
	left   []loan        // by entries that were evicted
}

// A term is when a lease was out.
type term struct {
	from    time.Duration // what was out before is not known
	refills time.Duration // its rate ends
	ends    time.Duration // its tokens die
	rate    float64       // tokens/s
	size    float64       // most tokens that it may hold
}

// A loan is the last lease that a table's entry had of a key.
type loan struct {
	of *Table
	term
}

// An entitlement is what of a key's limit this process may admit now.
type entitlement struct {
	rate, burst float64
	lent        []loan        // to its entries
	failing     bool          // the key has a share though the store is not away
	since       time.Duration // when it began to fail
}

// NewShares returns Shares that nobody has joined.
func NewShares() *Shares { return &Shares{} }

// join takes in a Dispatch. Of as many keys more as it says, and of as many again at most,
// the shares are remembered.
func (s *Shares) join(d *Dispatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(slices.Clip(s.members), d)
	s.most += d.keys
}

// leave is for a Dispatch that has ended. What it had on lease until now still counts.
func (s *Shares) leave(now time.Duration, d *Dispatch) {
	if d.table != nil && s.isAway() {
		for _, e := range d.table.all() {
			s.evicted(e.Key, loan{d.table, e.stake(now).lent})
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(slices.Clone(s.members), func(m *Dispatch) bool { return m == d })
	s.most -= d.keys
	s.turnLocked(now)
}

func (s *Shares) isAway() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away
}

// all returns those that have joined.
func (s *Shares) all() []*Dispatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.members
}

// follow begins or ends an outage, after the health of a Dispatch has changed. It looks at
// what that says by now: flights land beside each other, and of two changes the later one
// may be told first (TestSharesFollow).
func (s *Shares) follow(now time.Duration, d *Dispatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := d.sharing
	if d.sharing = d.health.Away(); was && !d.sharing {
		s.away = false // another one may not have noticed yet: for that it begins anew
	}
	s.turnLocked(now)
}

// turnLocked begins or ends an outage if that is due, and forgets the one before.
func (s *Shares) turnLocked(now time.Duration) {
	away := slices.ContainsFunc(s.members, func(d *Dispatch) bool { return d.sharing })
	switch {
	case away && s.away:
		return
	case away:
		s.since, s.empty, s.began, s.latest = now, now, now, max(s.latest, now)
	}
	s.away, s.young, s.old, s.weight = away, nil, nil, 0
}

// take takes n tokens of a key's share, if they are there.
func (s *Shares) take(now time.Duration, d *Dispatch, key string, n float64, c entitlement) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.sharing && !c.failing {
		return false
	}
	x, known := s.lookLocked(now, key, &c)
	ok := x.tokens >= n
	if ok {
		x.tokens -= n
	}
	if ok || known || !s.away {
		s.putLocked(key, x)
	}
	return ok
}

// takeAll takes what parts want of the shares of their keys, if all of it is there.
func (s *Shares) takeAll(now time.Duration, d *Dispatch, parts []*Part) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := make([]share, len(parts))
	for i, p := range parts {
		if !d.sharing && !p.entitled.failing {
			return false
		}
		left[i], _ = s.lookLocked(now, p.Entry.Key, p.entitled)
		if left[i].tokens -= p.N; left[i].tokens < 0 {
			return false
		}
	}
	for i, p := range parts {
		s.putLocked(p.Entry.Key, left[i])
	}
	return true
}

// level is how many tokens a key's share has, and how many a second flow in now.
func (s *Shares) level(now time.Duration, d *Dispatch, key string, c entitlement) (tokens, flow float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.sharing && !c.failing {
		return 0, c.rate
	}
	x, _ := s.lookLocked(now, key, &c)
	flow, _, _ = c.flow(x.at)
	return x.tokens, flow
}

// evicted notes the last lease of a key whose entry goes.
func (s *Shares) evicted(key string, l loan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away || l.over(s.empty) {
		return
	}
	x, known := s.findLocked(key)
	if !known {
		x = share{at: s.empty, rate: math.Inf(1)}
	}
	x.left = append(slices.DeleteFunc(slices.Clone(x.left), l.replaces), l)
	s.putLocked(key, x)
}

// lookLocked returns a key's share as of now, and whether it is remembered. It adds to the
// entitlement what is left of entries that were evicted.
func (s *Shares) lookLocked(now time.Duration, key string, c *entitlement) (x share, known bool) {
	now = max(now, s.latest)
	s.latest = now
	since := c.since
	if s.away {
		since = s.since
	}
	x, known = s.findLocked(key)
	if known = known && x.at >= since; !known {
		x = share{at: now, rate: c.rate}
		if s.away {
			x.at = s.empty
		}
	}
	x.left = slices.DeleteFunc(slices.Clone(x.left), func(l loan) bool {
		return l.over(x.at) || slices.ContainsFunc(c.lent, func(m loan) bool { return m.replaces(l) })
	})
	c.lent = append(c.lent, x.left...)
	x.fill(now, c)
	x.rate = c.rate
	return x, known
}

// fill adds what flows in until now. What flowed before the last lease is not known.
func (x *share) fill(now time.Duration, c *entitlement) {
	part := *c
	part.rate = min(c.rate, x.rate)
	for _, l := range c.lent {
		x.at = max(x.at, min(l.from, now))
	}
	for {
		flow, room, until := part.flow(x.at)
		until = max(min(until, now), x.at)
		x.tokens += float64(flow * (until - x.at).Seconds())
		x.tokens = min(x.tokens, max(math.Ceil(room), 1)) // rounded up to a token
		if x.at = until; until >= now {
			return
		}
	}
}

// flow is how many tokens flow into a share from a time on beside the leases, for how many
// there is room, and until when that is so.
func (c *entitlement) flow(at time.Duration) (rate, room float64, until time.Duration) {
	rate, room, until = c.rate, c.burst, never
	for _, l := range c.lent {
		if l.refills > at {
			rate, until = rate-l.rate, min(until, l.refills)
		}
		if l.ends > at {
			room, until = room-l.size, min(until, l.ends)
		}
	}
	return max(rate, 0), room, until
}

// over reports whether nothing of the lease was out after then.
func (t *term) over(then time.Duration) bool { return max(t.refills, t.ends) <= then }

// replaces reports whether another loan is an earlier one of the same table, or this one.
func (l loan) replaces(other loan) bool { return l.of == other.of && l.term != (term{}) }

func (s *Shares) findLocked(key string) (x share, known bool) {
	if x, known = s.young[key]; !known {
		x, known = s.old[key]
	}
	return x, known
}

// putLocked remembers a share. When there are too many, those go that were not asked for
// since the young generation began.
func (s *Shares) putLocked(key string, x share) {
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
