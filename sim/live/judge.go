package live

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
)

// judge measures a recording, walking through it in the order of time, once it is over:
// then the events of all processes can be put in order, and no shared lock was
// in the requests' way.
func judge(p *plan, r *recording) *engine.Result {
	s, played := &p.setting, p.scenario.Clone()
	played.Begins = r.began
	j := engine.NewJudge(played, s.Policy, s.Replication, p.load.Processes(), r.unsure)
	arriving := make([]*shot, 0, len(r.shots))
	for i := range r.shots {
		arriving = append(arriving, &r.shots[i])
	}
	// Jobs that begin after the end have slots of processes that have closed.
	leaving := slices.DeleteFunc(slices.Clone(arriving), func(s *shot) bool {
		return s.Hold > 0 && s.Returned > r.end
	})
	slices.SortFunc(arriving, func(a, b *shot) int { return cmp.Compare(a.Fired, b.Fired) })
	slices.SortFunc(leaving, func(a, b *shot) int { return cmp.Compare(a.Returned, b.Returned) })
	boundaries := boundaries(p, r, j)
	offered := map[*shot]engine.Offered{}
	for len(arriving)+len(leaving) > 0 {
		arrives := len(leaving) == 0 ||
			len(arriving) > 0 && arriving[0].Fired <= leaving[0].Returned
		var at time.Duration
		if arrives {
			at = arriving[0].Fired
		} else {
			at = leaving[0].Returned
		}
		for ; len(boundaries) > 0 && boundaries[0].at <= at; boundaries = boundaries[1:] {
			j.At(boundaries[0].at)
			boundaries[0].do()
		}
		j.At(at)
		if arrives {
			arrive(j, offered, arriving[0], s.keysOf(&arriving[0].Request))
			arriving = arriving[1:]
		} else {
			leave(j, offered, leaving[0], s.keysOf(&leaving[0].Request))
			leaving = leaving[1:]
		}
	}
	for _, b := range boundaries {
		j.At(b.at)
		b.do()
	}
	j.At(r.end)
	for _, at := range p.flushes {
		if at <= r.end {
			j.Flush()
		}
	}
	return j.Result(r.traffic.Calls, r.traffic.Failed, p.eventsUntil(r.end))
}

// boundary is something that happens at a time and is no request.
type boundary struct {
	at time.Duration
	do func()
}

// boundaries are all there are until the end, in order.
func boundaries(p *plan, r *recording, j *engine.Judge) (list []boundary) {
	add := func(at time.Duration, do func()) {
		if at <= r.end {
			list = append(list, boundary{at, do})
		}
	}
	for i := range p.lives {
		l := &p.lives[i]
		add(l.From, func() { j.Begin(l.Process) })
		if l.Ends {
			add(l.To, func() { j.End(l.Process) })
		}
	}
	s := &p.setting
	for _, from := range s.Limits[1:] {
		add(from.At, func() { j.SetLimit(from.Limit) })
		ahead := measure.NewPermitted(s.Limits[0].Limit) // only to know until when
		add(ahead.Change(from.At, from.Limit, s.Policy, s.Timeout), j.Permit)
	}
	saved := savings(p, r)
	add(s.Warmup, func() { j.Warm(saved) })
	for n := time.Duration(1); n*engine.Window <= r.end; n++ {
		add(n*engine.Window, j.Tick)
	}
	slices.SortStableFunc(list, func(a, b boundary) int { return cmp.Compare(a.at, b.at) })
	return list
}

// arrive counts a request before it is decided.
func arrive(j *engine.Judge, offered map[*shot]engine.Offered, s *shot, keys []int) {
	switch s.Verdict {
	case unrouted:
		j.Unrouted()
	case refused:
		q := s.Request
		q.At = s.Fired
		j.Refused(q)
	default:
		q := s.Request
		q.Hold = max(q.Hold, s.Held) // a job that was late has asked for as much
		offered[s] = j.Ask(s.Process, q, keys)
	}
}

// leave counts the verdict on a request.
func leave(j *engine.Judge, offered map[*shot]engine.Offered, s *shot, keys []int) {
	verdict := lease.Unavailable
	switch s.Verdict {
	case unrouted, refused:
		return
	case admitted:
		verdict = lease.Admitted
	case denied:
		verdict = lease.Denied
	}
	q := s.Request
	q.Hold = s.Held
	j.Settle(s.Process, q, keys, engine.Outcome{
		Offered: offered[s], Asked: s.Fired, Verdict: verdict, ByOutage: s.ByOutage, Waited: s.Waited, Denying: s.Denying,
	})
}

// eventsUntil are the scenario's events before end.
func (p *plan) eventsUntil(end time.Duration) (list []engine.Event) {
	for _, e := range p.events {
		if e.At < end.Seconds() {
			list = append(list, e)
		}
	}
	return list
}
