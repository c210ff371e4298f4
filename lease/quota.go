package lease

import (
	"fmt"
	"math"
	"time"
)

// A quota is kept as a bucket whose pool fills at the boundary of a window, and at no other time
// (ADR 81). The burst of a record is what its lease holds. A token that is lent counts as used
// until a message of its holder brings it back, or shows that the answer which brought it was lost.
//
// Q1 (TestQuotaInvariants): in each window, pool + what has been taken or lent and has not
// come back is Burst. A lease ends with its window at the latest, counted from when its
// request was sent (TestQuotaBoundary). So at most Burst tokens are admitted in a window.
//
// Its twin is lua/quota.lua.

const (
	// A lease is at most this part of what is left to lend and of what its holder has, by
	// the part of all demand that the holder has. So the leases shrink as the window is used
	// up, and the last tokens are taken one by one.
	quotaPart = 0.5

	// quotaRoom is how much longer than a refresh a lease should last, by its demand.
	quotaRoom = 1.5

	// While more than quotaCalm of the quota is left, holders with few requests come back
	// later: after so many parts of MaxHold and of the rest of the window at most.
	quotaCalm = 0.125
	quotaHold = 2.25
	quotaEnd  = 4.0

	// quotaHunger is the unrest above which holders bring back what they do not need: a
	// denial sets it to 1, and it halves in half a second.
	quotaHunger = 0.25
)

// A quotaLedger divides a quota. What it shares with a bucket is the skeleton: which
// holders there are, their limits, and the ends of their leases.
type quotaLedger struct{ windowLedger }

func divideQuota(l plainLedger) division { return quotaLedger{windowLedger{l}} }

// clock does not wait for a clock that stepped back: windows are those of a calendar.
func (l quotaLedger) clock(now float64) float64 { return max(now, l.at) }

// exchange answers a request: each phase is a method.
func (l quotaLedger) exchange(t float64, asked Request) Reply {
	q := &asked
	start, end := l.bounds(t)
	if l.at < start { // all that is out has ended with its window
		born := l.born
		l.open(t, q)
		l.born = born
	}
	l.advance(t, q)

	a := answer{record: record{seq: float64(q.Seq), at: t, refills: end - t}}
	l.declare(&a, q)
	l.classify(&a, q)
	l.comeBack(&a, q, start)
	l.keepFloors(&a, q)
	l.take(&a, q)
	l.lendBatch(&a, q)
	l.deny(&a, q)
	l.insert(q.Holder, a.record)

	r := l.reply(&a)
	r.Window, r.RateUntil = r.RateUntil, 0
	r.Fence = uint64(a.at)
	r.Pool.Flow = a.demand - l.demand
	if a.byClass != nil {
		r.Portions = &a.byClass.Portions
	}
	return r
}

// comeBack takes what the holder hands back. A record of this window is marked when its
// holder has had an answer of this window: what it held before was of another one, and is
// worth nothing.
func (l quotaLedger) comeBack(a *answer, q *Request, start float64) {
	r := l.rejoin(q)
	switch {
	case r != nil && float64(q.Seq) > r.seq: // else it is a repeat, and the lease has ended
		a.was, a.marked = r.demand, r.marked || float64(q.Seen) >= r.seq
		back := 0.0
		if a.marked {
			a.held, back = q.Held, q.Give
		}
		if a.held > 0 { // else nothing can be spent before the answer
			a.left = min(r.expires()-a.at, claimed(q))
		}
		if float64(q.Seen) < r.seq {
			back += r.add // the answer that brought it will not be accepted any more
		}
		back = min(back, r.burst-above(a.held))
		l.pool += back
		l.book(a, q, r, back)
	case q.Claim.Left > 0 && l.born >= start:
		// The state of this window was lost. (If it was not, the lease was of the window
		// before, or what it holds was debited when it was lent.)
		a.held, a.left, a.marked = q.Held, min(claimed(q), a.refills), true
		l.pool -= above(a.held)
		l.adoptByClass(a, q)
	}
	if q.Debt >= 0 {
		l.bookDebt(a, q, l.debit(q, r))
	} else if r != nil && float64(q.Seen) == r.seq && float64(q.Since) == r.at {
		// What was spent before a state was lost has not been taken from this one.
		l.pool = max(l.pool, min(l.pool-q.Debt, l.burst-l.bursts-above(a.held)))
	}
	a.held = min(a.held, 2*MaxBurst-l.bursts)      // the sum stays exact
	l.trim(max(l.burst-l.bursts-above(a.held), 0)) // of a state that was spoilt
}

// claimed is for how long the holder may spend from the lease that it claims, in µs. Its
// clock may be a little slow.
func claimed(q *Request) float64 {
	return math.Ceil(float64(micros(q.Claim.Left)*(1+2*drift))) + 1
}

// lendBatch decides how many tokens the holder may have, and for how long.
func (l quotaLedger) lendBatch(a *answer, q *Request) {
	p := &q.Policy
	sum := l.offered(a, q)
	a.contended = float64(sum*a.refills)/1e6 > l.pool
	a.dry = l.pool-a.spared < 1

	longest := micros(p.MaxRefresh)
	if hungry := l.unrest > quotaHunger; !hungry && l.pool > float64(l.burst*quotaCalm) {
		calm := math.Floor(min(micros(p.MaxHold)/quotaHold, a.refills/quotaEnd))
		longest = max(longest, calm)
	}
	lag := min(micros(q.Lag), micros(p.MaxRefresh))
	a.refresh = l.refresh(a, p, longest, lag)
	if a.byClass != nil {
		l.lendByClass(a, q, sum)
	} else {
		a.keep = l.batch(a, q, sum)
		a.add = math.Floor(max(min(a.keep-a.held, l.pool), 0))
	}
	if a.keep == 0 {
		a.refresh = micros(p.MinRefresh) // what it has shall come back
	}
	l.lend(a, above(a.held+a.add))
	a.granted = min(a.refresh+max(a.refresh, micros(p.MaxRefresh))+lag, a.refills)
	if a.burst > 0 { // its end would bring back nothing
		a.granted = min(l.ends.width*era, a.refills)
	}
	a.life = min(max(a.granted, a.left), a.refills)
}

// batch is how many tokens the lease shall have.
func (l quotaLedger) batch(a *answer, q *Request, sum float64) float64 {
	p := &q.Policy
	avail := max(l.pool, 0) + a.held
	switch {
	case p.Mode == Batches:
		return math.Floor(min(float64(p.Batch), avail))
	case p.Mode == PerRequest && p.MaxHold <= p.MaxRefresh, a.demand == 0:
		return 0
	case a.dry && l.unrest > quotaHunger:
		return 0 // others were denied
	}
	batch := min(a.needs(a.demand), partOf(avail, a.demand, sum))
	if p.Mode != Shares && batch < float64(p.Smallest) {
		return 0
	}
	return batch
}

// needs is how many tokens a demand takes until the holder has come back.
func (a *answer) needs(demand float64) float64 {
	return math.Ceil(float64(demand*a.refresh*quotaRoom) / 1e6)
}

// partOf is how many of avail tokens a lease has at most, for a demand of the sum of all.
func partOf(avail, demand, sum float64) float64 {
	return math.Floor(float64(avail*quotaPart) * demand / sum)
}

// deny is how long a holder shall not ask again, in µs, if it was denied. While others hold
// tokens these may come back. Otherwise nothing does before the boundary, and not then as long as
// other frames have it all. (What these leave before is for reply.)
func (l quotaLedger) deny(a *answer, q *Request) {
	if q.Take <= a.taken {
		return
	}
	later := l.past.under(l.at, max(l.burst-a.needed(q), 0)) - l.at
	a.retry = min(max(a.refills, later), micros(MaxFill))
	if l.bursts > 0 {
		a.retry = min(a.retry, micros(q.Policy.MaxRefresh))
	}
}

// pass lets all leases go with their window, noticed or not. Only a request of another frame finds
// leases here beyond the boundary: any other one has begun the next window (TestTurnAtBoundary).
func (l quotaLedger) pass(from float64) {
	if _, end := l.bounds(from); l.at >= end {
		clear(l.holders)
	}
	l.windowLedger.pass(from)
}

// remember adds what was used of the window in which the exchange before was, if it goes on.
func (l quotaLedger) remember(from float64) {
	if _, end := l.bounds(from); l.at < end {
		l.past.add(l.burst-l.pool-l.before(l.at), end)
	}
}

// idle reports whether at time t nothing of a quota is used.
func (l quotaLedger) idle(t float64) bool {
	_, end := l.bounds(l.at)
	return t >= end || l.pool >= l.burst && len(l.holders) == 0
}

func validateQuota(l Limit) error {
	if err := l.validateBurst(); err != nil {
		return err
	}
	if l.Offset.Abs() > maxOffset || l.Offset%time.Second != 0 {
		return fmt.Errorf("lease: %w: Offset %v is not from -14h to 14h in whole seconds",
			ErrInvalidLimit, l.Offset)
	}
	return l.validateWindow("a quota")
}

// quotaText: "10000/day", or "10000/day UTC+02:00".
func quotaText(l Limit) string {
	text := fmt.Sprintf("%d/%s", l.Burst, windowName(l.Window))
	if l.Offset != 0 {
		sign, d := '+', l.Offset
		if d < 0 {
			sign, d = '-', -d
		}
		text += fmt.Sprintf(" UTC%c%02d:%02d", sign, d/time.Hour, d%time.Hour/time.Minute)
	}
	return text
}
