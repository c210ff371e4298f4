package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// A job is a request for slots, from its arrival to its end, as hybrid.Limiter.Acquire and
// Slot.Release make one.
type job struct {
	local.Job
	request
	cell     *cell
	ref      int32         // of its events
	events   int           // in the queue
	until    time.Duration // it waits no longer
	ends     time.Duration // it is done
	state    jobState
	waiter   *local.Waiter
	byOutage bool
}

type jobState uint8

const (
	pausing jobState = iota // before it asks, or asks anew
	queuing
	working
	over
)

// acquire sends a job to a cell.
func (e *engine) acquire(q *request, c *cell) {
	j := &job{request: *q, cell: c, until: e.now + e.patience}
	j.N, j.End = float64(q.Cost), func(finished bool) {
		if !finished {
			c.lost = append(c.lost, j)
		}
	}
	j.ref = e.jobs.take()
	e.jobs.list[j.ref] = j
	if e.witness != nil {
		e.witness(happening{at: e.now, what: asked, cell: c, request: *q})
	}
	e.meter.offer(&j.request, c)
	e.load.Busy(c.process.index, 1)
	e.seek(j)
	e.forget(j)
}

// seek asks for the slots of a job, unless its process has ended.
func (e *engine) seek(j *job) {
	c, d := j.cell, j.cell.driver
	if d.crashed || d.closing {
		e.refuse(j, lease.Unavailable)
		return
	}
	patience := time.Duration(0)
	if e.patience > 0 {
		patience = max(j.until-e.now, 1)
	}
	r := c.entry.Acquire(e.now, &j.Job, patience, d.dispatch.Away())
	if r.Verdict == lease.Unavailable {
		d.dispatch.Unanswered(e.now, &c.entry)
	}
	if r.Waiter != nil {
		j.state, j.waiter = queuing, r.Waiter
		e.wait(c, waiting{j.request, r.Waiter, j})
		if e.patience > 0 {
			e.planTurn(j, j.until)
		} else {
			e.planTurn(j, e.now+e.timeout)
		}
	} else {
		e.answered(j, r.Verdict)
	}
	e.attend(c)
	e.drive(d)
}

// answered lets a job go on with its verdict.
func (e *engine) answered(j *job, v lease.Verdict) {
	d := j.cell.driver
	switch {
	case v == lease.Admitted:
		e.work(j)
		return
	case d.crashed || d.closing || v == lease.Exceeding || v == lease.Denied && e.patience == 0:
		e.refuse(j, v)
		return
	}
	pause, free := d.dispatch.Turned(e.now, &j.cell.entry, &j.Job, v)
	switch {
	case free:
		j.byOutage = true
		e.work(j)
	case e.patience == 0:
		e.refuse(j, v)
	default:
		j.state = pausing
		e.planTurn(j, min(e.now+pause, j.until))
	}
}

// work begins a job that has its slots.
func (e *engine) work(j *job) {
	c := j.cell
	j.state, j.ends = working, e.now+j.Hold
	c.working = append(c.working, j)
	e.planTurn(j, j.ends)
	e.note(j, lease.Admitted)
}

// refuse ends a job that has had no slots.
func (e *engine) refuse(j *job, v lease.Verdict) {
	j.state = over
	e.note(j, v)
	e.served(j.cell.process, v)
	e.finish(&j.request, false, func() time.Duration { return 0 })
	e.forget(j)
}

// note counts the verdict on a job.
func (e *engine) note(j *job, v lease.Verdict) {
	if e.witness != nil {
		e.witness(happening{
			at: e.now, what: settled, cell: j.cell, request: j.request, verdict: v, byOutage: j.byOutage,
		})
	}
	if v == lease.Denied && j.At >= e.meter.since {
		e.of(j.cell.number).denied++
	}
	e.meter.settle(&j.request, v, j.byOutage, j.cell)
}

// turn does what is due for a job, if anything still is.
func (e *engine) turn(ref int32) {
	j := e.jobs.list[ref]
	j.events--
	c := j.cell
	switch {
	case j.state == working && e.now >= j.ends:
		if c.entry.Finish(e.now, &j.Job) {
			e.done(j)
		}
		e.attend(c)
		e.drive(c.driver)
	case j.state == queuing && e.now >= j.until:
		v := lease.Denied
		if e.patience == 0 {
			v = lease.Unavailable
		}
		e.giveUpJob(j, v)
	case j.state == pausing && e.now >= j.until:
		e.refuse(j, lease.Denied)
	case j.state == pausing:
		e.seek(j)
	}
	e.forget(j)
}

// giveUpJob ends the wait of a job, unless the verdict has come.
func (e *engine) giveUpJob(j *job, v lease.Verdict) {
	c := j.cell
	if !c.entry.Withdraw(e.now, j.waiter) {
		return // what has come is collected by the event that brought it
	}
	i := slices.IndexFunc(c.waiting, func(w waiting) bool { return w.job == j })
	c.waiting = slices.Delete(c.waiting, i, i+1)
	e.refuse(j, v)
	e.attend(c)
	e.drive(c.driver)
}

// lose ends the jobs of a cell whose lease has ended, or whose process has.
func (e *engine) lose(c *cell) {
	if len(c.lost) == 0 {
		return
	}
	lost := c.lost
	c.lost = nil
	slices.SortFunc(lost, func(a, b *job) int { // the order of the entry's map is random
		return cmp.Compare(a.ref, b.ref)
	})
	for _, j := range lost {
		e.meter.cut(c, &j.request, j.ends-e.now, j.byOutage)
		e.done(j)
		e.forget(j)
	}
}

// done ends a job that has had its slots.
func (e *engine) done(j *job) {
	j.state = over
	c := j.cell
	if e.witness != nil {
		e.witness(happening{at: e.now, what: ended, cell: c, request: j.request, byOutage: j.byOutage})
	}
	i := slices.Index(c.working, j)
	last := len(c.working) - 1
	c.working[i] = c.working[last]
	c.working[last] = nil
	c.working = c.working[:last]
	e.load.Busy(c.process.index, -1)
	e.finish(&j.request, true, nil)
}

func (e *engine) planTurn(j *job, at time.Duration) {
	j.events++
	e.queue.push(at, turn, j.ref)
}

// forget frees a job that is over and of which no event is planned.
func (e *engine) forget(j *job) {
	if j.state == over && j.events == 0 && e.jobs.list[j.ref] == j {
		e.jobs.list[j.ref] = nil
		e.jobs.giveBack(j.ref)
	}
}
