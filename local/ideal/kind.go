package ideal

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A kind is what a kind of limit promises.
type kind interface {
	of(at time.Duration, l lease.Limit, patience time.Duration) (Ideal, Gauge)
	most(l lease.Limit, from, to time.Duration) float64
	window(l lease.Limit, at time.Duration) (starts, ends time.Duration)
	counts(l lease.Limit, at time.Duration) time.Duration
	traits() Traits
}

// Traits are what scenarios and accounts do by the kind of a limit.
type Traits struct {
	Rate     bool // it is a rate, with a burst that is written beside it
	Calendar bool // its windows are those of a calendar, which is ahead of UTC by its Offset
	Untold   bool // tokens come back to the holder that has spent them, without a message
}

// TraitsOf returns the Traits of a limit.
func TraitsOf(limit lease.Limit) Traits { return kinds[limit.Kind].traits() }

// kinds is the dispatch by lease.Kind: the only one here and in the simulator.
var kinds = [...]kind{
	lease.KindBucket: bucketKind{}, lease.KindQuota: quotaKind{},
	lease.KindSlots: slotsKind{}, lease.KindSliding: slidingKind{},
}

// Of returns the Ideal and the Gauge of a limit from time at on. Callers wait for up to patience.
func Of(at time.Duration, limit lease.Limit, patience time.Duration) (Ideal, Gauge) {
	return kinds[limit.Kind].of(at, limit, patience)
}

// Most is how many tokens a limit lets through at most between two times. It is not for slots.
func Most(limit lease.Limit, from, to time.Duration) (tokens float64) {
	return kinds[limit.Kind].most(limit, from, to)
}

// Window is the window of a quota that contains at: it begins at starts and ends before ends. Times
// count from 1970-01-01 0:00 by UTC. The window of other kinds never begins, and never ends.
func Window(limit lease.Limit, at time.Duration) (starts, ends time.Duration) {
	return kinds[limit.Kind].window(limit, at)
}

// Counts is until when tokens of a limit count that were admitted at at: those of a quota until its
// window ends, those of a sliding window for one Window, and others not at all.
func Counts(limit lease.Limit, at time.Duration) time.Duration {
	return kinds[limit.Kind].counts(limit, at)
}

type bucketKind struct{}

func (bucketKind) of(at time.Duration, l lease.Limit, patience time.Duration) (Ideal, Gauge) {
	both := &struct { // one piece of memory: there may be many keys
		bucket
		leak
	}{
		bucket{limit: l, wait: patience.Seconds(), tokens: float64(l.Burst), at: at}, leak{limit: l},
	}
	return &both.bucket, &both.leak
}

func (bucketKind) most(l lease.Limit, from, to time.Duration) float64 {
	return float64(l.Burst) + float64(l.Rate*(to-from).Seconds())
}

func (bucketKind) window(lease.Limit, time.Duration) (starts, ends time.Duration) {
	return math.MinInt64, math.MaxInt64
}

func (bucketKind) traits() Traits { return Traits{Rate: true} }

func (bucketKind) counts(_ lease.Limit, at time.Duration) time.Duration { return at }

type quotaKind struct{}

func (quotaKind) of(at time.Duration, l lease.Limit, patience time.Duration) (Ideal, Gauge) {
	_, ends := Window(l, at)
	q := quota{limit: l, wait: patience, ends: ends, tokens: float64(l.Burst)}
	return &q, &windowed{limit: l}
}

func (quotaKind) most(l lease.Limit, from, to time.Duration) (tokens float64) {
	for ends := from; ends < to; tokens += float64(l.Burst) {
		_, ends = Window(l, ends)
	}
	return tokens
}

func (quotaKind) window(l lease.Limit, at time.Duration) (starts, ends time.Duration) {
	return window(l, at)
}

func (quotaKind) counts(l lease.Limit, at time.Duration) time.Duration {
	_, ends := Window(l, at)
	return ends
}

func (quotaKind) traits() Traits { return Traits{Calendar: true} }

type slotsKind struct{ bucketKind }

func (slotsKind) traits() Traits { return Traits{} }

func (slotsKind) of(_ time.Duration, l lease.Limit, patience time.Duration) (Ideal, Gauge) {
	return &log{limit: l, wait: patience}, &log{limit: l}
}

type slidingKind struct{ slotsKind }

func (slidingKind) traits() Traits { return Traits{Untold: true} }

func (slidingKind) most(l lease.Limit, from, to time.Duration) float64 {
	return float64(l.Burst) * float64((to-from+l.Window-1)/l.Window)
}

func (slidingKind) counts(l lease.Limit, at time.Duration) time.Duration { return at + l.Window }
