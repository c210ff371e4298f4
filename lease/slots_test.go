package lease_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func slots(n int64) lease.Limit { return lease.Limit{Kind: lease.KindSlots, Burst: n} }

// jobs are how many slots were in use.
type jobs struct {
	most float64 // above the limit, at once
	full int     // 1 if all have been
}

// newSlotsHistory is newHistory with slots.
func newSlotsHistory(seed uint64) *history {
	h := newHistory(seed)
	h.rng = rand.New(rand.NewPCG(seed, 8))
	h.limit = slots(1 + h.rng.Int64N([]int64{3, 30, 300}[seed%3]))
	h.largest, h.settles, h.charges, h.waits = h.limit, true, false, seed%4 > 0
	h.sparse, h.steady = seed%5 == 4, false
	for i, a := range h.actors {
		h.start(a, i)
	}
	return h
}

// checkSlots is check for slots. A holder could use its idle slots at once.
func (h *history) checkSlots() {
	v, n := h.view(), float64(h.largest.Burst)
	if h.flushed {
		n *= 2
	}
	usable := 0.0
	for _, a := range h.actors {
		now := a.clock(h.now)
		mine := a.holder.Lease(now).Tokens + a.holder.Reserving()
		usable += mine
		if err := covered(v, a.id, mine, a.holder.Lease(now).Lives, h.now); err != nil && !h.flushed {
			h.fail("%v", err)
		}
	}
	if usable == float64(h.limit.Burst) {
		h.jobs.full = 1
	}
	h.jobs.most = max(h.jobs.most, usable-float64(h.largest.Burst))
	if usable > n {
		h.fail("S1: %v slots are in use or could be, %v allowed", usable, n)
	}
	if err := dividedSlots(v); err != nil {
		h.fail("%v", err)
	}
}

// dividedSlots is divided for slots. A claim that is late may be of slots that others have by
// now: blocks are more than there are then, and nothing is left.
func dividedSlots(v lease.View) error {
	if left := max(float64(v.Limit.Burst)-v.Bursts, 0); v.At > 0 && v.Pool > left {
		return fmt.Errorf("I4: %v slots are left, not %v: %+v", v.Pool, left, v)
	}
	return divided(v)
}

// covered returns an error unless the ledger has set aside what a holder may use, until its
// lease ends, and for a while after that.
func covered(v lease.View, id string, usable float64, lives, now time.Duration) error {
	if usable == 0 {
		return nil
	}
	r := find(v, id)
	if r == nil || r.Burst < usable {
		return fmt.Errorf("S1: %s has %v slots, and the ledger knows %+v", id, usable, r)
	}
	if left := r.Expires() - now; left < lives+lives/20 {
		return fmt.Errorf("S1: %s has slots for %v, and the ledger lends them anew in %v", id, lives,
			left)
	}
	return nil
}

// TestSlotsInvariants plays thousands of histories of slots. Each is checked after every
// step; see history.checkSlots.
func TestSlotsInvariants(t *testing.T) {
	playFull(t, 800, newSlotsHistory, func(h *history) int { return h.jobs.full })
}

// TestSlotsChanges: while their number changes, no more are in use than the largest.
func TestSlotsChanges(t *testing.T) { playChanges(t, 300, newSlotsHistory) }

// TestSlotsLostState: a state that is lost lets at most as many slots again be in use.
func TestSlotsLostState(t *testing.T) {
	playLostState(t, newSlotsHistory, func(h *history) float64 { return h.jobs.most })
}

// checkSlots is check for slots.
func (w *world) checkSlots(v lease.View) error {
	n, usable := float64(w.limit.Burst), 0.0
	if w.flushed {
		n *= 2 // I6
	}
	for i := range w.members {
		h := w.members[i].holder
		mine := h.Held() + h.Reserving()
		usable += mine
		id := name(i, w.members[i].life)
		if err := covered(v, id, mine, h.Lease(w.clock(i)).Lives, w.now); err != nil && !w.flushed {
			return err
		}
	}
	if usable > n {
		return fmt.Errorf("S1: %v slots are in use or could be, %v allowed", usable, n)
	}
	return dividedSlots(v)
}

// takes are the sizes of requests that use tokens up. Slots come back.
func (w *world) takes() []float64 {
	if w.limit.Kind == lease.KindSlots {
		return nil
	}
	return w.sizes
}

// usual is what a member with slots does as the world warms up.
func (w *world) usual(i int) move {
	if len(w.members[i].reserved) > 0 {
		return move{kind: "gives back", who: i}
	}
	return move{kind: "reserves", who: i, n: 1}
}

// acquire is a job that waits for slots.
func (c *conversation) acquire(s *speaker, n float64) {
	r, v := s.holder.Reserve(c.now, n)
	if v == lease.Admitted {
		c.begin(s, r)
	} else {
		c.say("%s: a job waits for %v", s.id, n)
		s.holder.Enter(&lease.Waiter{N: n, Hold: lease.WhileOpen, Until: c.now + time.Hour})
	}
	c.tend(s)
}

func (c *conversation) begin(s *speaker, r lease.Reserved) {
	s.jobs = append(s.jobs, r)
	c.say("%s: a job begins with %v, fence %d", s.id, r.Tokens,
		s.holder.Fence()-uint64(epoch/time.Microsecond))
}

// release is the end of a job.
func (c *conversation) release(s *speaker) {
	r := s.jobs[0]
	s.jobs = s.jobs[1:]
	s.holder.Release(c.now, r, r.Tokens)
	c.tend(s)
}

// jobsEnd ends the contexts of jobs whose lease has ended.
func (c *conversation) jobsEnd(s *speaker) {
	for len(s.jobs) > 0 && !s.holder.Keeps(c.now, s.jobs[0]) {
		c.say("%s: the context of a job with %v ends", s.id, s.jobs[0].Tokens)
		s.jobs = s.jobs[1:]
	}
}
