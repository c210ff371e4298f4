package lease

import (
	"encoding/binary"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"
)

// What TestExplore needs of both halves: copies, and all that decides what they
// will do, as bytes. What could not be used (spilt, expired) is only counted: it
// is in neither.

// Clone returns a copy, with a queue of its own.
func (h *Holder) Clone() *Holder {
	c := *h
	c.waste = nil
	if h.debts != nil {
		c.debts = new(*h.debts)
	}
	if h.failed != nil {
		c.failed = new(*h.failed)
	}
	switch kind := h.kind.(type) {
	case *quotaHolder:
		c.kind = new(*kind)
	case *slotsHolder:
		c.kind = new(*kind)
	case *slidingHolder:
		copied := *kind
		copied.used.list = slices.Clone(kind.used.list)
		c.kind = &copied
	}
	c.queue = nil
	for w := h.head(); w != nil; w = w.next {
		if c.queue == nil {
			c.queue = new(waiters)
		}
		c.queue.push(&Waiter{N: w.N, Until: w.Until, Verdict: w.Verdict, Tag: w.Tag, Hold: w.Hold, entered: w.entered})
	}
	return &c
}

// head is the first in the queue.
func (h *Holder) head() *Waiter {
	if h.queue == nil {
		return nil
	}
	return h.queue.head
}

// DenySlowly does what deny does, and goes through the whole queue.
func (h *Holder) DenySlowly(now time.Duration) {
	ahead, first, looked := 0.0, 0.0, 0
	h.queue.turnAway(Denied, func(w *Waiter) bool { // of one class
		looks := looked < front || !w.seen
		looked++
		if !looks {
			ahead += w.N
			return false
		}
		if w.Until == 0 || now+h.soonest(now, 0, ahead, first, w.N) > w.Until {
			return true
		}
		if ahead == 0 {
			first = w.N
		}
		ahead += w.N
		w.seen = true
		return false
	})
}

// DenyAll puts the terms of a reply in force, the denial for as many as Taken or
// more, and denies.
func (h *Holder) DenyAll(now time.Duration, r Reply, deny func(*Holder, time.Duration)) {
	h.at, h.expires, h.denial = now, never, denial{until: now + r.RetryAfter, least: r.Taken}
	h.tokens, h.rate, h.burst, h.contended = r.Add, r.Rate, r.Burst, r.Contended
	if r.Pool != (Pool{}) {
		h.talk.seen, h.pool = 1, newPool(r.Pool, r.Burst, float64(h.limit.Burst), now, now)
	}
	deny(h, now)
}

// Deny is deny.
func (h *Holder) Deny(now time.Duration) { h.deny(now) }

// Contended is as last replied.
func (h *Holder) Contended() bool { return h.contended }

// Waiting is how many are in the queue.
func (h *Holder) Waiting() int { return h.queue.len() }

// Looks is how many waiters were looked at, ever.
func (h *Holder) Looks() uint64 {
	if h.queue == nil {
		return 0
	}
	return h.queue.looks
}

// Run is what the first in the queue, and those behind it that ask for as much,
// ask for: as noted, and as counted.
func (h *Holder) Run() (noted, counted float64) {
	if h.queue == nil {
		return 0, 0
	}
	for w := h.queue.head; w != nil && w.N == h.queue.head.N; w = w.next {
		counted += w.N
	}
	return h.queue.run(), counted
}

// Last is the last in the queue.
func (h *Holder) Last() *Waiter {
	if h.queue == nil {
		return nil
	}
	return h.queue.tail
}

// AppendState appends what h is.
func (h *Holder) AppendState(b []byte) []byte {
	c := *h
	c.waste, c.queue = nil, nil
	b = append(AppendFields(b, c), byte(h.queue.len()))
	for w := h.head(); w != nil; w = w.next {
		b = AppendFields(b, Waiter{N: w.N, Until: w.Until, Verdict: w.Verdict, Tag: w.Tag, Hold: w.Hold, entered: w.entered})
	}
	return b
}

// Clone returns a copy.
func (l *Ledger) Clone() *Ledger {
	c := *l
	c.flows = Flows{}
	c.holders, c.limits = maps.Clone(l.holders), slices.Clone(l.limits)
	c.panes.list = slices.Clone(l.panes.list)
	for id, r := range c.holders {
		kept := *r
		c.holders[id] = &kept
	}
	return &c
}

// AppendState appends what l is.
func (l *Ledger) AppendState(b []byte) []byte {
	c := *l
	c.flows, c.holders = Flows{}, nil
	b = AppendFields(b, c)
	for _, id := range slices.Sorted(maps.Keys(l.holders)) {
		b = append(b, id...)
		b = AppendFields(b, *l.holders[id])
	}
	return b
}

// AppendFields appends all fields of v, and what they point to.
func AppendFields(b []byte, v any) []byte { return appendValue(b, reflect.ValueOf(v)) }

func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			b = appendValue(b, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		b = append(b, byte(v.Len()))
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(b, 0)
		}
		b = appendValue(append(b, 1), v.Elem())
	case reflect.Map:
		if v.Len() > 0 {
			panic("a map has no order")
		}
	case reflect.Float32, reflect.Float64:
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(v.Float()))
	case reflect.Int, reflect.Int32, reflect.Int64:
		b = binary.BigEndian.AppendUint64(b, uint64(v.Int()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		b = binary.BigEndian.AppendUint64(b, v.Uint())
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		b = append(b, 0)
	case reflect.String:
		b = append(append(b, byte(v.Len())), v.String()...)
	default:
		panic("AppendFields: " + v.Kind().String())
	}
	return b
}

// Bounds are when the window of a quota begins and ends in which t lies, in µs.
func Bounds(l Limit, t time.Duration) (start, end float64) {
	return frameOf(l).bounds(micros(t))
}

// Used is what the holder has spent of a sliding window, and still counts.
func (h *Holder) Used() float64 { return h.kind.busy() }

// Policy is the one that the holder goes by.
func (h *Holder) Policy() *Policy { return h.policy }

// Parts is how many parts the holder has that were made when they were needed.
func (h *Holder) Parts() (n int) {
	for _, made := range []bool{h.queue != nil, h.debts != nil, h.kind != spending(bucketHolder{}), h.failed != nil} {
		if made {
			n++
		}
	}
	return n
}
