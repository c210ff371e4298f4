// Package hunt looks for the scenes in which ration loses to a call for each
// request: it draws them at random, plays them, judges by paired bounds, and
// shrinks what falls short to the simplest scene that still does.
//
// It does not say how often such scenes occur at its readers': the class Wide is
// wide, not typical, and Near is what users are advised to run, at its hardest.
package hunt

import (
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// A Scene is one that was drawn, resolved.
type Scene struct {
	Class  Class // Wide or Near
	Waits  bool  // all callers wait
	Number int
	Seed   uint64 // of its replications
	*scenario.Scenario
}

// with is the scene with another scenario.
func (s *Scene) with(c *scenario.Scenario) *Scene {
	w := *s
	w.Scenario = c
	return &w
}

// Bounds of what is drawn in the class Wide. "log" means that the logarithm is uniform.
const (
	minProcesses, maxProcesses = 2, 200   // log
	minRate, maxRate           = 10, 1e5  // tokens/s of all keys together, log
	minFill, maxFill           = 0.05, 10 // seconds of rate that a Burst holds, log
	minTrip, maxTrip           = 0.2, 150 // ms, log
	minLoad, maxLoad           = 0.2, 4   // offered/limit, log
	maxSkew                    = 2.5      // half of all scenes have none
	maxKeys                    = 1000     // log; two of three scenes have one
	maxKeySkew                 = 1.5
	minCV, maxCV               = 0.5, 4    // of gamma arrivals, log
	minPeriod, maxPeriod       = 0.2, 8    // s, of on and off, log
	minClump, maxClump         = 0.02, 0.5 // the same, of clumps
	minMove, maxMove           = 0.2, 10   // s, between moves, log
	minPatience, maxPatience   = 0.05, 5   // s, log
	minThink, maxThink         = 0.01, 1   // s, of clients, log; but as long as the load wants it,
	maxClients                 = 20_000    // whose number is whole, and bounded
	defaultTimeout             = 250       // ms; far stores get a longer one
	measuredRequests           = 20_000    // about so many are measured,
	minMeasured, maxMeasured   = 10.0, 60. // in so many seconds,
	mostRequests               = 400_000   // unless these are too many:
	leastMeasured              = 4.0       // then at least so many seconds
	minWarm, maxWarm           = 2.0, 20.  // s
	minSecond, maxSecond       = 0.3, 1.5  // rate of a second limit, by that of all keys, log
	leastWindows               = 3.0       // of a limit are measured, unless its burst is larger
	minHold                    = 0.01      // s, of jobs, log; but as long as a request of the bucket,
	leastHolds                 = 3.0       // and so many pass in the warm-up,
	maxSlots                   = 2000      // of a key
	minWaiting, maxWaiting     = 1.2, 4    // offered/limit where all callers wait, log,
	minWait, maxWait           = 0.5, 3    // s, for so long, log
	minApart, maxApart         = 0.2, 50   // ms between the nearest process and the farthest one, log
)

// Limits are the kinds of limits that scenes are drawn with.
type Limits int

const (
	Buckets      Limits = iota
	Quotas              // the same scenes, with quotas of the same mean rate
	Pairs               // the same requests, which a second limit for everybody must let pass, too
	Sliding             // the same scenes, with sliding windows of the same mean rate
	Slots               // the same scenes, with as many jobs as requests
	Classes             // the same scenes, with classes of requests
	QuotaClasses        // the same, of quotas
	Waits               // the same scenes, with callers who wait, at several distances
)

// LimitNames are those of Limits.
var LimitNames = []string{"buckets", "quotas", "pairs", "sliding", "slots", "classes", "quota-classes",
	"waits"}

// Classed reports whether requests have classes.
func (l Limits) Classed() bool { return l == Classes || l == QuotaClasses }

// A Class is a distribution of scenes.
type Class int

const (
	Wide Class = iota // whatever may come
	Near              // near the limit, with few tokens for each process
	Both              // in turn: even numbers are scenes of Wide, odd ones of Near
)

// ClassNames are those of Class.
var ClassNames = []string{"wide", "near", "both"}

// of is the class of scene number n.
func (c Class) of(n int) Class {
	if c == Both {
		return Class(n % 2)
	}
	return c
}

// Draw returns scene number n of a seed. The same arguments give the same scene. A number
// is the same scene in Both as in its class alone.
func Draw(seed uint64, n int, class Class, limits Limits) (*Scene, error) {
	class = class.of(n)
	of := func(p workload.Purpose) dice { return dice{workload.NewRandom(seed, n, -1, p)} }
	s := &scenario.Scenario{Name: fmt.Sprintf("hunt-%d-%d", seed, n), Outage: "deny"}
	if class == Near {
		s.Name = fmt.Sprintf("hunt-near-%d-%d", seed, n)
		of(workload.NearScenes).near(s)
	} else {
		of(workload.Scenes).wide(s)
	}
	switch limits {
	case Quotas, QuotaClasses:
		of(workload.Windows).window(s, lease.KindQuota, "quota")
	case Sliding:
		of(workload.Windows).window(s, lease.KindSliding, "sliding")
	case Slots:
		of(workload.Windows).slots(s)
	case Pairs:
		of(workload.SecondLimits).pair(s)
	case Waits:
		of(workload.WaitScenes).waits(s)
	}
	if limits.Classed() {
		of(workload.ClassScenes).classes(s)
	}
	text := s.Text()
	s, err := scenario.Of(text)
	if err != nil {
		return nil, fmt.Errorf("hunt: scene %d of seed %d: %w\n%s", n, seed, err, text)
	}
	return &Scene{
		Class: class, Waits: limits == Waits, Number: n, Seed: seed*1_000_000 + uint64(n), Scenario: s,
	}, nil
}

// dice draw what a scene is made of.
type dice struct{ *workload.Random }

func (d dice) chance(p float64) bool             { return d.Uniform() < p }
func (d dice) between(low, high float64) float64 { return low + float64(d.Uniform()*(high-low)) }
func (d dice) duration(seconds float64) time.Duration {
	return time.Duration(scenario.Round(seconds*1e6, 3)) * time.Microsecond
}

// log draws a number whose logarithm is uniform, with three digits.
func (d dice) log(low, high float64) float64 {
	return scenario.Round(low*math.Pow(high/low, d.Uniform()), 3)
}

func (d dice) whole(low, high float64) int { return int(math.Round(d.log(low, high))) }

// wide draws a scene of that class.
func (d dice) wide(s *scenario.Scenario) {
	d.fleet(s)
	d.redis(s, minTrip, maxTrip)
	d.load(s)
	d.faults(s)
}

// fleet draws processes, keys and the limit.
func (d dice) fleet(s *scenario.Scenario) {
	s.Processes = d.whole(minProcesses, maxProcesses)
	s.Keys.Number = 1
	rate := d.log(minRate, maxRate)
	if d.chance(1. / 3) {
		s.Keys.Number = d.whole(2, maxKeys)
		s.KeySkew = scenario.Round(d.between(0, maxKeySkew), 2)
		rate = max(rate, minRate*float64(s.Keys.Number)/10) // at least 1/s each
	}
	each := scenario.Round(rate/float64(s.Keys.Number), 3)
	burst := int64(max(1, scenario.Round(each*d.log(minFill, maxFill), 3)))
	s.SetLimit(lease.Limit{Rate: each, Burst: burst})
}

// window makes a limit with a Window of the bucket: about as much in the mean, and at least its
// Burst, so that requests fit that did.
func (d dice) window(s *scenario.Scenario, kind lease.Kind, name string) {
	l := s.LimitOf()
	longest := max((s.Duration-s.Warmup).Seconds()/leastWindows, 1)
	window := math.Ceil(max(d.log(1, longest), float64(l.Burst)/l.Rate))
	s.Name += "-" + name
	s.SetLimit(lease.Limit{
		Kind: kind, Window: time.Duration(window) * time.Second,
		Burst: max(l.Burst, int64(scenario.Round(l.Rate*window, 3))),
	})
}

// slots makes slots of the bucket, and jobs of its requests: as many as before are as much of what
// there is. Callers wait in two of three scenes at least, as Acquire does.
func (d dice) slots(s *scenario.Scenario) {
	rate := s.LimitOf().Rate / s.MeanCost() // jobs/s
	n := math.Round(rate * d.log(minHold, max(minHold, s.Warmup.Seconds()/leastHolds)))
	n = min(max(n, 1), maxSlots)
	if s.Load.Patience == 0 && d.chance(2./3) {
		s.Load.Patience = d.duration(d.log(minPatience, maxPatience))
	}
	s.Name += "-slots"
	s.Load.Hold = &scenario.Hold{Mean: d.duration(n / rate)}
	s.Load.Cost, s.Load.Costs = 1, nil
	s.SetLimit(lease.Limit{Kind: lease.KindSlots, Burst: int64(n)})
}

// waits lets all callers wait, in two of three scenes at several distances. Processes are not on in
// turn, so that what is fair is plain. What is measured begins when they wait for as long as they
// can: until then more is promised than there is.
func (d dice) waits(s *scenario.Scenario) {
	s.Name += "-waits"
	s.Load.Patience, s.Balance.OnOff = d.duration(d.log(minWait, maxWait)), nil
	if s.Load.Clients == nil {
		s.Load.Offered = d.log(minWaiting, maxWaiting)
		d.durations(s, s.Load.Offered, s.MeanCost())
		queues := d.duration(s.Load.Patience.Seconds() / (s.Load.Offered - 1))
		s.Warmup, s.Duration = s.Warmup+queues, s.Duration+queues
	}
	if d.chance(2. / 3) {
		s.Redis.Apart = d.duration(d.log(minApart, maxApart) / 1e3)
		s.Redis.Timeout += s.Redis.Apart
	}
}

// pair lets each request meet a limit for everybody beside its own, a bucket or a quota. It
// is the narrower one in about three of four scenes. Callers do not wait for several limits.
func (d dice) pair(s *scenario.Scenario) {
	own := scenario.EachKey{Name: "own", Limit: s.Limit, Burst: s.Burst, Number: s.Keys.Number,
		Skew: s.KeySkew}
	capacity := s.Capacity()
	rate := scenario.Round(capacity*d.log(minSecond, maxSecond), 3)
	burst := max(s.Burst, int64(scenario.Round(rate*d.log(minFill, maxFill), 3)))
	second := lease.Limit{Rate: rate, Burst: burst}
	if d.chance(1. / 3) {
		window := math.Ceil(float64(burst) / rate)
		second = lease.Limit{
			Kind: lease.KindQuota, Window: time.Duration(window) * time.Second,
			Burst: max(burst, int64(rate*window)),
		}
	}
	all := scenario.EachKey{Name: "all", Limit: scenario.Limit{Limit: second}, Number: 1}
	if scenario.HasRate(second) {
		all.Burst = burst
	}
	s.Name += "-pair"
	s.Limit, s.Burst, s.KeySkew, s.Load.Patience = scenario.Limit{}, 0, 0, 0
	s.Keys = scenario.Keys{Each: []scenario.EachKey{own, all}}
	s.Load.Offered *= capacity / s.Capacity() // the same requests
}

// redis draws the way there and back, from low to high milliseconds.
func (d dice) redis(s *scenario.Scenario, low, high float64) {
	r := &s.Redis
	trip := d.log(low, high) / 1e3
	r.Latency = d.duration(trip)
	longest := trip
	switch {
	case d.chance(1. / 3):
		r.Jitter, longest = 0.5, 4*trip
	case d.chance(0.5):
		longest = trip * d.between(1.5, 5)
		r.P99 = d.duration(longest)
		longest *= 1.5
	}
	r.Timeout = max(defaultTimeout*time.Millisecond, d.duration(longest))
}

// load draws who asks, when, for how much, and how long that is played.
func (d dice) load(s *scenario.Scenario) {
	l, b := &s.Load, &s.Balance
	offered := d.log(minLoad, maxLoad)
	cost := d.costs(s)
	if d.chance(0.5) {
		b.Skew = scenario.Round(d.between(0, maxSkew), 2)
	}
	if d.chance(0.15) {
		l.Patience = d.duration(d.log(minPatience, maxPatience))
	}
	if d.chance(0.12) {
		d.clients(s, offered, cost)
	} else {
		l.Offered = offered
		d.arrivals(s)
	}
	if (b.By == "own" || b.By == "random") && d.chance(0.25) {
		b.Moves = d.duration(d.log(minMove, maxMove))
	}
	d.durations(s, offered, cost)
	if l.Clients == nil && b.OnOff == nil && d.chance(0.12) { // after a calm time
		measured := s.Duration - s.Warmup
		times := d.log(3, 20)
		l.Offered = scenario.Round(offered/times, 3)
		l.Flash = []scenario.Flash{{At: s.Warmup + measured/2, For: measured / 4, Times: times}}
	}
}

// costs draws what requests take: 1, a fixed number, or a few large ones among
// small. It returns the mean.
func (d dice) costs(s *scenario.Scenario) (mean float64) {
	most := float64(min(s.Burst/4, 200))
	large := int64(1)
	if most >= 2 {
		large = int64(d.whole(2, most))
	}
	switch {
	case d.chance(0.8) || large == 1:
		s.Load.Cost = 1
		return 1
	case d.chance(0.5):
		s.Load.Cost = large
		return float64(large)
	}
	s.Load.Costs = []int64{1, 1, 1, 1, 1, 1, 1, 1, 1, large}
	return (9 + float64(large)) / 10
}

// clients draws a closed load that would ask for offered times the limit if
// each answer came at once.
func (d dice) clients(s *scenario.Scenario, offered, cost float64) {
	rate := offered * s.Limit.Mean() * float64(s.Keys.Number) / cost // requests/s
	count := min(max(math.Round(rate*d.log(minThink, maxThink)), 1), maxClients)
	// A whole number of them thinks for as long as the load wants it.
	s.Load.Clients = &scenario.Clients{Count: int(count), Think: d.duration(count / rate)}
	s.Balance.By = []string{"random", "round-robin", "least-outstanding"}[d.Below(3)]
	if s.Balance.By != "random" {
		s.Balance.Skew = 0
	}
}

// arrivals draws when the requests of an open load come, and where.
func (d dice) arrivals(s *scenario.Scenario) {
	l, b := &s.Load, &s.Balance
	b.By = "own"
	if d.chance(0.5) {
		b.By = "random"
	}
	switch u := d.Uniform(); {
	case u < 0.4: // poisson
	case u < 0.7:
		l.Arrivals, l.CV = "gamma", d.log(minCV, maxCV)
	case u < 0.85: // on and off
		period := d.log(minPeriod, maxPeriod)
		d.onOff(s, period, d.between(0.1, 0.5))
	default: // clumps
		period := d.log(minClump, maxClump)
		d.onOff(s, period, d.between(0.02, 0.2))
	}
}

func (d dice) onOff(s *scenario.Scenario, period, on float64) {
	s.Balance.By = "own"
	s.Balance.OnOff = &scenario.OnOff{
		On: d.duration(max(period*on, 0.001)), Period: d.duration(period), Together: d.chance(1. / 3),
	}
}

// durations sets how long is played: until a full bucket has drained, and then
// for about measuredRequests.
func (d dice) durations(s *scenario.Scenario, offered, cost float64) {
	limit := s.Limit.Mean() * float64(s.Keys.Number)
	rate := offered * limit / cost // requests/s
	measured := min(max(measuredRequests/rate, minMeasured), maxMeasured)
	if o := s.Balance.OnOff; o != nil {
		measured = max(measured, 4*o.Period.Seconds())
	}
	warm := minWarm
	if offered > 1 {
		warm = max(warm, 1.2*float64(s.Burst)/s.Limit.Mean()/(offered-1))
	}
	warm = min(warm, maxWarm)
	measured = max(min(measured, mostRequests/rate), leastMeasured)
	warm = max(min(warm, mostRequests/rate), minWarm/2)
	s.Warmup = d.duration(warm)
	s.Duration = d.duration(warm + measured)
}

// faults draws what goes wrong: mostly nothing.
func (d dice) faults(s *scenario.Scenario) {
	measured := s.Duration - s.Warmup
	switch u := d.Uniform(); {
	case u < 0.7:
	case u < 0.8:
		s.Faults = []scenario.Fault{{At: s.Warmup + measured/2, Kind: "join", Count: d.whole(1, float64(s.Processes))}}
	case u < 0.9:
		f := scenario.Fault{At: s.Warmup / 2, Kind: "crash", Every: d.duration(d.log(0.5, 5))}
		if d.chance(0.5) {
			f.For = d.duration(d.log(0.1, 2))
		}
		s.Faults = []scenario.Fault{f}
	default:
		s.Redis.Lost = d.log(0.001, 0.05)
		if d.chance(0.5) {
			s.Redis.Repeated = d.log(0.001, 0.05)
		}
	}
}
