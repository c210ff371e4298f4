package remote

import (
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
)

// A kind is how a kind of limit stands in messages: its script, and what differs in them.
type kind interface {
	script() script
	// declare returns the numbers that tell a limit beside its Rate and Burst.
	declare(lease.Limit) []float64
	// declared completes a limit by the numbers of declare. It reports whether they tell a limit
	// of this kind.
	declared(l lease.Limit, beside []float64) (lease.Limit, bool)
	// ask returns the numbers that a request has beside the numbers of all kinds.
	ask(*lease.Request) []float64
	// answer reads the fields of a record by their meaning for the kind. Reply.Fence comes in as
	// the time of the answer.
	answer(lease.Reply) lease.Reply
	// flow is Pool.Flow where free is the free rate, and others is the demand of other holders.
	flow(free, others float64) float64
}

// kinds is the dispatch by lease.Kind.
var kinds = [...]kind{
	lease.KindBucket: bucketKind{}, lease.KindQuota: quotaKind{},
	lease.KindSlots: slotsKind{}, lease.KindSliding: slidingKind{},
}

// A bucketKind has what most kinds have in common.
type bucketKind struct{}

func (bucketKind) script() script                { return exchange }
func (bucketKind) declare(lease.Limit) []float64 { return nil }
func (bucketKind) ask(*lease.Request) []float64  { return nil }
func (bucketKind) flow(free, _ float64) float64  { return max(free, 0) }

func (bucketKind) declared(l lease.Limit, beside []float64) (lease.Limit, bool) {
	return l, len(beside) == 0
}

func (bucketKind) answer(r lease.Reply) lease.Reply {
	r.Fence = 0
	return r
}

type quotaKind struct{ bucketKind }

func (quotaKind) script() script { return quota }

func (quotaKind) declare(l lease.Limit) []float64 {
	return []float64{micros(l.Window), micros(l.Offset)}
}

func (quotaKind) declared(l lease.Limit, beside []float64) (lease.Limit, bool) {
	if len(beside) != 2 || beside[0] == 0 || beside[1] == lua.SlidingOffset {
		return l, false
	}
	l.Window, l.Offset = micro(beside[0]), micro(beside[1])
	return l, true
}

func (quotaKind) answer(r lease.Reply) lease.Reply {
	r.Window, r.RateUntil = r.RateUntil, 0
	return r
}

func (quotaKind) flow(_, others float64) float64 { return min(-others, 0) }

type slotsKind struct{ bucketKind }

func (slotsKind) script() script { return slots }

func (slotsKind) declare(lease.Limit) []float64 { return []float64{0, 0} }

func (slotsKind) declared(l lease.Limit, beside []float64) (lease.Limit, bool) {
	if len(beside) != 2 || beside[0] != 0 || beside[1] == lua.SlidingOffset {
		return l, false
	}
	l.Offset = micro(beside[1]) // Validate rejects an offset
	return l, true
}

// answer: the rate is how many slots are in use, and refills is how long the holder has waited.
func (slotsKind) answer(r lease.Reply) lease.Reply {
	r.Rate, r.RateUntil = 0, 0
	return r
}

type slidingKind struct{ bucketKind }

func (slidingKind) script() script { return sliding }

func (slidingKind) declare(l lease.Limit) []float64 {
	return []float64{micros(l.Window), lua.SlidingOffset}
}

func (slidingKind) declared(l lease.Limit, beside []float64) (lease.Limit, bool) {
	if len(beside) != 2 || beside[1] != lua.SlidingOffset {
		return l, false
	}
	l.Window = micro(beside[0])
	return l, true
}

func (slidingKind) answer(r lease.Reply) lease.Reply {
	r.Window, r.RateUntil, r.Fence = r.RateUntil, 0, 0
	return r
}

func (slidingKind) ask(q *lease.Request) []float64 { return []float64{q.Used} }
