package engine

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/workload"
)

// A process is one member of the fleet, over all its lives.
type process struct {
	index  int
	up     bool
	lives  int
	cut    int // partitions in force
	name   string
	driver *driver

	life measure.Life
	tally
}

// A cell is one key in one life of a process.
type cell struct {
	id      int32
	number  int // of the key
	process *process
	life    int // of the process
	driver  *driver
	key     *key
	tallies *cellTally
	tally   cellTally // tallies, unless an earlier life of the process has some

	declared lease.Limit // to the entry

	waiting []waiting
	asking  []*local.Waiter // of requests for several keys
	watched bool            // its driver looks at those who wait
	settled uint32          // of the entry, when those who wait were last looked at
	granted float64         // tokens of the answer that has just come, for those who wait
	gives   bool            // a giveUp is planned
	gone    bool            // it answers nobody any more
	working []*job          // that have their slots
	lost    []*job          // whose lease has just ended

	entry local.Entry // here and not behind a pointer: a request looks for one thing among many
}

// A request, and how often it was denied before.
type request struct {
	workload.Request
	tries int
	Offered
}

// Offered is what is known of a request before it is decided.
type Offered struct {
	worth  float64 // as it was asked: of slots, what they were wanted for
	ideal  bool    // the ideal limit admits it
	within bool    // the floor of its class does
}

// waiting is a request that waits for Redis.
type waiting struct {
	request
	waiter *local.Waiter
	job    *job // that wants slots, or nil
}

// start begins a life of a process.
func (e *engine) start(p *process) {
	p.lives++
	p.up = true
	p.name = p.holderOf(p.lives)
	p.life = measure.NewLife()
	p.driver = e.newDriver(p)
	e.load.SetUp(p.index, true)
}

// cell returns a key in the current life of a process.
func (e *engine) cell(p *process, n int) *cell {
	k := e.key(n)
	c := k.cells[p.index]
	if c == nil {
		holder := lease.NewHolder(p.name, k.limit, &e.policy, e.jitter(p, n).Uint64())
		c = &cell{
			id: int32(len(e.cells)), number: n, process: p, life: p.lives, driver: p.driver, key: k, declared: k.limit,
		}
		e.meter.tally(c)
		c.entry.Init(e.now, k.name, holder, k.limit, e.common)
		c.entry.Declare(e.now, k.limit, math.MaxInt64, e.classes...)
		e.cells = append(e.cells, c)
		c.entry.Tag, p.driver.cells = c, append(p.driver.cells, c)
		k.cells[p.index] = c
	}
	return c
}

// ask sends a request to a process and does what hybrid.Limiter.Take does.
func (e *engine) ask(q *request) {
	index, ok := e.load.Route(&q.Request)
	if !ok {
		e.meter.unrouted()
		e.finish(q, false, nil)
		return
	}
	p := &e.processes[index]
	if len(e.limits) > 1 {
		e.askAll(q, p)
		return
	}
	c := e.cell(p, q.Key)
	if q.Hold > 0 {
		e.acquire(q, c)
		return
	}
	r := e.take(q, c)
	if r.Verdict == lease.Exceeding && c.declared != c.key.limit { // it has been raised
		e.attend(c)
		e.drive(p.driver)
		r = e.take(q, c)
	}
	if r.Verdict == lease.Exceeding {
		e.meter.refused(q)
		e.finish(q, false, nil)
		return
	}
	if e.witness != nil {
		e.witness(happening{at: e.now, what: asked, cell: c, request: *q})
	}
	e.meter.offer(q, c)
	e.load.Busy(index, 1)
	e.asked(q, p, c, r)
}

// take asks the entry of a cell, as hybrid.Limiter does and hybrid.Classed.
func (e *engine) take(q *request, c *cell) local.Result {
	n, away := float64(q.Cost), c.driver.dispatch.Away()
	if e.classes != nil {
		return c.entry.TakeAs(e.now, n, e.patience, away, e.className(q))
	}
	return c.entry.Take(e.now, n, e.patience, away)
}

func (e *engine) className(q *request) string {
	if e.classes == nil {
		return ""
	}
	return e.classes[q.Class].Name
}

// asked does what is due after an entry was asked.
func (e *engine) asked(q *request, p *process, c *cell, r local.Result) {
	if r.Verdict == lease.Unavailable {
		p.driver.dispatch.Unanswered(e.now, &c.entry)
	}
	if r.Waiter != nil {
		e.wait(c, waiting{request: *q, waiter: r.Waiter})
		e.planGiveUp(c)
	}
	if r.Due == local.ReadyDue {
		e.attend(c)
	}
	if r.Due == local.ReadyDue || r.Verdict == lease.Unavailable {
		e.drive(p.driver)
	}
	if r.Waiter == nil {
		e.settle(c, q, r.Verdict)
	}
}

// wait lets a request wait in a cell.
func (e *engine) wait(c *cell, w waiting) {
	if n := len(e.waitings); c.waiting == nil && n > 0 {
		e.waitings, c.waiting = e.waitings[:n-1], e.waitings[n-1]
	}
	c.waiting = append(c.waiting, w)
	c.driver.watch(c)
}

// end forgets a cell, but for what it has lost.
func (e *engine) end(c *cell) {
	e.meter.end(c)
	e.cells[c.id] = nil
}

// collect settles the requests of a cell whose verdict has come.
func (e *engine) collect(c *cell) (admitted, denied int) {
	admitted, denied = c.heard()
	e.lose(c)
	if len(c.waiting) == 0 {
		return admitted, denied
	}
	settled := c.entry.Settled()
	most := int(settled - c.settled) // or more than that, if it was not counted while nobody waited
	if most == 0 {
		return admitted, denied
	}
	c.settled = settled
	list, room := c.waiting, c.waiting[:0]
	e.settled = e.settled[:0]
	for len(list) > 0 && len(e.settled) < most && resolved(list[0].waiter) { // nearly always the first
		e.settled = append(e.settled, list[0])
		list = list[1:]
	}
	if c.waiting = list; len(list) == 0 {
		clear(room[:cap(room)]) // the waiters that it had
		e.waitings, c.waiting = append(e.waitings, room), nil
	}
	if len(e.settled) < most {
		c.waiting = list[:0]
		for _, w := range list {
			if resolved(w.waiter) {
				e.settled = append(e.settled, w)
			} else {
				c.waiting = append(c.waiting, w)
			}
		}
	}
	for i := range e.settled {
		w := &e.settled[i]
		switch w.waiter.Verdict() {
		case lease.Admitted:
			admitted++
		case lease.Denied:
			denied++
		}
		if w.job != nil {
			e.answered(w.job, w.waiter.Verdict())
		} else {
			e.settle(c, &w.request, w.waiter.Verdict())
		}
	}
	return admitted, denied
}

func resolved(w *local.Waiter) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

// gives is when the caller of a request gives up.
func (e *engine) gives(c *cell, q *request) time.Duration {
	if e.patience > 0 {
		return q.At + max(e.timeout, e.patience)
	}
	return c.entry.Until(q.At)
}

// giveUp ends the wait of requests that have waited for too long.
func (e *engine) giveUp(c *cell) {
	c.gives = false
	for len(c.waiting) > 0 && e.now >= e.gives(c, &c.waiting[0].request) {
		w := c.waiting[0]
		c.waiting = c.waiting[1:]
		v := lease.Unavailable
		if !c.entry.Withdraw(e.now, w.waiter) {
			v = w.waiter.Verdict()
		}
		e.settle(c, &w.request, v)
	}
	e.planGiveUp(c)
}

// planGiveUp sees to requests that wait: those who came while an exchange was
// out, since the next one may outlast their patience, and all who are patient.
func (e *engine) planGiveUp(c *cell) {
	if c.gives || len(c.waiting) == 0 || c.waiting[0].job != nil { // jobs have their own turn
		return
	}
	if e.patience > 0 || c.waiting[0].At < e.now {
		c.gives = true
		e.queue.push(e.awake(e.gives(c, &c.waiting[0].request)), giveUp, c.id)
	}
}

// settle notes the verdict on a request; where Redis has none, the outage
// policy decides, as hybrid.Limiter does unless it is closed.
func (e *engine) settle(c *cell, q *request, v lease.Verdict) {
	p := c.process
	byOutage := false
	if v == lease.Unavailable && p.up {
		v = c.driver.dispatch.Decide(e.now, &c.entry, float64(q.Cost))
		byOutage = v != lease.Unavailable
	}
	if e.witness != nil {
		e.witness(happening{at: e.now, what: settled, cell: c, request: *q, verdict: v, byOutage: byOutage})
	}
	if v == lease.Denied && q.At >= e.meter.since {
		e.of(c.number).denied++
	}
	e.meter.settle(q, v, byOutage, c)
	e.served(p, v)
	e.finish(q, v == lease.Admitted, func() time.Duration {
		return c.entry.State(e.now, float64(q.Cost), e.className(q)).RetryAfter
	})
}

// served lets a process work on a request that is admitted.
func (e *engine) served(p *process, v lease.Verdict) {
	if v == lease.Admitted && e.scenario.Balance.Service > 0 {
		e.queue.push(e.now+time.Duration(e.service.Exponential()*float64(e.scenario.Balance.Service)), done, int32(p.index))
	} else {
		e.load.Busy(p.index, -1)
	}
}

// finish lets the caller go on: try again, after the time that hint says, or think. A
// caller that got no hint does not try again.
func (e *engine) finish(q *request, admitted bool, hint func() time.Duration) {
	if !admitted && e.retry != nil && hint != nil && q.tries < e.retry.Times {
		wait := e.retry.After
		if wait == 0 {
			wait = time.Duration(float64(hint()) * (1 + float64(0.1*e.retries.Uniform())))
		}
		again := *q
		again.tries++
		again.At = e.now + max(wait, time.Microsecond)
		e.later(again)
		return
	}
	if e.load.Clients() > 0 {
		e.later(request{Request: e.load.Think(e.now, q.Client)})
	}
}
