package lease

import (
	"math"
	"time"
)

// A meter estimates the offered rate: requests are counted, and from time to
// time folded into two averages. Counting is all that a decision pays for.
//
// The slow one is reported. Few requests in a tenth of a second do not tell their
// rate: a slice that follows such noise is full while another is empty. The fast one
// tells when the slow one is wrong.
type meter struct {
	arrivals
	count      float64 // tokens offered since at
	calls      float64 // requests offered since
	at         time.Duration
	fast, slow average
	cost       float64       // mean tokens per request
	began      time.Duration // the slow average rests upon what came since
}

const (
	fastMemory = 100 * time.Millisecond
	slowMemory = time.Second
	costMemory = 16 // requests

	// waitCounts is how much of the time counts in which callers wait for an answer, and none comes
	// any more, if that is more than longWait. Without it requests that came all at once would look
	// like a stream until it is known whether more follow; and it is no pause (meter.pauses).
	waitCounts = lasting / 2
	longWait   = 2 * lasting

	// notBegun is the time of a meter that waits for a first request.
	notBegun = time.Duration(math.MaxInt64)

	// significant is how many standard deviations of a Poisson stream the fast
	// average must be off to be news. By chance it is one time in twenty.
	significant = 2
)

func newMeter(cost float64, a arrivals) meter {
	return meter{arrivals: a, cost: cost, at: notBegun, began: notBegun}
}

// demand is the rate to report, in tokens/s.
func (m *meter) demand() float64 { return m.rate(&m.slow) }

// measured is for how long the demand has been measured.
func (m *meter) measured() time.Duration { return m.at - m.began }

// fold brings the averages to now. A request that arrives this instant, for so
// many tokens, does not count yet. It is the reason for looking: a stream looked
// at whenever a request arrives would seem one request busier than it is. For the
// same reason the first request of a stretch never counts.
func (m *meter) fold(now time.Duration, arriving float64) {
	if arriving > 0 {
		m.count -= arriving
		m.calls--
	}
	dt := max(now-m.at, 0).Seconds()
	if m.calls == 0 && m.pauses(dt) {
		*m = newMeter(m.cost, m.arrivals)
	}
	if m.at == notBegun {
		if calls := m.calls + min(arriving, 1); m.cost == 0 && calls > 0 {
			m.cost = (m.count + arriving) / calls
		}
		if m.count+arriving > 0 {
			m.at, m.began = now, now
		}
		m.count, m.calls = 0, 0
		return
	}
	if m.calls > 0 {
		m.cost += float64((m.count/m.calls - m.cost) * min(m.calls/costMemory, 1))
	}
	m.fast.fold(m.count, dt, fastMemory.Seconds())
	m.slow.fold(m.count, dt, slowMemory.Seconds())
	if old := m.demand(); math.Abs(m.rate(&m.fast)-old) > significant*m.noise(old)+m.one() {
		m.slow = m.fast // and grows slow again
		m.began = max(now-seconds(m.fast.span), m.began)
	}
	m.count, m.calls, m.at = 0, 0, max(now, m.at)
	if arriving > 0 {
		m.count, m.calls = arriving, 1
	}
}

// waited is for an answer that callers have waited for. While all of them do, nothing can come, and
// that tells nothing: of a long wait no more than waitCounts counts (TestDemandOfThoseWhoWait). It
// reports whether the wait was long.
func (m *meter) waited(now time.Duration) bool {
	wait := now - max(m.last, m.at)
	if wait <= longWait || m.at == notBegun {
		return false
	}
	m.at += wait - waitCounts
	m.began += wait - waitCounts
	return true
}

// pauses reports whether a time without requests, in seconds, is a pause, and not time in
// which less came: ten of them were expected. Of a busy key these stay away whenever
// requests come in small clumps, so it has to last, too (TestSmallClumps).
func (m *meter) pauses(dt float64) bool {
	expected := m.demand() * dt
	return expected > 0 && expected >= silence*m.cost && dt >= lasting.Seconds()
}

// noise is the standard deviation of the fast average of a Poisson stream of
// rate tokens/s: by Campbell's theorem for exponential weights, sqrt(rate*cost /
// (2*memory)) in the end, and sqrt(rate*cost/span) while it is young.
func (m *meter) noise(rate float64) float64 {
	span := m.fast.over()
	return math.Sqrt(rate * m.cost * (1 - float64(span/fastMemory.Seconds()/2)) / span)
}

// rate is what an average tells, in tokens/s.
func (m *meter) rate(a *average) float64 {
	if a.tokens == 0 {
		return 0
	}
	return a.tokens / (a.over() + float64(doubt*max(m.cost, 1)/a.tokens))
}

// one is what a single request weighs when it arrives, in tokens/s.
func (m *meter) one() float64 { return m.cost / m.fast.over() }

// arrivals are when requests came lately.
type arrivals struct {
	last  time.Duration // the last request
	since time.Duration // from when on requests have come without a lull
	lull  uint32        // the shortest pause that is a lull, in µs
	size  float32       // tokens of the last request
}

// offered counts requests that came until now, for so many tokens together.
func (m *meter) offered(now time.Duration, tokens, calls float64) {
	m.count += tokens
	m.calls += calls
	if now < m.since || now-m.last > time.Duration(m.lull)*time.Microsecond {
		m.since = now
	}
	m.last, m.size = now, float32(tokens/calls)
}

// lasting reports whether requests have come for long enough to ask for a lease.
func (a *arrivals) lasting() bool { return a.last-a.since >= lasting }

// measure brings the meter to now, and returns the tokens that it had not counted before. Two
// looks at the same request count as a single look: the time between them is no pause.
func (m *meter) measure(now time.Duration) (counted float64) {
	if m.at <= now && now < m.at+atOnce {
		return 0
	}
	arriving, before := 0.0, m.count
	if now-m.last < atOnce && m.calls > 0 {
		arriving = float64(m.size)
	}
	m.fold(now, arriving)
	return before - m.count
}

// unused reports whether less than a request is expected while a lease lasts: for so little demand
// it would cost more calls than it saves.
func (m *meter) unused(p *Policy) bool {
	return float64(m.demand()*laterTimes)*p.MaxRefresh.Seconds() < m.cost
}

// requests is how many tokens n requests of this process take.
func (m *meter) requests(n int64) int64 {
	return int64(min(math.Ceil(float64(n)*max(m.cost, 1)), MaxBurst))
}

// report returns the demand to tell the ledger, in tokens/s. A lull is then a pause of an
// exchange and MinRefresh, in which ten expected requests stay away.
func (m *meter) report(exchange time.Duration, p *Policy) float64 {
	demand := min(m.demand(), MaxRate)
	lull := p.MinRefresh + exchange
	if demand > 0 {
		expected := seconds(silence * max(m.cost, 1) / demand)
		lull = max(lull, min(expected, 10*p.MaxRefresh))
	}
	m.lull = uint32(min(lull.Microseconds(), math.MaxUint32))
	return demand
}

// backlog is the demand of the callers that wait, in tokens/s. They send nothing
// new until they are served, so that the meter forgets them (TestQueuesAreDemand).
//
// At this rate all of them are served within one refresh of a process that owns the
// whole rate. That time is the same for all processes: by its own refresh, a process
// with more rate would ask for more. A queue does not count before its first caller
// has waited for a round trip, as the meter has just counted it.
func (h *Holder) backlog(now time.Duration) (demand float64) {
	for l := h.queue.top(); l != nil; l = l.below {
		demand += h.backlogOf(now, l)
	}
	return demand
}

// backlogOf is that of a line.
func (h *Holder) backlogOf(now time.Duration, l *line) float64 {
	if !l.patient() || h.talk.seq == 0 || now-l.head.entered <= h.talk.lag() {
		return 0
	}
	refresh := seconds(float64(h.meter.requests(h.policy.Batch)) / h.InForce().Rate)
	return l.sum / min(max(refresh, h.policy.MinRefresh), h.policy.MaxRefresh).Seconds()
}

// An average is a count of tokens, and of the seconds in which they came. Both
// forget with the same time constant. Their quotient is the rate, right from the
// first moment: it does not rise from zero while a memory fills.
type average struct{ tokens, span float64 }

// shortest is the least time that is divided by, in seconds. With a longer one a clump
// would look like a steady stream (the row of TestTable).
const shortest = 0.001

// doubt is added to that time, in seconds, divided by the number of requests: a few
// of them tell little. One request in a moment is then no more than 4/s.
//
// Too low an estimate is mended soon and costs little. Too high a one fills a lease
// that others could use, and looks like unrest: before it, twelve processes with
// 5 requests/s each made more than a call for each request.
const doubt = 0.25

func (a *average) over() float64 { return max(a.span, shortest) }

// fold adds the tokens that came, taken to have come evenly, in the last dt
// seconds.
func (a *average) fold(tokens, dt, memory float64) {
	x := dt / memory
	decay, weight := 1-x, 1.0 // many small steps must not forget less than one of their sum
	if x > 1e-6 {
		decay = decayed(x)
		weight = (1 - decay) / x
	}
	a.tokens = float64(a.tokens*decay) + float64(tokens*weight)
	a.span = float64(a.span*decay) + float64(dt*weight)
}

// decayed is (1+x/1024)^-1024, which is e^-x but for a part of x^2/2048. Unlike
// math.Exp it is the same to the last bit on every machine, and so are simulations.
func decayed(x float64) float64 {
	p := 1 + float64(x/1024)
	for range 10 {
		p *= p
	}
	return 1 / p
}
