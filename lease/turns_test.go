package lease_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// turns are what a history keeps of versions whose limits of one key differ in frame.
type turns struct {
	limits []lease.Limit
	number int         // of the turn
	frame  lease.Limit // that is in force in it, without Rate and Burst

	lost      bool                       // the state is, halfway
	back      float64                    // tokens that earlier turns had used, and that came back
	full      [lease.KindSliding + 1]int // steps with all in use, by kind
	forgotten int                        // idle states
}

// frameOf is a limit without its Rate and Burst.
func frameOf(l lease.Limit) lease.Limit {
	l.Rate, l.Burst = 0, 0
	return l
}

// newTurnsHistory is newHistory with versions of which each has a limit of its own.
func newTurnsHistory(seed uint64) *history {
	h := newHistory(seed)
	h.rng = rand.New(rand.NewPCG(seed, 31))
	h.settles = seed%4 < 2
	h.charges, h.refunds = seed%3 == 1 && seed%8 < 7, seed%3 > 0
	n := 1 + h.rng.Int64N(200)
	h.largest = lease.Per(float64(n), time.Duration(1+h.rng.IntN(20))*time.Second)
	h.turns = &turns{lost: seed%8 == 7, limits: make([]lease.Limit, 2+h.rng.IntN(4))}
	for i := range h.turns.limits {
		l := lease.Limit{Burst: n, Kind: []lease.Kind{
			lease.KindBucket, lease.KindQuota, lease.KindQuota, lease.KindSlots, lease.KindSliding,
		}[h.rng.IntN(5)]}
		if seed%5 == 0 {
			l.Burst = 1 + h.rng.Int64N(2*n)
		}
		switch l.Kind {
		case lease.KindBucket:
			l = h.largest
		case lease.KindQuota:
			l.Offset = time.Duration(h.rng.IntN(3)) * time.Second
			fallthrough
		case lease.KindSliding:
			l.Window = time.Duration(1+h.rng.IntN(6)) * time.Second
		}
		h.turns.limits[i] = l
	}
	for i, a := range h.actors {
		h.limit = h.turns.any(h.rng)
		h.start(a, i)
	}
	return h
}

func (t *turns) any(rng *rand.Rand) lease.Limit { return t.limits[rng.IntN(len(t.limits))] }

// turn has one process declare another limit, or all of them: those that go on, and new ones in
// the place of those that die.
func (h *history) turn() {
	h.limit = h.turns.any(h.rng)
	only, dies := h.rng.IntN(2*len(h.actors)), h.rng.IntN(2) == 0
	for i, a := range h.actors {
		switch {
		case only < len(h.actors) && i != only:
		case dies:
			h.start(a, len(h.actors))
		default:
			h.declare(a)
			h.tend(a)
		}
	}
}

// declare has a declare h.limit. If that is of another frame, what a has reserved may have been
// used, and does not come back. What it owes counts by the new limit.
func (h *history) declare(a *actor) {
	if frameOf(h.limit) == frameOf(a.limit()) {
		a.holder.SetLimit(h.limit)
		return
	}
	owed, reserved, i := a.holder.Owed(), a.reserved, len(h.spent)-1
	h.used(a)
	a.holder.SetLimit(h.limit)
	for _, r := range reserved {
		a.holder.Release(a.clock(h.now), r, r.Tokens)
	}
	for ; i >= 0 && owed > 0; i-- {
		s := &h.spent[i]
		if x := min(s.n, owed); s.debt && s.who == a.id && x > 0 {
			s.n, owed = s.n-x, owed-x
			h.spent = slices.Insert(h.spent, i+1, h.turns.spending(a, s.at, x))
			h.spent[i+1].debt = true
		}
	}
	h.pour(i + 1)
}

// see notes which limit is in force, and returns the number of its turn. A bucket that comes into
// force has been used as far as what counts of windows.
func (t *turns) see(h *history) int {
	if t == nil {
		return 0
	}
	if f := frameOf(h.ledger.Limit()); f != t.frame {
		t.number, t.frame = t.number+1, f
		if f.Kind == lease.KindBucket && !h.flushed {
			before, now := h.counts()
			lacks := min(before+now-h.owes(), float64(h.largest.Burst)) - h.lacks()
			h.spent = append(h.spent, spending{at: h.now, n: max(lacks, 0)})
			h.pour(len(h.spent) - 1)
		}
	}
	return t.number
}

// spending is n tokens that a has used.
func (t *turns) spending(a *actor, now time.Duration, n float64) spending {
	s := spending{who: a.id, at: now, n: n}
	if t == nil {
		return s
	}
	s.turn = a.turn
	switch l := a.limit(); l.Kind {
	case lease.KindQuota:
		_, end := lease.Bounds(l, now)
		s.until = duration(end)
	case lease.KindSliding:
		s.until = now + l.Window + time.Microsecond // both ends count
	case lease.KindSlots:
		s.until = now // nothing is used up
	}
	return s
}

// counts is what was used of windows that have not ended, by turns before this one and in it.
func (h *history) counts() (before, mine float64) {
	for _, s := range h.spent {
		switch {
		case s.until <= h.now:
		case s.turn == h.turns.number:
			mine += s.n
		default:
			before += s.n
		}
	}
	return before, mine
}

// lacks is what the bucket has not refilled.
func (h *history) lacks() float64 {
	return max(h.level-h.largest.Rate*(h.now-h.leaked).Seconds(), 0)
}

// inForce returns the largest Burst of the frame that is in force, and of all.
func (t *turns) inForce() (burst, largest float64) {
	for _, l := range t.limits {
		largest = max(largest, float64(l.Burst))
		if frameOf(l) == t.frame {
			burst = max(burst, float64(l.Burst))
		}
	}
	return burst, largest
}

// checkTurns is check for turns.
func (h *history) checkTurns() {
	v, kind := h.view(), h.turns.frame.Kind
	most, largest := h.turns.inForce()
	all, slack := 0.0, nanoseconds
	for _, a := range h.actors {
		held := a.holder.Lease(a.clock(h.now)).Tokens + a.holder.Reserving()
		if frameOf(a.limit()) == h.turns.frame {
			all += held
		} else if held > 0 && !h.flushed {
			h.fail("F2: %s holds %v of %v, which is not in force", a.id, held, a.limit())
		}
	}
	if h.waits {
		slack += h.largest.Rate * historyTimeout.Seconds()
	}
	lacks := h.lacks() - slack
	switch start, _ := lease.Bounds(h.turns.frame, h.now); {
	case kind == lease.KindBucket:
		all += v.Pool + lacks
	case kind == lease.KindQuota && v.At < start:
		most = 0 // what was held was of the window before
	case kind != lease.KindSlots:
		before, mine := h.counts()
		all += v.Pool + mine + max(before, lacks-h.turns.back)
	}
	if all+slack > most-1 && v.Pool < 1 {
		h.turns.full[kind]++
	}
	h.owed = max(h.owed, h.owes())
	if h.flushed { // so much again, and what leases refill
		most += largest + h.largest.Rate*(h.policy.Resolved().MaxRefresh*9/4+historyTimeout).Seconds()
	}
	if all > most+h.owes() {
		h.fail("F1: %v are left, held, used or lacking of %v of %v, %v are owed: %+v",
			all, most, h.turns.frame, h.owes(), v)
	}
}

// playTurns plays a history of 400 steps.
func playTurns(h *history) {
	for step := 0; step < 400 && h.err == nil; step++ {
		if h.rng.IntN(12) == 0 {
			h.turn()
		}
		switch {
		case h.turns.lost && step == 200:
			h.ledger, h.flushed = new(lease.Ledger), true
		case h.rng.IntN(8) == 0 && h.ledger.Idle(h.now): // so it changes nothing
			h.ledger = new(lease.Ledger)
			h.turns.forgotten++
		}
		h.step()
		h.check()
	}
}

// TestFrameInvariants: processes of several versions, whose limits of one key differ in kind,
// window or offset, come to the key in turn or at once. They take, reserve, charge and give back.
// Messages are lost, late or repeated; processes die; a state is lost, or forgotten as it is idle.
//
// F1: A turn goes on while one frame is in force. A bucket lacks what it has let through in any
// turn, and refills by its Rate all the time. As it comes into force it lacks at least what counts
// of windows, up to its Burst. At most the Burst, together, is:
//
//   - in a turn of a quota or a sliding window, what is left, held, or used in the turn and counted
//     still; and the larger of what counts of windows of earlier turns, and what the bucket lacks
//   - in a turn of a bucket, what is left, what is held, and what the bucket lacks
//   - in a turn of slots, what is in use
//
// F2: Nobody holds anything of a limit that is not in force.
//
// So no more than the Burst in force counts of windows at any time, and buckets keep to one
// envelope. What is owed comes on top, and after a lost state one Burst. A debt counts by the limit
// that its process declares as the ledger hears of it: of slots, not at all.
func TestFrameInvariants(t *testing.T) {
	seeds := longform.Histories(400, 2000)
	var turned, forgotten, owing int
	var refunded float64
	var full [lease.KindSliding + 1]int
	for seed := range longform.Seeds(seeds) {
		h := newTurnsHistory(seed)
		playTurns(h)
		if h.err != nil {
			t.Fatalf("seed %d, %v, %+v: %v", seed, h.turns.limits, h.policy, h.err)
		}
		turned, forgotten = turned+h.turns.number, forgotten+h.turns.forgotten
		refunded += h.refunded
		if h.owed > 0 {
			owing++
		}
		for kind, n := range h.turns.full {
			full[kind] += n
		}
	}
	t.Logf("%d histories: %d turns, %v steps with all in use by kind, "+
		"%d states forgotten, %.0f tokens refunded, debts in %d",
		seeds, turned, full, forgotten, refunded, owing)
	few := seeds
	if turned < 5*few || slices.Min(full[:]) < few/4 || min(forgotten, int(refunded)) < few ||
		owing < few/10 {
		t.Error("too few to mean anything")
	}
}

// TestTurnsOfOneToken: a bucket and a quota that take turns for a token each let both limits
// through, and no smaller bound holds.
func TestTurnsOfOneToken(t *testing.T) {
	var l lease.Ledger
	bucket, admitted := lease.Per(100, time.Hour), 0.0
	for i := range 400 {
		limit := []lease.Limit{bucket, quotaOf(100)}[i%2]
		admitted += framed(&l, noon+time.Duration(i)*time.Second, limit, 1).Taken
	}
	if admitted < 190 || admitted > 100+100+bucket.Rate*400 {
		t.Errorf("a bucket and a quota of 100 an hour admit %v in 400 s", admitted)
	}
}

// TestTurnAndBack: what was used of a lease does not come back when its holder declares another
// kind of limit, and the first one again, between two messages.
func TestTurnAndBack(t *testing.T) {
	bucket := lease.Limit{Rate: 1, Burst: 100}
	h, l, now := newPair(bucket)
	h.Release(now, reserve(t, h, l, now, 60), 0)
	h.SetLimit(quotaOf(100))
	h.SetLimit(bucket)
	h.Probe(now, true)
	talk(t, h, l, now)
	if v := l.View(); v.Pool+v.Bursts > 40 {
		t.Errorf("60 of 100 are used, and %v left", v.Pool+v.Bursts)
	}
}
