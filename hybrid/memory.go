package hybrid

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// Memory is a Store within the process: the same ledger as in Redis, without a
// server. Limiters that share a Memory share their limits, as processes that
// share a Redis do. It serves a single process, tests and examples.
type Memory struct {
	start time.Time

	mu      sync.Mutex
	ledgers map[string]*lease.Ledger
	sweep   int // exchanges until full buckets are looked for

	published map[string]publication
}

// NewMemory returns a Memory in which every bucket is full.
func NewMemory() *Memory {
	return &Memory{
		start: time.Now(), ledgers: map[string]*lease.Ledger{}, published: map[string]publication{},
	}
}

// Exchange implements Store.
func (m *Memory) Exchange(_ context.Context, calls []*lease.Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for _, c := range calls {
		if c.Err = c.Request.Validate(); c.Err != nil {
			continue
		}
		l := m.ledgers[c.Key]
		if l == nil {
			l = new(lease.Ledger)
			m.ledgers[c.Key] = l
		}
		c.Reply = l.Exchange(now, c.Request)
	}
	if m.sweep -= len(calls); m.sweep <= 0 {
		for key, l := range m.ledgers {
			if l.Idle(now) {
				delete(m.ledgers, key)
			}
		}
		m.sweep = max(len(m.ledgers), 1000) // so that each exchange pays for one look
	}
}

// Inspect returns what the ledger of a key knows, as remote.Store.Inspect does; if there is none,
// a View without a Limit. It changes nothing. It never fails.
func (m *Memory) Inspect(_ context.Context, key string) (lease.View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.ledgers[key]; l != nil {
		return l.View(), nil
	}
	return lease.View{}, nil
}

// A publication is what a process tells of itself.
type publication struct {
	at, ends time.Duration
	text     []byte
}

// Publish implements Publisher.
func (m *Memory) Publish(_ context.Context, id string, text []byte, life time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Since(m.start)
	maps.DeleteFunc(m.published, func(_ string, p publication) bool { return p.ends <= now })
	m.published[id] = publication{now, now + life, bytes.Clone(text)}
	return nil
}

// Published implements Publisher.
func (m *Memory) Published(
	_ context.Context, each func(id string, age time.Duration, text []byte),
) error {
	m.mu.Lock()
	now := time.Since(m.start)
	all := maps.Clone(m.published)
	m.mu.Unlock()
	for id, p := range all {
		if p.ends > now {
			each(id, now-p.at, p.text)
		}
	}
	return nil
}
