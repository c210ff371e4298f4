// Package scenario says what the simulator simulates: a fleet, its limit, its
// load, its Redis and what goes wrong, as a YAML file.
//
// Reading is strict: an unknown field, a value out of its range or two settings
// that do not go together are errors with the line or the field.
package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// A Scenario is one thing to simulate. A zero field means its documented
// default, which Resolve fills in.
type Scenario struct {
	Name  string `yaml:"name"`
	About string `yaml:"about,omitempty"` // one sentence for people

	// Processes is the number of processes at the start, 1 to 10,000. With a
	// log that names them, as many as it names. Default: 10.
	Processes int `yaml:"processes,omitempty"`

	// Limit is what each key may use, NUMBER/TIME: 1000/s, 10/m, 100/500ms.
	// Burst is what its bucket holds, in tokens. Defaults: 1000/s, and
	// the NUMBER, rounded up, or ten requests for each process if that is more.
	// A quota such as 10000/day, 100/minute or quota 100/90s has no Burst beside
	// it. A run begins at 0:00 of a Thursday, the 1st of January 1970, by UTC; an
	// offset such as UTC+00:10 moves the windows. A sliding window such as 100 in any minute, or
	// 100 in any 90s, has no Burst either, nor do slots, such as 100 slots.
	Limit Limit `yaml:"limit,omitempty"`
	Burst int64 `yaml:"burst,omitempty"`

	// Keys is the number of limited things, 1 to 1,000,000, as popular as
	// Zipf's law with exponent KeySkew >= 0 has them. Defaults: 1, and 0: all
	// alike. With a log, see Trace.
	//
	// Or Keys is a list, and each request has a key of each of its kinds and
	// takes its tokens of all of them, or none: see EachKey. Limit, Burst and
	// KeySkew are not for that.
	Keys    Keys    `yaml:"keys,omitempty"`
	KeySkew float64 `yaml:"key_skew,omitempty"`

	// Duration is the simulated time, and Warmup the part at its beginning that
	// is not measured (but for the worst excess, which always is). Defaults:
	// 30s, or with a log, until the last verdict on it; and 0.
	Duration time.Duration `yaml:"duration,omitempty"`
	Warmup   time.Duration `yaml:"warmup,omitempty"`

	// Classes of requests, the highest first, as hybrid.Config has them: up to 8, of one token
	// bucket or quota. Default: none.
	Classes []Class `yaml:"classes,omitempty"`

	Load    Load    `yaml:"load,omitempty"`
	Balance Balance `yaml:"balance,omitempty"`
	Redis   Redis   `yaml:"redis,omitempty"`
	Faults  []Fault `yaml:"faults,omitempty"`
	Policy  Policy  `yaml:"policy,omitempty"`

	// Outage decides while Redis does not answer: share, deny or allow.
	// Default: share.
	Outage string `yaml:"outage,omitempty"`

	// Eager is how many tokens of a key that it does not hold a process admits before Redis has
	// answered, 0 to 2^32, as hybrid.Config has it. Requests for several keys and jobs ask all
	// the same. Default: 0.
	Eager int64 `yaml:"eager,omitempty"`

	Unwritten `yaml:"-"`

	chosen map[string]string // see Limited.Chosen, by its name
	open   Opener
	file   *logFile
	replay *Replay
}

// Unwritten is what only programs set. Text is without it.
type Unwritten struct {
	// Begins is when the run begins, after 0:00 of 1970-01-01 by UTC. Quotas go by that.
	Begins time.Duration

	// Weights are the parts of the load that keys have, in proportion, one for each of Keys.Number,
	// whatever KeySkew is.
	Weights []float64

	Inherited string // which fields are those of another scenario, for people
}

// Load is who asks for how much.
type Load struct {
	// Offered is the mean load as a multiple of the limits of all keys
	// together, of the narrowest where there are several. Rate is the same in
	// requests/s: one of them. Default: 2 offered.
	Offered float64 `yaml:"offered,omitempty"`
	Rate    Rate    `yaml:"rate,omitempty"`

	// Arrivals are the gaps between requests: poisson, even, or gamma with a
	// coefficient of variation CV (above 1: clumps). Default: poisson.
	Arrivals string  `yaml:"arrivals,omitempty"`
	CV       float64 `yaml:"cv,omitempty"`

	// Cost is what each request takes, in tokens; Costs are several of them,
	// each as likely. Default: 1.
	Cost  int64   `yaml:"cost,omitempty"`
	Costs []int64 `yaml:"costs,omitempty"`

	// Diurnal lets the load swing like a day: a sine between Low and 2-Low
	// times the mean.
	Diurnal *Diurnal `yaml:"diurnal,omitempty"`

	// Flash multiplies the load for a while.
	Flash []Flash `yaml:"flash,omitempty"`

	// Clients make the load a closed one: each thinks, asks, and thinks again
	// when it has its answer. Instead of Offered and Rate.
	Clients *Clients `yaml:"clients,omitempty"`

	// Patience is how long a caller waits for its tokens or its slot, as with a deadline in
	// Limiter.Wait or Acquire. Default: not at all, as in Take.
	Patience time.Duration `yaml:"patience,omitempty"`

	// Hold is for how long each job has its slot, for a limit of slots and no other one.
	Hold *Hold `yaml:"hold,omitempty"`

	// Retry lets denied requests come back.
	Retry *Retry `yaml:"retry,omitempty"`

	// Trace replays a log instead of all the above but Patience, Hold and Retry.
	Trace *Trace `yaml:"trace,omitempty"`
}

// Diurnal is a load that swings.
type Diurnal struct {
	Period time.Duration `yaml:"period"`
	Low    float64       `yaml:"low"` // 0 to 1
}

// Flash is a load that is several times as large for a while.
type Flash struct {
	At    time.Duration `yaml:"at"`
	For   time.Duration `yaml:"for"`
	Times float64       `yaml:"times"`
}

// Clients are a closed load.
type Clients struct {
	Count int           `yaml:"count"`
	Think time.Duration `yaml:"think"` // mean, exponential
}

// Retry is what callers do who are denied.
type Retry struct {
	Times int `yaml:"times"` // at most, 1 to 100

	// After is how long they wait. Default: what the decision's RetryAfter
	// says, and up to a tenth more.
	After time.Duration `yaml:"after,omitempty"`
}

// Trace is a log to replay; see package accesslog for the formats and columns. It
// is replayed in its own time and to its end, unless Speedup and Duration say
// otherwise.
type Trace struct {
	File   string `yaml:"file"` // relative to the scenario's
	Format string `yaml:"format,omitempty"`
	Time   string `yaml:"time,omitempty"`
	// of times that are numbers: s, ms, us, ns; found if empty
	Unit     string `yaml:"time_unit,omitempty"`
	Layout   string `yaml:"time_layout,omitempty"`
	Key      string `yaml:"key,omitempty"`
	Cost     string `yaml:"cost,omitempty"`
	Count    string `yaml:"count,omitempty"` // of requests that a line stands for
	Upstream string `yaml:"upstream,omitempty"`

	// Speedup divides the times of requests, and nothing else: limit, round
	// trips, time-outs and the policy's times stay as they are. So it means
	// that many times the traffic in the same shape, not a shorter wait for
	// the same result (ADR 66). Default: 1.
	Speedup float64 `yaml:"speedup,omitempty"`

	// PerClient gives each client a key of its own; else all share one.
	PerClient bool `yaml:"per_client,omitempty"`
}

// Balance is how requests come to processes.
type Balance struct {
	// By is random (by weight), round-robin, least-outstanding, sticky (a
	// client always goes to the same process) or own (each process has
	// clients of its own, by weight, who are away when it is). A log that
	// names the process overrides it. Default: random.
	By string `yaml:"by,omitempty"`

	// Weights of the processes, or Skew: weights by Zipf's law with this
	// exponent, 0 or above. For random and own. Default: all alike.
	Weights []float64 `yaml:"weights,omitempty"`
	Skew    float64   `yaml:"skew,omitempty"`

	// Apart gives each class busy processes of its own: the weights begin at another process for
	// each. For random and own.
	Apart bool `yaml:"apart,omitempty"`

	// Moves is how often each weight moves on to the next process.
	Moves time.Duration `yaml:"moves,omitempty"`

	// OnOff lets the clients of each process come and go, for own. The load
	// while they are there is higher, so that the mean stays.
	OnOff *OnOff `yaml:"on_off,omitempty"`

	// Clients is how many there are, as busy as Zipf's law with exponent
	// ClientSkew has them, for sticky without a log. Default: 1000, alike.
	Clients    int     `yaml:"clients,omitempty"`
	ClientSkew float64 `yaml:"client_skew,omitempty"`

	// Service is how long a process works on an admitted request, mean of an
	// exponential distribution, for least-outstanding. Default: 5ms. Jobs have their Hold.
	Service time.Duration `yaml:"service,omitempty"`
}

// OnOff is a load that comes and goes.
type OnOff struct {
	On     time.Duration `yaml:"on"`
	Period time.Duration `yaml:"period"`

	// Together lets all processes be busy at the same time; else their phases
	// are spread evenly.
	Together bool `yaml:"together,omitempty"`
}

// Redis is the way there and back.
type Redis struct {
	// Latency is the round trip: exactly so long; with P99, lognormal with this
	// median and that 99th percentile; with Jitter, 0 to 1, this mean of which
	// the part Jitter is exponential. Default: 1ms.
	Latency time.Duration `yaml:"latency,omitempty"`
	P99     time.Duration `yaml:"p99,omitempty"`
	Jitter  float64       `yaml:"jitter,omitempty"`

	// Latencies is a file of round trips to draw from, a duration a line such
	// as 1.2ms, or a number of seconds. Instead of the above.
	Latencies string `yaml:"latencies,omitempty"`

	// Apart is how much longer the round trips of the last process are than those of the first one,
	// 0 to 1 min. Those between are spread evenly.
	Apart time.Duration `yaml:"apart,omitempty"`

	// Timeout is when an exchange is given up, 1 ms to 1 min. Default: 250ms.
	Timeout time.Duration `yaml:"timeout,omitempty"`

	// Lost is the part of messages that never arrive, each way, and Repeated
	// the part of requests that arrive twice.
	Lost     float64 `yaml:"lost,omitempty"`
	Repeated float64 `yaml:"repeated,omitempty"`

	trips []time.Duration // of Latencies
}

// Policy is lease.Policy, by the names of its fields.
type Policy struct {
	Mode       string        `yaml:"mode,omitempty"`
	Fairness   string        `yaml:"fairness,omitempty"`
	Batch      int64         `yaml:"batch,omitempty"`
	MinRefresh time.Duration `yaml:"min_refresh,omitempty"`
	MaxRefresh time.Duration `yaml:"max_refresh,omitempty"`
	MaxHold    time.Duration `yaml:"max_hold,omitempty"`
	Headroom   float64       `yaml:"headroom,omitempty"`
	BurstShare float64       `yaml:"burst_share,omitempty"`
	Smallest   int64         `yaml:"smallest,omitempty"`
	Reserve    float64       `yaml:"reserve,omitempty"`
}

// MarshalJSON writes the fields by their YAML names and in the same words.
func (s *Scenario) MarshalJSON() ([]byte, error) {
	var fields map[string]any
	if err := yaml.Load([]byte(s.Text()), &fields); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return json.Marshal(fields)
}

// Text is the scenario as YAML, which Parse reads again.
func (s *Scenario) Text() string {
	text, err := yaml.Dump(s, yaml.WithIndent(2))
	if err != nil {
		panic(fmt.Sprintf("scenario: a struct of plain fields cannot be written: %v", err))
	}
	return string(text)
}

// LimitOf is the limit of each key, the whole of it, by the clock of the run.
func (s *Scenario) LimitOf() lease.Limit {
	return s.onCalendar(s.Limit.whole(s.Burst))
}

// onCalendar is a limit by the clock of the run.
func (s *Scenario) onCalendar(l lease.Limit) lease.Limit {
	if ideal.TraitsOf(l).Calendar {
		l.Offset += s.Begins
	}
	return l
}

// Written are the fields with a value, by their paths and in order, as Set has them. A list is
// one of them.
func (s *Scenario) Written() (fields [][2]string) {
	var add func(n *yaml.Node, above string)
	add = func(n *yaml.Node, above string) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			path, value := above+n.Content[i].Value, n.Content[i+1]
			switch value.Kind {
			case yaml.MappingNode:
				add(value, path+".")
			case yaml.SequenceNode:
				fields = append(fields, [2]string{path, fmt.Sprintf("(%d)", len(value.Content))})
			default:
				fields = append(fields, [2]string{path, value.Value})
			}
		}
	}
	var document yaml.Node
	if err := yaml.Load([]byte(s.Text()), &document); err != nil {
		panic(fmt.Sprintf("scenario: what was written cannot be read: %v", err))
	}
	add(document.Content[0], "")
	return fields
}

// KeyName is what people call a key, from its number: the client, where each client of a
// log has a limit of its own. It has no characters that a terminal obeys.
func (s *Scenario) KeyName(n int) string {
	const longest = 60 // letters
	if s.replay == nil || !s.Load.Trace.PerClient || n >= len(s.replay.log.Keys) {
		for _, l := range s.Limits() {
			if n -= l.First; n < l.Number {
				return fmt.Sprintf("%s-%d", l.Name, n)
			}
			n += l.First
		}
		return fmt.Sprintf("key-%d", n)
	}
	name := []rune(s.replay.log.Keys[n])
	if len(name) > longest {
		name = append(name[:longest-1], '…')
	}
	if slices.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) ||
		len(name) == 0 {
		return strconv.QuoteToGraphic(string(name))
	}
	return string(name)
}
