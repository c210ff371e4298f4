package local

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Table holds the entries of at most Config.MaxKeys keys.
type Table struct {
	config Config
	seed   maphash.Seed
	serial atomic.Uint64
	shards [shards]shard
}

// Config says how a Table makes its entries.
type Config struct {
	Holder  string // unique for this process start; what begins the id of each holder
	Policy  lease.Policy
	Timeout time.Duration // of an exchange
	MaxKeys int           // rounded up to a multiple of the number of shards
	Idle    time.Duration // how long an unused key without a lease is kept
}

const shards = 64

type shard struct {
	mu      sync.RWMutex
	entries map[string]*Entry
	closed  bool
	past    Count // of those evicted
	_       [64]byte
}

// NewTable returns an empty Table.
func NewTable(c Config) *Table {
	t := &Table{config: c, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].entries = map[string]*Entry{}
	}
	return t
}

// Find returns the entry of key, or nil.
func (t *Table) Find(key string) *Entry {
	s := &t.shards[maphash.String(t.seed, key)%shards]
	s.mu.RLock()
	e := s.entries[key]
	s.mu.RUnlock()
	return e
}

// Open returns the entry of key, made with limit if there is none. In a full
// table, keys that are idle make room. If there are none, the entry is the
// caller's alone: it asks the ledger for each request and is never found
// again, so that a flood of keys takes no memory from those in use. In a closed
// table it returns nil.
func (t *Table) Open(now time.Duration, key string, limit lease.Limit) *Entry {
	hash := maphash.String(t.seed, key)
	s := &t.shards[hash%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[key]; e != nil || s.closed {
		return e
	}
	most := (t.config.MaxKeys + shards - 1) / shards
	if len(s.entries) >= most {
		s.evict(now, now, evictLooks)
	}
	policy := t.config.Policy
	alone := len(s.entries) >= most
	if alone {
		policy.Mode = lease.PerRequest
	}
	// A key that comes back after its eviction counts its requests from 1
	// again: under its old id they would be taken for repeats.
	id := t.config.Holder + "-" + strconv.FormatUint(t.serial.Add(1), 36)
	e := NewEntry(now, key, lease.NewHolder(id, limit, policy, hash), limit, policy, t.config.Timeout)
	e.stray = alone
	if !alone {
		s.entries[key] = e
	}
	return e
}

// Absorb ends a stray entry and keeps what it has counted.
func (t *Table) Absorb(e *Entry) {
	e.mu.Lock()
	count := e.count
	e.count = Count{}
	e.mu.Unlock()
	s := &t.shards[maphash.String(t.seed, e.Key)%shards]
	s.mu.Lock()
	s.past.add(count)
	s.mu.Unlock()
}

// evictLooks is how many keys of a full shard are looked at for an idle one:
// few, because it is done while others wait, and in the random order of maps.
const evictLooks = 8

// Sweep evicts the keys of one shard, counted on from 0 without end, that have
// not been used for Config.Idle and have no lease.
func (t *Table) Sweep(now time.Duration, shard int) {
	s := &t.shards[shard%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evict(now, now-t.config.Idle, len(s.entries))
}

func (s *shard) evict(now, before time.Duration, looks int) {
	for key, e := range s.entries {
		if looks--; looks < 0 {
			return
		}
		if count, gone := e.evict(now, before); gone {
			s.past.add(count)
			delete(s.entries, key)
		}
	}
}

// Close ends the table and returns its entries. Open makes no more.
func (t *Table) Close() []*Entry {
	var all []*Entry
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.closed = true
		for _, e := range s.entries {
			all = append(all, e)
		}
		s.mu.Unlock()
	}
	return all
}

// Count returns the number of keys and the sum of what was decided.
func (t *Table) Count() (keys int, sum Count) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.RLock()
		keys += len(s.entries)
		sum.add(s.past)
		for _, e := range s.entries {
			e.mu.Lock()
			sum.add(e.count)
			e.mu.Unlock()
		}
		s.mu.RUnlock()
	}
	return keys, sum
}

// Outage says what decides while the ledger is away.
type Outage int

const (
	// Share goes on at the last leased rate and an equal part of what nobody
	// had leased: over the fleet, the limit's rate.
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
