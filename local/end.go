package local

import (
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// endLocked ends an entry that is closing and has handed everything back.
func (e *Entry) endLocked() {
	e.life = gone
	e.tellLocked()
	e.extra.closed()
}

// restLocked ends an entry that is closing and has nothing to hand back, unless it has a
// debt, which is to be told again at the time that it returns.
func (e *Entry) restLocked(now time.Duration) (wake time.Duration) {
	if e.holder.Owed() > 0 {
		return max(e.holder.Retry(now), now)
	}
	e.endLocked()
	return math.MaxInt64
}

// Close sends waiters away, as Unavailable. It makes request hand everything back, and ready end
// the entry afterwards. ready then calls ended, under the entry's lock.
func (e *Entry) Close(now time.Duration, ended func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.life == gone {
		ended()
		return
	}
	e.life, e.extraLocked().closed = closing, ended
	e.endJobsLocked(now, true)
	e.holder.Dismiss(now)
	e.readyLocked(now)
}

// A legacy is what is left of an entry that was evicted.
type legacy struct {
	count  Count
	denied uint64 // denials that are new
	lent   term
	holder lease.Parked
	parked bool // there is a holder
}

// evict ends the entry if nobody has used it since before and the ledger need not know;
// one with tokens of a calm key only after idle. Denials are told of others, too.
func (e *Entry) evict(now, before, idle time.Duration) (x legacy, evicted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	unused := e.used < before && e.life == inUse && e.holder.Idle(now) && len(e.jobsLocked()) == 0
	if unused && (e.holder.Held() == 0 || e.used < now-idle) {
		e.life = gone
		x.holder, x.parked = e.holder.Park(now)
	}
	if e.life == gone || now-e.used >= pocketIdle {
		e.coolLocked()
	}
	x.count, x.denied, x.lent = e.countLocked(), e.newlyDeniedLocked(), e.termLocked(now)
	return x, e.life == gone
}

// Drop forgets a key, and all that is held or remembered of it. Those who wait are sent
// away as Unavailable, and Gone says why: they may ask a new entry.
func (t *Table) Drop(now time.Duration, key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.parked.take(now, key)
	e := t.Find(key)
	if e == nil || t.closed {
		return
	}
	count, fresh := e.drop(now)
	// Who has seen that it is gone opens another one, which waits for this lock.
	t.entries.Delete(key)
	t.past.add(count)
	t.denied.add(now, key, fresh)
	t.weight -= weight(key)
	i, last := slices.Index(t.ring, e), len(t.ring)-1
	t.ring[i], t.ring[last] = t.ring[last], nil
	t.ring = t.ring[:last]
}

// drop ends the entry. It returns what the entry has counted, and how many denials are new.
func (e *Entry) drop(now time.Duration) (Count, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	e.life = gone
	e.endJobsLocked(now, true)
	e.coolLocked()
	e.tellLocked()
	e.holder.Dismiss(now)
	e.readyLocked(now)
	c := e.countLocked()
	c.Settled += uint64(e.holder.Reserving())
	return c, e.newlyDeniedLocked()
}

// Gone reports whether the entry is out of use: look the key up again.
func (e *Entry) Gone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.life == gone
}
