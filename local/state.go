package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// State is what a Decision tells of the key.
type State struct {
	Level                  int64 // tokens of the limit that are left, as far as is known
	Held                   int64 // tokens that can be spent without asking
	RetryAfter, ResetAfter time.Duration
	Limit                  lease.Limit
}

// State describes the entry for a request of a class, or of "", for n tokens.
func (e *Entry) State(now time.Duration, n float64, class string) State {
	e.lockAs(class)
	defer e.unlockAs()
	e.settleLocked(now)
	if e.fixed != leased {
		return constantState(e.limitLocked())
	}
	return State{
		Level:      e.holder.Level(now),
		Held:       int64(e.holder.Held()),
		RetryAfter: e.holder.RetryAfter(now, n),
		ResetAfter: e.holder.ResetAfter(now),
		Limit:      e.holder.InForce(),
	}
}

// Looked counts a look at a key that has classes: see lease.Holder.Looked.
func (e *Entry) Looked(now time.Duration, denied bool, class string) Due {
	e.lockAs(class)
	defer e.unlockAs()
	if e.life != inUse || e.fixed != leased || e.holder.Classes() == nil {
		return NothingDue
	}
	e.settleLocked(now)
	e.useLocked(now)
	e.holder.Looked(now, denied)
	return e.dueLocked(now)
}

// Lease is what the entry holds now.
func (e *Entry) Lease(now time.Duration) lease.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return e.holder.Lease(now)
}

// Limit is the key's limit as last declared.
func (e *Entry) Limit() lease.Limit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limitLocked()
}

// Terms are the key's limit and classes as last declared.
func (e *Entry) Terms() (lease.Limit, []lease.Class) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.limitLocked(), e.holder.Classes()
}

// InForce is the key's limit as far as this process knows: as last declared, or a
// lower one that another process declares.
func (e *Entry) InForce() lease.Limit {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fixed != leased {
		return e.limitLocked()
	}
	return e.holder.InForce()
}
