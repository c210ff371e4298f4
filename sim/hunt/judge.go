package hunt

import (
	"math"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A Judgement is what became of a scene.
type Judgement struct {
	Scene      *Scene    `json:"-"`
	Auto, Each []Figures // by replication
	Cheapest   *Rival    // that may need fewer calls than auto; nil if none does, or none was played

	Losses [aspects]Loss
	Score  float64 // the largest Sure/Tolerated, but for Cheaper: a fixed policy suits one scene

	kept map[string]float64 // calls of the rivals that count
	work float64            // of all that were played, rivals included
}

// A Rival is a fixed policy that was played, too.
type Rival struct {
	Name    string
	Figures []Figures
	policy  lease.Policy
}

// Aspect is one way to lose.
type Aspect int

const (
	Utilisation Aspect = iota // points below a call for each request
	Calls                     // per request, more than that
	Cheaper                   // the same, more than the cheapest rival
	Worst                     // process's share, below that of a call for each request
	Starvation                // longest, seconds more
	Latency                   // p99, seconds more
	Avoidable                 // part of the ideal that was lost to causes which better division avoids
	Alone                     // what a class alone does not get of the ideal
	Floors                    // part of the limit that a floor lacks in the worst window of 2 s
	ByClass                   // part of its fair share that a class does not get
	aspects
)

// Aspects are the names that tables and pages use.
var Aspects = [aspects]string{"utilisation", "calls", "a rival's calls", "worst process", "starvation", "latency", "avoidable",
	"a class alone", "floors", "worst class"}

// What is tolerated. These numbers are part of the target (docs/hunt.md).
const (
	utilisationTolerated = 0.01 // points/100
	callsTolerated       = 0.01 // of those of a call for each request
	dearer               = 1.2  // times the calls of the cheapest rival
	kept                 = 0.01 // utilisation that a rival may lose
	worstTolerated       = 0.1
	starvationTolerated  = 0.1 // of that of a call for each request, and seconds
	latencyTolerated     = 0.1 // of that of a call for each request
	avoidableTolerated   = 0.01
	aloneTolerated       = 0.01
	floorsTolerated      = 0.01
	byClassTolerated     = 0.1
)

// A Loss is what auto loses in one aspect: positive is worse.
type Loss struct {
	measure.Interval         // paired, of the replications
	Tolerated        float64 // in the same unit
	Short            bool    // the loss is surely above it
}

// Sure is the loss that the interval leaves no doubt of.
func (l Loss) Sure() float64 { return l.Low }

func calls(f *Figures) float64      { return f.Calls }
func worst(f *Figures) float64      { return f.Worst }
func starvation(f *Figures) float64 { return f.Starvation }
func latency(f *Figures) float64    { return f.Latency }

func mean(list []Figures, of func(*Figures) float64) float64 {
	sum := 0.0
	for i := range list {
		sum += of(&list[i])
	}
	return sum / float64(len(list))
}

// used is utilisation. In a closed load a slow limiter gets fewer requests: there
// the larger ideal counts. Tokens that went with a crash or a lost message are not
// held against it, as far as a fair lease would have held them and the ideal admits more. Nor are
// tokens that are left at the end, beyond those that a call for each request has left: they are in
// leases, and somebody admits them a moment later. In a play of a few seconds they are some points.
func (j *Judgement) used(f *Figures, i int) float64 {
	ideal := f.Ideal
	if j.Scene.Load.Clients != nil && i < len(j.Each) {
		ideal = max(ideal, j.Each[i].Ideal, j.Auto[i].Ideal)
	}
	if ideal == 0 {
		return 1
	}
	lost := min(f.Tokens.Forfeited+f.Tokens.Messages, j.forfeitable())
	left := 0.0
	if i < len(j.Each) {
		left = max(f.Tokens.Left-j.Each[i].Tokens.Left, 0)
	}
	return (f.Admitted + min(lost+left, max(ideal-f.Admitted, 0))) / ideal
}

// forfeitable is what leases of fair size hold that go with a crash, and the
// room that a lost message leaves unused: half of the Burst and half a second of
// the rate, in proportion to processes.
func (j *Judgement) forfeitable() float64 {
	s := j.Scene
	crashes := 0.0
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Kind == "crash" {
			crashes += float64(len(f.Times(s.Duration)))
		}
	}
	each := 0.0
	for _, l := range s.Limits() {
		held := (float64(l.Limit.Burst) + scenario.Mean(l.Limit)) / 2
		each += held * float64(l.Number) / float64(s.Processes)
	}
	if s.Redis.Lost > 0 {
		return math.Inf(1) // what messages lose is counted exactly, and both lose it
	}
	return 2 * crashes * each
}

func (j *Judgement) utilisation(list []Figures) float64 {
	sum := 0.0
	for i := range list {
		sum += j.used(&list[i], i)
	}
	return sum / float64(len(list))
}

// avoidable is what was lost to causes that better division avoids, as far as the ideal bucket
// had a use for it, as a part of what that admits. What the pool spilt is among it, but for what
// the ideal bucket spilt, and for what a pool spills that is far away, whatever is lent of it.
func avoidable(f *Figures, far float64) float64 {
	if f.Ideal == 0 {
		return 0
	}
	t := &f.Tokens
	lost := t.Spilt + t.Asking + t.Expired + t.Unclaimed + t.Refused + t.Other +
		max(notLent(f)-far, 0)
	return max(min(lost, f.Ideal-f.Admitted), 0) / f.Ideal
}

// notLent is what the pool spilt and the ideal bucket did not.
func notLent(f *Figures) float64 { return max(f.Tokens.PoolSpilt-f.Tokens.IdealSpilt, 0) }

// avoidable is the same in a scene, in which the pool spills as much with a call for each request
// for being far away. Where messages are lost, leases stand still until a timeout, and what a
// process would hand back expires. No division avoids that: there it counts as far as a call
// for each request, which loses messages too, admits more.
func (j *Judgement) avoidable(a, e *Figures, i int) float64 {
	part := avoidable(a, notLent(e))
	if j.Scene.Redis.Lost == 0 {
		return part
	}
	return max(min(part, j.used(e, i)-j.used(a, i)), 0)
}

// judge fills in what follows from the figures.
func (j *Judgement) judge() {
	paired := func(of func(a, e *Figures, i int) float64) measure.Interval {
		x := make([]float64, len(j.Auto))
		for i := range x {
			x[i] = of(&j.Auto[i], &j.Each[i], i)
		}
		return measure.Estimate(x)
	}
	more := func(of func(*Figures) float64) measure.Interval {
		return paired(func(a, e *Figures, _ int) float64 { return of(a) - of(e) })
	}
	set := func(a Aspect, i measure.Interval, tolerated float64) {
		j.Losses[a] = Loss{Interval: i, Tolerated: tolerated, Short: i.Low > tolerated}
	}
	set(Utilisation, paired(func(a, e *Figures, i int) float64 { return j.used(e, i) - j.used(a, i) }), utilisationTolerated)
	set(Calls, more(calls), callsTolerated*mean(j.Each, calls))
	if r := j.Cheapest; r != nil {
		set(Cheaper, paired(func(a, _ *Figures, i int) float64 { return a.Calls - r.Figures[i].Calls }), (dearer-1)*mean(r.Figures, calls))
	}
	less := more(worst)
	less.Mean, less.Low, less.High = -less.Mean, -less.High, -less.Low
	if j.Scene.Waits { // a call for each request serves who asks at the right moment
		less = paired(func(a, _ *Figures, _ int) float64 { return 1 - a.Worst })
	}
	set(Worst, less, worstTolerated)
	set(Starvation, more(starvation), starvationTolerated*max(mean(j.Each, starvation), 1))
	set(Latency, more(latency), latencyTolerated*mean(j.Each, latency)+1e-3)
	set(Avoidable, paired(j.avoidable), avoidableTolerated)
	if s := j.Scene; s.Classes != nil {
		if s.Alone() {
			set(Alone, paired(func(a, _ *Figures, i int) float64 { return 1 - j.used(a, i) }), aloneTolerated)
		}
		set(Floors, paired(func(a, _ *Figures, _ int) float64 { return a.Lack }), floorsTolerated)
		set(ByClass, paired(func(a, _ *Figures, _ int) float64 { return 1 - a.WorstClass }), byClassTolerated)
	}
	for i := range j.Losses {
		if l := &j.Losses[i]; l.Tolerated > 0 && Aspect(i) != Cheaper {
			j.Score = max(j.Score, l.Sure()/l.Tolerated)
		}
	}
}

// Short reports whether the scene falls short in any aspect.
func (j *Judgement) Short() bool {
	for i := range j.Losses {
		if j.Losses[i].Short {
			return true
		}
	}
	return false
}

// Cause is the name of the largest part of the tokens that auto lost and the
// ideal bucket did not, and which part of the ideal it is.
func (j *Judgement) Cause() (name string, part float64) {
	for _, l := range engine.Losses {
		x := mean(j.Auto, func(f *Figures) float64 {
			t := f.Tokens
			t.PoolSpilt, t.HeldBack = notLent(f), 0 // no scene's limit changes
			return l.Of(t) / max(f.Ideal, 1)
		})
		if x > part {
			name, part = l.Name, x
		}
	}
	return name, part
}
