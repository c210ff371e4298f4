package lease

import (
	"math"
	"time"
)

// An agenda is when a Holder next has something to do: the earliest of its
// triggers. Each Take is compared with it, and with nothing else.
type agenda struct {
	wake  time.Duration // at this time
	look  time.Duration // the same, but only if a request comes then
	alarm float64       // when meter.count is as large
}

// never is the time of what does not come.
const never = time.Duration(math.MaxInt64)

// longAgo is the time of what has not been yet.
const longAgo = -never / 4

// idle is the agenda of a holder that waits for its driver.
var idle = agenda{wake: never, look: never, alarm: math.Inf(1)}

// A trigger is one reason to ask. It fires at a time, or at a count of tokens
// that are offered, when its pause is over.
type trigger struct {
	at    time.Duration
	pause time.Duration // it does not fire before
	since time.Duration // it fires only if a request has come since then
	lazy  bool          // it wakes nobody: it is looked at when a request comes

	counts bool    // it fires at a count, and at any time
	from   float64 // the value of meter.count from which the rest counts
	left   float64 // the rest: tokens that are still to be offered
}

// A why is the reason of a trigger, its row in the table. Of several that fire the
// first one counts.
type why int

const (
	nothing  why = iota
	waited       // a caller waits, and is not denied
	refilled     // the lease has refilled what the first waiter needs: nothing is asked
	probed       // the driver wants to know whether the ledger answers
	indebted     // the ledger does not know of a debt
	silent       // the traffic has gone elsewhere: everything is handed back
	renewal      // the lease is due for a refresh
	limited      // the limit may have changed: the driver tells that, nothing is asked
	low          // the tokens run out before the refresh
	rows
)

// triggers writes the table. A row that does not apply is at never, or infinitely
// many tokens away. The rows refilled and limited always lie ahead: Ready has just
// done what they are for.
func (h *Holder) triggers(now time.Duration, all *[rows]trigger) {
	wait, renew := h.failed.pauses()
	more := max(renew, h.talk.sent+lowPause, h.denial.until)
	used, spent := time.Duration(0), h.talk.sent+1
	_, asks := h.asks(now)
	if h.shape.lapses() && h.reserves.tokens == 0 { // the lease is renewed only if it is used
		used = h.refresh
		if now >= h.refresh {
			spent = h.refresh
		}
	}
	*all = [rows]trigger{
		waited:   {at: asks, pause: wait},
		refilled: {at: h.refills(now), pause: wait},
		probed:   {at: when(h.probe, now), pause: renew, lazy: true},
		indebted: {at: h.postAt(now), pause: renew},
		silent:   {at: h.silentAt(now), pause: renew},
		renewal:  {at: h.renewAt(now), pause: renew, since: used, lazy: used > 0},
		limited:  {at: when(h.holds(now), now+h.policy.MaxRefresh), pause: renew, lazy: true},
		low:      {counts: true, pause: more, since: spent, from: h.meter.count, left: h.untilLow(now)},
	}
}

// when is at where a row applies.
func when(applies bool, at time.Duration) time.Duration {
	if applies {
		return at
	}
	return never
}

// plan reads the table: the first trigger that fires now, and what is to come.
func (h *Holder) plan(now time.Duration) (due why, next agenda) {
	next = idle
	if h.talk.out {
		return nothing, next // Handle or Fail comes first
	}
	var all [rows]trigger
	h.triggers(now, &all)
	for i := nothing + 1; i < rows; i++ {
		t := &all[i]
		if due == nothing && t.fires(now, h.meter.last) {
			due = i
		}
		next.add(t)
	}
	if now < all[low].pause && next.alarm < h.meter.count+h.meter.cost {
		// The tokens run low already, but the pause is not over: look again then.
		next.alarm = math.Inf(1)
		next.add(&trigger{at: all[low].pause, lazy: h.shape.lapses()})
	}
	return due, next
}

func (t *trigger) fires(now, last time.Duration) bool {
	return now >= max(t.at, t.pause) && t.left <= 0 && last >= t.since
}

func (a *agenda) add(t *trigger) {
	switch {
	case t.counts:
		a.alarm = min(a.alarm, t.from+t.left)
	case t.lazy:
		a.look = min(a.look, max(t.at, t.pause))
	default:
		a.wake = min(a.wake, max(t.at, t.pause))
	}
}

const (
	// silence is how many expected requests must stay away before a holder gives everything
	// back, for at least lasting. Poisson traffic of r requests/s fakes such a silence r e^-10
	// times a second. A slice that is handed back for that is missed, until demand has been
	// measured anew: its silence is seldom + ln r at least, which traffic fakes once in e^7 s, 18
	// minutes.
	silence = 10
	seldom  = 7

	// A lease runs low at lowWater of what it was. While there is no more to be had, the
	// holder asks every lowPause.
	lowWater = 0.25
	lowPause = 15 * time.Millisecond
)

// asks is the line that the next request asks for, of several the one that may ask first, and when
// that is. The higher one goes first, but for one that a lower one has let pass.
func (h *Holder) asks(now time.Duration) (first *line, at time.Duration) {
	at = never
	for l := h.queue.top(); l != nil; l = l.below {
		if l.n == 0 {
			continue
		}
		if may := h.mayAsk(now, l); first == nil || may < at || may == at && h.passedOver(first, l) {
			first, at = l, may
		}
	}
	return first, at
}

// mayAsk is when the ledger may be asked for the callers of a line.
func (h *Holder) mayAsk(now time.Duration, l *line) time.Duration {
	switch d := h.denied(l.class); {
	case l.head.N < d.least || d.until <= h.talk.sent:
		return now
	case l.patient() && l.head.Until > h.asksAfter(l, d.until):
		return max(h.asksAfter(l, d.until), now)
	default:
		return max(d.until, now)
	}
}

// refills is when the lease will have refilled what the first waiter needs.
func (h *Holder) refills(now time.Duration) time.Duration {
	if h.queue.len() == 0 {
		return never
	}
	if h.divided() {
		return h.byClass().refills(h, now)
	}
	_, _, first := h.before(h.lowest())
	need := first - h.tokens
	if !h.Running(now) || need > h.burst-h.tokens {
		return h.kind.free(h, need)
	}
	return now + seconds(need/h.rate) + 1
}

// renewAt is when the lease is due for a refresh. One that has ended is not: the
// next request will ask. One that is used up, and of which nothing may be kept, is let end, but
// still takes up room: it goes before the pool overflows, if that would lose much until the ledger
// sees the end: at once, or an era later (TestUsedUpMakesRoom).
func (h *Holder) renewAt(now time.Duration) time.Duration {
	switch p := &h.pool; {
	case !h.holds(now):
		return never
	case h.shape == Batch && h.keep == 0 && h.all() == 0 && p.Flow > 0:
		full, ends := p.heard+seconds(max(p.Room-p.Level, 0)/p.Flow), h.expires
		if tick := duration(tickWidth(h.policy)); ends-h.talk.sent > reach*tick {
			ends += era * tick
		}
		if lost := p.Flow * (ends - full).Seconds(); lost > h.policy.Reserve*p.Room {
			return min(h.refresh, full)
		}
		return never
	}
	return h.refresh
}

// silentAt is when silence tells that the traffic has gone elsewhere. It counts
// where others may miss what is held here: on a contended key, or in a slice.
func (h *Holder) silentAt(now time.Duration) time.Duration {
	switch {
	case !h.holds(now) || h.talk.asked == 0 || h.queue.len() > 0 || h.clings():
		return never
	case h.shape.lapses() || !h.contended && !h.shape.Refills() || h.limit.Kind.of().stays:
		return never
	}
	pause := max(lasting, h.talk.lag()) // another holder could not have the tokens sooner
	if !h.contended {
		pause = h.policy.MaxRefresh
	}
	rate, expected := h.talk.asked/h.meter.cost, float64(silence)
	if h.shape.Refills() {
		_, doublings := math.Frexp(rate) // the same bits on every machine
		expected = max(expected, seldom+float64(math.Ln2*float64(doublings)))
	}
	since := h.meter.last
	if h.talk.waited { // before the answer nobody could ask (TestNoSilenceWhileCallersWait)
		since = max(since, h.pool.heard-waitCounts)
	}
	return since + max(seconds(expected/rate), pause)
}

// untilLow is how many tokens must be offered until the lease runs low, to be
// renewed ahead of need. A slice never does.
func (h *Holder) untilLow(now time.Duration) float64 {
	keep := h.keep - h.kind.busy()
	if !h.holds(now) || keep <= 0 || !h.shape.runsLow() {
		return math.Inf(1)
	}
	low := float64(keep * lowWater)
	if h.shape == Batch && low < max(h.meter.cost, 1) {
		return math.Inf(1) // what is left serves nobody: the next request asks
	}
	return max(h.tokens-low, 0)
}
