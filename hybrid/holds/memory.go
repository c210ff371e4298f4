package holds

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Memory is a Store within the process: for a service of one replica, and for tests. Its twin is
// redisholds/holds.lua; TestTwins holds them together.
type Memory struct {
	now func() time.Time

	mu    sync.Mutex
	holds map[string]*hold
	boxes map[string]*box // by home
	next  time.Time       // before it no hold ends, and none is forgotten
}

// A box has the notices of a home, by ID. It is forgotten Kept after the last one came.
type box struct {
	ends    time.Time
	notices map[string]Notice
}

// A hold is what is kept of one: of one that has ended, what a repeat needs.
type hold struct {
	Call  // of Reserve; only the Name, once it has ended
	home  string
	ends  time.Time // of its life; of the memory of it, once it has ended
	ended bool
	over  bool  // its life has ended
	used  []int // once it has ended
}

// NewMemory returns a Store without holds.
func NewMemory() *Memory { return newMemory(time.Now) }

func newMemory(now func() time.Time) *Memory {
	return &Memory{now: now, holds: map[string]*hold{}, boxes: map[string]*box{}}
}

// Do implements Store. It does not block, and has no errors.
func (m *Memory) Do(_ context.Context, b Batch) (Reply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now().Truncate(time.Millisecond)
	m.expire(now)
	if x := m.boxes[b.Home]; x != nil {
		for _, id := range b.Acks {
			delete(x.notices, id)
		}
	}
	r := Reply{Now: now}
	for _, c := range b.Calls {
		r.Answers = append(r.Answers, m.do(now, b.Home, c))
	}
	if x := m.boxes[b.Home]; x != nil {
		for _, id := range slices.Sorted(maps.Keys(x.notices)) {
			r.Notices = append(r.Notices, x.notices[id])
		}
	}
	return r, nil
}

// expire ends the holds whose life has ended, and forgets those that have ended long ago.
func (m *Memory) expire(now time.Time) {
	maps.DeleteFunc(m.boxes, func(_ string, x *box) bool { return !now.Before(x.ends) })
	if now.Before(m.next) {
		return
	}
	m.next = now.Add(MaxLife)
	for name, h := range m.holds {
		switch due := !now.Before(h.ends); {
		case due && h.ended:
			delete(m.holds, name)
			continue
		case due:
			var used []int
			if h.Spent {
				used = h.Estimate
			}
			m.end(now, h, Expired, allOf(used, h.Estimate))
		}
		m.dueAt(h.ends)
	}
}

func (m *Memory) dueAt(t time.Time) {
	if t.Before(m.next) {
		m.next = t
	}
}

// end ends a hold, and tells its home.
func (m *Memory) end(now time.Time, h *hold, k Kind, used []int) {
	m.tell(now, h.home, Notice{Kind: k, Name: h.Name, Used: used})
	*h = hold{
		Call: Call{Name: h.Name}, ends: now.Add(Kept), ended: true, over: k == Expired, used: used,
	}
}

// charge tells a replica to charge what another one's estimate was too low by.
func (m *Memory) charge(now time.Time, home string, h *hold, used []int) {
	above, more := make([]int, len(used)), false
	for i, n := range used {
		above[i] = max(n-h.Estimate[i], 0)
		more = more || above[i] > 0
	}
	if more {
		m.tell(now, home, Notice{Kind: Charge, Name: h.Name, Used: above, Content: h.Content})
	}
}

// allOf is used, or as many zeros as numbers there are.
func allOf(used, numbers []int) []int {
	if used == nil {
		return make([]int, len(numbers))
	}
	return used
}

func (m *Memory) tell(now time.Time, home string, n Notice) {
	x := m.boxes[home]
	if x == nil {
		x = &box{notices: map[string]Notice{}}
		m.boxes[home] = x
	}
	x.notices[n.ID()], x.ends = n, now.Add(Kept)
}

func (m *Memory) do(now time.Time, home string, c Call) Answer {
	h := m.holds[c.Name]
	if h == nil {
		if c.Verb != Reserve {
			return Answer{Verdict: Absent}
		}
		if now.After(c.Until) {
			return Answer{Verdict: Late}
		}
		h = &hold{Call: c, home: home, ends: now.Add(c.Life)}
		m.holds[c.Name] = h
		m.dueAt(h.ends)
		return h.answer(Done)
	}
	v := m.verdict(now, h, c, home)
	if h.ended {
		return Answer{Verdict: v}
	}
	return h.answer(v)
}

func (h *hold) answer(v Verdict) Answer {
	return Answer{Verdict: v, Ends: h.ends, Token: h.Token, Answer: h.Answer}
}

func (m *Memory) verdict(now time.Time, h *hold, c Call, by string) Verdict {
	switch {
	case c.Verb == Settle:
		return m.settle(now, h, c, by)
	case h.ended:
		return Over
	case c.Verb == Extend:
		if ends := now.Add(c.Life); ends.After(h.ends) {
			h.ends = ends
		}
		return Done
	case c.Content != "" && c.Content != h.Content:
		return Differs
	}
	return Repeated
}

func (m *Memory) settle(now time.Time, h *hold, c Call, by string) Verdict {
	as := h.Estimate
	if h.ended {
		as = h.used
	}
	used := allOf(c.Used, as)
	switch {
	case h.over:
		return Over
	case len(used) != len(as):
		return Numbers
	case !h.ended:
		k := Whole
		if by != h.home {
			k = Return
			m.charge(now, by, h, used)
		}
		m.end(now, h, k, used)
		m.dueAt(h.ends)
		return Done
	case slices.Equal(used, h.used):
		return Repeated
	}
	return Differs
}
