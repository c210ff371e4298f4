package engine

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
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

// tally gives a new cell its tallies: those of an earlier life of its process, if there are some.
func (m *meter) tally(c *cell) {
	if c.process.lives > 1 {
		for _, t := range c.key.of {
			if t.process == c.process {
				c.tallies = t
				return
			}
		}
	}
	c.tally.process, c.tallies = c.process, &c.tally
	if m.classes != nil {
		c.tally.byClass = new(byClass)
	}
	c.key.of = append(c.key.of, &c.tally)
}

// A meter counts all that a Result tells.
type meter struct {
	*engine
	counts   Result
	since    time.Duration // measuring began
	bucketed float64       // tokens admitted, but for those of the outage policy
	excess   float64
	excused  bool // the outage policy has admitted something, which the limit does not promise
	blind    bool // tokens were admitted at a time from their request, less early, to now
	early    time.Duration
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
	for _, k := range present(m.keys) {
		k.admitted = 0
		for _, c := range k.of {
			c.offered, c.ideal = 0, 0
		}
	}
}

// offer counts a request for tokens of each of some cells, before it is decided. What it is
// to processes and keys is counted when it is: one that is still under way at the end is
// denied to nobody.
func (m *meter) offer(q *request, cells ...*cell) {
	within := m.classes != nil && cells[0].key.classes.takeFloor(m.now, q)
	q.Offered = Offered{worth: q.Worth(), ideal: m.ideally(q, cells), within: within}
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
	if q.ideal && m.classes != nil {
		k.classes.ideal[q.Class] += q.worth
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
	for _, c := range present(m.cells) {
		for i := range c.waiting {
			m.want(c.key, c.tallies, c.waiting[i].Worth(), c.waiting[i].Class)
		}
	}
}

// refused counts a request that no limit of this burst admits, an ideal one neither.
func (m *meter) refused(q *request) {
	q.Offered = Offered{worth: q.Worth()}
	m.counts.Requests++
	m.counts.AboveBurst++
	for i := range m.limits {
		if l := &m.limits[i]; q.Cost > l.Limit.Burst {
			l.denied++
			l.idealDenied++
		}
	}
	m.verdict(q, lease.Exceeding, false)
}

func (m *meter) unrouted() { m.counts.Unrouted++ }

// ideally takes the tokens of all ideal limits, or of none, and counts those that deny.
func (m *meter) ideally(q *request, cells []*cell) bool {
	fits, n := true, float64(q.Cost)
	for _, c := range cells {
		if !c.key.idealOf(q).Fits(m.now, n) {
			fits = false
			m.of(c.number).idealDenied++
		}
	}
	if fits {
		for _, c := range cells {
			c.key.idealOf(q).Take(m.now, n, q.Hold)
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
			m.counts.Starvation = max(m.counts.Starvation, p.life.Deny(m.now).Seconds())
		}
		return
	}
	m.admit(p, n)
	from := m.now
	if m.blind {
		from = q.At - m.early
	}
	for _, c := range cells {
		m.spend(c, from, q, byOutage)
	}
	if p.life.Admit() {
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
	m.excused = m.excused || byOutage
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
	m.counts.TokensDecided += q.Worth()
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
