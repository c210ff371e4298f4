package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
)

// struck is an occurrence, and whom it has hit, for its end.
type struck struct {
	scenario.Struck
	whom []*process
}

// planFaults puts all occurrences of all faults into the queue.
func (e *engine) planFaults() {
	for _, x := range e.scenario.Strikes() {
		e.strikes = append(e.strikes, struck{Struck: x})
		e.queue.push(x.At, strike, int32(len(e.strikes)-1))
	}
}

// strike lets a fault happen.
func (e *engine) strike(ref int32) {
	s := &e.strikes[ref]
	f := s.Fault
	text := f.Kind
	lasting := f.For > 0
	switch f.Kind {
	case "crash", "leave":
		s.whom = e.choose(f, func(p *process) bool { return p.up })
		for _, p := range s.whom {
			e.stop(p, f.Kind == "crash")
		}
		if f.Kind == "crash" && f.For == 0 {
			e.mend(ref)
		}
	case "deploy":
		p := &e.processes[s.Step]
		if !p.up {
			return
		}
		s.whom = []*process{p}
		e.stop(p, false)
		lasting = true
	case "join":
		text = fmt.Sprintf("%d join", f.Count)
		for range f.Count {
			e.join()
		}
	case "outage":
		e.away++
	case "partition":
		s.whom = e.choose(f, func(*process) bool { return true })
		for _, p := range s.whom {
			p.cut++
		}
	case "flush":
		e.flush()
	case "limit":
		text = "limit " + f.LimitOf().String()
		e.setLimit(f.LimitOf())
	}
	if s.Step == 0 {
		e.meter.event(text, f.For)
	}
	e.meter.shifted()
	if lasting {
		e.queue.push(e.now+f.For, mend, ref)
	}
}

// mend ends a fault.
func (e *engine) mend(ref int32) {
	s := &e.strikes[ref]
	switch s.Fault.Kind {
	case "outage":
		e.away--
	case "partition":
		for _, p := range s.whom {
			p.cut--
		}
	default:
		for _, p := range s.whom {
			e.start(p)
		}
	}
	if s.Fault.For > 0 {
		e.meter.shifted()
	}
}

// choose returns the processes that a fault means, among those that are fit.
func (e *engine) choose(f *scenario.Fault, fit func(*process) bool) (chosen []*process) {
	number, all := f.Who()
	for i := range e.processes {
		p := &e.processes[i]
		if p.lives > 0 && fit(p) && (number < 0 || number == i) {
			chosen = append(chosen, p)
		}
	}
	if number < 0 && !all && len(chosen) > 0 {
		i := e.chance.Below(len(chosen))
		chosen = chosen[i : i+1]
	}
	return chosen
}

// join starts the first process that never was.
func (e *engine) join() {
	for i := range e.processes {
		if p := &e.processes[i]; p.lives == 0 {
			e.start(p)
			return
		}
	}
}

// stop ends a life of a process: by a crash, with all that it holds, or in
// order, handing everything back.
func (e *engine) stop(p *process, crash bool) {
	p.up = false
	e.load.SetUp(p.index, false)
	d := p.driver
	d.closing, d.crashed = !crash, crash
	e.leaveAll(d, crash)
	byKey := func(a, b *cell) int { return cmp.Compare(a.number, b.number) }
	for _, c := range slices.SortedFunc(slices.Values(d.cells), byKey) {
		c.key.cells[p.index] = nil
		if !crash {
			c.entry.Close(e.now, func() { c.gone = true })
			e.attend(c)
			continue
		}
		e.meter.bury(c)
		c.gone = true
		for i := range c.waiting {
			if j := c.waiting[i].job; j != nil {
				e.refuse(j, lease.Unavailable)
			} else {
				e.settle(c, &c.waiting[i].request, lease.Unavailable)
			}
		}
		c.waiting = nil
		c.lost = append(c.lost, c.working...)
		e.lose(c)
		e.end(c)
	}
	if crash {
		e.drivers[d.id] = nil
	} else {
		e.drive(d)
	}
}

// flush loses the ledgers of all keys.
func (e *engine) flush() {
	for _, k := range present(e.keys) {
		k.boundary(e.now)
		k.before = k.before.Plus(k.ledger.Flows())
		k.ledger = lease.Ledger{}
	}
	e.census = new(lease.Ledger)
	e.meter.flushes++
}

// setLimit changes the limit of all keys. Processes hear of it when they next
// attend to a key, and what is out stays out.
func (e *engine) setLimit(limit lease.Limit) {
	e.queue.push(e.changeLimit(limit), permit, 0)
}

// changeLimit returns when permit is due.
func (e *engine) changeLimit(limit lease.Limit) time.Duration {
	l := &e.limits[0]             // there are no others
	limit.Offset = l.Limit.Offset // of the run's calendar
	l.Limit = limit
	for _, k := range present(e.keys) {
		k.limit = limit
		k.ideal.SetLimit(e.now, limit)
		if m := e.meter.classes; m != nil {
			m.setLimit(e, k.classes, limit)
		}
		if k.opened >= 0 {
			k.supply.declare(e.now, limit)
		}
	}
	due := l.permitted.Change(e.now, limit, e.policy, e.timeout)
	e.permit()
	return due
}

// permit lets the gauges hold what is permitted against what is admitted.
func (e *engine) permit() {
	limit := e.limits[0].permitted.At(e.now)
	for _, k := range present(e.keys) {
		k.gauge.SetLimit(e.now, limit)
		k.debits.setLimit(e.now, limit)
	}
}
