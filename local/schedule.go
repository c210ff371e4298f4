package local

import (
	"container/heap"
	"math"
	"sync"
	"time"
)

// A schedule knows when entries want attention: a single heap instead of a timer
// for each key. An entry stands in it at most once.
type schedule struct {
	mu   sync.Mutex
	heap entries
	due  []*Entry // that Due has returned
	wake chan struct{}
}

// newSchedule returns an empty schedule.
func newSchedule() *schedule { return &schedule{wake: make(chan struct{}, 1)} }

// Set makes e due at the given time at the latest. A later time than the one
// that is set already changes nothing: e is then due early, finds nothing to
// do, and is set again. That spares the heap a move for each renewal.
func (s *schedule) Set(e *Entry, at time.Duration) {
	if at == math.MaxInt64 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.index == 0:
		e.due = at
		heap.Push(&s.heap, e)
	case at < e.due:
		e.due = at
		heap.Fix(&s.heap, int(e.index)-1)
	default:
		return
	}
	if e.index == 1 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// Earlier receives when the earliest time has moved forward.
func (s *schedule) Earlier() <-chan struct{} { return s.wake }

// Due takes up to most entries that are due at now out of the schedule, and
// returns when the next one is due. The list is valid until the next call that takes any out.
func (s *schedule) Due(now time.Duration, most int) (due []*Entry, next time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	due = shrunk(s.due)[:0]
	for len(s.heap) > 0 && s.heap[0].due <= now && len(due) < most {
		due = append(due, heap.Pop(&s.heap).(*Entry))
	}
	if len(due) > 0 {
		s.due = due
	}
	s.heap = shrunk(s.heap)
	if len(s.heap) == 0 {
		return due, math.MaxInt64
	}
	return due, s.heap[0].due
}

// entries is a heap by due; an entry's index counts from 1, 0 is out of it.
type entries []*Entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].due < h[j].due }

func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i+1), int32(j+1)
}

func (h *entries) Push(x any) {
	e := x.(*Entry)
	*h = append(*h, e)
	e.index = int32(len(*h))
}

func (h *entries) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = 0
	return e
}
