package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A limited is a limit that each request meets, and what became of requests by it while it
// was measured.
type limited struct {
	scenario.Limited
	permitted measure.Permitted // while it changes

	denied, idealDenied int64 // requests that it let not pass, perhaps among others
	calls               int64
	admitted            float64 // tokens
	excess              float64
}

func limitsOf(s *scenario.Scenario) (list []limited) {
	for _, l := range s.Limits() {
		list = append(list, limited{Limited: l, permitted: measure.NewPermitted(l.Limit)})
	}
	return list
}

// of is the limit of the key with this number.
func (e *engine) of(number int) *limited {
	i := len(e.limits) - 1
	for e.limits[i].First > number {
		i--
	}
	return &e.limits[i]
}

// A joint is a request for tokens of several keys, as hybrid.Limiter.TakeAll makes one.
type joint struct {
	request
	process *process
	cells   []*cell       // by limit
	parts   []*local.Part // the same
	all     local.Several
	until   time.Duration // it waits for ledgers
	parked  bool
	done    bool
}

// askAll sends a request for several keys to a process.
func (e *engine) askAll(q *request, p *process) {
	j := &joint{request: *q, process: p, until: e.now + e.timeout}
	for i := range e.limits {
		number := q.Key
		if i > 0 {
			number = int(q.More[i-1])
		}
		c := e.cell(p, number)
		j.cells = append(j.cells, c)
		j.parts = append(j.parts, &local.Part{Entry: &c.entry, N: float64(q.Cost)})
	}
	j.all = local.NewSeveral(append([]*local.Part(nil), j.parts...))
	j.all.Begin()
	step := j.all.Take(e.now, p.driver.dispatch, false)
	if step == local.Exceeds {
		e.meter.refused(q)
		e.finish(q, false, nil)
		return
	}
	if e.witness != nil {
		e.witness(happening{at: e.now, what: asked, cell: j.cells[0], request: *q})
	}
	e.meter.offer(&j.request, j.cells...)
	e.load.Busy(p.index, 1)
	e.follow(j, step)
	e.drive(p.driver)
}

// follow goes on after a step of a joint, until it is decided or waits.
func (e *engine) follow(j *joint, step local.Step) {
	d := j.process.driver
	for {
		for i, p := range j.parts {
			if p.Outage {
				d.dispatch.Unanswered(e.now, p.Entry)
			}
			if p.Due {
				p.Due = false
				e.attend(j.cells[i])
			}
		}
		switch {
		case step == local.Decided:
			e.decide(j)
			return
		case step != local.Asking: // nobody answers, or an entry is closing
			e.settleAll(j, lease.Unavailable, false)
			return
		case j.late(e.now):
			e.withdraw(j)
		case !j.answered():
			e.park(j)
			return
		}
		step = j.all.Take(e.now, d.dispatch, false)
	}
}

// answered reports whether all ledgers that were asked have.
func (j *joint) answered() bool {
	for _, p := range j.parts {
		if w := p.Waiter(); w != nil && !resolved(w) {
			return false
		}
	}
	return true
}

// park lets a joint wait.
func (e *engine) park(j *joint) {
	d := j.process.driver
	for i, p := range j.parts {
		if w := p.Waiter(); w != nil && !resolved(w) {
			j.cells[i].asking = append(j.cells[i].asking, w)
		}
	}
	d.joints = append(d.joints, j)
	if !j.parked {
		e.await(j)
	}
}

// await sees to a joint that waits, when its time will be up.
func (e *engine) await(j *joint) {
	j.parked = true
	i, _ := slices.BinarySearchFunc(e.lapses, j.until+1, func(x *joint, until time.Duration) int {
		return cmp.Compare(x.until, until)
	})
	e.lapses = slices.Insert(e.lapses, i, j)
	e.planLapse()
}

// planLapse plans when to look at the first of those that wait.
func (e *engine) planLapse() {
	if len(e.lapses) > 0 && e.lapses[0].until != e.lapsing {
		e.lapsing = e.lapses[0].until
		e.queue.push(e.lapsing, lapse, 0)
	}
}

// late reports whether the time of a joint is up. It gets longer with answers of ledgers behind
// whose exchanges it waits.
func (j *joint) late(now time.Duration) bool {
	for _, p := range j.parts {
		if w := p.Waiter(); w != nil && !resolved(w) {
			j.until = max(j.until, p.Entry.Until(j.At))
		}
	}
	return now >= j.until
}

// withdraw ends the asking of those that have not answered.
func (e *engine) withdraw(j *joint) {
	for i, p := range j.parts {
		if w := p.Waiter(); w != nil && !resolved(w) {
			p.Withdraw(e.now)
			j.cells[i].forget(w)
		}
	}
}

// heard forgets those whose ledger has answered, and counts how.
func (c *cell) heard() (admitted, denied int) {
	for i := 0; i < len(c.asking); {
		w := c.asking[i]
		if !resolved(w) {
			i++
			continue
		}
		if c.forget(w); w.Verdict() == lease.Admitted {
			admitted++
		} else {
			denied++
		}
	}
	return admitted, denied
}

// forget leaves out one that was withdrawn.
func (c *cell) forget(w *local.Waiter) {
	for i := range c.asking {
		if c.asking[i] == w {
			c.asking = append(c.asking[:i], c.asking[i+1:]...)
			return
		}
	}
}

// resume lets the joints of a driver go on whose ledgers have answered, or whose time is
// up, and reports whether there are any.
func (e *engine) resume(d *driver) (any bool) {
	waiting := d.joints
	d.joints = nil
	for _, j := range waiting {
		if !j.answered() && !j.late(e.now) {
			d.joints = append(d.joints, j)
			continue
		}
		any = true
		e.withdraw(j)
		e.follow(j, j.all.Take(e.now, d.dispatch, false))
	}
	return any
}

// lapsed ends the wait of joints whose time is up.
func (e *engine) lapsed() {
	if e.now != e.lapsing {
		return // it was planned for one that another has come before
	}
	for len(e.lapses) > 0 && (e.lapses[0].done || e.now >= e.lapses[0].until) {
		j := e.lapses[0]
		e.lapses[0], e.lapses = nil, e.lapses[1:]
		j.parked = false
		switch {
		case j.done:
		case j.late(e.now):
			e.drive(j.process.driver)
		default:
			e.await(j)
		}
	}
	e.planLapse()
}

// decide settles a joint by what its parts say.
func (e *engine) decide(j *joint) {
	v, byOutage := lease.Admitted, false
	for i, p := range j.parts {
		byOutage = byOutage || p.Outage
		if p.Verdict == lease.Denied {
			v = lease.Denied
			if j.At >= e.meter.since {
				e.of(j.cells[i].number).denied++
			}
		}
	}
	e.settleAll(j, v, byOutage)
}

// settleAll notes the verdict on a joint.
func (e *engine) settleAll(j *joint, v lease.Verdict, byOutage bool) {
	j.done = true
	if e.witness != nil {
		e.witness(happening{
			at: e.now, what: settled, cell: j.cells[0], request: j.request,
			verdict: v, byOutage: byOutage,
		})
	}
	e.meter.settle(&j.request, v, byOutage, j.cells...)
	e.served(j.process, v)
	e.finish(&j.request, v == lease.Admitted, func() (wait time.Duration) {
		for _, p := range j.parts {
			if p.Verdict != lease.Admitted {
				s := p.Entry.State(e.now, p.N, "")
				if p.Outage {
					s = j.process.driver.dispatch.OutageState(e.now, p.Entry, p.N)
				}
				wait = max(wait, s.RetryAfter)
			}
		}
		return wait
	})
}

// leaveAll ends the joints of a process that ends: all tokens that they hold go back, or,
// by a crash, with the process.
func (e *engine) leaveAll(d *driver, crash bool) {
	waiting := d.joints
	d.joints = nil
	for _, j := range waiting {
		if !crash {
			e.withdraw(j)
			j.all.End(e.now)
		}
		e.settleAll(j, lease.Unavailable, false)
	}
}
