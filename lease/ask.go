package lease

import (
	"math"
	"time"
)

const (
	// A lease is asked for only when requests have come for lasting without a
	// lull: a pause of shortLull and a round trip (a caller that waited for one
	// was not idle), in which ten expected requests stayed away. Clumps shorter
	// than that are over before a lease is of use, and who asked first would
	// hold what the others need (the rows with clumps of TestTable).
	lasting   = 10 * time.Millisecond
	shortLull = 100 * time.Millisecond

	// firstHold is how many MaxRefresh a calm key's batch lasts for one whose
	// demand is not known yet: many keys get a single request, and they should
	// not stay for long in the store's memory.
	firstHold = 60

	// wantPause is how long a process that has had no lease asks for none while
	// its callers wait.
	wantPause = 4 * slowMemory
)

// request makes the next request and takes back from the lease what it hands back.
func (h *Holder) request(now time.Duration, quit bool) Request {
	q := Request{Holder: h.id, Seen: h.seen, Lag: h.lag(), Limit: h.limit}
	if h.leased(now) {
		q.Claim = Claim{Rate: h.rate, Burst: h.burst, Left: h.expires - now}
	}
	if quit {
		h.keep = 0
		h.meter = newMeter(h.meter.cost)
		h.since = math.MaxInt64 // until the next Take
	}
	if over := h.tokens - h.keep; over > 0 {
		q.Give, h.tokens = over, h.keep
	}
	backlog := h.backlog(now)
	q.Demand = min(h.report()+backlog, MaxRate)
	q.Policy = h.wish(now, backlog, quit)
	q.Take, q.Min, q.Unit = h.need()
	h.seq++
	q.Seq = h.seq
	h.held = h.tokens
	h.first = h.queue.first()
	h.out, h.sent, h.probe = true, now, false
	h.running = false
	q.Held, q.Got, q.Peak = h.tokens, h.got, h.peak
	h.arm(now)
	return q
}

// report returns the demand as measured, in tokens/s.
func (h *Holder) report() float64 {
	demand := min(h.meter.demand(), MaxRate)
	h.asked = demand
	h.lull = shortLull + h.lag()
	if demand > 0 {
		expected := seconds(silence * max(h.meter.cost, 1) / demand)
		h.lull = max(h.lull, min(expected, 10*h.policy.MaxRefresh))
	}
	return demand
}

// requests is how many tokens so many requests of the process take.
func (h *Holder) requests(n int64) int64 {
	return int64(min(math.Ceil(float64(n)*max(h.meter.cost, 1)), MaxBurst))
}

// wish is the policy to ask with: less than the holder's own where a lease is of no
// use to it now.
func (h *Holder) wish(now time.Duration, backlog float64, quit bool) Policy {
	// Batch and Smallest count requests, and a sub-bucket that cannot hold the first
	// that waits is none for it: its refill would only be missing elsewhere.
	p := h.policy
	p.Batch, p.Smallest = h.requests(p.Batch), h.requests(p.Smallest)
	young := p.Mode == Auto && (h.last-h.since < lasting || h.unused())
	large := p.Mode != Batches && h.burst > 0 && h.queue.first() > h.burst
	switch measured := h.meter.measured() >= p.MaxRefresh; {
	case p.Mode != Auto || large || quit || !measured && h.seq > 0:
		p.MaxHold = p.MaxRefresh // not that either
	case !measured:
		p.MaxHold = min(p.MaxHold, firstHold*p.MaxRefresh)
	}
	if young || large || quit || h.crowdedOut(now, p, backlog) {
		p.Mode = PerRequest
	} else if h.burst == 0 {
		h.wanted = now
	}
	return p
}

// crowdedOut reports whether a process whose callers wait had better ask by itself.
// One that is too small for a lease is told to ask again when its next request
// is expected (Ledger.turn). Here one waits already, and where the bucket is too
// small to lend to two, the other one would have all (TestQueuesAreDemand).
func (h *Holder) crowdedOut(now time.Duration, p Policy, backlog float64) bool {
	lend := p.BurstShare * float64(h.InForce().Burst)
	return p.Mode != Batches && backlog > 0 && h.burst == 0 && now < h.wanted+wantPause &&
		lend < 2*float64(p.Smallest)
}
