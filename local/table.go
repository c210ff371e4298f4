package local

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/puzpuzpuz/xsync/v4"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
)

// A Table holds the entries of at most Config.MaxKeys keys, fewer if they are long. Looking one up
// takes no lock: on many cores even a read lock is a place where all meet.
type Table struct {
	config  Config
	entries *xsync.Map[string, *Entry]
	common  Common       // of the entries
	single  lease.Policy // of the strays: each request asks
	name    *Name        // of the strays
	denied  *denied

	mu     sync.Mutex
	strays map[string]*Entry // in use
	serial uint64            // of the last holder
	ring   []*Entry          // all entries, in the order in which the hand visits them
	weight int               // of all of them
	hand   int
	left   int // looks until the round of sweeps ends
	part   int // looks in a sweep of this round
	parked lot
	past   Count // of those evicted
	closed bool
}

// Config says how a Table makes its entries.
type Config struct {
	Holder  string // unique for this process start; what begins the id of each holder
	Policy  lease.Policy
	Timeout time.Duration // of an exchange
	Recheck time.Duration // how long an entry goes by its limit before Recheck; 0 is for ever
	MaxKeys int
	Eager   float64       // tokens that each holder may owe, see lease.Holder.Eager
	Idle    time.Duration // how long an unused key is kept that the ledger need not know of
	Shares  *Shares       // outlive the entries
}

// weight is for how many keys a key counts: a long one takes the room of several.
func weight(key string) int { return 1 + len(key)/1024 }

// NewTable returns an empty Table.
func NewTable(c Config) *Table {
	c.Policy = c.Policy.Resolved()
	single := c.Policy
	single.Mode = lease.PerRequest
	return &Table{
		common: Common{timeout: c.Timeout, recheck: c.Recheck, eager: c.Eager}, single: single,
		config: c, entries: xsync.NewMap[string, *Entry](), denied: newDenied(),
		name: NewName(c.Holder + "-stray"),
	}
}

// Find returns the entry of key, or nil.
func (t *Table) Find(key string) *Entry {
	e, _ := t.entries.Load(key)
	return e
}

// Open returns the entry of key, made with limit and classes if there is none. In a full
// table, keys that are idle make room. If none is found, the entry is a stray: it asks the
// ledger for each request and ends with the last request that shares it, so that a flood
// of keys takes no memory from those in use. All strays of a key are one holder at its
// ledger. In a closed table it returns nil.
func (t *Table) Open(
	now time.Duration, key string, limit lease.Limit, classes ...lease.Class,
) *Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.Find(key); e != nil || t.closed {
		return e
	}
	if t.weight >= t.config.MaxKeys {
		t.sweepLocked(now, now, evictLooks)
	}
	if t.weight >= t.config.MaxKeys {
		return t.strayLocked(now, key, limit, classes)
	}
	holder, serial := t.resumeLocked(now, key)
	if holder == nil {
		// A key that comes back after its eviction counts its requests from 1
		// again: under its old id they would be taken for repeats.
		t.serial++
		serial = t.serial
		holder = lease.NewHolder(t.id(serial), holderLimit(limit), &t.config.Policy, rand.Uint64())
	}
	key = strings.Clone(key) // it may be a part of something large
	e := NewEntry(now, key, holder, limit, &t.common)
	e.holder.SetLimit(holderLimit(limit)) // it may have been parked with another one
	e.holder.Divide(classes)
	if t.config.Recheck > 0 {
		e.recheck = now + t.config.Recheck
	}
	e.serial = serial
	t.entries.Store(key, e)
	t.ring = append(t.ring, e)
	t.weight += weight(key)
	return e
}

// strayLocked returns the stray entry of key for one request more.
func (t *Table) strayLocked(
	now time.Duration, key string, limit lease.Limit, classes []lease.Class,
) *Entry {
	e := t.strays[key]
	if e == nil {
		holder := lease.NewHolder(t.name.id, holderLimit(limit), &t.single, rand.Uint64())
		e = NewEntry(now, key, holder, limit, &t.common)
		e.holder.Divide(classes)
		e.stray, e.extra = true, &extra{name: t.name}
		if t.strays == nil {
			t.strays = map[string]*Entry{}
		}
		t.strays[key] = e
	} else {
		e.Declare(now, limit, math.MaxInt64, classes...)
	}
	e.extra.guests++
	return e
}

// resumeLocked returns the holder that was parked for key, or nil.
func (t *Table) resumeLocked(now time.Duration, key string) (*lease.Holder, uint64) {
	p, ok := t.parked.take(now, key)
	if !ok {
		return nil, 0
	}
	return p.holder.Resume(now, t.id(p.serial), &t.config.Policy, rand.Uint64()), p.serial
}

// id is that of the holder with this number.
func (t *Table) id(serial uint64) string {
	return t.config.Holder + "-" + strconv.FormatUint(serial, 36)
}

// Absorb ends a request that has opened a stray entry, and keeps what that has counted.
func (t *Table) Absorb(now time.Duration, e *Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.mu.Lock()
	fresh := e.newlyDeniedLocked()
	t.past.add(e.decisionsLocked())
	e.count, e.extra.count = Verdicts{}, Count{}
	e.mu.Unlock()
	t.denied.add(now, e.Key, fresh)
	if e.extra.guests--; e.extra.guests == 0 {
		delete(t.strays, e.Key)
	}
}

const (
	// evictLooks is how many keys of a full table are looked at for an idle one:
	// few, because it is done while others wait. The hand goes on from there.
	evictLooks = 8
	// sweepLooks is how many are looked at under one lock.
	sweepLooks = 512
)

// Sweep looks at one of so many parts of the table, the next one with each
// call, and evicts the keys that have not been used for Config.Idle and have no
// lease but the batch of a calm key.
func (t *Table) Sweep(now time.Duration, parts int) {
	t.mu.Lock()
	if t.left == 0 { // a part of what there was when the round began
		t.left, t.part = len(t.ring), (len(t.ring)+parts-1)/parts
		t.shrinkLocked(now)
	}
	looks := min(t.left, t.part)
	t.left -= looks
	t.mu.Unlock()
	for ; looks > 0; looks -= sweepLooks {
		t.mu.Lock()
		t.sweepLocked(now, now-t.config.Idle, min(looks, sweepLooks))
		t.mu.Unlock()
	}
}

// shrinkLocked returns the memory of keys that are there no more: neither maps nor slices do so by
// themselves (TestIdleMemory).
func (t *Table) shrinkLocked(now time.Duration) {
	t.parked.turn(now)
	t.ring = shrunk(t.ring)
	if len(t.strays) == 0 {
		t.strays = nil
	}
}

// shrunk is s, in a smaller array if most of its own is empty and it is large.
func shrunk[S ~[]E, E any](s S) S {
	if 4*len(s) < cap(s) && cap(s) > 16 {
		return slices.Clone(s)
	}
	return s
}

// sweepLocked moves the hand, and evicts those idle that have not been used
// since before.
func (t *Table) sweepLocked(now, before time.Duration, looks int) {
	for ; looks > 0 && len(t.ring) > 0; looks-- {
		if t.hand >= len(t.ring) {
			t.hand = 0
		}
		e := t.ring[t.hand]
		x, evicted := e.evict(now, before, t.config.Idle)
		t.denied.add(now, e.Key, x.denied)
		if !evicted {
			t.hand++
			continue
		}
		// Who has seen that it is gone opens another one, which waits for this lock.
		t.entries.Delete(e.Key)
		if x.parked {
			t.parked.put(now, e.Key, parking{e.serial, x.holder}, t.config.MaxKeys)
		}
		t.config.Shares.evicted(e.Key, loan{t, x.lent})
		t.past.add(x.count)
		t.weight -= weight(e.Key)
		last := len(t.ring) - 1
		t.ring[t.hand], t.ring[last] = t.ring[last], nil
		t.ring = t.ring[:last]
	}
}

// Close ends the table and returns its entries. Open makes no more.
func (t *Table) Close() []*Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return slices.Clone(t.ring)
}

// Unpark returns entries of the keys that are parked, at most so many, and how many are left. It is
// for a closed table, which does not know these entries: Close each of them.
func (t *Table) Unpark(now time.Duration, most int) (entries []*Entry, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.parked.all(now) {
		if len(entries) == most {
			break
		}
		if holder, _ := t.resumeLocked(now, key); holder != nil {
			entries = append(entries, NewEntry(now, key, holder, holder.Declared(), &t.common))
		}
	}
	return entries, t.parked.len()
}

// all returns the entries.
func (t *Table) all() []*Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.ring)
}

// Count returns the number of keys and the sum of what was decided.
func (t *Table) Count(now time.Duration) (keys int, sum Count) {
	t.mu.Lock()
	sum, all := t.past, slices.Clone(t.ring)
	t.mu.Unlock()
	t.common.mu.Lock()
	sum.Ledger.add(t.common.ledger)
	t.common.mu.Unlock()
	for _, e := range all {
		count, fresh := e.counted(now)
		sum.add(count)
		t.denied.add(now, e.Key, fresh)
	}
	return len(all), sum
}

// MostDenied returns the keys that were denied most in the last one to two of
// deniedTerm, at most so many, by their first deniedName bytes. The counts are as old as
// the last Count, or the last round of sweeps.
func (t *Table) MostDenied(now time.Duration, most int) []gauge.Ranked {
	return t.denied.ranking(now, most)
}
