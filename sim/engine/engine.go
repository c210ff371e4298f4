// Package engine plays scenarios in virtual time, against the code that runs in
// production: the Ledger of package lease, which is the twin of the script in
// Redis, and the entries of package local, which are what a process decides
// with. What package hybrid does with goroutines and clocks, carrying messages
// and waking entries, is done here by events.
//
// # Promise
//
// The same scenario, seed and replication give the same Result, to the last
// bit, on every machine. Nothing is allocated for a request that a lease
// decides.
//
// # What is left out
//
// Redis and the processes answer in no time, keys are not evicted from a process's
// table, and the census is taken only by RunAgain and where the store does not answer: how
// many processes there are is known from the ledgers of keys.
package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// An engine is one replication under way.
type engine struct {
	scenario *scenario.Scenario
	policy   lease.Policy
	outage   local.Outage
	common   *local.Common
	timeout  time.Duration
	patience time.Duration
	retry    *scenario.Retry
	trip     workload.RoundTrip

	now      time.Duration
	queue    queue
	arrivals queue // the next request of each stream: most events, and hardly ever a move in a heap

	load        *workload.Workload
	processes   []process
	keys        []*key
	cells       []*cell       // by event.ref; nil is one that has ended
	next        []request     // of each stream
	settled     []waiting     // scratch of collect
	waitings    [][]waiting   // empty ones of cells in which nobody waits
	drivers     []*driver     // by event.ref; nil is one that has ended
	carried     slab[message] // by event.ref
	census      *lease.Ledger
	freeFlights []*flight
	planned     slab[request] // that come later, by event.ref
	strikes     []struck
	jobs        slab[*job] // by event.ref; nil is one that is over

	seed        uint64
	replication int
	draws       int     // see RunAgain
	course      *Course // of RunAgain, nil else
	messages    *workload.Random
	chance      *workload.Random
	retries     *workload.Random
	service     *workload.Random

	away    int           // outages in force
	limits  []limited     // that each request meets
	classes []lease.Class // of requests, nil if there are none
	lapses  []*joint      // that wait, in the order of their time
	lapsing time.Duration // when they are looked at next
	meter   meter
	begins  time.Duration // of measuring

	witness func(happening) // of tests, which measure by themselves; nil else

	played *atomic.Int64 // simulated time, for who waits for it; may be nil
	told   time.Duration // how much of it has been added
}

// A key is one limited thing, in Redis and beside it.
type key struct {
	// What each request looks at comes first.
	cells  []*cell // by process, of its current life
	ideal  ideal.Ideal
	gauge  ideal.Gauge
	debits debits
	tallies
	classes *keyClasses // nil without classes

	name   string
	limit  lease.Limit   // that is declared
	opened time.Duration // of the first exchange, from when its ledger counts; -1 before it
	full   float64       // what its ledger began with
	before lease.Flows   // that its ledger does not count, or that were lost with one
	supply supply
	ledger lease.Ledger
}

// A happening is what a witness is told.
type happening struct {
	at   time.Duration
	what occasion
	cell *cell
	request
	verdict  lease.Verdict
	byOutage bool
}

type occasion uint8

const (
	asked   occasion = iota // a request
	settled                 // its verdict
	sent                    // a call
	replied                 // its answer, in time
	begun                   // measuring
	ended                   // a job, that was admitted
)

// errTimeout is the error of an exchange that got no answer.
var errTimeout = errors.New("engine: no answer in time")

// Run plays one replication of a scenario, which must be resolved. When ctx
// ends, it returns what was measured until then, and the error of ctx.
func Run(ctx context.Context, s *scenario.Scenario, seed uint64, replication int) (*Result, error) {
	return RunWatched(ctx, s, seed, replication, nil)
}

// A Course is what is known of a run that was played elsewhere. What is nil is as the scenario
// has it.
type Course struct {
	// Requests sets each request in the order of time, and returns false when there are no
	// more. They do not depend on answers.
	Requests func(*workload.Request) bool

	// Trip is how long a round trip takes that begins at a time.
	Trip func(at time.Duration) time.Duration

	// Late is by how much a process wakes too late that is due at a time. (A Trip ends when it was
	// awake.)
	Late func(at time.Duration) time.Duration

	// Gather is how long a flight that somebody waits for lets others come before it takes what
	// is posted.
	Gather time.Duration
}

// RunAgain is Run with the same faults, in the course that a run has taken. Processes take the
// census, as they did there. draws are others of what they choose for themselves: when they
// renew and when they probe. 0 is those of Run.
func RunAgain(
	ctx context.Context, s *scenario.Scenario, seed uint64, replication, draws int, course Course,
) (*Result, error) {
	e, err := newEngine(s, seed, replication, draws, &course)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return e.play(ctx)
}

// RunWatched is Run for who waits for it: it adds the simulated time that has
// passed to played, nanoseconds, as it goes on: Duration when all is done.
func RunWatched(ctx context.Context, s *scenario.Scenario, seed uint64, replication int, played *atomic.Int64) (*Result, error) {
	e, err := newEngine(s, seed, replication, 0, nil)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e.played = played
	return e.play(ctx)
}

func (e *engine) play(ctx context.Context) (*Result, error) {
	err := e.run(ctx)
	if err == nil {
		err = e.load.Err()
	}
	return e.result(), err
}

// jitter is what a process in its current life draws from for itself, or one of its holders.
func (e *engine) jitter(p *process, holder int) *workload.Random {
	seed := e.seed + uint64(e.draws)<<32
	return workload.NewRandom(seed, e.replication, p.index, workload.Jitter+workload.Purpose(16*p.lives+holder<<20))
}

func newEngine(
	s *scenario.Scenario, seed uint64, replication, draws int, course *Course,
) (*engine, error) {
	policy, err := s.Policy.Lease()
	if err != nil {
		return nil, err
	}
	outage, err := s.OutagePolicy()
	if err != nil {
		return nil, err
	}
	stream := func(p workload.Purpose) *workload.Random { return workload.NewRandom(seed, replication, -1, p) }
	e := &engine{
		scenario: s, policy: policy, outage: outage,
		common: local.NewCommon(s.Redis.Timeout, float64(s.Eager)), timeout: s.Redis.Timeout, patience: s.Load.Patience, retry: s.Load.Retry,
		load: workload.New(s, seed, replication), census: new(lease.Ledger),
		keys: make([]*key, s.AllKeys()), limits: limitsOf(s),
		classes: s.LeaseClasses(), seed: seed, replication: replication, draws: draws, course: course,
		messages: stream(workload.Messages), chance: stream(workload.Faults),
		retries: stream(workload.Retries), service: stream(workload.Service),
		begins: s.Warmup,
	}
	if course != nil && course.Requests != nil {
		e.load = workload.Of(s, seed, replication, course.Requests)
	}
	order := new(uint64)
	e.queue.order, e.arrivals.order = order, order
	e.next = make([]request, e.load.Streams())
	e.trip = workload.RoundTripOf(&s.Redis)
	e.processes = make([]process, e.load.Processes())
	for i := range e.processes {
		e.processes[i].index = i
	}
	for i := range s.Processes {
		e.start(&e.processes[i])
	}
	e.meter.init(e)
	e.begin()
	return e, nil
}

// begin puts what is known from the start into the queue.
func (e *engine) begin() {
	s := e.scenario
	e.queue.push(s.Warmup, warm, 0) // first of all that happens at that time
	for i := range e.load.Streams() {
		e.arriveNext(i)
	}
	for i := range e.load.Clients() {
		e.later(request{Request: e.load.Think(0, i)})
	}
	e.queue.push(Window, tick, 0)
	e.planFaults()
}

const checkEvery = 1 << 14 // events between two looks at the context, and two reports of how far it is

func (e *engine) run(ctx context.Context) error {
	for n := 0; e.step(); n++ {
		if n%checkEvery == 0 {
			e.tell()
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	e.now = e.scenario.Duration
	e.tell()
	return nil
}

func (e *engine) tell() {
	if e.played != nil {
		e.played.Add(int64(e.now - e.told))
		e.told = e.now
	}
}

// step lets the next event happen; it returns false when there is none before
// the scenario's end.
func (e *engine) step() bool {
	top := &e.queue.events[0] // there is always a tick
	if len(e.arrivals.events) > 0 && e.arrivals.events[0].before(top) {
		top = &e.arrivals.events[0]
	}
	if top.at > e.scenario.Duration {
		return false
	}
	e.now = top.at
	if top.kind == arrive {
		e.arrive(top.ref)
		return true
	}
	v := *top
	e.queue.pop()
	e.handle(v)
	return true
}

func (e *engine) handle(v event) {
	switch v.kind {
	case ask:
		q := e.planned.list[v.ref]
		e.planned.giveBack(v.ref)
		e.ask(&q)
	case wake:
		if d := e.drivers[v.ref]; d != nil && d.wake == v.at {
			e.wakeUp(d)
		}
	case leave:
		if d := e.drivers[v.ref]; d != nil {
			e.leave(d)
		}
	case lapse:
		e.lapsed()
	case giveUp:
		if c := e.cells[v.ref]; c != nil {
			e.giveUp(c)
		}
	case deliver:
		e.deliver(v.ref)
	case answer:
		e.answer(v.ref)
	case fail:
		e.fail(v.ref)
	case done:
		e.load.Busy(int(v.ref), -1)
	case turn:
		e.turn(v.ref)
	case strike:
		e.strike(v.ref)
	case mend:
		e.mend(v.ref)
	case permit:
		e.permit()
	case warm:
		e.meter.begin()
		if e.witness != nil {
			e.witness(happening{at: e.now, what: begun})
		}
	case tick:
		e.meter.tick()
		e.queue.push(e.skip(e.now+Window), tick, 0)
	}
}

// skip passes over windows in which nothing happens, from the one that ends at
// next, and returns the end of the first that must be looked at. A log may be
// silent for days.
func (e *engine) skip(next time.Duration) time.Duration {
	if !e.meter.idle() {
		return next
	}
	until := e.scenario.Duration
	for _, q := range []*queue{&e.queue, &e.arrivals} {
		if len(q.events) > 0 {
			until = min(until, q.events[0].at)
		}
	}
	for ; next < until; next += Window {
		e.meter.pass()
	}
	return next
}

// A slab has values by number. Numbers that are given back are taken again.
type slab[T any] struct {
	list []T
	free []int32
}

// take returns a number. Its value is zero, or what it was when the number was given back.
func (s *slab[T]) take() (number int32) {
	if n := len(s.free); n > 0 {
		number, s.free = s.free[n-1], s.free[:n-1]
		return number
	}
	var zero T
	s.list = append(s.list, zero)
	return int32(len(s.list) - 1)
}

func (s *slab[T]) giveBack(number int32) { s.free = append(s.free, number) }

// present are the elements of a list that are not nil, with their places.
func present[T any](list []*T) iter.Seq2[int, *T] {
	return func(yield func(int, *T) bool) {
		for i, x := range list {
			if x != nil && !yield(i, x) {
				return
			}
		}
	}
}

// later plans a request.
func (e *engine) later(q request) {
	ref := e.planned.take()
	e.planned.list[ref] = q
	e.queue.push(q.At, ask, ref)
}

// arriveNext plans the next request of a stream.
func (e *engine) arriveNext(stream int) {
	if q := &e.next[stream]; e.load.Next(stream, &q.Request) {
		e.arrivals.push(q.At, arrive, int32(stream))
	}
}

// arrive handles the request of a stream that is due, and puts its next one in
// the same place of the queue.
func (e *engine) arrive(stream int32) {
	q := &e.next[stream]
	e.ask(q)
	if e.load.Next(int(stream), &q.Request) {
		e.arrivals.again(q.At)
	} else {
		e.arrivals.pop()
	}
}

// key returns the key with this number.
func (e *engine) key(n int) *key {
	k := e.keys[n]
	if k == nil {
		l := e.of(n)
		k = &key{name: l.Name + "-" + strconv.Itoa(n-l.First), limit: l.Limit, opened: -1,
			cells: make([]*cell, len(e.processes))}
		k.ideal, k.gauge = ideal.Of(e.now, l.Limit, e.patience)
		k.gauge.SetLimit(e.now, l.permitted.At(e.now))
		k.debits = newDebits(k.gauge)
		if m := e.meter.classes; m != nil {
			m.newKey(e, k)
		}
		e.keys[n] = k
	}
	return k
}
