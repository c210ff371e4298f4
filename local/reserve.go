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
// ended. Then call Ready.
func (e *Entry) Release(now time.Duration, r lease.Reserved, back float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == inUse {
		e.settleLocked(now)
		if !r.Taken() && e.holder.Keeps(now, r) {
			e.count.Settled += uint64(r.Tokens - back)
		}
		e.backLocked(now, r, back)
	}
}

// Charge spends n tokens that were used already, and may leave a debt. It reports false if
// the entry cannot be charged: it is out of use, a stray, or has slots. Then call Ready.
func (e *Entry) Charge(now time.Duration, n float64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != inUse || e.stray || e.limit.Kind == lease.KindSlots {
		return false
	}
	if _, always := constant(e.limit); !always {
		e.settleLocked(now)
		e.useLocked(now)
		e.holder.Charge(now, n)
		e.count.Charged += uint64(n)
	}
	return true
}
