package live

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// member is what faults have to know of a process.
type member struct {
	up    bool
	lives int
}

// stroke is an occurrence of a fault, or its end.
type stroke struct {
	scenario.Struck
	whom []int // of an end: those that it had hit
	end  bool
}

// faulting walks through the faults before the run, by the same draws as the
// engine makes: whom they hit does not depend on answers.
type faulting struct {
	*plan
	chance  *workload.Random
	members []member
	strokes []stroke // to come, in order
	moves   []move
	now     time.Duration
}

// planFaults fills in the lives of processes and all that happens to them.
func (p *plan) planFaults(chance *workload.Random) []move {
	f := faulting{plan: p, chance: chance, members: make([]member, p.load.Processes())}
	p.cuts = make([][]interval, len(f.members))
	for i := range p.scenario.Processes {
		f.start(i)
	}
	for _, x := range p.scenario.Strikes() {
		f.strokes = append(f.strokes, stroke{Struck: x})
	}
	slices.SortStableFunc(f.strokes, func(a, b stroke) int { return int(a.At - b.At) })
	for len(f.strokes) > 0 && f.strokes[0].At < p.setting.Duration {
		s := f.strokes[0]
		f.strokes = f.strokes[1:]
		f.now = s.At
		if s.end {
			for _, i := range s.whom {
				f.start(i)
			}
			continue
		}
		f.strike(&s)
	}
	for i := range p.lives {
		l := &p.lives[i]
		l.Silent = union(p.cuts[l.Process])
	}
	return f.moves
}

func (f *faulting) strike(s *stroke) {
	fault := s.Fault
	text := fault.Kind
	switch fault.Kind {
	case "crash", "leave":
		whom := f.choose(fault, true)
		f.stop(whom, fault.Kind == "crash")
		if fault.Kind == "crash" || fault.For > 0 {
			f.later(whom, fault.For)
		}
	case "deploy":
		if !f.members[s.Step].up {
			return
		}
		f.stop([]int{s.Step}, false)
		f.later([]int{s.Step}, fault.For)
	case "join":
		text = fmt.Sprintf("%d join", fault.Count)
		for range fault.Count {
			f.join()
		}
	case "outage":
		for i := range f.members {
			f.cut(i, fault.For)
		}
	case "partition":
		for _, i := range f.choose(fault, false) {
			f.cut(i, fault.For)
		}
	case "flush":
		f.flushes = append(f.flushes, f.now)
	case "limit":
		text = "limit " + fault.LimitOf().String()
		f.setting.Limits = append(f.setting.Limits, limitFrom{f.now, fault.LimitOf()})
	}
	if s.Step == 0 {
		f.events = append(f.events, engine.Event{At: f.now.Seconds(), Until: (f.now + fault.For).Seconds(), Text: text})
	}
}

// choose returns the processes that a fault means.
func (f *faulting) choose(fault *scenario.Fault, up bool) (chosen []int) {
	number, all := fault.Who()
	for i, m := range f.members {
		if m.lives > 0 && (m.up || !up) && (number < 0 || number == i) {
			chosen = append(chosen, i)
		}
	}
	if number < 0 && !all && len(chosen) > 0 {
		i := f.chance.Below(len(chosen))
		chosen = chosen[i : i+1]
	}
	return chosen
}

// later lets processes start again: those that crash for no time at once, and
// others after what else is planned for the same moment.
func (f *faulting) later(whom []int, wait time.Duration) {
	if wait == 0 {
		for _, i := range whom {
			f.start(i)
		}
		return
	}
	at := f.now + wait
	i := 0
	for i < len(f.strokes) && f.strokes[i].At <= at {
		i++
	}
	f.strokes = slices.Insert(f.strokes, i, stroke{scenario.Struck{At: at}, whom, true})
}

func (f *faulting) cut(process int, wait time.Duration) {
	f.cuts[process] = append(f.cuts[process], interval{f.now, f.now + wait})
}

func (f *faulting) join() {
	for i := range f.members {
		if f.members[i].lives == 0 {
			f.start(i)
			return
		}
	}
}

func (f *faulting) start(process int) {
	m := &f.members[process]
	m.up = true
	m.lives++
	f.lives = append(f.lives, life{Process: process, Number: m.lives, From: f.now, To: f.setting.Duration})
	f.moves = append(f.moves, move{f.now, process, true})
}

func (f *faulting) stop(whom []int, crash bool) {
	for _, process := range whom {
		f.members[process].up = false
		for i := range f.lives {
			if l := &f.lives[i]; l.Process == process && !l.Ends {
				l.To, l.Ends, l.Crash = f.now, true, crash
			}
		}
		f.moves = append(f.moves, move{f.now, process, false})
	}
}
