package lease_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A conversation is a ledger, its holders, and the messages between them. A message is on its
// way for oneWay. A request without an answer fails after the timeout, which is the default of
// hybrid.Config. All clocks show the same.
type conversation struct {
	now      time.Duration
	limit    lease.Limit // that new holders declare
	ledger   *lease.Ledger
	speakers []*speaker
	starts   uint64 // of processes
	mail     []message
	fates    map[string]fate // of the next message, by "request a" or "reply a"
	down     bool            // the store

	out    strings.Builder
	quiet  bool   // messages are only counted
	only   string // but for those of this holder
	unseen int

	envelope
	inForce               lease.Limit // at the last look
	overTokens, overRates float64     // out beyond it, since it was lowered
	err                   error
}

const (
	epoch   = time.Hour // of the clocks, where a transcript shows 0 ms
	oneWay  = time.Millisecond
	timeout = 250 * time.Millisecond // after which a request has failed
)

// A speaker is a process with its holder.
type speaker struct {
	id     string
	holder *lease.Holder
	sent   time.Duration // when the outstanding request left
	wakes  time.Duration // as its last Ready said
	woken  time.Duration // when it was last polled because of its Wake
	debit  float64       // tokens that the reply which is being handled brings for those who wait

	waits    []*lease.Waiter // that are patient
	reserved []lease.Reserved
	jobs     []lease.Reserved // that use slots

	load   load
	next   time.Duration // request of it
	left   int
	counts [len(verdicts)]int
}

// A message is a request on its way, or a reply.
type message struct {
	at      time.Duration // when it arrives
	to      *speaker      // or from
	request *lease.Request
	reply   lease.Reply
}

// A fate is what becomes of a message, if it is not delivered once and in time.
type fate struct {
	lost  bool
	late  time.Duration
	again time.Duration // later, a second time
}

// What follows, up to showHolder, is all that calls the protocol's two halves.

// start begins processes.
func (c *conversation) start(ids []string) {
	for _, id := range ids {
		h := lease.NewHolder(id, c.limit, &lease.Policy{}, c.starts)
		c.starts++
		c.speakers = append(c.speakers, &speaker{id: id, holder: h})
	}
}

// leave is the end of a process.
func (c *conversation) leave(s *speaker) {
	c.speakers = slices.DeleteFunc(c.speakers, func(x *speaker) bool { return x == s })
}

// take is a request that would not wait for another exchange. It plays until the verdict.
func (c *conversation) take(s *speaker, n float64) {
	w := c.ask(s, n, 0, false)
	for w != nil && w.Verdict == lease.Pending && c.err == nil {
		c.step(math.MaxInt64)
	}
}

// ask is a request for n tokens that would wait for so long; 0 is impatient. It returns the
// Waiter if there is no verdict yet.
func (c *conversation) ask(s *speaker, n float64, wait time.Duration, load bool) *lease.Waiter {
	v := s.holder.Take(c.now, n)
	stays := v == lease.Denied && wait > 0 && s.holder.RetryAfter(c.now, n) <= wait
	if v != lease.Pending && !stays {
		if v == lease.Admitted {
			c.admit(n)
		}
		c.verdict(s, v, n, load, -1)
		if s.holder.Due(c.now) {
			c.tend(s)
		}
		return nil
	}
	w := &lease.Waiter{N: n, Tag: asked{c.now, load}}
	if wait > 0 {
		w.Until = c.now + wait
		s.waits = append(s.waits, w)
		c.say("%s: a caller waits for %s", s.id, amount(n))
	}
	s.holder.Enter(w)
	c.tend(s)
	return w
}

// reserve is a request for tokens of a job whose cost is known later. It plays until the
// verdict.
func (c *conversation) reserve(s *speaker, n float64) {
	if r, v := s.holder.Reserve(c.now, n); v == lease.Admitted {
		s.reserved = append(s.reserved, r)
		c.say("%s: %s reserved in the lease", s.id, amount(n))
		return
	}
	w := &lease.Waiter{N: n, Tag: asked{c.now, false}, Hold: lease.WhileOpen}
	s.holder.Enter(w)
	c.tend(s)
	for w.Verdict == lease.Pending && c.err == nil {
		c.step(math.MaxInt64)
	}
}

// settle ends the first reservation of s, whose job has cost so much.
func (c *conversation) settle(s *speaker, cost float64) {
	if len(s.reserved) == 0 || !s.holder.Keeps(c.now, s.reserved[0]) {
		c.fail("%s has reserved nothing", s.id)
		return
	}
	r := s.reserved[0]
	s.reserved = s.reserved[1:]
	s.holder.Release(c.now, r, max(r.Tokens-cost, 0))
	if more := cost - r.Tokens; more > 0 {
		s.holder.Charge(c.now, more)
	}
	c.admit(cost)
	c.say("%s: %s settled of %s", s.id, amount(cost), number(r.Tokens))
	c.tend(s)
}

// asked is the Tag of a Waiter.
type asked struct {
	at   time.Duration
	load bool
}

// tend does a driver's duties for one holder.
func (c *conversation) tend(s *speaker) {
	ready := s.holder.Ready(c.now)
	s.wakes = ready.Wake
	c.jobsEnd(s)
	for _, w := range ready.Resolved {
		if w.Hold > 0 && c.limit.Kind == lease.KindSlots {
			c.begin(s, w.Reserved)
			continue
		}
		s.waits = slices.DeleteFunc(s.waits, func(x *lease.Waiter) bool { return x == w })
		tag := w.Tag.(asked)
		if w.Verdict == lease.Admitted && w.Hold > 0 {
			s.reserved = append(s.reserved, w.Reserved)
			c.say("%s: %s reserved after %s", s.id, amount(w.N), millis(c.now-tag.at))
			continue
		}
		if w.Verdict == lease.Admitted {
			paid := min(w.N, s.debit) // those have been counted when the ledger answered
			s.debit -= paid
			c.admit(w.N - paid)
		}
		c.verdict(s, w.Verdict, w.N, tag.load, c.now-tag.at)
	}
	if !ready.Ask {
		return
	}
	if q, ok := s.holder.Request(c.now); ok {
		c.send(s, q)
	}
}

// wake is when s has something to do if nothing happens until then: on a schedule with whole
// milliseconds, and not twice at the same time.
func (s *speaker) wake() time.Duration {
	ends := time.Duration(math.MaxInt64)
	if len(s.jobs) > 0 {
		ends = s.holder.Expires()
	}
	if s.holder.Outstanding() != 0 {
		return min(s.sent+timeout, ends)
	}
	at := min(s.wakes, ends)
	if at == math.MaxInt64 {
		return at
	}
	at = (at + time.Millisecond - 1).Truncate(time.Millisecond)
	return max(at, s.woken+time.Millisecond)
}

// awake is what s does then.
func (c *conversation) awake(s *speaker) {
	if seq := s.holder.Outstanding(); seq != 0 && c.now >= s.sent+timeout {
		s.holder.Fail(c.now)
		c.say("%s gives up on seq %d", s.id, seq)
	}
	s.woken = c.now
	c.tend(s)
}

// arrive is when a message does.
func (c *conversation) arrive(m message) {
	s := m.to
	if m.request != nil {
		if c.down {
			return
		}
		known := c.knows(s.id)
		r := c.ledger.Exchange(c.now, *m.request)
		c.look(false)
		if r.Taken > 0 {
			c.admit(r.Taken)
		}
		c.post("reply", message{to: s, reply: r}, replyPhrases(s.id, m.request, r, known))
		return
	}
	switch {
	case !slices.Contains(c.speakers, s):
		return // its process has gone
	case m.reply.Seq != s.holder.Outstanding():
		c.say("%s ignores the reply to seq %d", s.id, m.reply.Seq)
	default:
		s.debit = m.reply.Taken
	}
	s.holder.Handle(c.now, m.reply)
	c.tend(s)
	c.sum -= s.debit // was for some who have gone: if it is kept, it counts when it is spent
	s.debit = 0
}

// withdraw is when a caller has waited for as long as it would.
func (c *conversation) withdraw(s *speaker, w *lease.Waiter) {
	s.waits = slices.DeleteFunc(s.waits, func(x *lease.Waiter) bool { return x == w })
	s.holder.Withdraw(c.now, w)
	c.say("%s: %s given up after %s", s.id, amount(w.N), millis(c.now-w.Tag.(asked).at))
	c.tend(s)
}

func (c *conversation) quit(s *speaker) {
	if q, ok := s.holder.Quit(c.now); ok {
		c.send(s, q)
	}
}

func (c *conversation) send(s *speaker, q lease.Request) {
	if err := q.Validate(); err != nil {
		c.fail("invalid request: %v", err)
	}
	s.sent = c.now
	all := requestPhrases(&q, c.ledger.Limit(), c.knows(s.id))
	c.post("request", message{to: s, request: &q}, all)
}

// knows reports whether the ledger has a lease of a holder.
func (c *conversation) knows(id string) bool {
	r := find(c.ledger.View(), id)
	return r != nil && r.Expires() > c.now
}

// declare sets the limit of these speakers, or of all, also of those who start later.
func (c *conversation) declare(limit lease.Limit, to []*speaker, all bool) {
	if all {
		c.limit = limit
	}
	for _, s := range to {
		s.holder.SetLimit(limit)
		c.tend(s)
	}
}

// forget is the loss of the ledger's state. At most one more Burst may be admitted for it, and what
// the leases that are out refill until they end (I6).
func (c *conversation) forget() {
	c.extra = float64(c.ledger.Limit().Burst)
	for _, s := range c.speakers {
		l := s.holder.Lease(c.now)
		c.extra += l.Rate * l.Refills.Seconds()
		c.until = max(c.until, c.now+l.Lives)
	}
	c.flow += c.extra
	c.ledger = new(lease.Ledger)
}

// A load is a request for a token to a speaker, again and again.
type load struct {
	to    *speaker
	every time.Duration
}

// load plays for d, and says what became of the requests.
func (c *conversation) load(loads []load, d time.Duration) {
	for _, x := range loads {
		x.to.load, x.to.next, x.to.left = x, c.now, int(d/x.every)
		x.to.counts = [len(x.to.counts)]int{}
	}
	c.advance(d)
	for _, x := range loads {
		requests := int(d / x.every)
		text := fmt.Sprintf("%s: %d requests", x.to.id, requests)
		if requests == 1 {
			text = strings.TrimSuffix(text, "s")
		}
		for v, what := range verdicts {
			if n := x.to.counts[v]; n > 0 {
				text += fmt.Sprintf(", %d %s", n, what)
				requests -= n
			}
		}
		if requests > 0 {
			text += fmt.Sprintf(", %d without a verdict yet", requests)
		}
		c.tell("%s", text)
	}
}

// verdicts are what became of the requests of a load. Pending are those that were admitted when
// the ledger had answered.
var verdicts = [lease.Exceeding + 1]string{
	lease.Admitted: "from the lease", lease.Denied: "denied", lease.Pending: "through the ledger",
	lease.Unavailable: "unavailable", lease.Exceeding: "more than the Burst",
}

// verdict tells what became of a request that has waited for so long; -1 is not at all.
func (c *conversation) verdict(s *speaker, v lease.Verdict, n float64, load bool,
	waited time.Duration) {
	if load {
		if v == lease.Admitted && waited >= 0 {
			v = lease.Pending
		}
		s.counts[v]++
		return
	}
	what := verdicts[v]
	if v == lease.Admitted {
		what = "admitted"
	}
	switch {
	case waited >= 0:
		what += " after " + millis(waited)
	case v == lease.Admitted:
		what += " from the lease"
	}
	if v == lease.Denied {
		what += ", retry in " + millis(s.holder.RetryAfter(c.now, n))
	}
	c.say("%s: %s %s", s.id, amount(n), what)
}

// advance lets time pass.
func (c *conversation) advance(d time.Duration) {
	for end := c.now + d; c.now < end && c.err == nil; {
		c.step(end)
	}
}

// step plays what happens next, but not after end.
func (c *conversation) step(end time.Duration) {
	at, do := end, func() {}
	before := func(t time.Duration, f func()) {
		if t = max(t, c.now); t < at || t == at && t < end {
			at, do = t, f
		}
	}
	for i := len(c.speakers) - 1; i >= 0; i-- {
		s := c.speakers[i]
		if s.left > 0 {
			before(s.next, func() {
				s.next += s.load.every
				s.left--
				c.ask(s, 1, 0, true)
			})
		}
		before(s.wake(), func() { c.awake(s) })
		for _, w := range s.waits {
			before(w.Until, func() { c.withdraw(s, w) })
		}
	}
	for i := len(c.mail) - 1; i >= 0; i-- { // the first of those that arrive at once is the last here
		m := c.mail[i]
		before(m.at, func() {
			c.mail = slices.Delete(c.mail, i, i+1)
			c.arrive(m)
		})
	}
	c.pass(at - c.now)
	do()
	c.look(true)
}

// An envelope checks that no window of T seconds admits more than Burst + Rate*T, to the token:
// those for callers who wait count when the ledger answers.
//
// A window that begins now may admit what is there now, at most a Burst, and what flows until it
// ends. So each moment sets a ceiling for sum - flow at all later ones, and the lowest one holds.
// It finds the same as a list of all admissions of which each pair is compared.
type envelope struct {
	rate, burst float64       // in force, or out if that is more, as after a limit was lowered
	log         slidingLog    // of a sliding window: what sum has
	flow        float64       // tokens that may have come alive since the start
	sum         float64       // tokens admitted since
	low         float64       // the lowest ceiling
	from        time.Duration // and the moment that set it
	extra       float64       // tokens that a loss of the state may cost,
	until       time.Duration // while leases of that state are out
}

// pass lets d pass without an event.
func (c *conversation) pass(d time.Duration) {
	if d > 365*24*time.Hour {
		c.fail("nothing is going to happen")
		return
	}
	c.flow += c.rate * d.Seconds()
	c.now += d
	switch c.limit.Kind {
	case lease.KindQuota:
		c.turn(d)
	case lease.KindSliding:
		c.sum -= c.log.leave(c.now, c.limit.Window)
		c.low = math.Inf(1)
	}
}

// turn begins to count anew if a quota's window has ended in the last d.
func (c *conversation) turn(d time.Duration) {
	if start, _ := lease.Bounds(c.limit, c.now); duration(start) > c.now-d {
		c.sum, c.low = 0, math.Inf(1)
	}
}

// admit counts n tokens that are admitted now.
func (c *conversation) admit(n float64) {
	ceiling := c.sum - c.flow + c.burst
	if c.now < c.until {
		ceiling += c.extra
	}
	if ceiling < c.low {
		c.low, c.from = ceiling, c.now
	}
	c.sum += n
	if c.limit.Kind == lease.KindSliding {
		c.log = append(c.log, admission{c.now, n})
		c.low = float64(c.limit.Burst)
	}
	if over := c.sum - c.flow - c.low - c.owed(); over > rounding {
		c.fail("I1: %s tokens above Burst + Rate*T since %s", number(over), c.stamp(c.from))
	}
}

// owed is what was charged and has not been paid.
func (c *conversation) owed() float64 {
	owed := max(-c.ledger.View().Pool, 0)
	for _, s := range c.speakers {
		owed += s.holder.Owed()
	}
	return owed
}

// look takes the state of the ledger after an event, and checks I4. After a limit was lowered more
// may be out than there is, but it only gets less. Within an exchange the Burst may fall, but
// what is admitted by it was there before.
func (c *conversation) look(settled bool) {
	v := c.ledger.View()
	if v.Limit == (lease.Limit{}) {
		return // nobody has asked yet
	}
	most := max(float64(v.Limit.Burst), v.Pool+v.Bursts)
	c.rate = max(v.Limit.Rate, v.Rates)
	if !settled {
		c.burst = max(c.burst, most)
		return
	}
	c.burst = most
	tokens := max(v.Pool+v.Bursts-float64(v.Limit.Burst), 0)
	rates := max(v.Rates-v.Limit.Rate, 0)
	if v.Limit.Kind == lease.KindSlots {
		rates = 0 // are how many are in use
	}
	if v.Limit == c.inForce && (tokens > c.overTokens || rates > c.overRates) {
		c.fail("I4: pool %v, bursts %v, rates %v of %v", v.Pool, v.Bursts, v.Rates, v.Limit)
	}
	c.inForce, c.overTokens, c.overRates = v.Limit, tokens, rates
	if err := divided(v); err != nil {
		c.fail("%v", err)
	}
}

func (c *conversation) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}
