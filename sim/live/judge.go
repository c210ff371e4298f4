package live

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
)

const (
	window    = 100 * time.Millisecond // of the timeline and of fair shares
	second    = 10                     // windows over which fairness is looked at
	mostSteps = 600                    // of the timeline
)

// A judging walks through a recording in the order of time, once it is over:
// then the events of all processes can be put in order, and no shared lock was
// in the requests' way. Its arithmetic is that of the engine.
type judging struct {
	plan      *plan
	end       time.Duration
	limit     lease.Limit
	permitted measure.Permitted // while it changes
	now       time.Duration
	measured  bool // the warm-up is over

	result    engine.Result
	processes []tally
	keys      []keyTally
	saved     []float64 // of each key, when the warm-up ended; NaN if that is not known
	latency   gauge.Histogram
	excess    float64
	firsts    []int64 // nanoseconds
	jains     []float64

	step int // windows in a step of the timeline
	sum  struct{ offered, admitted, ideal float64 }
}

// tally is what happened in a process.
type tally struct {
	lived                          bool
	offered, admitted, ideal, fair float64
	second                         struct{ admitted, fair float64 }

	life measure.Life
	up   bool // the life lasts
}

// keyTally is what processes were asked for a key.
type keyTally struct {
	bucket *measure.Bucket // the ideal one
	saved  *measure.Bucket // one that admits what the fleet does, for want of a look
	gauge  *measure.Gauge
	cells  map[int]*cell // by process
	order  []*cell
	ideal  float64 // in the window under way

	admitted float64
}

// cell is what one process was asked for one key.
type cell struct {
	process                *tally
	offered, ideal, window float64
}

// boundary is something that happens at a time and is no request.
type boundary struct {
	at time.Duration
	do func()
}

// judge measures a recording.
func judge(p *plan, r *recording) *engine.Result {
	j := &judging{plan: p, end: r.end, limit: p.setting.Limits[0].Limit,
		permitted: measure.NewPermitted(p.setting.Limits[0].Limit), excess: math.Inf(-1)}
	j.processes = make([]tally, p.load.Processes())
	j.keys = make([]keyTally, p.setting.Keys)
	windows := int(p.setting.Duration/window) + 1
	j.step = (windows + mostSteps - 1) / mostSteps
	j.result.Timeline = engine.Timeline{Step: (time.Duration(j.step) * window).Seconds(),
		Events: []engine.Event{}}

	arriving := make([]*shot, 0, len(r.shots))
	for i := range r.shots {
		arriving = append(arriving, &r.shots[i])
	}
	leaving := slices.Clone(arriving)
	slices.SortFunc(arriving, func(a, b *shot) int { return cmp.Compare(a.Fired, b.Fired) })
	slices.SortFunc(leaving, func(a, b *shot) int { return cmp.Compare(a.Returned, b.Returned) })
	j.saved = savings(p, r)
	boundaries := j.boundaries()
	for len(leaving) > 0 {
		arrives := len(arriving) > 0 && arriving[0].Fired <= leaving[0].Returned
		at := leaving[0].Returned
		if arrives {
			at = arriving[0].Fired
		}
		for ; len(boundaries) > 0 && boundaries[0].at <= at; boundaries = boundaries[1:] {
			j.now = boundaries[0].at
			boundaries[0].do()
		}
		j.now = max(j.now, at)
		if arrives {
			j.arrive(arriving[0])
			arriving = arriving[1:]
		} else {
			j.leave(leaving[0])
			leaving = leaving[1:]
		}
	}
	for _, b := range boundaries {
		j.now = b.at
		b.do()
	}
	j.now = j.end
	return j.finish(r)
}

// boundaries are all there are until the end, in order.
func (j *judging) boundaries() (list []boundary) {
	p := j.plan
	add := func(at time.Duration, do func()) {
		if at <= j.end {
			list = append(list, boundary{at, do})
		}
	}
	for i := range p.lives {
		l := &p.lives[i]
		add(l.From, func() { j.begin(&j.processes[l.Process]) })
		if l.Ends {
			add(l.To, func() { j.endLife(&j.processes[l.Process]) })
		}
	}
	for _, from := range p.setting.Limits[1:] {
		add(from.At, func() { j.setLimit(from.Limit) })
		ahead := j.permitted // only to know until when
		add(ahead.Change(from.At, from.Limit, p.setting.Policy, p.setting.Timeout), j.permit)
	}
	add(p.setting.Warmup, j.warm)
	for n := 1; time.Duration(n)*window <= j.end; n++ {
		add(time.Duration(n)*window, func() { j.tick(n) })
	}
	slices.SortStableFunc(list, func(a, b boundary) int { return cmp.Compare(a.at, b.at) })
	return list
}

// begin is the beginning of a life.
func (j *judging) begin(t *tally) {
	t.lived = true
	t.up = true
	t.life = measure.NewLife()
}

// endLife is its end; an answer may come later, to nobody.
func (j *judging) endLife(t *tally) {
	t.up = false
	j.starved(t.life.End(j.now))
}

// setLimit changes the limit of all keys. Processes hear of it when they next
// attend to a key, and what is out stays out.
func (j *judging) setLimit(limit lease.Limit) {
	j.limit = limit
	j.permitted.Change(j.now, limit, j.plan.setting.Policy, j.plan.setting.Timeout)
	for i := range j.keys {
		if k := &j.keys[i]; k.bucket != nil {
			k.bucket.SetLimit(j.now, limit)
			k.saved.SetLimit(j.now, limit)
		}
	}
	j.permit()
}

// permit lets the gauges hold what is permitted against what is admitted.
func (j *judging) permit() {
	limit := j.permitted.At(j.now)
	for i := range j.keys {
		if k := &j.keys[i]; k.gauge != nil {
			k.gauge.SetLimit(j.now, limit)
		}
	}
}

// warm is the end of the warm-up: everything is counted from here. Each ideal
// bucket gets what the fleet has saved up of its key, which else would look
// like tokens from nowhere.
func (j *judging) warm() {
	j.measured = true
	j.result = engine.Result{Timeline: j.result.Timeline}
	j.latency.Reset()
	j.firsts, j.jains = nil, nil
	for i := range j.processes {
		t := &j.processes[i]
		t.offered, t.admitted, t.ideal, t.fair = 0, 0, 0, 0
		t.second.admitted, t.second.fair = 0, 0
		t.life.Reset(j.now)
	}
	for i := range j.keys {
		k := &j.keys[i]
		for _, c := range k.order {
			c.offered, c.ideal, c.window = 0, 0, 0
		}
		k.ideal, k.admitted = 0, 0
		if k.bucket != nil && j.now > 0 {
			saved := j.saved[i]
			if math.IsNaN(saved) {
				saved = k.saved.Tokens(j.now)
			}
			k.bucket.Level(j.now, saved)
		}
	}
}

func (j *judging) key(n int) *keyTally {
	k := &j.keys[n]
	if k.bucket == nil {
		k.bucket, k.saved = measure.NewBucket(j.now, j.limit, 0), measure.NewBucket(j.now, j.limit, 0)
		k.gauge = measure.NewGauge(j.permitted.At(j.now))
		k.cells = map[int]*cell{}
	}
	return k
}

// arrive counts a request before it is decided.
func (j *judging) arrive(s *shot) {
	switch s.Verdict {
	case unrouted:
		j.result.Unrouted++
		return
	case refused:
		j.result.AboveBurst++
		return
	}
	n := float64(s.Cost)
	k, t := j.key(s.Key), &j.processes[s.Process]
	c := k.cells[s.Process]
	if c == nil {
		c = &cell{process: t}
		k.cells[s.Process] = c
		k.order = append(k.order, c)
	}
	j.result.Requests++
	j.sum.offered += n
	t.offered += n
	c.offered += n
	c.window += n
	if k.bucket.Take(j.now, n) {
		j.sum.ideal += n
		t.ideal += n
		c.ideal += n
		k.ideal += n
	}
	t.life.Ask(j.now)
}

// leave counts the verdict on a request.
func (j *judging) leave(s *shot) {
	if s.Verdict == unrouted || s.Verdict == refused {
		return
	}
	n, t := float64(s.Cost), &j.processes[s.Process]
	// what came in the warm-up is not counted among the requests
	if !j.measured || s.Fired >= j.plan.setting.Warmup {
		j.verdict(s)
	}
	if s.Verdict != admitted {
		if t.up {
			t.life.Deny(j.now)
		}
		return
	}
	j.sum.admitted += n
	t.admitted += n
	t.second.admitted += n
	k := j.key(s.Key)
	k.admitted += n
	j.excess = max(j.excess, k.gauge.Pour(j.now, n))
	k.saved.Level(j.now, k.saved.Tokens(j.now)-n)
	starved, first := t.life.Admit(j.now)
	j.starved(starved)
	if first {
		j.firsts = append(j.firsts, int64(t.life.Waited(j.now)))
	}
}

// verdict counts one of the requests.
func (j *judging) verdict(s *shot) {
	j.latency.Add(s.Returned - s.Fired)
	if s.Waited {
		j.result.Waited++
	}
	if s.ByOutage {
		j.result.ByOutage++
	}
	switch s.Verdict {
	case admitted:
		j.result.Admitted++
	case denied:
		j.result.Denied++
		j.result.TokensDenied += float64(s.Cost)
	default:
		j.result.Unanswered++
	}
}

// starved notes how long a process has.
func (j *judging) starved(d time.Duration) {
	if d > 0 {
		j.result.Starvation = max(j.result.Starvation, d.Seconds())
	}
}

// tick ends a window.
func (j *judging) tick(n int) {
	j.share()
	if n%second == 0 {
		j.endSecond()
	}
	if n%j.step == 0 {
		t := &j.result.Timeline
		t.Offered = append(t.Offered, j.sum.offered/t.Step)
		t.Admitted = append(t.Admitted, j.sum.admitted/t.Step)
		t.Ideal = append(t.Ideal, j.sum.ideal/t.Step)
		t.Limit = append(t.Limit, j.limit.Rate*float64(len(j.keys)))
		j.sum.offered, j.sum.admitted, j.sum.ideal = 0, 0, 0
	}
}

// share adds the fair shares of the window that ends.
func (j *judging) share() {
	for i := range j.keys {
		k := &j.keys[i]
		if k.ideal == 0 {
			for _, c := range k.order {
				c.window = 0
			}
			continue
		}
		demand := make([]float64, len(k.order))
		for i, c := range k.order {
			demand[i], c.window = c.window, 0
		}
		for i, fair := range measure.Divide(nil, j.plan.setting.Policy.Fairness, demand, k.ideal) {
			k.order[i].process.fair += fair
			k.order[i].process.second.fair += fair
		}
		k.ideal = 0
	}
}

// endSecond notes how fair the last second was.
func (j *judging) endSecond() {
	var shares []float64
	for i := range j.processes {
		s := &j.processes[i].second
		if s.fair > 0 {
			shares = append(shares, s.admitted/s.fair)
		}
		s.admitted, s.fair = 0, 0
	}
	if len(shares) > 0 && j.measured && j.now > j.plan.setting.Warmup {
		j.jains = append(j.jains, gauge.Jain(shares))
	}
}

// finish fills in what follows from the counts.
func (j *judging) finish(rec *recording) *engine.Result {
	r, s := &j.result, &j.plan.setting
	r.Replication = s.Replication
	r.Seconds = max(j.end-s.Warmup, 0).Seconds()
	r.Timeline.Events = append(r.Timeline.Events, j.plan.eventsUntil(j.end)...)
	for _, q := range j.plan.unrouted {
		if q.At >= s.Warmup && q.At < j.end {
			r.Unrouted++
		}
	}
	r.Calls, r.CallsFailed = rec.traffic.Calls, rec.traffic.Failed
	r.Excess = j.excess
	if math.IsInf(r.Excess, -1) {
		r.Excess = -float64(j.limit.Burst)
	}
	r.ExcessAllowed = j.allowed()
	for i := range j.processes {
		if t := &j.processes[i]; t.lived {
			j.starved(t.life.End(j.now)) // the end of the run ends it, too
		}
	}
	r.Conclude(&j.latency, j.firsts, j.jains, j.shareOut(), j.plan.scenario.KeyName)
	return r
}

// allowed is the promise: Rate*Timeout, and a Burst for each loss of Redis' data.
func (j *judging) allowed() float64 {
	var largest lease.Limit
	for _, from := range j.plan.setting.Limits {
		largest.Rate = max(largest.Rate, from.Limit.Rate)
		largest.Burst = max(largest.Burst, from.Limit.Burst)
	}
	flushes := 0
	for _, at := range j.plan.flushes {
		if at <= j.end {
			flushes++
		}
	}
	return largest.Rate*j.plan.setting.Timeout.Seconds() + float64(largest.Burst)*float64(flushes)
}

// shareOut says what processes and keys got, and what they should have had.
func (j *judging) shareOut() (keys []measure.KeyShare) {
	r := &j.result
	j.share() // of the last window, which has not ended
	level := map[*tally]float64{}
	for i := range j.keys {
		k := &j.keys[i]
		got := measure.KeyShare{Key: i, Admitted: k.admitted}
		demand := make([]float64, len(k.order))
		for i, c := range k.order {
			demand[i] = c.offered
			got.Offered += c.offered
			got.Ideal += c.ideal
		}
		if got.Offered > 0 {
			keys = append(keys, got)
		}
		for i, x := range measure.WaterFill(nil, demand, got.Ideal) {
			level[k.order[i].process] += x
		}
	}
	for i := range j.processes {
		t := &j.processes[i]
		if !t.lived {
			continue
		}
		r.Processes = append(r.Processes, measure.Share{
			Offered: t.offered, Admitted: t.admitted, Ideal: t.ideal, Fair: t.fair, Level: level[t]})
	}
	return keys
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
