package live

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// A plan is all of a run that is known before it: what happens to whom and
// when, and, unless it depends on answers, who is asked for what. So nothing
// but firing is left to do while time runs.
type plan struct {
	scenario *scenario.Scenario
	setting  setting
	load     *workload.Workload
	service  *workload.Random
	retries  *workload.Random
	keys     []string

	lives   []life // in the order of their beginning
	flushes []time.Duration
	events  []engine.Event
	cuts    [][]interval // of each process

	// answering says that requests depend on answers. Then open are those of
	// an open load, whose process is found when they are fired; else each life
	// has its own, and unrouted are those that no process was there for.
	answering bool
	open      []workload.Request
	unrouted  []workload.Request
}

// A setting is what every process of a run has to know.
type setting struct {
	Each             []scenario.Limited // that a request meets
	Limits           []limitFrom        // of the first of them, if it is alone
	Classes          []lease.Class      // of its requests
	Policy           lease.Policy
	Outage           local.Outage
	Eager            int64
	Timeout          time.Duration
	Patience         time.Duration // of jobs
	Warmup, Duration time.Duration
	Redis            network
	Seed             uint64
	Replication      int
}

// limitFrom is a limit that holds from At on.
type limitFrom struct {
	At    time.Duration
	Limit lease.Limit
}

// limitAt is the limit in force.
func (s *setting) limitAt(now time.Duration) lease.Limit {
	i := sort.Search(len(s.Limits), func(i int) bool { return s.Limits[i].At > now })
	return s.Limits[max(i-1, 0)].Limit
}

// A life of a process lasts from one start to its end or that of the run.
type life struct {
	Process, Number int
	From, To        time.Duration
	Ends            bool // before the run does
	Crash           bool // not in order
	Requests        []workload.Request
	Silent          []interval // Redis does not answer it
}

// interval is the time from From to before To.
type interval struct{ From, To time.Duration }

// during reports whether now is in one of the intervals, which are in order and
// apart from each other.
func during(list []interval, now time.Duration) bool {
	i := sort.Search(len(list), func(i int) bool { return list[i].To > now })
	return i < len(list) && list[i].From <= now
}

// union puts intervals in order and joins those that touch.
func union(list []interval) (joined []interval) {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b interval) int { return int(a.From - b.From) })
	for _, x := range list {
		if n := len(joined); n > 0 && x.From <= joined[n-1].To {
			joined[n-1].To = max(joined[n-1].To, x.To)
			continue
		}
		joined = append(joined, x)
	}
	return joined
}

const (
	// maxRequests bounds the memory of a run, of which each request and its
	// answer take some 100 bytes.
	maxRequests = 10_000_000
	// maxProcesses bounds its connections, of which each process keeps two.
	maxProcesses = 1000
	// maxSeparate bounds the processes of the operating system: each is a Go
	// program of some 10 MB.
	maxSeparate = 100
)

func newPlan(s *scenario.Scenario, seed uint64, replication int) (*plan, error) {
	p := &plan{scenario: s, load: workload.New(s, seed, replication)}
	policy, err := s.Policy.Lease()
	if err != nil {
		return nil, err
	}
	outage, err := s.OutagePolicy()
	if err != nil {
		return nil, err
	}
	if n := p.load.Processes(); n > maxProcesses {
		return nil, fmt.Errorf("%d processes, more than %d: %w", n, maxProcesses, ErrUnsupported)
	}
	if s.Redis.Apart > 0 {
		return nil, fmt.Errorf("redis.apart: the predictor takes one distance for all: %w", ErrUnsupported)
	}
	if jobs := s.Load.Hold != nil; jobs != (s.Load.Patience > 0) {
		return nil, fmt.Errorf("load.patience %v with limit %s, as Take does not wait here, and "+
			"Acquire does: %w", s.Load.Patience, s.Limit, ErrUnsupported)
	}
	p.setting = setting{
		Each: s.Limits(), Limits: []limitFrom{{math.MinInt64, s.LimitOf()}},
		Classes: s.LeaseClasses(),
		Policy:  policy, Outage: outage, Eager: s.Eager, Patience: s.Load.Patience,
		Timeout: s.Redis.Timeout, Warmup: s.Warmup, Duration: s.Duration, Redis: networkOf(&s.Redis),
		Seed: seed, Replication: replication,
	}
	p.keys = p.setting.names()
	p.service = workload.NewRandom(seed, replication, -1, workload.Service)
	p.retries = workload.NewRandom(seed, replication, -1, workload.Retries)
	p.answering = s.Load.Clients != nil || s.Load.Retry != nil || s.Balance.By == "least-outstanding"
	moves := p.planFaults(workload.NewRandom(seed, replication, -1, workload.Faults))
	return p, p.planRequests(moves)
}

// names are those of the keys, as the engine has them.
func (s *setting) names() (list []string) {
	for _, l := range s.Each {
		for i := range l.Number {
			list = append(list, fmt.Sprintf("%s-%d", l.Name, i))
		}
	}
	return list
}

// limitOf is the limit of a key by its name.
func (s *setting) limitOf(key string, now time.Duration) lease.Limit {
	if len(s.Each) > 1 {
		for _, l := range s.Each {
			if key[:strings.LastIndexByte(key, '-')] == l.Name {
				return l.Limit
			}
		}
	}
	return s.limitAt(now)
}

// keysOf are the numbers of the keys of a request.
func (s *setting) keysOf(q *workload.Request) []int {
	keys := []int{q.Key}
	for i := range s.Each[1:] {
		keys = append(keys, int(q.More[i]))
	}
	return keys
}

// separable returns an error unless each process can know its requests before
// the run: a process of the operating system cannot ask the others whom a retry
// or a client goes to.
func (p *plan) separable() error {
	s := p.scenario
	const alone = "depends on answers, of which separate processes do not tell each other in time"
	switch {
	case s.Load.Clients != nil:
		return fmt.Errorf("load.clients: it %s: %w", alone, ErrUnsupported)
	case s.Load.Retry != nil:
		return fmt.Errorf("load.retry: it %s: %w", alone, ErrUnsupported)
	case s.Balance.By == "least-outstanding":
		return fmt.Errorf("balance.by least-outstanding: it %s: %w", alone, ErrUnsupported)
	case p.load.Processes() > maxSeparate:
		return fmt.Errorf("%d separate processes, more than %d: %w", p.load.Processes(), maxSeparate, ErrUnsupported)
	}
	return nil
}

// A move of the fleet: a process comes up or goes.
type move struct {
	at      time.Duration
	process int
	up      bool
}

// planRequests draws up an open load and tells its requests apart by the life
// that they come to.
func (p *plan) planRequests(moves []move) error {
	tooMany := fmt.Errorf("more than %d requests, which are kept in memory: shorten the run or lower its load: %w", maxRequests, ErrUnsupported)
	if p.load.Streams() > 0 && p.scenario.Replay() == nil && p.scenario.RequestRate()*p.setting.Duration.Seconds() > maxRequests {
		return tooMany // before they fill the memory
	}
	for stream := range p.load.Streams() {
		var q workload.Request
		for p.load.Next(stream, &q) && q.At < p.setting.Duration {
			if len(p.open) == maxRequests {
				return tooMany
			}
			p.open = append(p.open, q)
		}
	}
	if err := p.load.Err(); err != nil {
		return err
	}
	slices.SortStableFunc(p.open, func(a, b workload.Request) int { return int(a.At - b.At) })
	if p.answering {
		return nil
	}
	latest := make([]int, p.load.Processes()) // life of each process
	next := 0                                 // life to begin
	for _, q := range p.open {
		for ; len(moves) > 0 && moves[0].at <= q.At; moves = moves[1:] {
			m := moves[0]
			p.load.SetUp(m.process, m.up)
			if m.up {
				latest[m.process] = next
				next++
			}
		}
		to, ok := p.load.Route(&q)
		if !ok {
			p.unrouted = append(p.unrouted, q)
			continue
		}
		q.Process = to
		l := &p.lives[latest[to]]
		l.Requests = append(l.Requests, q)
	}
	p.open = nil
	return nil
}
