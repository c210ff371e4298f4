package holds

import (
	"runtime"
	"time"
)

// NewMemoryAt is NewMemory with a clock.
func NewMemoryAt(now func() time.Time) *Memory { return newMemory(now) }

// Sync returns after a batch that was sent later than all before, when none is under way.
func (k *Keeper) Sync() {
	<-k.send(Call{Verb: Look, Name: "none"}).done
	k.Rest()
}

// Rest returns when no batch is under way.
func (k *Keeper) Rest() {
	for flying := true; flying; runtime.Gosched() {
		k.mu.Lock()
		flying = k.flying
		k.mu.Unlock()
	}
}

// Hurry makes a Keeper's times as short as those of a test whose clock cannot be set.
func (k *Keeper) Hurry(patience, gap time.Duration) { k.patience, k.gap, k.pace = patience, gap, 0 }

// Ahead is for how long a hold may still be on its way to the Store. A reply that took long has a
// Keeper think that the Store's clock is as far ahead.
func (k *Keeper) Ahead() (longest time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.mine {
		longest = max(longest, l.Until.Sub(k.clock))
	}
	return longest
}

// Forget has a Memory lose all.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.holds)
	clear(m.boxes)
}
