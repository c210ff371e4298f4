package engine

import (
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// A Judge measures what was played elsewhere, by the arithmetic that the engine measures itself
// with. The caller tells it what happened, in the order of time. What follows from the ledgers
// alone is not in its Result: where calls and tokens went, what was debited, and Settle.
type Judge struct {
	e      *engine
	waited int64

	// had is an ideal limit for each key that admits what the fleet does: what the fleet has, as
	// far as that is not known.
	had []ideal.Ideal
}

// NewJudge returns a Judge of a replication of a scenario, which must be resolved, with its
// policy and as many processes as are ever up. A verdict was made between request and answer, or up
// to early before: the calendar of quotas may have begun so much earlier.
func NewJudge(
	s *scenario.Scenario, policy lease.Policy, replication, processes int, early time.Duration,
) *Judge {
	e := &engine{
		scenario: s, policy: policy, timeout: s.Redis.Timeout, keys: make([]*key, s.AllKeys()),
		limits: limitsOf(s), patience: s.Load.Patience,
		replication: replication, begins: s.Warmup, processes: make([]process, processes),
	}
	for i := range e.processes {
		e.processes[i].index = i
	}
	e.meter.init(e)
	e.meter.settling.planned, e.meter.blind = nil, true
	e.meter.early = early
	return &Judge{e: e, had: make([]ideal.Ideal, s.AllKeys())}
}

// At is the time of all that is told from now on.
func (j *Judge) At(now time.Duration) { j.e.now = max(j.e.now, now) }

// Begin and End are those of a life of a process.
func (j *Judge) Begin(process int) {
	p := &j.e.processes[process]
	p.lives++
	p.up = true
	p.life = measure.NewLife()
}

func (j *Judge) End(process int) {
	j.e.processes[process].up = false
}

// SetLimit changes the limit of all keys. Permit follows when more may be admitted.
func (j *Judge) SetLimit(limit lease.Limit) {
	j.e.changeLimit(limit)
	for _, b := range j.had {
		if b != nil {
			b.SetLimit(j.e.now, limit)
		}
	}
}

// Permit follows what may be admitted of a limit that changes.
func (j *Judge) Permit() { j.e.permit() }

// Flush notes that Redis lost its data.
func (j *Judge) Flush() { j.e.meter.flushes++ }

// Tick ends a window of 100 ms.
func (j *Judge) Tick() { j.e.meter.tick() }

// Warm is the end of the warm-up; saved is what the fleet then has of each key, NaN if that
// is not known.
func (j *Judge) Warm(saved []float64) {
	j.waited = 0
	j.e.meter.clear()
	for i, k := range j.e.keys {
		if k == nil || j.e.now == 0 {
			continue
		}
		level := saved[i]
		if math.IsNaN(level) {
			level = j.had[i].Tokens(j.e.now)
		}
		k.ideal.Level(j.e.now, level, k.gauge)
	}
	j.e.meter.lineUp()
}

// Unrouted and Refused are of requests that no process took, or that exceed the burst.
func (j *Judge) Unrouted() { j.e.meter.unrouted() }

func (j *Judge) Refused(q workload.Request) { j.e.meter.refused(&request{Request: q}) }

// Ask counts a request for tokens of each of some keys. Settle is told what it returns.
func (j *Judge) Ask(process int, q workload.Request, keys []int) Offered {
	cells := j.cellsOf(process, keys)
	w := waiting{request: request{Request: q}}
	j.e.meter.offer(&w.request, cells...)
	if j.e.patience > 0 {
		cells[0].waiting = append(cells[0].waiting, w)
	}
	return w.Offered
}

func (j *Judge) cellsOf(process int, keys []int) (cells []*cell) {
	for _, key := range keys {
		cells = append(cells, j.cell(process, key))
	}
	return cells
}

func (j *Judge) cell(process, key int) *cell {
	p, k := &j.e.processes[process], j.e.key(key)
	c := k.cells[process]
	if c == nil {
		if j.had[key] == nil {
			j.had[key], _ = ideal.Of(j.e.now, j.e.of(key).Limit, 0)
		}
		c = &cell{number: key, process: p, key: k}
		j.e.meter.tally(c)
		k.cells[process] = c
		j.e.cells = append(j.e.cells, c)
	}
	return c
}

// An Outcome is what became of a request.
type Outcome struct {
	Offered                // from Ask
	Asked    time.Duration // when it came
	Verdict  lease.Verdict
	ByOutage bool
	Waited   bool
	Denying  uint16 // the limits that deny, a bit each, where there are several
}

// Settle counts the verdict on a request for tokens of each of some keys.
func (j *Judge) Settle(process int, settled workload.Request, keys []int, o Outcome) {
	q := request{Request: settled, Offered: o.Offered}
	q.At = o.Asked
	measured := o.Asked >= j.e.meter.since
	if o.Waited && measured {
		j.waited++
	}
	cells := j.cellsOf(process, keys)
	cells[0].waiting = slices.DeleteFunc(cells[0].waiting, func(w waiting) bool {
		return w.At == settled.At && w.Key == settled.Key
	})
	for i, c := range cells {
		if o.Verdict == lease.Admitted {
			had := j.had[c.number]
			had.Level(j.e.now, had.Tokens(j.e.now)-float64(q.Cost), nil)
		}
		if o.Verdict == lease.Denied && measured && o.Denying&(1<<i) != 0 {
			j.e.of(c.number).denied++
		}
	}
	j.e.meter.settle(&q, o.Verdict, o.ByOutage, cells...)
}

// Result is what was measured. calls are exchanges with Redis, failed some of them; events are
// drawn over time.
func (j *Judge) Result(calls, failed int64, events []Event) *Result {
	m := &j.e.meter
	m.counts.Calls, m.counts.CallsFailed = calls, failed
	m.timeline.Events = append(m.timeline.Events, events...)
	r := j.e.measured()
	r.CallsAhead, r.ExcessDebited, r.Waited = 0, 0, j.waited
	return r
}
