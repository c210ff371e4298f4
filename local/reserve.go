package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// backLocked gives back what was reserved, which those who wait may have.
func (e *Entry) backLocked(now time.Duration, r lease.Reserved, n float64) {
	e.settleLocked(now)
	e.holder.Release(now, r, n)
	e.readyLocked(now)
}

// Release ends a reservation, of which so many tokens come back: none if its lease has
// ended. Then Attend.
func (e *Entry) Release(now time.Duration, r lease.Reserved, back float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == inUse {
		e.settleLocked(now)
		if !r.Taken() && e.holder.Keeps(now, r) {
			e.extraLocked().count.Settled += uint64(r.Tokens - back)
		}
		e.backLocked(now, r, back)
	}
}

// Charge spends n tokens that a class, or "", has used already, and may leave a debt. It reports
// false if the entry cannot be charged: it is out of use, a stray, or has slots. Then Attend.
func (e *Entry) Charge(now time.Duration, n float64, class string) bool {
	e.lockAs(class)
	defer e.unlockAs()
	if e.life != inUse || e.stray || e.limitLocked().Kind.Jobs() {
		return false
	}
	if e.fixed == leased {
		e.settleLocked(now)
		e.useLocked(now)
		e.holder.Charge(now, n)
		e.extraLocked().count.Charged += uint64(n)
	}
	return true
}

// Refund gives back n tokens that a class, or "", has spent, and returns how many come back: see
// lease.Holder.Refund. It reports false if the entry has none to give back: it is out of use, or
// has slots. Then Attend.
func (e *Entry) Refund(now time.Duration, n float64, class string) (back float64, ok bool) {
	e.lockAs(class)
	defer e.unlockAs()
	if e.life != inUse || e.limitLocked().Kind.Jobs() {
		return 0, false
	}
	if e.fixed == leased {
		e.settleLocked(now)
		back = e.holder.Refund(now, n)
		e.readyLocked(now)
	}
	return back, true
}

// Refund gives back n tokens of a key that has no entry, if something of it is parked, and returns
// how many come back.
func (t *Table) Refund(now time.Duration, key string, n float64) (back float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.parked.find(now, key)
	if !ok {
		return 0
	}
	if h := p.holder.Resume(now, "", &t.config.Policy, 0); h != nil {
		back = h.Refund(now, n)
		if p.holder, ok = h.Park(now); ok {
			t.parked.replace(key, p)
		}
	}
	return back
}
