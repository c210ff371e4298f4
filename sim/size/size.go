// Package size answers how large a Redis a deployment needs: calls, CPU, network and memory of
// many keys over many processes, of which a sample is played.
//
// Keys have limits of their own and share nothing but processes and Redis, which the simulator
// takes to be idle. So what a key costs depends on its demand alone. Keys are divided into
// classes by demand. A sample of each is played by package engine, and its calls count for all
// keys of the class. The sample is drawn anew for each replication, so that the interval over
// replications knows of both: which keys were drawn, and what happened to them.
//
// # Promise
//
// The mean over replications is that of a run with all keys (TestWholeFleet). The same Question
// gives the same Answer, to the last bit, on every machine.
//
// It does not promise that Redis or the processes can do it: both answer in no time here.
//
// # Duties of the caller
//
// Play each Play of a Plan by engine.RunStored, with its Replication as the replication, and
// hand what comes of it to Add. Then ask for the Answer.
package size

import (
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// Bounds of a Question.
const (
	MostProcesses    = 5_000
	MostKeys         = 100_000_000
	MostReplications = 1_000

	// mostOfKey is how many requests/s of one key are played one by one in a few seconds.
	// Far below, calls do not follow requests any more (docs/performance.md, "Beyond one
	// Redis").
	mostOfKey = 2e6

	mostSkew = 10
)

// A Question is a deployment.
type Question struct {
	// Scenario has the processes, the limit of each key, Redis and the policy, as they are
	// written. It has neither keys nor a rate.
	Scenario *scenario.Scenario

	Keys int     // 1 to MostKeys
	Skew float64 // exponent of Zipf's law of requests over keys; 0 is even
	Rate float64 // requests/s of the fleet

	Exchange     time.Duration // CPU of an exchange; see Exchange
	Seed         uint64
	Replications int // 1 to MostReplications
}

func (q *Question) check() error {
	bad := func(field string, value any, want string) error {
		return fmt.Errorf("size: %s %v is not %s", field, value, want)
	}
	s := q.Scenario
	switch {
	case q.Keys < 1 || q.Keys > MostKeys:
		return bad("keys", q.Keys, "from 1 to 100000000")
	case !(q.Skew >= 0 && q.Skew <= mostSkew):
		return bad("key skew", q.Skew, "from 0 to 10")
	case !(q.Rate > 0) || math.IsInf(q.Rate, 0):
		return bad("rate", q.Rate, "a number of requests/s above 0")
	case q.Exchange < time.Microsecond || q.Exchange > time.Second:
		return bad("exchange", q.Exchange, "from 1µs to 1s")
	case q.Replications < 1 || q.Replications > MostReplications:
		return bad("replications", q.Replications, "from 1 to 1000")
	case s.Processes > MostProcesses:
		return bad("processes", s.Processes, "from 1 to 5000")
	case !scenario.HasRate(s.Limit.Limit):
		return bad("limit", s.Limit, "a token bucket such as 100/s")
	}
	return nil
}

// A Plan is what is to be played for a Question.
type Plan struct {
	question Question
	resolved *scenario.Scenario
	usual    float64 // what a Play may cost, seconds of a core
	classes  []played
	Plays    []*Play // in the order in which they are best played
}

// A Play is a sample of a class in one replication.
type Play struct {
	Scenario    *scenario.Scenario
	Replication int // for package engine: each Play has its own

	class, replication int
}

// played is a class and what came of its samples.
type played struct {
	Class
	sample        int // keys in each
	warm, measure time.Duration
	sums          []sums // by replication
}

// sums are what a replication found, per second, for all keys of a class.
type sums struct {
	done                            bool
	requests, calls, waited, denied float64
	keys, holders, bytes            float64 // in Redis
}

// New returns the Plan for a Question.
func New(q Question) (*Plan, error) { return plan(q, effort) }

func plan(q Question, effort float64) (*Plan, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	p := &Plan{question: q, resolved: q.Scenario.Clone()}
	p.resolved.Load.Rate = scenario.Rate{PerSecond: 1}
	if err := p.resolved.Resolve(); err != nil {
		return nil, err
	}
	classes := divide(q.Keys, q.Skew, q.Rate)
	if top := classes[0].of(1); top > mostOfKey {
		return nil, fmt.Errorf("size: rate %v/s gives one key %.4g requests/s; at most %.4g: a key "+
			"is one script of one Redis, see docs/performance.md, \"Beyond one Redis\"",
			q.Rate, top, mostOfKey)
	}
	p.usual = min(effort/float64(len(classes)*q.Replications), longest)
	for _, c := range classes {
		p.classes = append(p.classes, p.prepare(c))
	}
	for n := range q.Replications { // of all classes, so that an interrupt finds whole ones
		for i := range p.classes {
			play, err := p.play(i, n)
			if err != nil {
				return nil, err
			}
			p.Plays = append(p.Plays, play)
		}
	}
	return p, nil
}

const (
	// effort is what all Plays may cost together, seconds of a core, and each of them longest
	// at most. With a sample of fewest keys one may cost dearest times its part. All are
	// estimates: the machine does not matter.
	effort, longest, dearest = 20, 2, 4

	requestCost, callCost = 0.2e-6, 20e-6 // of playing, seconds

	// Keys in a sample.
	fewest, mostSampled = 4, 20_000

	// settling bounds how long buckets are given to fill or to run dry.
	settling = 10 * time.Minute

	// least is how long a key is played before it is measured, and then, at least: unrest and
	// caution come and go in some ten seconds.
	least = 20 * time.Second
)

// dear is what a second of a key costs to play at most, seconds of a core. Calls are no more
// than requests, than a process sends, and than one key has in any of the fleets of
// docs/performance.md ("Beyond one Redis").
func (p *Plan) dear(rate float64) float64 {
	calls := min(rate, 53*float64(p.resolved.Processes), 16_000)
	return float64(rate*requestCost) + float64(calls*callCost)
}

// prepare says how a class is played: for the longest lease and a third more until it is
// measured, and then for the longest lease. Buckets have time to fill or to run dry.
func (p *Plan) prepare(c Class) played {
	s := p.resolved
	limit := s.LimitOf()
	x := played{Class: c, measure: max(s.Policy.MaxHold, 20*s.Policy.MaxRefresh)}
	x.warm = x.measure + x.measure/3
	if coldest := c.of(c.First + c.Keys - 1); coldest*p.resolved.MeanCost() > limit.Rate/2 {
		// No long batches: more is asked for than the key should lend for longer.
		x.warm, x.measure = max(least, 8*s.Policy.MaxRefresh), max(least, 8*s.Policy.MaxRefresh)
	}
	fill := min(4*float64(limit.Burst)/limit.Rate*1e9, float64(settling))
	x.warm = max(x.warm, time.Duration(fill))
	x.sums = make([]sums, p.question.Replications)
	each := p.dear(c.Rate/float64(c.Keys)) * (x.warm + x.measure).Seconds()
	x.sample = min(max(int(min(p.usual/each, mostSampled)), fewest), c.Keys)
	if part := dearest * p.usual / (each * float64(x.sample)); part < 1 {
		whole := max(time.Duration(float64(x.warm+x.measure)*part), 2*least)
		x.warm, x.measure = whole/2, whole-whole/2
	}
	return x
}

// Scenario is the deployment, with defaults filled in. Its keys and its load have no meaning.
func (p *Plan) Scenario() *scenario.Scenario { return p.resolved }

// play is the sample of a class in a replication.
func (p *Plan) play(class, replication int) (*Play, error) {
	x := &p.classes[class]
	number := replication*len(p.classes) + class
	rates := x.Class.sample(x.sample, place(p.question.Seed, number))
	s := p.question.Scenario.Clone()
	s.Keys.Number = len(rates)
	s.Weights = rates
	sum := 0.0
	for _, rate := range rates {
		sum += rate
	}
	s.Load.Rate = scenario.Rate{PerSecond: sum}
	s.Duration, s.Warmup = x.warm+x.measure, x.warm
	return &Play{Scenario: s, Replication: number, class: class, replication: replication}, s.Resolve()
}

// Add takes what came of a Play. holders are those on record, of each key that Redis keeps.
func (p *Plan) Add(play *Play, r *engine.Result, holders []int) {
	x := &p.classes[play.class]
	weight := float64(x.Keys) / float64(x.sample)
	second := weight / r.Seconds
	found := sums{
		done: true, requests: float64(r.Requests) * second, calls: float64(r.Calls) * second,
		waited: float64(r.Waited) * second, denied: float64(r.Denied) * second,
		keys: float64(len(holders)) * weight,
	}
	for _, n := range holders {
		found.holders += float64(n) * weight
		found.bytes += stored(n) * weight
	}
	x.sums[play.replication] = found
}

// An Answer is what a deployment needs. Intervals are of 95 %, over replications.
type Answer struct {
	Replications int `json:"replications"`

	Calls    measure.Interval `json:"calls_per_second"` // exchanges, with those of the census
	Census   float64          `json:"census_calls_per_second"`
	Waited   measure.Interval `json:"waited"` // part of the requests that waits for Redis
	Denied   measure.Interval `json:"denied"` // part of them
	CPU      measure.Interval `json:"redis_cores"`
	Masters  measure.Interval `json:"redis_masters"` // at Full of a core each
	Received measure.Interval `json:"redis_bytes_received_per_second"`
	Sent     measure.Interval `json:"redis_bytes_sent_per_second"`
	Memory   measure.Interval `json:"redis_bytes"`

	// In each process.
	Entries       float64 `json:"process_keys"`
	Parked        float64 `json:"process_parked_keys"`
	ProcessMemory float64 `json:"process_bytes"`

	// HottestCore is the part of a core that the hottest key takes, which is on one master.
	HottestCore float64 `json:"hottest_key_cores"`

	Classes []ClassAnswer `json:"classes"`
}

// A ClassAnswer is the part of some classes: of keys of the same power of ten.
type ClassAnswer struct {
	Class
	Calls   measure.Interval `json:"calls_per_second"`
	Waited  float64          `json:"waited"`
	Holders float64          `json:"holders"` // of a key that Redis keeps, mean
	Kept    float64          `json:"kept"`    // keys that Redis has at a time
	Sample  int              `json:"sample"`  // keys played in each replication
	Seconds float64          `json:"seconds"` // measured in each, at least
}

// Answer is what has been found, and nil if no replication of all classes is known.
func (p *Plan) Answer() *Answer {
	var whole []int
	for n := range p.question.Replications {
		done := true
		for i := range p.classes {
			done = done && p.classes[i].sums[n].done
		}
		if done {
			whole = append(whole, n)
		}
	}
	if whole == nil {
		return nil
	}
	a := &Answer{Replications: len(whole)}
	processes := float64(p.resolved.Processes)
	a.Census = processes / census
	total := make([]sums, len(whole))
	for i := range p.classes {
		x := &p.classes[i]
		for j, n := range whole {
			total[j].add(&x.sums[n])
		}
		a.Entries += float64(x.Keys) * x.mean(func(rate float64) float64 {
			entry, _ := remembered(rate / processes)
			return entry
		})
		a.Parked += float64(x.Keys) * x.mean(func(rate float64) float64 {
			_, parking := remembered(rate / processes)
			return parking
		})
	}
	a.Classes = p.parts(whole)
	over := func(of func(*sums) float64) measure.Interval { return estimate(total, of) }
	a.Calls = over(func(s *sums) float64 { return s.calls + a.Census })
	a.Waited = over(func(s *sums) float64 { return measure.Ratio(s.waited, s.requests) })
	a.Denied = over(func(s *sums) float64 { return measure.Ratio(s.denied, s.requests) })
	a.Memory = over(func(s *sums) float64 { return s.bytes + stored(p.resolved.Processes) })
	a.CPU = scale(a.Calls, p.question.Exchange.Seconds())
	a.Masters = up(scale(a.CPU, 1/Full))
	a.Received, a.Sent = scale(a.Calls, RequestBytes), scale(a.Calls, ReplyBytes)
	a.ProcessMemory = a.Entries*entryBytes + a.Parked*parkedBytes
	first := a.Classes[0]
	a.HottestCore = first.Calls.Mean / float64(first.Keys) * p.question.Exchange.Seconds()
	return a
}

// parts are what came of the classes in some replications, those up to a power of ten together.
func (p *Plan) parts(replications []int) (list []ClassAnswer) {
	for i := 0; i < len(p.classes); {
		first := p.classes[i]
		part := ClassAnswer{Class: first.Class, Seconds: first.measure.Seconds()}
		part.Keys, part.Rate = 0, 0
		found := make([]sums, len(replications))
		var all sums
		for ; i < len(p.classes) && p.classes[i].decade() == first.decade(); i++ {
			x := &p.classes[i]
			part.Keys += x.Keys
			part.Rate += x.Rate
			part.Sample += x.sample
			part.Seconds = min(part.Seconds, x.measure.Seconds())
			for j, n := range replications {
				found[j].add(&x.sums[n])
				all.add(&x.sums[n])
			}
		}
		part.Calls = estimate(found, func(s *sums) float64 { return s.calls })
		part.Waited, part.Holders = measure.Ratio(all.waited, all.requests), measure.Ratio(all.holders, all.keys)
		part.Kept = all.keys / float64(len(replications))
		list = append(list, part)
	}
	return list
}

func (s *sums) add(other *sums) {
	s.requests += other.requests
	s.calls += other.calls
	s.waited += other.waited
	s.denied += other.denied
	s.keys += other.keys
	s.holders += other.holders
	s.bytes += other.bytes
}

// estimate is the mean of something of each replication and its interval. None is below 0.
func estimate(list []sums, of func(*sums) float64) measure.Interval {
	x := make([]float64, len(list))
	for i := range list {
		x[i] = of(&list[i])
	}
	i := measure.Estimate(x)
	i.Low = max(i.Low, 0)
	return i
}

func scale(i measure.Interval, by float64) measure.Interval {
	i.Mean, i.Low, i.High = i.Mean*by, i.Low*by, i.High*by
	return i
}

// up rounds to whole things, of which there is one at least.
func up(i measure.Interval) measure.Interval {
	i.Mean, i.Low = max(math.Ceil(i.Mean), 1), max(math.Ceil(i.Low), 1)
	i.High = max(math.Ceil(i.High), 1)
	return i
}
