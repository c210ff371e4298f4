package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/workload"
)

// A process is one member of the fleet, over all its lives.
type process struct {
	index   int
	up      bool
	lives   int
	cut     int           // partitions in force
	cells   map[int]*cell // by number of the key
	latest  *cell
	health  *local.Health
	fleet   local.Fleet
	forgets time.Duration

	life measure.Life
	tally
}

// A cell is one key in one life of a process.
type cell struct {
	id      int32
	number  int // of the key
	process *process
	life    int // of the process
	key     *key
	entry   *local.Entry
	tallies *cellTally

	wake    time.Duration // the earliest planned, MaxInt64 if none
	call    int32         // the one that is out, -1 if none
	sent    time.Duration
	waiting []waiting
	settled uint32  // of the entry, when those who wait were last looked at
	granted float64 // tokens of the answer that has just come, for those who wait
	gives   bool    // a giveUp is planned
	gone    bool    // it answers nobody any more
}

// A request, and how often it was denied before.
type request struct {
	workload.Request
	tries int
}

// waiting is a request that waits for Redis.
type waiting struct {
	request
	waiter *local.Waiter
}

// A call is one exchange under way.
type call struct {
	cell    *cell
	request lease.Request
	reply   lease.Reply
	back    time.Duration // how long the answer takes
	debit   int           // the grant's number among the key's debits, if it grants
	lost    bool          // the answer is
	dropped bool          // nothing of it is under way any more
}

// fleetMemory is how long a process remembers how many there are, as in hybrid.
const fleetMemory = time.Minute

// start begins a life of a process.
func (e *engine) start(p *process) {
	p.lives++
	p.up = true
	p.cells, p.latest = map[int]*cell{}, nil
	p.life = measure.NewLife()
	jitter := workload.NewRandom(e.seed, e.replication, p.index, workload.Jitter+workload.Purpose(16*p.lives))
	p.health = local.NewHealth(e.timeout, func(n int64) int64 { return int64(jitter.Uint64() % uint64(n)) })
	p.fleet = local.Fleet{}
	p.forgets = e.now + fleetMemory
	e.load.SetUp(p.index, true)
}

// cell returns a key in the current life of a process.
func (e *engine) cell(p *process, n int) *cell {
	if p.latest != nil && p.latest.number == n {
		return p.latest // with one key, always
	}
	c := p.cells[n]
	if c == nil {
		k := e.key(n)
		id := fmt.Sprintf("p%d-%d", p.index, p.lives)
		seed := workload.NewRandom(e.seed, e.replication, p.index, workload.Jitter+workload.Purpose(16*p.lives+n<<20)).Uint64()
		holder := lease.NewHolder(id, e.limit, e.policy, seed)
		c = &cell{
			id: int32(len(e.cells)), number: n, process: p, life: p.lives, key: k, wake: math.MaxInt64, call: -1, tallies: k.tally(p),
			entry: local.NewEntry(e.now, k.name, holder, e.limit, e.policy, e.timeout),
		}
		e.cells = append(e.cells, c)
		p.cells[n] = c
	}
	p.latest = c
	return c
}

// ask sends a request to a process and does what hybrid.Limiter.Take does.
func (e *engine) ask(q *request) {
	index, ok := e.load.Route(q.Request)
	if !ok {
		e.meter.unrouted()
		e.finish(nil, q, false)
		return
	}
	p := &e.processes[index]
	c := e.cell(p, q.Key)
	n := float64(q.Cost)
	if e.now >= p.forgets && !p.health.Away() {
		p.fleet.Forget()
		p.forgets = e.now + fleetMemory
	}
	r := c.entry.Take(e.now, n, e.patience, p.health.Away())
	if r.Verdict == lease.Exceeding && r.Due { // the limit may have been raised
		e.drive(c, false)
		r = c.entry.Take(e.now, n, e.patience, p.health.Away())
	}
	if r.Verdict == lease.Exceeding {
		e.meter.refused()
		e.finish(nil, q, false)
		return
	}
	if e.witness != nil {
		e.witness(happening{at: e.now, what: asked, cell: c, request: *q})
	}
	e.meter.offer(c, n)
	e.load.Busy(index, 1)
	probe := r.Verdict == lease.Unavailable && p.health.Probe(e.now)
	if probe {
		c.entry.Probe(e.now)
	}
	if r.Waiter != nil {
		c.waiting = append(c.waiting, waiting{*q, r.Waiter})
		e.planGiveUp(c)
	}
	if r.Due || probe {
		e.drive(c, probe)
	}
	if r.Waiter == nil {
		e.settle(c, q, r.Verdict)
	}
}

// drive looks at an entry after something happened to it, as hybrid's shell does.
// While Redis is away a request is sent only as a probe. It returns how many
// requests were admitted and denied by it.
func (e *engine) drive(c *cell, probe bool) (admitted, denied int) {
	h := c.process.health
	next := time.Duration(math.MaxInt64)
	ask := true
	if h.Away() && !probe {
		if ask, _, next = c.entry.Ready(e.now, e.limit); ask && !h.Probe(e.now) {
			ask, next = false, c.entry.PutOff(e.now)
		}
	}
	if ask {
		var q lease.Request
		if q, ask, next = c.entry.Request(e.now, e.limit); ask {
			e.send(c, q)
		}
	}
	if next < c.wake {
		c.wake = max(next, e.now)
		e.queue.push(c.wake, wake, c.id)
	}
	admitted, denied = e.collect(c)
	if c.gone { // all is handed back, or nobody could take it
		e.meter.drop(c)
		e.end(c)
	}
	return admitted, denied
}

// end forgets a cell, but for what it has lost. A message of it may still be
// under way.
func (e *engine) end(c *cell) {
	e.meter.end(c)
	e.cells[c.id] = nil
	if ref := c.call; ref >= 0 { // nobody waits for the answer
		c.call = -1
		if e.calls[ref].dropped {
			e.freeCalls = append(e.freeCalls, ref)
		}
	}
}

// wake is the time that an entry asked for, or that of its exchange's timeout.
func (e *engine) wake(c *cell) {
	if ref := c.call; ref >= 0 && e.now >= c.sent+e.timeout {
		c.call = -1
		c.entry.Answer(e.now, e.calls[ref].request, lease.Reply{}, errTimeout)
		if e.calls[ref].dropped {
			e.freeCalls = append(e.freeCalls, ref)
		}
		c.process.health.Report(e.now, false)
		e.meter.called(c.sent, 0, 0, true)
	}
	e.drive(c, false)
}

// collect settles the requests of a cell whose verdict has come.
func (e *engine) collect(c *cell) (admitted, denied int) {
	settled := c.entry.Settled()
	if len(c.waiting) == 0 || settled == c.settled {
		return 0, 0
	}
	most := int(settled - c.settled)
	c.settled = settled
	list := c.waiting
	e.settled = e.settled[:0]
	for len(list) > 0 && len(e.settled) < most && resolved(list[0].waiter) { // nearly always the first
		e.settled = append(e.settled, list[0])
		list = list[1:]
	}
	c.waiting = list
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
		e.settle(c, &w.request, w.waiter.Verdict())
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

// longestWait is after what time a caller gives up.
func (e *engine) longestWait() time.Duration { return max(e.timeout, e.patience) }

// giveUp ends the wait of requests that have waited for too long.
func (e *engine) giveUp(c *cell) {
	c.gives = false
	for len(c.waiting) > 0 && e.now >= c.waiting[0].At+e.longestWait() {
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
	if !c.gives && len(c.waiting) > 0 && (e.patience > 0 || c.waiting[0].At < e.now) {
		c.gives = true
		e.queue.push(c.waiting[0].At+e.longestWait(), giveUp, c.id)
	}
}

// settle notes the verdict on a request; where Redis has none, the outage
// policy decides, as hybrid.Limiter does unless it is closed.
func (e *engine) settle(c *cell, q *request, v lease.Verdict) {
	p := c.process
	byOutage := false
	if v == lease.Unavailable && p.up && (e.outage == local.Allow || p.health.Away() || c.entry.Failing()) {
		byOutage = true
		v = lease.Denied
		if c.entry.Outage(e.now, float64(q.Cost), e.outage, p.fleet.Size()) {
			v = lease.Admitted
		}
	}
	if e.witness != nil {
		e.witness(happening{at: e.now, what: settled, cell: c, request: *q, verdict: v, byOutage: byOutage})
	}
	e.meter.settle(c, q, v, byOutage)
	if v == lease.Admitted && e.scenario.Balance.Service > 0 {
		e.queue.push(e.now+time.Duration(e.service.Exponential()*float64(e.scenario.Balance.Service)), done, int32(p.index))
	} else {
		e.load.Busy(p.index, -1)
	}
	e.finish(c, q, v == lease.Admitted)
}

// finish lets the caller go on: try again, or think.
func (e *engine) finish(c *cell, q *request, admitted bool) {
	if !admitted && e.retry != nil && c != nil && q.tries < e.retry.Times {
		wait := e.retry.After
		if wait == 0 {
			hint := float64(c.entry.State(e.now, float64(q.Cost)).RetryAfter)
			wait = time.Duration(hint * (1 + float64(0.1*e.retries.Uniform())))
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

// send puts a request on its way. What a message meets is drawn for each, also
// where it does not matter, so that other policies meet the same.
func (e *engine) send(c *cell, q lease.Request) {
	if e.witness != nil {
		e.witness(happening{at: e.now, what: sent, cell: c})
	}
	e.meter.sent(q)
	r := &e.scenario.Redis
	trip := e.trip()
	lost, lostBack, repeated := false, false, false
	if r.Lost > 0 {
		lost, lostBack = e.messages.Uniform() < r.Lost, e.messages.Uniform() < r.Lost
	}
	if r.Repeated > 0 {
		repeated = e.messages.Uniform() < r.Repeated
	}
	there := trip / 2
	ref := e.newCall(call{cell: c, request: q, back: trip - there, lost: lostBack, dropped: lost})
	c.call, c.sent = ref, e.now
	if !lost {
		e.queue.push(e.now+there, deliver, ref)
	}
	if repeated {
		copied := e.newCall(call{cell: c, request: q, back: trip - there})
		e.queue.push(e.now+there+e.trip(), deliver, copied)
	}
	e.planGiveUp(c)
}

func (e *engine) newCall(c call) int32 {
	if n := len(e.freeCalls); n > 0 {
		ref := e.freeCalls[n-1]
		e.freeCalls = e.freeCalls[:n-1]
		e.calls[ref] = c
		return ref
	}
	e.calls = append(e.calls, c)
	return int32(len(e.calls) - 1)
}

// deliver lets the ledger answer.
func (e *engine) deliver(ref int32) {
	call := &e.calls[ref]
	c := call.cell
	cut := e.away > 0 || c.process.cut > 0
	if !cut {
		call.reply = c.key.ledger.Exchange(e.now, call.request)
		e.meter.exchanged(c, &call.request, &call.reply)
	}
	switch {
	case !cut && !call.lost:
		if call.reply.Taken > 0 {
			call.debit = c.key.debits.grant(e.now)
		}
		e.queue.push(e.now+call.back, answer, ref)
	case c.call == ref:
		call.dropped = true // the timeout sees to it
	default:
		e.freeCalls = append(e.freeCalls, ref)
	}
}

// answer brings the reply to the process.
func (e *engine) answer(ref int32) {
	call := &e.calls[ref]
	c := call.cell
	p := c.process
	if e.away > 0 || p.cut > 0 {
		call.dropped = true
	}
	if call.dropped && c.call == ref {
		e.arrived(call, 0)
		return // the timeout sees to it
	}
	inTime := !call.dropped && !c.gone && c.entry.Answer(e.now, call.request, call.reply, nil)
	if c.call == ref {
		c.call = -1
	}
	e.freeCalls = append(e.freeCalls, ref)
	if !inTime {
		e.arrived(call, 0)
		return
	}
	sent, answered := c.sent, *call
	if other := c.call; other >= 0 { // a repeat was faster: what is left of the first is not waited for
		c.call = -1
		if e.calls[other].dropped {
			e.freeCalls = append(e.freeCalls, other)
		}
	}
	if e.witness != nil {
		e.witness(happening{at: e.now, what: replied, cell: c})
	}
	p.health.Report(e.now, true)
	p.fleet.Heard(answered.reply.Holders)
	e.meter.received(c, &answered.reply)
	admitted, denied := e.collect(c)
	a, d := e.drive(c, false)
	e.meter.called(sent, admitted+a, denied+d, false)
	e.arrived(&answered, answered.reply.Taken-c.granted)
	c.granted = 0 // of those who have gone the lease has kept what it had room for
}

// arrived says how many tokens of a grant were given to those who waited.
func (e *engine) arrived(c *call, tokens float64) {
	if c.reply.Taken > 0 {
		c.cell.key.debits.arrive(c.debit, tokens)
	}
}
