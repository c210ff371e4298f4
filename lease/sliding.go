package lease

import (
	"fmt"
	"math"
	"slices"
)

// A sliding window is divided (ADR 86): each holder has an allotment of its tokens, and keeps a
// window of its own. A token that it spends counts there for one Window, and can then be spent
// again without asking. The burst of a record is the allotment: what is free, reserved or spent.
// What a holder has spent and keeps no more goes to the ledger's own panes, at the latest moment at
// which it can have been spent, and leaves these a Window later.
//
// W1 (TestSlidingInvariants): pool + panes + bursts is Burst, and what a holder has spent in
// the last Window is within its allotment. So at most Burst tokens are admitted in any Window.
//
// Its twin is lua/sliding.lua.

const (
	// slidingPanes is how many panes there are in a Window. A token leaves with the whole of
	// its pane. So one pane more than a Window is counted.
	slidingPanes = 60

	// paneMost is the most tokens that a pane counts: far more than any Burst. Only debts are
	// as large.
	paneMost = 1<<40 - 1

	// A lease has free tokens for the demand of a refresh, and at most this part of what is
	// free, by the part of all demand that its holder has.
	slidingPart = 0.75

	// Holders come back after this part of a Window, or twice as long while so much of the limit
	// is in the pool, and after this part of MaxHold at most. A lease lives for two refreshes
	// and an exchange.
	slidingRefresh = 1.0 / 6
	slidingCalm    = 1.0 / 32
	slidingHold    = 2.25

	// If all want more than there is, each is due a part by its demand. Tokens are reclaimed from
	// a holder that has more than its part: by slidingUneven, or by less if another holder has less
	// than its part by slidingUneven. It keeps slidingKeep of the rest until its next refresh.
	slidingUneven = 1.5
	slidingKeep   = 0.75

	// slidingMemory is over which part of a Window a holder averages its demand. What few
	// requests tell would move tokens to and fro.
	slidingMemory = 0.25

	// slidingLag is the longest exchange for which a lease lives, in fine ticks of the calendar.
	// It is far above MaxRefresh: what is taken for callers is in the lease, and must arrive
	// before that ends (TestSlidingFar). But no lease lives for longer than an era.
	slidingLag = era / 16.0

	// This part of the limit is left to holders without a lease. Those that have one would be
	// lent all, and live on it for ever. The only holder of a state that is younger than a Window
	// is lent all, and brings this part back when it is free again (TestSlidingAlone).
	slidingSpared = 1.0 / 512
)

// panes are tokens by the pane in which they were spent, the oldest first.
type panes struct {
	list []pane
	sum  float64
}

// A pane has its number, from 1970 on, and what was spent in it.
type pane struct{ at, tokens float64 }

// paneWidth is how long a pane is, in µs. Holders and ledger count a Window by their own
// clocks: it is longer by what one of these may be fast.
func (f frame) paneWidth() float64 {
	return math.Ceil(float64(f.window*(1+drift)) / slidingPanes)
}

// paneAt is the number of the pane in which t lies.
func (f frame) paneAt(t float64) float64 { return math.Floor(t / f.paneWidth()) }

// add counts n tokens in a pane, and returns what is too much for it.
func (s *panes) add(at, n float64) (over float64) {
	i := len(s.list)
	for i > 0 && s.list[i-1].at > at {
		i--
	}
	if i == 0 || s.list[i-1].at != at {
		if n == 0 {
			return 0
		}
		s.list = slices.Insert(s.list, i, pane{at: at})
		i++
	}
	x := &s.list[i-1]
	over = max(x.tokens+n-paneMost, 0)
	x.tokens += n - over
	s.sum += n - over
	return over
}

// leave lets go the panes that nobody counts any more in pane now, and returns their tokens.
func (s *panes) leave(now float64) (left float64) {
	n := 0
	for n < len(s.list) && s.list[n].at+slidingPanes < now {
		left += s.list[n].tokens
		n++
	}
	if n > 0 {
		s.list = slices.Delete(s.list, 0, n)
		s.sum -= left
	}
	return left
}

// undo takes n tokens out of the newest panes, or all, and returns how many those are.
func (s *panes) undo(n float64) (undone float64) {
	for i := len(s.list) - 1; i >= 0 && undone < n; i-- {
		x := min(n-undone, s.list[i].tokens)
		undone += x
		if s.list[i].tokens -= x; s.list[i].tokens == 0 {
			s.list = s.list[:i]
		}
	}
	s.sum -= undone
	return undone
}

// after is the pane that begins when so many tokens have left, or infinity.
func (s *panes) after(n float64) float64 {
	for _, x := range s.list {
		if n -= x.tokens; n <= 0 {
			return x.at + slidingPanes + 1
		}
	}
	return math.Inf(1)
}

// A slidingLedger divides a sliding window.
type slidingLedger struct{ windowLedger }

func divideSliding(l plainLedger) division { return slidingLedger{windowLedger{l}} }

// A slidingAnswer is an answer, and what the phases of a sliding window's leave to the next ones.
type slidingAnswer struct {
	answer
	sum     float64 // the demand of all, tokens/s
	leased  bool    // the holder has a lease to come back with
	used    float64 // those of the held tokens that are spent
	free    float64 // the others, which are free or reserved
	wants   float64 // how many of these the holder should have
	usual   float64 // µs that it stays away if nobody is in need
	longest float64 // µs that it may stay away
	spared  float64 // tokens of the pool that are not for holders with a lease
}

// exchange answers a request: each phase is a method.
func (l slidingLedger) exchange(t float64, asked Request) Reply {
	q := &asked
	l.advance(t, q)
	a := slidingAnswer{answer: answer{record: record{seq: float64(q.Seq), at: t}}}
	l.declare(&a.answer, q)
	l.handBack(&a, q)
	a.sum = l.offered(&a.answer, q)
	l.takeUp(&a, q)
	l.allot(&a, q)
	l.pause(&a, q)
	l.foresee(&a, q)
	l.insert(q.Holder, a.record)

	r := l.reply(&a.answer)
	r.Window, r.RateUntil = r.RateUntil, 0
	return r
}

// spend counts n tokens of the pool, or of a lease, as spent at t.
func (l slidingLedger) spend(t, n float64) {
	at := l.paneAt(t)
	if at+slidingPanes < l.paneAt(l.at) {
		l.pool += n // a Window has passed since
		return
	}
	l.pool += l.panes.add(at, n)
}

// pass lets go what was spent a Window ago.
func (l slidingLedger) pass(from float64) {
	l.pool += l.panes.leave(l.paneAt(l.at))
	l.trim(max(l.burst-l.bursts, 0)) // of a state that was spoilt
	l.windowLedger.pass(from)
}

// ended counts what a lease had as spent then: it may have been.
func (l slidingLedger) ended(r *record, at float64) { l.spend(at, r.burst) }

func (l slidingLedger) remember(float64) {
	l.past.add(l.panes.sum, float64(l.panes.after(l.panes.sum)*l.paneWidth()))
}

// handBack takes what the holder hands back, and counts as spent now what it does not tell
// of any more.
func (l slidingLedger) handBack(a *slidingAnswer, q *Request) {
	r := l.rejoin(q)
	held := min(math.Ceil(q.Held), 2*MaxBurst-l.bursts) // the sum stays exact
	switch {
	case r != nil && r.expires() <= a.at:
		// All of it has ended, though that was not noticed yet.
		l.spend(r.expires(), r.burst)
	case r != nil: // q is no repeat
		a.was, a.held, a.left = r.demand, held, min(r.expires()-a.at, claimed(q))
		back := math.Floor(q.Give)
		if float64(q.Seen) < r.seq {
			back += r.add // the answer that brought it will not be accepted any more
		}
		back = min(back, r.burst-held)
		l.pool += back
		l.spend(a.at, r.burst-held-back)
	case q.Claim.Left > 0 && a.at-l.born < l.ends.width*era:
		// The state was lost: else that lease has ended, as none lives for longer.
		a.held, a.left = held, min(claimed(q), l.ends.width*era)
		l.pool -= held
	}
	if debt := math.Ceil(q.Debt); debt > 0 && (r == nil || float64(q.Since) > r.seq) {
		l.pool -= debt
		l.spend(a.at, debt)
	}
}

// takeUp takes tokens for the requests that wait: those of a holder's part, while another holder
// has much less than its own, unless the first request is larger than that. They count when they
// are spent, as all that the holder has, and those that are reserved are not.
func (l slidingLedger) takeUp(a *slidingAnswer, q *Request) {
	reserves := q.Hold > 0
	q.Hold = WhileOpen
	if part := l.part(a); l.high > 0 && q.Min <= part {
		a.answer.spared = max(l.pool-max(part-a.held, 0), 0)
	}
	l.take(&a.answer, q)
	a.used = min(math.Ceil(q.Used), a.held-a.taken)
	if !reserves {
		a.used += a.taken
	}
}

// allot decides how many tokens the holder may have, how many of those it shall keep, and for
// how long.
func (l slidingLedger) allot(a *slidingAnswer, q *Request) {
	a.contended = float64(a.sum*l.window)/1e6 > l.burst || l.pool < 0

	lag := l.tempo(a, q)
	a.free = a.held - a.used
	others := len(l.holders)
	if l.holders[q.Holder] != nil {
		others--
	}
	if others > 0 || a.at-l.born >= l.window {
		a.spared = math.Ceil(l.burst * slidingSpared)
	}
	a.wants = l.lends(a, q)
	a.keep = a.used + a.wants
	most := a.keep
	if a.contended {
		most = l.part(a)
		l.reclaim(a, q, most)
	}
	a.add = max(min(a.wants-a.free, most-a.held, l.pool), 0)
	l.lend(&a.answer, a.held+a.add)
	a.dry = l.pool-a.spared < 1
	l.lives(a, q, lag)
}

// part is how many tokens the holder is due under contention.
func (l slidingLedger) part(a *slidingAnswer) float64 {
	return math.Floor(float64(l.burst*a.demand) / max(a.sum, 1e-6))
}

// tempo is when the holder shall come back. It returns how long an exchange may take.
func (l slidingLedger) tempo(a *slidingAnswer, q *Request) (lag float64) {
	p, part := &q.Policy, float64(l.window*slidingRefresh)
	most := micros(p.MaxHold) / slidingHold
	a.usual = math.Floor(max(min(part, most), micros(p.MaxRefresh)))
	a.longest = a.usual
	if !a.contended && l.pool > float64(l.burst*slidingCalm) {
		a.longest = math.Floor(max(min(2*part, most), micros(p.MaxRefresh)))
	}
	lag = min(micros(q.Lag), l.ends.width*slidingLag)
	a.refresh = l.refresh(&a.answer, p, a.longest, lag)
	return lag
}

// lends is how many free tokens the holder should have. It is 0 for one with few requests.
func (l slidingLedger) lends(a *slidingAnswer, q *Request) float64 {
	p := &q.Policy
	avail := max(l.pool-a.spared, 0) + a.free
	if p.Mode == Batches {
		return math.Floor(min(float64(p.Batch), avail))
	}
	need := math.Ceil(float64(a.demand*min(a.refresh, a.usual)) / 1e6)
	if need < float64(p.Smallest) && p.Mode != Shares ||
		p.Mode == PerRequest || a.demand == 0 {
		return 0
	}
	a.leased = true
	if a.contended {
		return min(need, avail)
	}
	return min(need, math.Floor(float64(avail*slidingPart)*a.demand/a.sum))
}

// reclaim makes a holder that has more than its part give up some of that, if others have much
// less, or it has much more. What it gives up is what its own window lets go next. Until that
// is done holders come back sooner.
//
// If more is out than there is, as a state was lost or the limit lowered, all give up the same
// part: their windows do not let go what is too much (TestSlidingExcessEnds).
func (l slidingLedger) reclaim(a *slidingAnswer, q *Request, part float64) {
	if over := -l.pool; over > 0 && a.held > 0 {
		a.keep = min(a.keep, max(a.held-math.Ceil(float64(a.held*over)/(l.bursts+a.held)), 0))
	}
	a.keep = min(a.keep, l.burst-a.spared)
	if l.high > 0 || a.held > part*slidingUneven {
		a.keep = min(a.keep, part+math.Floor(max(a.held-part, 0)*slidingKeep))
	}
	wants := q.Take > a.taken || l.pool-a.spared < 1
	a.high = wants && a.held*slidingUneven < part
	if a.high || l.high > 0 {
		few := math.Floor(float64(q.Policy.Smallest) * 1e6 / max(a.demand, 1e-6))
		sooner := max(micros(q.Policy.MaxRefresh), math.Floor(a.longest/4), few)
		a.longest = min(a.longest, sooner)
		a.refresh = min(a.refresh, a.longest)
	}
}

// lives is how long the lease does. That of a holder with few requests ends as soon as these
// can have been served: what it has spent counts for less long then, and it need not come back.
func (l slidingLedger) lives(a *slidingAnswer, q *Request, lag float64) {
	p := &q.Policy
	a.leased = a.leased || a.wants+a.free > 0 || a.used >= float64(p.Smallest)
	a.granted = float64(2*a.refresh) + lag
	if !a.leased && (a.burst > 0 || !a.high) {
		trips := max(l.paneWidth(), float64(4*lag)+micros(p.MinRefresh))
		if lag == 0 { // nothing is known of its way
			trips = micros(p.MaxRefresh)
		}
		a.granted = max(min(trips, micros(p.MaxRefresh)), 2*lag)
		a.refresh = 2 * a.granted // so it does not come back for it
	}
	a.life = max(a.granted, a.left)
}

// pause is how long the holder shall not ask for more, in µs. If more is wanted than there is,
// a holder lives on what its own window lets go.
func (l slidingLedger) pause(a *slidingAnswer, q *Request) {
	denied := q.Take > a.taken
	low := a.free+a.add-a.kept < float64(a.wants/2)
	switch {
	case a.leased && a.contended && (denied || a.dry || low):
		a.retry = a.refresh
	case denied:
		missing := max(q.Min-a.taken, 1) - l.pool
		a.retry = float64(l.panes.after(missing)*l.paneWidth()) - a.at
		if l.bursts+a.burst > 0 {
			a.retry = min(a.retry, a.longest)
		}
		a.retry = min(max(a.retry, 1000), micros(MaxFill))
	}
}

// foresee is how long it takes at least until there is what was denied, or a token if nothing was,
// in µs. What is not spent may come at any time: where that suffices, it is 0. So it is if the
// panes have too little: the holder knows when its own window lets tokens go. Of a pool below 0
// nobody asks later than when it has tokens. (Else a holder with much demand would have what the
// panes let go, each time: TestSlidingSmall.)
func (l slidingLedger) foresee(a *slidingAnswer, q *Request) {
	needed := 1.0
	if q.Take > a.taken {
		needed = a.needed(q)
	}
	if missing := needed - (l.pool + l.bursts + l.before(l.at) + a.burst - a.used); missing > 0 {
		if at := l.panes.after(missing); !math.IsInf(at, 1) {
			a.refills = min(float64(at*l.paneWidth())-a.at, micros(MaxFill))
			if l.pool < 0 {
				a.retry = min(a.retry, max(a.refills, 1000))
			}
		}
	}
}

// idle reports whether at time t nothing counts any more.
func (l slidingLedger) idle(t float64) bool {
	last := math.Inf(-1)
	for _, r := range l.holders {
		last = max(last, l.paneAt(r.expires()))
	}
	if n := len(l.panes.list); n > 0 {
		last = max(last, l.panes.list[n-1].at)
	}
	return last+slidingPanes < l.paneAt(t)
}

func slidingText(l Limit) string {
	return fmt.Sprintf("%d in any %s", l.Burst, windowName(l.Window))
}

func validateSliding(l Limit) error {
	if err := l.validateBurst(); err != nil {
		return err
	}
	if l.Offset != 0 {
		return fmt.Errorf("lease: %w: Offset %v of a sliding window is not 0", ErrInvalidLimit, l.Offset)
	}
	return l.validateWindow("a sliding window")
}
