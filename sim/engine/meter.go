package engine

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// Window is the time of fair shares, of settling, and of the timeline.
const Window = 100 * time.Millisecond

const (
	second    = 10  // windows whose fairness is looked at
	mostSteps = 600 // of the timeline
)

// tally is what happened in a process since measuring began.
type tally struct {
	offered, admitted, ideal, fair float64

	short struct{ offered, admitted float64 } // in the window under way
	long  struct{ admitted, fair float64 }    // in the second under way
}

// tallies are what processes were asked for a key.
type tallies struct {
	of       []*cellTally
	admitted float64

	// in the window under way
	touched        []*cellTally
	offered, ideal float64
}

// cellTally is what one process was asked for one key, over all its lives.
type cellTally struct {
	process        *process
	offered, ideal float64
	short          float64  // offered in the window under way
	byClass        *byClass // the same; nil without classes
}

// tally is that of a process that has not asked for the key in its life.
func (m *meter) tally(k *key, p *process) *cellTally {
	if p.lives > 1 {
		for _, c := range k.of {
			if c.process == p {
				return c
			}
		}
	}
	c := &cellTally{process: p}
	if m.classes != nil {
		c.byClass = new(byClass)
	}
	k.of = append(k.of, c)
	return c
}

// A meter counts all that a Result tells.
type meter struct {
	*engine
	counts   Result
	since    time.Duration // measuring began
	bucketed float64       // tokens admitted, but for those of the outage policy
	excess   float64
	blind    bool // tokens were admitted at a time from their request to now
	wire     wire
	flushes  int
	latency  gauge.Histogram
	firsts   []int64 // nanoseconds
	settling settling
	stock    stock       // when measuring began
	lost     stock       // of entries that are gone
	looks    looks       // at slots
	classes  *classMeter // nil without classes

	touched []*key // in the window under way
	jains   []float64
	shares  []float64 // scratch
	fair    []float64 // scratch

	pending int // requests without a verdict
	quiet   int // windows since somebody wanted or got something

	ticks    int
	step     int // windows in a step of the timeline
	timeline Timeline
	sum      struct{ offered, admitted, ideal float64 } // in the step under way
}

func (m *meter) init(e *engine) {
	m.engine = e
	m.step = 1
	m.timeline.Step = Window.Seconds()
	m.timeline.Events = []Event{}
	m.excess = math.Inf(-1)
	m.settling.planned = workload.Shifts(e.scenario)
	m.classes = newClassMeter(e)
}

// begin is the end of the warm-up: everything is counted from here.
func (m *meter) begin() {
	m.clear()
	m.level()
	m.stock = m.count()
	m.settling.reset()
}

// clear forgets what was counted so far.
func (m *meter) clear() {
	m.share() // what the window under way has given so far
	m.counts, m.bucketed, m.firsts, m.jains, m.looks = Result{}, 0, nil, nil, looks{}
	m.latency.Reset()
	for i := range m.limits {
		l := &m.limits[i]
		l.denied, l.idealDenied, l.calls, l.admitted = 0, 0, 0, 0
	}
	if m.since = m.now; m.classes != nil {
		m.classes.clear(m.engine)
	}
	for i := range m.processes {
		p := &m.processes[i]
		p.tally = tally{short: p.short}
		p.life.Reset(m.now)
	}
	for _, k := range m.keys {
		if k != nil {
			k.admitted = 0
			for _, c := range k.of {
				c.offered, c.ideal = 0, 0
			}
		}
	}
}

// level gives each ideal limit what the fleet has of its key: what a limiter
// has saved up in the warm-up would else look like tokens from nowhere. Of requests that are
// under way it has decided as they came.
func (m *meter) level() {
	saved := map[*key]float64{}
	for _, c := range m.cells {
		if c != nil {
			saved[c.key] += held(c.entry.Lease(m.now))
		}
	}
	for _, k := range m.keys {
		if k == nil || m.now == 0 {
			continue
		}
		has := float64(k.limit.Burst) // before the first exchange
		if k.opened >= 0 {
			has, _ = k.pool(m.now)
			has += saved[k]
		}
		k.ideal.Level(m.now, has, k.gauge)
	}
	m.lineUp()
}

// offer counts a request for tokens of each of some cells, before it is decided. What it is
// to processes and keys is counted when it is: one that is still under way at the end is
// denied to nobody.
func (m *meter) offer(q *request, cells ...*cell) {
	q.Offered = Offered{worth: q.Worth(), ideal: m.ideally(q, cells)}
	if m.classes != nil {
		q.within = cells[0].key.classes.isWithin(m.now, q)
	}
	m.pending++
	m.quiet = 0
	m.counts.Requests++
	m.sum.offered += q.worth
	if q.ideal {
		m.sum.ideal += q.worth
	}
	cells[0].process.life.Ask(m.now)
}

// decided counts in the shares of processes and keys what a request has asked for that has
// its verdict. Shares are those of its first key.
func (m *meter) decided(q *request, c *cell) {
	p, k, t := c.process, c.key, c.tallies
	p.offered += q.worth
	p.short.offered += q.worth
	m.want(k, t, q.worth, q.Class)
	t.offered += q.worth
	if q.ideal {
		p.ideal += q.worth
		t.ideal += q.worth
		k.tallies.ideal += q.worth
	}
}

// want counts tokens that are wanted in the window under way: of requests that are
// decided in it, and of those that wait at its end.
func (m *meter) want(k *key, t *cellTally, n float64, class uint8) {
	if t.short == 0 {
		if k.tallies.offered == 0 {
			m.touched = append(m.touched, k)
		}
		k.touched = append(k.touched, t)
	}
	t.short += n
	k.tallies.offered += n
	if m.classes != nil {
		t.byClass[class] += n
		k.classes.demand[class] += n
	}
}

// wait counts those who wait as a window ends: they want a share of it.
func (m *meter) wait() {
	for _, c := range m.cells {
		if c == nil {
			continue
		}
		for i := range c.waiting {
			m.want(c.key, c.tallies, c.waiting[i].Worth(), c.waiting[i].Class)
		}
	}
}

func (m *meter) refused()  { m.counts.AboveBurst++ }
func (m *meter) unrouted() { m.counts.Unrouted++ }

// ideally takes the tokens of all ideal limits, or of none, and counts those that deny.
func (m *meter) ideally(q *request, cells []*cell) bool {
	fits, n := true, float64(q.Cost)
	for _, c := range cells {
		if !c.key.ideal.Fits(m.now, n) {
			fits = false
			m.of(c.number).idealDenied++
		}
	}
	if fits {
		for _, c := range cells {
			c.key.ideal.Take(m.now, n, q.Hold)
		}
	}
	return fits
}

func (m *meter) sent(c *cell, q lease.Request) {
	m.counts.Calls++
	if c != nil {
		m.of(c.number).calls++
	}
	m.wire.back.sent += q.Give
}

// called counts the outcome of an exchange.
func (m *meter) called(sent time.Duration, admitted, denied int, failed bool) {
	switch {
	case sent < m.since: // in the warm-up
	case failed:
		m.counts.CallsFailed++
	case admitted > 0:
		m.counts.CallsAdmitting++
	case denied > 0:
		m.counts.CallsDenying++
	}
}

// exchanged follows what only an exchange changes: the limit in force at a key's
// ledger, and what is on lease.
func (m *meter) exchanged(c *cell, q *lease.Request, r *lease.Reply) {
	k := c.key
	if !r.Stale {
		m.wire.back.arrived += q.Give
		m.wire.lent.sent += r.Add + r.Taken
	}
	limit := k.ledger.Limit()
	if k.opened < 0 {
		k.opened, k.full = m.now, float64(limit.Burst)
		k.supply.open(m.now, k.limit, limit)
	}
	k.before.Pooled += k.supply.force(m.now, limit)
}

// received counts a reply that a process has taken.
func (m *meter) received(c *cell, r *lease.Reply) {
	m.wire.lent.arrived += r.Add + r.Taken
	if !r.Limit.Kind.Jobs() { // whose jobs count when they begin
		c.granted = r.Taken
	}
}

// settle counts the verdict on a request for tokens of each of some cells.
func (m *meter) settle(q *request, v lease.Verdict, byOutage bool, cells ...*cell) {
	p, n := cells[0].process, q.Worth()
	m.pending--
	m.quiet = 0
	if q.At >= m.since { // what came in the warm-up is not counted among the requests
		m.verdict(q, v, byOutage)
	}
	m.decided(q, cells[0])
	if m.classes != nil {
		m.classes.settle(m.engine, q, cells[0].key.classes, v == lease.Admitted)
	}
	if v != lease.Admitted {
		if p.up { // an answer may come later, to nobody
			p.life.Deny(m.now)
		}
		return
	}
	m.admit(p, n)
	from := m.now
	if m.blind {
		from = q.At
	}
	for _, c := range cells {
		m.spend(c, from, q, byOutage)
	}
	starved, first := p.life.Admit(m.now)
	m.starved(starved)
	if first {
		m.firsts = append(m.firsts, int64(p.life.Waited(m.now)))
	}
}

// admit counts what a process has got.
func (m *meter) admit(p *process, n float64) {
	m.sum.admitted += n
	p.admitted += n
	p.short.admitted += n
	p.long.admitted += n
}

// spend counts tokens of a cell that were admitted at a time since from.
func (m *meter) spend(c *cell, from time.Duration, q *request, byOutage bool) {
	n := float64(q.Cost)
	c.key.admitted += q.Worth()
	if !byOutage {
		m.bucketed += n
		granted := min(n, c.granted)
		c.granted -= granted
		c.key.debits.spend(m.now, n-granted, q.Hold)
	}
	excess := c.key.gauge.Pour(from, m.now, n, q.Hold)
	m.excess = max(m.excess, excess)
	l := m.of(c.number)
	l.excess = max(l.excess, excess)
	l.admitted += n
}

// cut takes back what a job does not have in use, as it ends so long before its time.
func (m *meter) cut(c *cell, q *request, left time.Duration, byOutage bool) {
	n := float64(q.Cost)
	worth := float64(n * left.Seconds())
	m.admit(c.process, -worth)
	c.key.admitted -= worth
	if !byOutage {
		c.key.debits.spend(m.now, -n, left)
	}
	c.key.gauge.Pour(m.now, m.now, -n, left)
}

// verdict counts one of the requests.
func (m *meter) verdict(q *request, v lease.Verdict, byOutage bool) {
	switch v {
	case lease.Admitted:
		m.counts.Admitted++
	case lease.Denied, lease.Exceeding:
		m.counts.Denied++
		m.counts.TokensDenied += q.Worth()
	default:
		m.counts.Unanswered++
	}
	if q.ideal {
		m.counts.IdealAdmitted++
	} else {
		m.counts.IdealDenied++
	}
	if byOutage {
		m.counts.ByOutage++
	}
	waited := m.now - q.At
	if waited > 0 {
		m.counts.Waited++
	}
	m.latency.Add(waited)
}

// starved notes how long a process has.
func (m *meter) starved(d time.Duration) {
	if d > 0 {
		m.counts.Starvation = max(m.counts.Starvation, d.Seconds())
	}
}

// end keeps what a cell has lost that ends.
func (m *meter) end(c *cell) {
	l := c.entry.Lease(m.now)
	m.lost.spilt += l.Spilt
	m.lost.expired += l.Expired + l.Lapsed
	m.lost.unclaimed += l.Unclaimed
}

// drop counts what a cell still holds that ends without a crash.
func (m *meter) drop(c *cell) { m.lost.expired += held(c.entry.Lease(m.now)) }

// bury counts what a process holds, and would have added, that crashes.
func (m *meter) bury(c *cell) {
	l := c.entry.Lease(m.now)
	m.lost.buried += held(l)
	m.lost.unrefilled += float64(l.Rate * l.Refills.Seconds())
}

// event notes what happens now and lasts for a while.
func (m *meter) event(text string, lasts time.Duration) {
	m.timeline.Events = append(m.timeline.Events,
		Event{m.now.Seconds(), (m.now + lasts).Seconds(), text})
}

// idle reports whether windows are as good as over before they begin, until
// something happens: those that are remembered were empty, too.
func (m *meter) idle() bool {
	return m.pending == 0 && m.quiet > len(m.settling.last)+second && !m.settling.open &&
		len(m.settling.planned) == 0 && m.scenario.Load.Hold == nil // jobs go on
}

// tick ends a window.
func (m *meter) tick() {
	m.quiet++
	m.settling.tick(m)
	if m.patience > 0 && m.pending > 0 {
		m.wait()
	}
	m.share()
	if m.classes != nil {
		m.classes.tick(m.engine)
	}
	for i := range m.processes {
		m.processes[i].short.offered, m.processes[i].short.admitted = 0, 0
	}
	if (m.ticks+1)%second == 0 {
		m.endSecond()
		m.look()
	}
	m.pass()
}

// pass lets a window pass, with what there was in it.
func (m *meter) pass() {
	m.ticks++
	if m.ticks%m.step == 0 {
		t := &m.timeline
		t.Offered = append(t.Offered, m.sum.offered/t.Step)
		t.Admitted = append(t.Admitted, m.sum.admitted/t.Step)
		t.Ideal = append(t.Ideal, m.sum.ideal/t.Step)
		t.Limit = append(t.Limit, m.capacity())
		m.sum.offered, m.sum.admitted, m.sum.ideal = 0, 0, 0
		if len(t.Admitted) == mostSteps {
			m.coarsen()
		}
	}
}

// coarsen makes one step of each two: however long the run is, and whenever it
// is interrupted, there are enough steps for a chart.
func (m *meter) coarsen() {
	t := &m.timeline
	for _, list := range []*[]float64{&t.Offered, &t.Admitted, &t.Ideal, &t.Limit} {
		for i := range len(*list) / 2 {
			(*list)[i] = ((*list)[2*i] + (*list)[2*i+1]) / 2
		}
		*list = (*list)[:len(*list)/2]
	}
	m.step *= 2
	t.Step *= 2
}

// share adds the fair shares of the window that ends. They are of one window
// after the other, because load comes and goes: whoever asks while nobody else
// does has a right to more.
func (m *meter) share() {
	for _, k := range m.touched {
		if m.classes != nil {
			m.classes.share(k)
			k.touched, k.tallies.offered, k.tallies.ideal = k.touched[:0], 0, 0
			continue
		}
		demand := func(c *cellTally) float64 { return c.short }
		m.divide(m.policy.Fairness, k.touched, demand, k.tallies.ideal, func(c *cellTally, fair float64) {
			c.process.fair += fair
			c.process.long.fair += fair
			c.short = 0
		})
		k.touched, k.tallies.offered, k.tallies.ideal = k.touched[:0], 0, 0
	}
	m.touched = m.touched[:0]
}

// endSecond notes how fair the last second was.
func (m *meter) endSecond() {
	m.shares = m.shares[:0]
	for i := range m.processes {
		l := &m.processes[i].long
		if l.fair > 0 {
			m.shares = append(m.shares, l.admitted/l.fair)
		}
		l.admitted, l.fair = 0, 0
	}
	if len(m.shares) > 0 && m.now > m.begins {
		m.jains = append(m.jains, gauge.Jain(m.shares))
	}
}

// divide gives each cell its fair part of what the ideal bucket admitted.
func (m *meter) divide(fairness lease.Fairness, cells []*cellTally, demand func(*cellTally) float64,
	ideal float64, give func(*cellTally, float64)) {
	m.shares = m.shares[:0]
	for _, c := range cells {
		m.shares = append(m.shares, demand(c))
	}
	m.fair = measure.Divide(m.fair[:0], fairness, m.shares, ideal)
	for i, fair := range m.fair {
		give(cells[i], fair)
	}
}

// result is what was measured until now.
func (e *engine) result() *Result {
	r := e.measured()
	e.meter.account(r)
	return r
}

// measured is the same without where tokens went.
func (e *engine) measured() *Result {
	m := &e.meter
	r := m.counts
	r.Replication = e.replication
	r.Pending = r.Requests - r.Admitted - r.Denied - r.Unanswered
	r.Seconds = max(e.now-e.begins, 0).Seconds()
	r.Timeline = m.timeline
	r.CallsAhead = r.Calls - r.CallsAdmitting - r.CallsDenying
	burst := -float64(e.limits[0].Limit.Burst)
	r.Excess, r.ExcessDebited = max(m.excess, burst), burst
	for _, k := range m.keys {
		if k != nil {
			r.ExcessDebited = max(r.ExcessDebited, k.debits.worst())
		}
	}
	r.ExcessAllowed = m.allowances(&r)
	for i := range e.processes {
		if p := &e.processes[i]; p.lives > 0 {
			m.starved(p.life.End(e.now)) // the end of the run ends it, too
		}
	}
	r.Starvation = max(r.Starvation, m.counts.Starvation)
	r.Settle, r.Shifts = m.settling.mean()
	keys := m.shareOut(&r)
	if m.classes != nil {
		r.Classes = m.classes.result()
	}
	r.Conclude(&m.latency, m.firsts, m.jains, keys, e.scenario.KeyName)
	return &r
}

// allowances is what is promised at most above a limit, and tells of each limit, where there
// are several.
func (m *meter) allowances(r *Result) (most float64) {
	lives := 0
	for i := range m.processes {
		lives += m.processes[i].lives
	}
	for i, l := range m.scenario.Limits() {
		largest := l.Limit
		for _, f := range m.scenario.Faults {
			if f.Kind == "limit" {
				largest.Rate = max(largest.Rate, f.LimitOf().Rate)
				largest.Burst = max(largest.Burst, f.LimitOf().Burst)
			}
		}
		allowed := float64(largest.Rate*m.timeout.Seconds()) +
			float64(float64(largest.Burst)*float64(m.flushes)) +
			float64(float64(m.scenario.Eager)*float64(lives))
		most = max(most, allowed)
		if len(m.limits) > 1 {
			admits := ideal.Most(l.Limit, m.since, m.now)
			r.Limits = append(r.Limits, m.limits[i].share(r, allowed, admits))
		}
	}
	return most
}

// capacity is what all keys let through, of the narrowest limit, tokens/s.
func (m *meter) capacity() (least float64) {
	for i := range m.limits {
		l := &m.limits[i]
		if all := scenario.Mean(l.Limit) * float64(l.Number); i == 0 || all < least {
			least = all
		}
	}
	return least
}

// shareOut says what processes and keys got, and what they should have had.
func (m *meter) shareOut(r *Result) (keys []measure.KeyShare) {
	m.share() // of the last window, which has not ended
	for i := range m.processes {
		p := &m.processes[i]
		if p.lives > 0 {
			r.Processes = append(r.Processes, measure.Share{
				Offered: p.offered, Admitted: p.admitted, Ideal: p.ideal, Fair: p.fair})
		}
	}
	for i, k := range m.keys {
		if k == nil {
			continue
		}
		got := measure.KeyShare{Key: i, Admitted: k.admitted}
		for _, c := range k.of {
			got.Offered += c.offered
			got.Ideal += c.ideal
		}
		if got.Offered > 0 {
			keys = append(keys, got)
		}
		demand := func(c *cellTally) float64 { return c.offered }
		m.divide(lease.MaxMin, k.of, demand, got.Ideal, func(c *cellTally, x float64) {
			r.Processes[c.process.index].Level += x
		})
	}
	return keys
}
