package lease

import "time"

// A conversation is what a Holder remembers of its exchanges.
type conversation struct {
	out       bool          // a request is under way: there is one at a time
	inLine    bool          // that request had callers that wait, and asked for no lease
	turned    bool          // another kind of limit than that request declares
	denied    float32       // tokens since the last request
	seq, seen uint64        // of the last request, and of the last reply
	sent      time.Duration // when the last request left
	served    time.Duration // when the last one did whose answer has brought tokens
	trip, off time.Duration // how long exchanges take: the mean, and the mean deviation

	// As the last request told them, in tokens.
	asked float64 // demand, per second
	held  float64
	first float64 // of the first caller that waited

	declared numbers // by the request that is out, or the last one
}

const (
	// A lease is asked for only when requests have come for lasting without a lull (meter.report).
	// Shorter clumps are over before a lease is of use (ADR 25, the rows with clumps of TestTable).
	lasting = 10 * time.Millisecond

	// firstHold is how many MaxRefresh a long batch lasts at most for a holder whose
	// demand is not known yet. Many keys get a single request, and should not stay
	// for long in the store's memory.
	firstHold = 60
)

// Request makes the request that is due, or reports false if none is by now. It
// must be answered by exactly one Handle or Fail.
func (h *Holder) Request(now time.Duration) (Request, bool) {
	quit := false
	switch h.consult(now) {
	case nothing:
		return Request{}, false
	case silent:
		quit = true
	case renewal:
		quit = h.at >= h.refresh && h.meter.unused(h.policy) && !h.shape.lapses() &&
			h.queue.len() == 0 && h.kind.busy() == 0
	}
	return h.request(h.at, quit && !h.clings()), true
}

// Owes reports whether there is anything to hand back, and no request is out. A debt is
// told again when the pause after exchanges that failed is over: see Retry.
func (h *Holder) Owes(now time.Duration) bool {
	now = h.advance(now)
	return !h.talk.out && (h.holds(now) || now >= h.Retry(now))
}

// Quit returns the request that hands everything back, if there is anything
// and no request is out. It must be answered like any other.
func (h *Holder) Quit(now time.Duration) (Request, bool) {
	if !h.Owes(now) {
		return Request{}, false
	}
	now = h.at
	h.endReserves()
	q := h.request(now, true)
	h.burst, h.expires = 0, now // whether or not the request arrives
	return q, true
}

// request makes the next request, and takes out of the lease what that hands
// back: everything if it quits.
func (h *Holder) request(now time.Duration, quit bool) Request {
	q := Request{Holder: h.id, Seen: h.talk.seen, Lag: h.talk.lag(), Limit: h.limit, Claim: h.claim(now)}
	if quit {
		h.keep = 0
		h.meter = newMeter(h.meter.cost, h.meter.arrivals)
		h.meter.since = never // until the next Take
	}
	q.Give = h.kind.handBack(h, quit)
	kept := h.reserves.tokens + h.kind.busy()
	if over := min(h.all()-h.keep, h.tokens); over > 0 {
		q.Give += over
		h.tokens = max(h.keep-kept, 0)
	}
	h.pool.Level += q.Give
	h.talk.asked = h.meter.report(h.talk.lag(), h.policy)
	plenty := !h.dry && h.denial.until == 0 && h.talk.seq > 0
	if h.talk.first = 0; h.queue != nil {
		h.tellOf(&q, now, plenty)
	}
	q.Held, q.Used, q.Got, q.Peak = h.all(), h.kind.busy(), h.got, h.peak
	q.Denied, h.talk.denied = min(float64(h.talk.denied), 1<<40), 0
	q.Debt, q.Since = h.debts.carry(h.talk.seq + 1)
	q = h.kind.tell(h, now, q, quit)
	h.talk.inLine = q.Waits && q.Policy.Mode == PerRequest
	q.Seq = h.send(now)
	return q
}

// tellOf completes a request by what those ask for who wait.
func (h *Holder) tellOf(q *Request, now time.Duration, plenty bool) {
	if l, _ := h.asks(now); l != nil {
		h.talk.first = l.head.N
		l.tell(q, h.usable(l.class), plenty)
		q.Waits = l.patient()
	}
}

// claim is the lease that the holder goes by.
func (h *Holder) claim(now time.Duration) Claim {
	if !h.leased(now) {
		return Claim{}
	}
	return Claim{Rate: h.rate, Burst: h.burst, Left: h.expires - now}
}

// send notes that a request leaves, and returns its number.
func (h *Holder) send(now time.Duration) uint64 {
	h.talk.seq++
	h.talk.held = h.all()
	h.talk.declared, h.talk.turned = h.limit.numbers(), false
	h.talk.out, h.talk.sent, h.probe = true, now, false
	h.running = false
	h.next = idle // Handle or Fail comes first
	return h.talk.seq
}

// wish is the policy to ask with: less than the holder's own where a lease is of no
// use to it now.
func (h *Holder) wish(backlog float64, quit bool) Policy {
	// Batch and Smallest count requests; the ledger wants tokens. A lease that cannot
	// hold the first waiter's request is of no use to it: it would only be missing
	// elsewhere.
	p := *h.policy
	p.Batch, p.Smallest = h.meter.requests(p.Batch), h.meter.requests(p.Smallest)
	young := p.Mode == Auto && (!h.meter.lasting() || h.meter.unused(&p))
	large := p.Mode != Batches && h.burst > 0 && h.talk.first > h.burst
	switch measured := h.meter.measured() >= p.MaxRefresh; {
	case p.Mode != Auto || large || quit || h.debts.first() || !measured && h.talk.seq > 0:
		p.MaxHold = p.MaxRefresh // no long batch
	case !measured:
		p.MaxHold = min(p.MaxHold, firstHold*p.MaxRefresh)
	}
	if young || large || quit || h.debts.first() && !h.paysByClass() || h.shares(p, backlog) {
		p.Mode = PerRequest
	}
	return p
}

// shares reports whether a holder whose callers wait should ask for no lease: the bucket is too
// small to lend to two, and who has a lease would have all (hybrid.TestWaitAllSharesFairly). Where
// there is too little for all that wait, it is too small to lend to all holders: they take turns at
// the pool, unless callers ask for several sizes, of which a turn serves one.
func (h *Holder) shares(p Policy, backlog float64) bool {
	lend := p.BurstShare * float64(h.InForce().Burst)
	lendTo := 2.0
	if first := h.queue.top(); h.contended && backlog > 0 && !h.classed && first.run() == first.sum {
		lendTo = float64(h.holders)
	}
	return (backlog > 0 || h.contended && h.queue.top().patient()) && p.Mode != Batches &&
		h.holders > 1 && lend < lendTo*float64(p.Smallest)
}

// Sent is when the last request left.
func (h *Holder) Sent() time.Duration { return h.talk.sent }

// lag is how long an exchange may well take: the mean and two deviations.
func (c *conversation) lag() time.Duration { return c.trip + 2*c.off }

// least is how long an exchange takes at least, as a rule.
func (c *conversation) least() time.Duration { return max(c.trip-2*c.off, 0) }

// Outstanding is the Seq of the request that is out, or 0.
func (h *Holder) Outstanding() uint64 {
	if !h.talk.out {
		return 0
	}
	return h.talk.seq
}
