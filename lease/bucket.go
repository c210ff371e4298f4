package lease

import "time"

// A bucket is the limits of a key, the tokens that are not lent out, and the clock
// that they flow by.
//
// Time never goes back, and each token that flows is in the pool, in a lease's
// own refill, or in flows as spilt: never in two of them (I4, TestInvariants).
type bucket struct {
	rate, burst float64 // the limit in force
	limits      limits  // of which it is the lowest
	frame               // what it has beside these numbers

	at    float64 // time of the last change, µs; never goes back
	ahead float64 // by how much that is ahead of the clock, since the clock stepped back, µs
	pool  float64 // tokens not lent out; below 0 while a lost state is paid back (I6)

	// born is when this state began. A lease that is claimed soon after is from
	// a state that was lost, and has been running beside it since (I6).
	born float64

	rooms rooms
	flows Flows
	past  past // of other frames
}

// Flows are tokens that went through a Ledger's pool since the zero Ledger.
type Flows struct {
	Pooled   float64 // flowed into it: the rate that nobody had on lease
	Spilt    float64 // it had no room for
	Refused  float64 // came back with a lease, and found no room
	Returned float64 // found no room in a lease, and came back by that of the pool
}

// Flows tells where tokens went, for whoever accounts for them. They are not
// part of the state that the twins share.
func (l *Ledger) Flows() Flows { return l.flows }

// Plus adds up two of them.
func (f Flows) Plus(g Flows) Flows {
	return Flows{
		f.Pooled + g.Pooled, f.Spilt + g.Spilt, f.Refused + g.Refused, f.Returned + g.Returned,
	}
}

// clockStep is how far the clock may step back, in µs, for the ledger to stand still
// until it has caught up: so two clocks that take turns mint nothing. After a larger
// step the ledger goes on from where it was.
const clockStep = 1e6

// clock is the ledger's time when its clock shows now.
func (l *Ledger) clock(now float64) float64 {
	if l.kind == KindQuota {
		return max(now, l.at) // windows are those of a calendar
	}
	t := now + l.ahead
	if t < l.at-clockStep {
		l.ahead = l.at - now
	}
	return max(t, l.at)
}

// Idle reports whether at time now the bucket is full and nothing is out, so
// that forgetting the ledger changes nothing.
func (l *Ledger) Idle(now time.Duration) bool {
	t := max(micros(now)+l.ahead, l.at)
	if l.past.ends() > t {
		return false
	}
	switch l.kind {
	case KindQuota:
		return l.quotaIdle(t)
	case KindSlots:
		return l.slotsIdle(t)
	case KindSliding:
		return l.slidingIdle(t)
	}
	for _, r := range l.holders {
		if r.expires() > t {
			return false
		}
	}
	return l.pool+float64(l.rate*(t-l.at))/1e6 >= l.burst
}

// Unrest halves in half a second, calmsIn µs.
const calmsIn = 500000

// refill lets the rate that nobody has on lease flow into the pool until time t,
// which is not before l.at.
func (l *Ledger) refill(t float64) {
	free := max(l.rate-l.rates, 0) // a lowered limit may be below what is still out
	room := max(l.burst-l.bursts, min(l.pool, 0))
	flow := float64(free*(t-l.at)) / 1e6
	l.pool += flow
	l.flows.Pooled += flow
	l.trim(room)
	l.unrest /= 1 + (t-l.at)/calmsIn
	from := l.at
	l.at = t
	l.noteRoom(from)
}

// trim lets go what the pool has no room for.
func (l *Ledger) trim(room float64) {
	if l.pool > room {
		l.flows.Spilt += l.pool - room
		l.pool = room
	}
}

// accrued is what has flowed into a lease since r was answered, as far as its
// holder may have added it.
func (r *record) accrued(t float64) float64 {
	return float64(r.rate*(min(t, r.rateUntil())-r.at)) / 1e6
}
