package lease

import (
	"fmt"
	"time"
)

// A Kind is what a Limit promises, and so by which phases its Ledger divides it.
type Kind uint8

const (
	// KindBucket is a token bucket: at most Burst + Rate*T in any window of T seconds.
	KindBucket Kind = iota
	// KindQuota is a quota: at most Burst in each window of the calendar.
	KindQuota
	// KindSlots is slots: at most Burst in use at any time.
	KindSlots
	// KindSliding is a sliding window: at most Burst in any Window.
	KindSliding
)

// String returns the name that logs print.
func (k Kind) String() string {
	return name("Kind", []string{"token bucket", "quota", "slots", "sliding window"}, int(k))
}

// A frame is what two limits of a key must have in common to be counted together: all but
// Rate and Burst. The windows of a quota begin and end by it.
type frame struct {
	kind           Kind
	window, offset float64 // µs
}

func frameOf(l Limit) frame {
	return frame{kind: l.Kind, window: micros(l.Window), offset: micros(l.Offset)}
}

// limit is the Limit of this frame with these numbers.
func (f frame) limit(rate float64, burst int64) Limit {
	return Limit{
		Rate: rate, Burst: burst, Kind: f.kind, Window: duration(f.window), Offset: duration(f.offset),
	}
}

// open starts the ledger of a key that nobody has asked for, or of another frame or window than
// before. Its time is not before at.
func (l *Ledger) open(t float64, q *Request) {
	*l = Ledger{bucket: bucket{flows: l.flows, past: l.past}}
	l.frame = frameOf(q.Limit)
	l.rate, l.burst, l.at, l.born = q.Limit.Rate, float64(q.Limit.Burst), t, t
	l.holders = map[string]*record{}
	l.ends = calendar{width: slotWidth(&q.Policy)}
	if q.Claim.Left == 0 || l.kind != KindBucket {
		l.pool = l.burst // a holder's claim shows that a bucket has been in use
	}
	l.pool = min(l.pool, l.burst-l.past.used(t, l.kind, l.burst))
	l.past.forget(t)
	if l.kind == KindBucket {
		l.past.rate, l.past.full = 0, 0 // the pool has it
	}
}

// prepare opens the ledger if q needs that, and reports whether q can be answered: while
// others go by a limit of another kind, it cannot. The rule is that of two limits of one
// kind (limits.go): the new one counts as soon as nobody goes by the old one, and a holder
// that declares the new one has left the old one (TestKindsChange).
func (l *Ledger) prepare(t float64, q *Request) bool {
	switch {
	case l.holders == nil:
		l.open(t, q)
	case l.frame == frameOf(q.Limit):
	case l.leave(t, q):
		l.open(l.at, q)
	default:
		return false
	}
	return true
}

// leave takes the holder off a ledger of another kind than it declares, and reports
// whether it was the last one.
func (l *Ledger) leave(t float64, q *Request) bool {
	from := l.at
	l.advance(l.clock(t), &q.Policy)
	if r := l.holders[q.Holder]; r != nil {
		l.remove(r)
		if l.kind == KindSliding {
			l.spend(l.at, r.burst) // it may have been
		}
		l.limits.leave(r.limit)
		delete(l.holders, q.Holder)
	}
	l.keepRooms()
	if len(l.holders) > 0 {
		return false
	}
	l.remember(from)
	return true
}

// elsewhere is the reply to a holder whose kind of limit is not in force: it is denied, and
// asks again soon.
func (l *Ledger) elsewhere(q *Request) Reply {
	return Reply{
		Seq: q.Seq, RetryAfter: duration(micros(q.Policy.MaxRefresh)),
		Holders: len(l.holders), Limit: l.Limit(),
	}
}

// Mean is the rate at which the limit lets tokens through if it is used up all the time, in
// tokens/s: the Rate of a bucket, and of a quota or a sliding window Burst by the length of the
// window. It is 0 for slots.
func (l Limit) Mean() float64 {
	if l.Window > 0 {
		return float64(l.Burst) / l.Window.Seconds()
	}
	return l.Rate
}

// validateQuota is Validate for a quota.
func (l Limit) validateQuota() error {
	if l.Offset.Abs() > maxOffset || l.Offset%time.Second != 0 {
		return fmt.Errorf("lease: %w: Offset %v is not from -14h to 14h in whole seconds",
			ErrInvalidLimit, l.Offset)
	}
	return l.validateWindow("a quota")
}

// validateWindow is Validate for what kinds with a Window have in common.
func (l Limit) validateWindow(kind string) error {
	switch {
	case l.Rate != 0:
		return fmt.Errorf("lease: %w: Rate %v of %s is not 0", ErrInvalidLimit, l.Rate, kind)
	case l.Window < minWindow || l.Window > maxWindow || l.Window%time.Second != 0:
		return fmt.Errorf("lease: %w: Window %v is not from %v to 10 years in whole seconds",
			ErrInvalidLimit, l.Window, minWindow)
	}
	return nil
}

// forfeit lets go what is held, and what is known, of a limit of another kind. The ledger
// forgets it as well (Ledger.leave).
func (h *Holder) forfeit() {
	h.endReserves()
	h.expired += h.tokens + h.leave()
	h.holding = holding{at: h.at}
	h.others, h.denial, h.pool = numbers{}, denial{}, pool{}
	h.turned = true
}

// lower is what of the limit in force is lower than the one that was declared: nothing if
// that is of another kind, and this holder is denied.
func (h *Holder) lower(inForce Limit) numbers {
	if frameOf(inForce) != frameOf(h.limit) {
		return numbers{}
	}
	return inForce.numbers().below(h.declared)
}
