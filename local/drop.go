package local

import (
	"slices"
	"time"
)

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
	e.coolLocked()
	e.audience.tell()
	e.holder.Dismiss(now)
	e.readyLocked(now)
	return e.count, e.newlyDeniedLocked()
}

// Gone reports whether the entry is out of use: look the key up again.
func (e *Entry) Gone() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.life == gone
}
