package local

import (
	"fmt"
	"math"
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

// Decide is the verdict of the outage policy on n tokens of an entry without a verdict. It is
// Unavailable if the policy does not decide either.
func (d *Dispatch) Decide(now time.Duration, e *Entry, n float64) lease.Verdict {
	switch {
	case !d.decides(now, e):
		return lease.Unavailable
	case d.admits(now, e, n):
		return lease.Admitted
	}
	return lease.Denied
}

// Foresee tells how a request that comes now would be decided: by the policy, by what the entry
// knows, or, if ok is false, by nobody. heard says that the entry's ledger has answered lately.
func (d *Dispatch) Foresee(
	now time.Duration, e *Entry, heard bool, class string,
) (byPolicy, ok bool) {
	e.lockAs(class)
	defer e.unlockAs()
	if e.fixed != leased || heard && !d.Away() && !e.failing() {
		return false, true
	}
	e.settleLocked(now)
	decides := d.decidesLocked(now, e)
	// Tokens of a lease are taken first.
	return decides && e.holder.Look(now, 1) != lease.Admitted, decides
}

// decides reports whether the policy decides a request without a verdict.
func (d *Dispatch) decides(now time.Duration, e *Entry) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return d.decidesLocked(now, e)
}

// decidesLocked is decides. A single lost message is no outage: another process may have this
// process's share by now.
func (d *Dispatch) decidesLocked(now time.Duration, e *Entry) bool {
	return d.Away() || d.Slow() || e.failing() || d.allowsLocked(now, e)
}

// cutLocked reports whether a request of an entry has no verdict, and its ledger is not asked.
func (e *Entry) cutLocked(now time.Duration, away bool) bool {
	return (away || e.failing()) && !e.holder.Running(now)
}

// allows reports whether the policy Allow admits what the ledger of an entry has not answered.
// While that answers, however slowly, nothing but its leases are admitted (TestSlowIsNotAway).
func (d *Dispatch) allows(now time.Duration, e *Entry) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return d.allowsLocked(now, e)
}

func (d *Dispatch) allowsLocked(now time.Duration, e *Entry) bool {
	return d.outage == Allow && (d.Away() || e.silentLocked(now))
}

// admits takes n tokens by the policy: always, never, or from the key's share.
func (d *Dispatch) admits(now time.Duration, e *Entry, n float64) bool {
	ok := d.allows(now, e) ||
		d.outage == Share && d.shares.take(now, d, e.Key, n, d.entitlement(now, e))
	e.decided(n, ok)
	return ok
}

// decided counts what the outage policy has.
func (e *Entry) decided(n float64, admitted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decidedLocked(n, admitted)
}

func (e *Entry) decidedLocked(n float64, admitted bool) {
	e.extraLocked().count.Outage.decide(n, admitted)
	if !admitted {
		e.denied++
	}
}

// OutageState describes an entry for a request of n tokens that the policy has decided. The
// level is what the policy would still admit here: nobody knows how much is left of the
// limit. RetryAfter is 0 if the policy will never admit so many.
func (d *Dispatch) OutageState(now time.Duration, e *Entry, n float64) State {
	s := e.State(now, n, "")
	s.Level, s.RetryAfter, s.ResetAfter = 0, 0, 0
	if d.allows(now, e) {
		s.Level = s.Limit.Burst
	}
	if d.outage != Share {
		return s
	}
	c := d.entitlement(now, e)
	tokens, flow := d.shares.level(now, d, e.Key, c)
	s.Level = int64(tokens)
	if flow == 0 { // for good, or until a lease ends that takes all of it
		return s
	}
	after := func(n float64) time.Duration {
		return time.Duration(min(max(n-tokens, 0)/flow, lease.MaxFill.Seconds()) * 1e9)
	}
	most := max(math.Ceil(c.burst), 1)
	s.ResetAfter = after(most)
	if n <= most {
		s.RetryAfter = max(after(n), time.Millisecond)
	}
	return s
}

// A stake is what an entry tells of its process's part of the key.
type stake struct {
	limit   lease.Limit // in force; none if it is constant
	holders int         // of the key, as the ledger told last
	lent    term
	failing bool          // its exchanges have no answers,
	since   time.Duration // since then
}

// stake is that of the entry.
func (e *Entry) stake(now time.Duration) stake {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	s := stake{
		limit: e.holder.InForce(), holders: e.holder.Holders(), lent: e.termLocked(now),
		failing: e.failing(), since: e.holder.FailingSince(),
	}
	if e.fixed != leased {
		s.limit = lease.Limit{}
	}
	return s
}

// termLocked is that of the last lease. One that was parked only the holder knows.
func (e *Entry) termLocked(now time.Duration) term {
	if l := e.holder.Lease(now); e.lent == (term{}) && l.Burst > 0 {
		return term{ends: now + l.Lives, size: l.Burst}
	}
	return e.lent
}

// stake is that of the table's entry of a key, or of what is parked of it.
func (t *Table) stake(now time.Duration, key string) (s stake, ok bool) {
	if e := t.Find(key); e != nil {
		return e.stake(now), true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.parked.find(now, key)
	if !ok {
		return s, false
	}
	h := p.holder.Resume(now, "", &t.config.Policy, 0)
	if h == nil {
		return s, false
	}
	l := h.Lease(now)
	s.limit, s.holders, s.lent = h.InForce(), h.Holders(), term{ends: now + l.Lives, size: l.Burst}
	return s, true
}

// entitlement is what this process may admit of a key in an outage: an equal part of the limit,
// less what its entries of the key have on lease, in all Dispatches that share.
//
// The number of processes is what the census told. A key's own holders bound the part as
// well: they are known sooner. This process has as many of them as it has entries that
// the key's ledger knows.
func (d *Dispatch) entitlement(now time.Duration, e *Entry) entitlement {
	mine := e.stake(now)
	c := entitlement{failing: mine.failing, since: mine.since, lent: []loan{{d.table, mine.lent}}}
	rate, burst := mine.limit.Mean(), mine.limit.Burst
	holders, own := mine.holders, min(mine.holders, 1)
	for _, other := range d.shares.all() {
		if other.table == nil || other.table.Find(e.Key) == e {
			continue
		}
		s, ok := other.table.stake(now, e.Key)
		if !ok {
			continue
		}
		c.lent = append(c.lent, loan{other.table, s.lent})
		if s.limit != (lease.Limit{}) {
			rate, burst = min(rate, s.limit.Mean()), min(burst, s.limit.Burst)
		}
		holders, own = max(holders, s.holders), own+min(s.holders, 1)
	}
	n := max(float64(d.Processes()), float64(holders)/float64(max(own, 1)))
	if n > 0 {
		c.rate, c.burst = rate/n, float64(burst)/n
	}
	return c
}
