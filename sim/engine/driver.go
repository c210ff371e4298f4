package engine

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// A driver drives the dispatch of one life of a process by events, as that of package
// hybrid does by goroutines and timers.
type driver struct {
	process  *process
	id       int32
	dispatch *local.Dispatch
	cells    []*cell         // that have not ended, in the order in which they began
	waiting  []*cell         // in which requests wait
	joints   []*joint        // that wait
	leaving  []local.Takeoff // flights that are to leave later
	count    time.Duration   // when the census is next taken, MaxInt64 if never
	due      time.Duration   // when something is next to be done, MaxInt64 if never
	wake     time.Duration   // when that is done
	closing  bool
	crashed  bool
}

func (e *engine) newDriver(p *process) *driver {
	jitter := e.jitter(p, 0)
	d := &driver{process: p, id: int32(len(e.drivers))}
	d.count, d.due, d.wake = math.MaxInt64, math.MaxInt64, math.MaxInt64
	d.dispatch = local.NewDispatch(e.now, local.DispatchConfig{
		Fleet: local.NewFleet(e.now, local.NewName(p.name)), Timeout: e.timeout, Outage: e.outage,
		Shares: local.NewShares(), Keys: math.MaxInt,
		Random: func(n int64) int64 { return int64(jitter.Uint64() % uint64(n)) },
	})
	e.drivers = append(e.drivers, d)
	if e.course != nil {
		d.count = e.now
		e.drive(d)
	}
	return d
}

// watch looks at the requests that wait in a cell after each step.
func (d *driver) watch(c *cell) {
	if !c.watched {
		c.watched = true
		d.waiting = append(d.waiting, c)
	}
}

// attend lets the dispatch look at a cell after something happened to it. It returns
// how many requests were admitted and denied by it. Then call drive.
func (e *engine) attend(c *cell) (admitted, denied int) {
	e.declare(c)
	c.driver.dispatch.Attend(e.now, &c.entry)
	return e.collect(c)
}

// declare tells the entry of a cell the limit of its key, if it is another one than before.
func (e *engine) declare(c *cell) {
	if c.declared != c.key.limit {
		c.declared = c.key.limit
		c.entry.Declare(e.now, c.declared, math.MaxInt64, e.classes...)
	}
}

// drive starts the flights that the dispatch asks for, settles the requests that have
// their verdict, and plans when it is next due.
func (e *engine) drive(d *driver) {
	if e.now >= d.count {
		d.count = d.dispatch.Count(e.now)
	}
	for again := true; again; again = e.resume(d) {
		for {
			t, ok := d.dispatch.Takeoff()
			if !ok {
				break
			}
			e.takeOff(d, t)
		}
		e.look(d)
	}
	if _, next := d.dispatch.Due(e.now, 0); min(next, d.count) < d.due {
		d.due = min(next, d.count)
		d.wake = e.awake(d.due)
		e.queue.push(d.wake, wake, d.id)
	}
}

// awake is when a process does what is due at a time: in the course of a run, when it could.
func (e *engine) awake(due time.Duration) time.Duration {
	if due > e.now && e.course != nil && e.course.Late != nil {
		due += e.course.Late(due)
	}
	return max(due, e.now)
}

// takeOff lets a flight leave when it is time, in the course of a run not before it has gathered.
func (e *engine) takeOff(d *driver, t local.Takeoff) {
	if t.Urgent && e.course != nil {
		t.Leaves += e.course.Gather + 1 // with all that come now
	}
	if t.Leaves > e.now {
		d.leaving = append(d.leaving, t)
		e.queue.push(t.Leaves, leave, d.id)
	} else {
		e.fly(d, t)
	}
}

// leave is for a flight whose time has come.
func (e *engine) leave(d *driver) {
	i := slices.IndexFunc(d.leaving, func(t local.Takeoff) bool { return t.Leaves == e.now })
	t := d.leaving[i]
	d.leaving = slices.Delete(d.leaving, i, i+1)
	e.fly(d, t)
	e.drive(d)
}

// look settles the requests that have their verdict, and ends the cells that have
// handed everything back.
func (e *engine) look(d *driver) {
	kept := d.waiting[:0]
	for _, c := range d.waiting {
		e.collect(c)
		if c.watched = len(c.waiting) > 0; c.watched {
			kept = append(kept, c)
		}
	}
	d.waiting = kept
	if !d.closing {
		return
	}
	d.cells = slices.DeleteFunc(d.cells, func(c *cell) bool {
		if c.gone { // all is handed back, or nobody could take it
			e.meter.drop(c)
			e.end(c)
		}
		return c.gone
	})
	if len(d.cells) == 0 {
		e.drivers[d.id] = nil
	}
}

// wakeUp attends the cells that are due.
func (e *engine) wakeUp(d *driver) {
	const all = math.MaxInt
	d.due, d.wake = math.MaxInt64, math.MaxInt64
	due, _ := d.dispatch.Due(e.now, all)
	for _, x := range due {
		if c := cellOf(x); c != nil {
			e.attend(c)
		} else {
			d.dispatch.Attend(e.now, x)
		}
	}
	e.drive(d)
}

// cellOf is the cell of an entry, or nil for that of the census.
func cellOf(x *local.Entry) *cell {
	c, _ := x.Tag.(*cell)
	return c
}

// A flight is a round trip under way.
type flight struct {
	local.Flight
	driver  *driver
	cells   []*cell   // of its calls; nil for the census
	granted []float64 // scratch of land
	landed  bool
	carried int // messages of it that are on their way
}

// A message is a flight's calls on their way: itself, or a copy of it.
type message struct {
	*flight
	back    time.Duration // how long the answer takes
	lost    bool          // the answer is
	copied  bool
	replies []lease.Reply
	debits  []int // the grant's number among the key's debits, -1 for none
	events  int   // of it in the queue
}

// fly lets a flight leave.
func (e *engine) fly(d *driver, t local.Takeoff) {
	f := e.newFlight(d)
	if d.dispatch.Board(e.now, t, &f.Flight) == nil {
		e.freeFlights = append(e.freeFlights, f)
		return
	}
	for _, x := range f.Entries {
		if c := cellOf(x); c != nil {
			e.declare(c)
		}
	}
	if d.dispatch.Load(e.now, &f.Flight) {
		e.send(f)
	} else {
		e.freeFlights = append(e.freeFlights, f)
	}
}

func (e *engine) newFlight(d *driver) *flight {
	n := len(e.freeFlights)
	if n == 0 {
		return &flight{driver: d}
	}
	f := e.freeFlights[n-1]
	e.freeFlights = e.freeFlights[:n-1]
	*f = flight{Flight: f.Flight, driver: d, cells: f.cells[:0], granted: f.granted}
	return f
}

// send puts a flight on its way. What it meets is drawn for each, also where it does not
// matter, so that other policies meet the same. All its calls share that. What brings no
// answer fails when a Store's context ends.
func (e *engine) send(f *flight) {
	for i, x := range f.Entries {
		c := cellOf(x)
		f.cells = append(f.cells, c)
		if e.witness != nil {
			e.witness(happening{at: e.now, what: sent, cell: c})
		}
		e.meter.sent(c, f.Calls[i].Request)
	}
	r := &e.scenario.Redis
	farther := e.scenario.Farther(f.driver.process.index)
	trip := e.trip.Draw(e.messages) + farther
	if e.course != nil && e.course.Trip != nil {
		trip = e.course.Trip(e.now)
	}
	lost, lostBack, repeated := false, false, false
	if r.Lost > 0 {
		lost, lostBack = e.messages.Uniform() < r.Lost, e.messages.Uniform() < r.Lost
	}
	if r.Repeated > 0 {
		repeated = e.messages.Uniform() < r.Repeated
	}
	there := trip / 2
	ref := e.newMessage(message{flight: f, back: trip - there, lost: lostBack})
	if !lost {
		e.plan(e.now+there, deliver, ref)
	}
	if lost || trip >= e.patienceOfStore() {
		e.expire(ref)
	}
	if repeated {
		copied := e.newMessage(message{flight: f, back: trip - there, copied: true})
		e.plan(e.now+there+e.trip.Draw(e.messages)+farther, deliver, copied)
	}
	for _, c := range f.cells {
		if c != nil {
			e.planGiveUp(c)
		}
	}
}

// patienceOfStore is when a flight without an answer fails, counted from when it left: as
// in package hybrid.
func (e *engine) patienceOfStore() time.Duration { return e.timeout / 8 * 7 }

// expire plans that a flight fails, unless it has landed by then.
func (e *engine) expire(ref int32) {
	e.plan(e.awake(e.carried.list[ref].Sent+e.patienceOfStore()), fail, ref)
}

func (e *engine) newMessage(m message) (ref int32) {
	m.flight.carried++
	ref = e.carried.take()
	was := &e.carried.list[ref]
	m.replies, m.debits = was.replies, was.debits // their room
	*was = m
	return ref
}

// plan puts an event of a message into the queue.
func (e *engine) plan(at time.Duration, k kind, ref int32) {
	e.carried.list[ref].events++
	e.queue.push(at, k, ref)
}

// happened forgets a message when nothing of it is under way any more.
func (e *engine) happened(ref int32) {
	m := &e.carried.list[ref]
	if m.events--; m.events == 0 {
		if m.flight.carried--; m.flight.carried == 0 {
			e.freeFlights = append(e.freeFlights, m.flight)
		}
		*m = message{replies: m.replies[:0], debits: m.debits[:0]} // the next one's room
		e.carried.giveBack(ref)
	}
}

// deliver lets the ledgers answer.
func (e *engine) deliver(ref int32) {
	m := &e.carried.list[ref]
	cut := e.away > 0 || m.driver.process.cut > 0
	if !cut {
		e.exchange(m)
	}
	if !cut && !m.lost {
		e.plan(e.now+m.back, answer, ref) // what its wake was late is part of a trip that was measured
	} else if !m.copied {
		e.expire(ref)
	}
	e.happened(ref)
}

func (e *engine) exchange(m *message) {
	for i, call := range m.Calls {
		c, debit := m.cells[i], -1
		var r lease.Reply
		if c == nil {
			r = e.census.Exchange(e.now, call.Request)
		} else {
			c.key.boundary(e.now)
			r = c.key.ledger.Exchange(e.now, call.Request)
			e.meter.exchanged(c, &call.Request, &r)
			if !m.lost && r.Taken > 0 && !r.Limit.Kind.Jobs() {
				debit = c.key.debits.grant(e.now)
			}
		}
		m.replies, m.debits = append(m.replies, r), append(m.debits, debit)
	}
}

// answer brings the replies to the process.
func (e *engine) answer(ref int32) {
	m := &e.carried.list[ref]
	switch cut := e.away > 0 || m.driver.process.cut > 0; {
	case cut && !m.copied:
		e.expire(ref)
		e.arrived(m, nil)
	case cut || m.landed || m.driver.crashed:
		e.arrived(m, nil)
	default:
		e.land(m.flight, m)
	}
	e.happened(ref)
}

// fail ends a flight that has brought no answer.
func (e *engine) fail(ref int32) {
	if f := e.carried.list[ref].flight; !f.landed && !f.driver.crashed {
		e.land(f, nil)
	}
	e.happened(ref)
}

// land ends a flight with the answers that m brings, or without.
func (e *engine) land(f *flight, m *message) {
	f.landed = true
	d := f.driver
	f.granted = f.granted[:0]
	for i, call := range f.Calls {
		if m == nil {
			call.Err = errTimeout
			continue
		}
		call.Reply = m.replies[i]
		if c := f.cells[i]; c != nil {
			if e.witness != nil {
				e.witness(happening{at: e.now, what: replied, cell: c})
			}
			e.meter.received(c, &call.Reply)
			if e.course == nil {
				d.dispatch.Heard(call.Reply.Holders) // in place of the census
			}
		}
	}
	d.dispatch.Land(e.now, &f.Flight)
	for i, c := range f.cells {
		if c == nil {
			e.meter.called(f.Sent, 0, 0, m == nil)
			d.dispatch.Attend(e.now, f.Entries[i])
			f.granted = append(f.granted, 0)
			continue
		}
		admitted, denied := e.collect(c)
		more, less := e.attend(c)
		e.meter.called(f.Sent, admitted+more, denied+less, m == nil)
		f.granted, c.granted = append(f.granted, c.granted), 0 // of those who have gone the lease has kept what it had room for
	}
	if m != nil {
		e.arrived(m, f.granted)
	}
	e.drive(d)
}

// arrived says how many tokens of each grant were given to those who waited: all but
// what is left, or none.
func (e *engine) arrived(m *message, left []float64) {
	for i, number := range m.debits {
		switch {
		case number < 0:
		case left == nil:
			m.cells[i].key.debits.arrive(number, 0)
		default:
			m.cells[i].key.debits.arrive(number, m.replies[i].Taken-left[i])
		}
	}
	m.debits = m.debits[:0]
}

// holderOf is the id of a process's holders in one of its lives.
func (p *process) holderOf(life int) string { return fmt.Sprintf("p%d-%d", p.index, life) }
