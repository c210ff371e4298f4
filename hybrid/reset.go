package hybrid

import (
	"context"
	"fmt"
)

// A resetter is a Store that can forget the ledger of a key. remote.Store and Memory can.
type resetter interface {
	// Reset makes the key's bucket full, as that of one that nobody has used.
	Reset(ctx context.Context, key string) error
}

// Reset makes the bucket of key full, in the store and in this Limiter, which forgets its
// lease and its denials of the key; requests that wait for it ask anew. It blocks for a
// round trip, for as long as the store's client takes.
//
// It costs what lost state does: all processes together may admit one more Burst at most, and what
// the leases of other Limiters refill until they end. What others hold on lease is missing from the
// full bucket. Another Limiter that has been told to wait, also one of this process, goes on
// denying until the RetryAfter that it was told, of a quota for Policy.MaxHold at most; Reset does
// not reach it.
//
// Of slots it ends the jobs of this Limiter, whose Contexts end a moment after the store has
// forgotten them. Those of other Limiters go on: n more slots may be in use at most, until as
// many jobs have ended.
//
// Errors: those of the store, which may have done it nevertheless; a store that cannot
// reset; [ErrClosed]; and an empty key.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if l.closed.Load() {
		return ErrClosed
	}
	if err := checkKey(key); err != nil {
		return err
	}
	l.waiters.Add(1)
	defer l.waiters.Add(-1)
	if err := l.names.Reset(ctx, key); err != nil {
		return fmt.Errorf("hybrid: reset %.100q: %w", key, err)
	}
	l.table.Drop(l.now(), key)
	return nil
}

// Reset is part of resetter.
func (s *namespace) Reset(ctx context.Context, key string) error {
	r, ok := s.store.(resetter)
	if !ok {
		return fmt.Errorf("store %T cannot reset keys", s.store)
	}
	return r.Reset(ctx, s.name(key))
}

// Reset forgets the ledger of a key: its bucket is full then. See [Limiter.Reset], which
// tells the Limiter as well.
func (m *Memory) Reset(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.ledgers, key)
	return nil
}
