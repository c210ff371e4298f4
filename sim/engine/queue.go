package engine

import "time"

// An event is something that happens at a time. ref says to what: the index of
// a stream, a driver, a cell, a message, a request or a fault, by kind.
type event struct {
	at    time.Duration
	order uint64 // of two events at the same time, the one that was planned first
	kind  kind
	ref   int32
}

type kind uint8

const (
	arrive  kind = iota // the next request of a stream
	ask                 // a planned request: of a client, or a retry
	wake                // a driver has something to do
	giveUp              // a cell's requests have waited for long enough
	lapse               // so has a request for several keys
	leave               // a flight has gathered what leaves with it, or has paused
	deliver             // a message reaches Redis
	answer              // its answer reaches the process
	fail                // it has brought none
	done                // a process has worked off a request
	turn                // a job is over, or may ask, or has waited for long enough
	strike              // a fault
	mend                // its end
	permit              // a lowered limit holds for the gauge, too
	warm                // measuring begins
	tick                // a window ends
)

func (e *event) before(x *event) bool {
	return e.at < x.at || e.at == x.at && e.order < x.order
}

// A queue is a heap of events, four children each: half as deep as a binary
// one, and the children share a cache line or two. (container/heap would box
// each event.)
type queue struct {
	events []event
	order  *uint64 // of the last event that was planned, in any queue
}

func (q *queue) push(at time.Duration, k kind, ref int32) {
	*q.order++
	q.events = append(q.events, event{at, *q.order, k, ref})
	i := len(q.events) - 1
	e := q.events[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(&q.events[parent]) {
			break
		}
		q.events[i] = q.events[parent]
		i = parent
	}
	q.events[i] = e
}

// pop removes the first event.
func (q *queue) pop() {
	n := len(q.events) - 1
	last := q.events[n]
	q.events = q.events[:n]
	if n > 0 {
		q.sink(last)
	}
}

// again moves the first event to a later time.
func (q *queue) again(at time.Duration) {
	e := q.events[0]
	*q.order++
	e.at, e.order = at, *q.order
	q.sink(e)
}

// sink puts e where it belongs, from the top.
func (q *queue) sink(e event) {
	events := q.events
	i := 0
	for {
		first := 4*i + 1
		if first >= len(events) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(events)); c++ {
			if events[c].before(&events[least]) {
				least = c
			}
		}
		if !events[least].before(&e) {
			break
		}
		events[i] = events[least]
		i = least
	}
	events[i] = e
}
