package hybrid

import (
	"context"
	"fmt"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// wantSlots has a request to reserve want slots of the keys that turn out to have slots. It reports
// whether there are any that it has not wanted before: then ask again.
func (s *several) wantSlots(ctx context.Context) (more bool) {
	for _, p := range s.all.Parts {
		if p.Verdict != lease.Exceeding || p.Job() != nil || !p.Entry.Limit().Kind.Jobs() {
			continue
		}
		slot := s.l.newSlot(ctx, p.Entry.Key, p.N)
		if s.slots == nil {
			s.slots = map[*local.Part]*Slot{}
		}
		p.For(slot.job)
		s.slots[p], more = slot, true
	}
	return more
}

// slot is what a part has got of a key that has slots, or nil.
func (s *several) slot(p *local.Part) *Slot {
	slot := s.slots[p]
	if slot == nil || !slot.job.Begun() {
		return nil // the key has turned to tokens
	}
	slot.entry = p.Entry
	return slot
}

// exceeds is the error of a part that wants more than its key will ever have.
func (s *several) exceeds(p *local.Part, key string) error {
	limit := Limit(p.Entry.InForce())
	switch {
	case p.Job() == nil || !limit.Kind.Jobs():
		return exceeds(s.taking(p), key, limit)
	case p.Entry.Stray():
		return fmt.Errorf("hybrid: %s of %.100q: %w", s.taking(p), key, s.l.full())
	}
	return fmt.Errorf("hybrid: %s of %.100q, limit %v: %w", s.taking(p), key, limit, ErrExceedsBurst)
}
