package lease

import (
	"fmt"
	"math"
)

// Slots are divided, and nothing refills (ADR 82). A lease is a block of them: its burst is how
// many slots its holder may have, in use or idle. A job has its slots reserved. A request tells how
// many slots its holder still has, and that is all that counts: a message may be lost, late or
// repeated.
//
// S1 (TestSlotsInvariants): what jobs have in use under live leases is at most Burst, at any
// time. A job's lease ends at its holder a sixteenth before it does at the ledger, so that
// its context has ended when another job may have the slots.
//
// In a record the rate is how many of the slots were in use, and demand how many were wanted.
//
// Its twin is lua/slots.lua.

const (
	// A block lives for MaxHold, and for so many MaxRefresh at least. That is how long jobs
	// outlive an outage, and how long the slots of a crashed process are missed.
	slotsLife = 4

	// A holder is told the sixteenth less.
	slotsTold = 15.0 / 16

	// A holder that has all its slots in use renews them after this part of their life.
	slotsRenewal = 0.25

	// Idle slots beside those that are wanted are this part of them, while there are enough.
	slotsSpare = 0.5

	// A holder that got nothing asks again after this part of the time since its first denial,
	// from MinRefresh to MaxRefresh. Until then it denies jobs that would not wait.
	slotsAgain = 0.25

	// The holder for which slots are kept asks after this part: nobody uses them until then.
	// Its wait may be for a job of hours.
	slotsAsk = 1.0 / 64

	// It is one that has waited for this part of the longest wait, or longer.
	slotsTurn = 0.75

	// slotsKept is for how many ticks of the calendar slots are kept for that holder, 3 MaxRefresh
	// at least. The holder is long back by then, unless it has crashed or is cut off.
	slotsKept = 12
)

// A slotsLedger divides slots. It shares the skeleton with a bucket: which
// holders there are, their limits, and the ends of their leases.
type slotsLedger struct{ plainLedger }

func divideSlots(l plainLedger) division { return slotsLedger{l} }

// A slotsAnswer is an answer, and how many slots the holder is due.
type slotsAnswer struct {
	answer
	fair float64
}

func (l slotsLedger) begin(float64, bool) { l.pool = l.burst }

// end is when what is kept for a holder is anybody's, or its block is.
func (l slotsLedger) end(r *record) float64 {
	if r.shape == Block && r.mark > 0 {
		return min(r.at+float64(l.ends.width*slotsKept), r.expires())
	}
	return r.expires()
}

func (l slotsLedger) endPart(r *record) { l.earmark, r.mark = l.earmark-r.mark, 0 }

// exchange answers a request: each phase is a method.
func (l slotsLedger) exchange(t float64, asked Request) Reply {
	q := &asked
	l.advance(t, q)
	l.at++ // each exchange has a time of its own, and so each block a larger Fence

	a := slotsAnswer{answer: answer{record: record{seq: float64(q.Seq), at: l.at}}}
	l.declare(&a.answer, q)
	l.comeHome(&a, q)
	l.fairPart(&a, q)
	l.lendBlock(&a, q)
	l.keepFor(&a, q)
	l.renew(&a, q)
	l.insert(q.Holder, a.record)
	l.pool = max(l.burst-l.bursts, 0)

	r := l.reply(&a.answer)
	r.Rate, r.RateUntil, r.Fence = 0, 0, uint64(a.at)
	return r
}

// comeHome finds out what the holder still has. A lease that the ledger does not know is
// believed: its state was lost (I6). So is how long it lasts.
func (l slotsLedger) comeHome(a *slotsAnswer, q *Request) {
	r := l.rejoin(q)
	if r != nil && r.refills > 0 {
		a.refills = r.refills + a.at - r.at
	}
	if r != nil && float64(q.Seq) > r.seq || q.Claim.Left > 0 {
		a.held = min(math.Ceil(q.Held), 2*MaxBurst-l.bursts) // the sum stays exact
		a.left = min(math.Ceil(claimed(q)/slotsTold), 2*float64(l.ends.width*era))
	}
}

// fairPart finds the part of all slots that the holder is due: what it wants, or what all
// get that want more (Ledger.low has those that want less). Parts are rounded up: were they
// rounded down, the slots left would go round, with a call each. Where there is not one for each
// holder, none is due: they take turns. On a contended key no holder has idle slots.
func (l slotsLedger) fairPart(a *slotsAnswer, q *Request) {
	a.demand = math.Floor(min(max(q.Peak, q.Demand), l.burst, 2*MaxRate-l.demand))
	level := max(l.burst-l.earmark-l.low, 0) / (l.high + 1)
	a.high = a.demand > level
	a.fair = a.demand
	if a.high {
		a.fair = math.Ceil(level)
		if level < 1 {
			a.fair = 0
		}
	}
	a.contended = l.earmark > 0 || l.demand > 0 && l.unwanted(l.demand+a.demand) == 0
}

// unwanted is how many slots nobody will want, if sum are wanted now: jobs that come independently
// are Poisson's in number, and vary by the root of their mean.
func (l slotsLedger) unwanted(sum float64) float64 { return max(l.burst-sum-math.Sqrt(sum), 0) }

// lendBlock takes slots for the jobs that wait, and then the idle ones of the block. Slots
// that are kept for another holder are not lent.
func (l slotsLedger) lendBlock(a *slotsAnswer, q *Request) {
	free := l.burst - l.bursts - a.held - l.earmark
	if q.Take > 0 && free >= max(q.Min, 1) {
		most := free
		if a.contended {
			most = min(most, max(q.Min, a.fair-a.held, 1))
		}
		a.taken = q.whole(most)
	}
	a.kept = a.taken
	a.rate = math.Floor(min(q.Got, a.held)) + a.taken
	// After a lost state the others may have more than there is beside this one.
	a.keep = min(l.block(a, q), max(l.burst-l.bursts, 0))
	if a.add = a.taken; !a.contended {
		a.add += max(min(a.keep-a.held-a.taken, free-a.taken), 0)
	}
	a.burst = a.held + a.add
	if a.burst > 0 {
		a.shape = Block
	}
}

// block is how many slots the holder may go on using, one job after the other. While
// another one waits, these are none but those in use, and no more than it is due.
func (l slotsLedger) block(a *slotsAnswer, q *Request) float64 {
	keep := a.demand
	switch sum := l.demand + a.demand; {
	case l.earmark > 0:
		return min(a.fair, a.rate)
	case a.contended:
		keep = max(a.fair, 1)
	case sum > 0:
		spare := float64(l.unwanted(sum)*a.demand) / sum
		keep += math.Floor(min(spare, float64(a.demand*slotsSpare)+1))
	}
	if q.Policy.Mode == PerRequest {
		keep = min(keep, a.rate)
	}
	return keep
}

// keepFor keeps the slots of the first job for a holder that got none, if it has fewer than it is
// due, until its next request or for slotsKept. One holder at a time has an earmark, and the one
// that has waited for long has it next. In a record of a holder that got none refills is for how
// long that has been so, and unrest is the longest that was lately told by one that should have
// some.
func (l slotsLedger) keepFor(a *slotsAnswer, q *Request) {
	waited := a.refills
	a.refills = 0
	if q.Take == 0 || a.taken > 0 || q.Min > l.burst {
		return
	}
	a.refills = waited + 1
	if a.held > 0 && a.held+1 >= a.fair && q.Min <= 1 {
		return
	}
	if l.earmark == 0 && waited >= float64(l.unrest*slotsTurn) {
		a.mark = max(q.Min, 1)
	}
	l.unrest = max(l.unrest, waited)
}

// renew is when the holder comes back, and how long it keeps its block. One with idle slots
// is back soon: others may want them by then.
func (l slotsLedger) renew(a *slotsAnswer, q *Request) {
	p := &q.Policy
	longest := micros(p.MaxRefresh)
	a.refresh = longest
	denied := q.Take > a.taken
	a.life = max(micros(p.MaxHold), longest*slotsLife)
	switch {
	case a.burst == 0: // until it asks again
		a.life = longest*2 + min(micros(q.Lag), longest)
	case a.burst == a.rate && !denied:
		a.refresh = math.Floor(a.life * slotsRenewal)
	}
	if denied {
		a.retry = longest // what it got goes from job to job
	}
	if denied && a.taken == 0 {
		part := slotsAgain
		if a.mark > 0 {
			part = slotsAsk
		}
		a.retry = min(max(math.Floor(a.refills*part), micros(p.MinRefresh)), longest)
	}
	a.granted = math.Floor(a.life * slotsTold)
	a.life = max(a.life, a.left)
}

func validateSlots(l Limit) error {
	if err := l.validateBurst(); err != nil {
		return err
	}
	if l.Rate != 0 || l.Window != 0 || l.Offset != 0 {
		return fmt.Errorf("lease: %w: Rate %v, Window %v or Offset %v of slots is not 0",
			ErrInvalidLimit, l.Rate, l.Window, l.Offset)
	}
	return nil
}

func slotsText(l Limit) string { return fmt.Sprintf("%d slots", l.Burst) }
