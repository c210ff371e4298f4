package lease

import (
	"math"
	"time"
)

// A Holder is one process's half of a key: it spends from its lease without
// asking, and says when and what to ask. Time is passed in, counted from any
// moment that has passed, on a clock that never steps back; a time before an
// earlier one counts as that one. A Holder is not safe for concurrent use.
type Holder struct {
	// What Take reads and writes stands together: among many keys, a decision
	// costs as many cache lines as it touches.

	// The lease, in force until expires.
	tokens, rate, burst float64
	at                  time.Duration // tokens are counted up to here
	rateUntil, expires  time.Duration

	wake  time.Duration // when Poll may have something to do
	look  time.Duration // the same, but only if a request comes then
	alarm float64       // meter.count at which the lease runs low
	last  time.Duration // the last Take, for lastN tokens
	lastN float64
	since time.Duration // when requests began to come without a lull
	lull  time.Duration // how long a pause is one

	// running says that no request is unanswered. From when the first of those
	// that are left nothing is added: the ledger may have given the rate to
	// somebody else. owed is what would have been, in the room that there would
	// have been; the answer makes good for it, at the lower of both rates (I1,
	// TestRefillPausesWhileAsking, TestCreditFitsTheOldLease).
	running   bool
	out       bool // a request: the conversation has one at a time
	probe     bool // ask at the next Poll
	contended bool // as last replied
	dry       bool // as last replied
	shape     Shape

	queue waiters
	meter meter

	retryAt   time.Duration // a denial is in force until then
	denied    float64       // for as many tokens or more
	held      float64       // tokens as the last request told them
	got, peak float64       // see Request
	seq, seen uint64
	sent      time.Duration // when the last request left
	trip, off time.Duration // how long exchanges take: the mean, and the mean deviation

	keep    float64
	refresh time.Duration

	asked    float64       // demand as last reported
	holders  int           // as last replied
	wanted   time.Duration // when it last asked for a lease and had none
	first    float64       // tokens of the first of those who waited, at the last request
	backoff  time.Duration // after failed exchanges: nothing is sent before,
	renew    time.Duration // and nothing that nobody waits for
	failures int           // in a row
	failing  time.Duration // when the first of them was

	id      string
	limit   Limit
	inForce Limit // as last replied
	policy  Policy
	random  uint64 // state of the jitter's generator

	done []*Waiter

	spilt, expired, unclaimed float64 // tokens that were of no use, see Lease
}

const (
	// drift shortens every life of a lease by a part, so that a holder whose
	// clock is slow by up to it still stops before the ledger does (I2).
	drift = 1.0 / 512

	// lowPause is the least time between two requests for more because the lease runs low.
	lowPause = 15 * time.Millisecond

	// silence is how many expected requests must stay away, under contention,
	// before a holder gives everything back, and quiet the shortest time for
	// it: Poisson traffic fakes it once in e^10 requests, and a hot process
	// sees those in a second.
	silence = 10
	quiet   = 10 * time.Millisecond

	// atOnce is how long after Take its Poll comes at most, if the caller has
	// nothing else to do: the request is then the reason for the Poll.
	atOnce = 100 * time.Microsecond

	lowWater = 0.25 // of a plain batch

	// After failures in a row, the pause before the next exchange doubles from
	// minBackoff to maxBackoff, and to maxRenew where nobody waits: a store that
	// is too slow must get the time to work off what came too late.
	minBackoff = 20 * time.Millisecond
	maxBackoff = 200 * time.Millisecond
	maxRenew   = 2 * time.Second

	// putOff is the pause before the next exchange that nobody waits for, after
	// one that the caller could not make.
	putOff = 500 * time.Millisecond
)

// NewHolder returns a Holder for one key of one process. id must be unique per
// process start, see Request.Holder; limit and policy must be valid. The seed
// spreads refreshes and retries of different holders.
func NewHolder(id string, limit Limit, policy Policy, seed uint64) *Holder {
	return &Holder{id: id, limit: limit, policy: policy.Resolved(), random: seed, alarm: math.Inf(1), since: math.MaxInt64, wanted: -wantPause, meter: newMeter(0)}
}

// A Verdict is what became of a request.
type Verdict int

const (
	Admitted    Verdict = iota
	Denied              // for now; see RetryAfter
	Pending             // wait: the answer comes with the next exchange
	Unavailable         // the exchange failed: no verdict
	Exceeding           // more than the Burst in force, or than one that was set meanwhile
)

// Take asks for n tokens, 1 to the limit's Burst. Pending means that only the
// ledger can tell: the caller either enters a Waiter at once or treats it as
// denied. After Take, call Poll if Due says so.
func (h *Holder) Take(now time.Duration, n float64) Verdict {
	now = h.advance(now)
	h.offered(now, n, 1)
	if h.queue.len() == 0 && h.tokens >= n {
		h.tokens -= n
		return Admitted
	}
	switch {
	case !h.denies(now, n):
		return Pending
	case n <= float64(h.InForce().Burst):
		return Denied
	case h.out || now < h.sent+h.policy.MaxRefresh:
		return Exceeding
	}
	h.probe = true // whatever the denial says: a larger Burst may be in force by now
	return Pending
}

// offered counts requests that came until now, for so many tokens together.
func (h *Holder) offered(now time.Duration, tokens, calls float64) {
	h.meter.count += tokens
	h.meter.calls += calls
	if now < h.since || now-h.last > h.lull {
		h.since = now
	}
	h.last, h.lastN = now, tokens/calls
}

// denies reports whether a request that cannot be served from here is denied
// without asking: inside a denial's retry time, unless it asks for less than
// what was denied and nobody is before it, and while a slice is being renewed that
// the pool had nothing for.
func (h *Holder) denies(now time.Duration, n float64) bool {
	return now < h.retryAt && (n >= h.denied || h.queue.len() > 0) || h.out && h.dry && h.leased(now) && h.shape.Refills()
}

// Due reports whether Poll may have something to do: a cheap test for after
// each Take.
func (h *Holder) Due(now time.Duration) bool {
	return now >= h.wake || now >= h.look || h.meter.count >= h.alarm || h.queue.len() > 0
}

// Wake is when Poll next has something to do if nothing happens until then.
// It may be early, never late.
func (h *Holder) Wake() time.Duration { return h.wake }

// RetryAfter is how long from now a request for n tokens that was denied
// should wait: until the holder's own refill has them, or it may ask again.
func (h *Holder) RetryAfter(now time.Duration, n float64) time.Duration {
	return h.soonest(max(now, h.at), h.queue.sum, h.queue.first(), n)
}

// soonest is how long n tokens take behind those that others wait for, the
// first of them for so many. Where the ledger decides, it cannot be sooner than
// at the whole rate; a denial's time is that of the first.
func (h *Holder) soonest(now time.Duration, ahead, first, n float64) time.Duration {
	wait := seconds(max(ahead+n-float64(h.limit.Burst), 0) / h.limit.Rate)
	if now < h.retryAt && (n >= h.denied || ahead > 0) {
		wait = h.retryAt - now + seconds((ahead-first)/h.limit.Rate)
	}
	if h.shape.Refills() && h.leased(now) && n <= h.burst {
		own := seconds(max(ahead+n-h.tokens, 0) / h.rate)
		if h.contended || own < wait {
			wait = own
		}
	}
	return max(wait, time.Millisecond)
}

// Remaining is how many tokens can be spent without asking.
func (h *Holder) Remaining(now time.Duration) float64 {
	h.advance(now)
	return h.tokens
}

// A Lease is what a Holder holds.
type Lease struct {
	Tokens  float64       // can be spent without asking
	Rate    float64       // tokens/s that it adds by itself
	Burst   float64       // most tokens it may hold; 0 is no lease
	Refills time.Duration // for how long it goes on to add
	Lives   time.Duration // for how long the tokens can be spent

	// What the holder could not use since NewHolder, in tokens.
	Spilt   float64 // added while it was full
	Expired float64 // held when the lease ended

	// Unclaimed were taken for callers who had gone when they came.
	Unclaimed float64
}

// Lease describes the lease.
func (h *Holder) Lease(now time.Duration) Lease {
	now = h.advance(now)
	l := Lease{Tokens: h.tokens, Spilt: h.spilt, Expired: h.expired, Unclaimed: h.unclaimed}
	if h.leased(now) {
		l.Rate, l.Burst, l.Refills, l.Lives = h.rate, h.burst, max(h.rateUntil-now, 0), h.expires-now
	}
	return l
}

// ResetAfter is how long the holder's own refill needs to fill its bucket, or
// 0 if it has none.
func (h *Holder) ResetAfter(now time.Duration) time.Duration {
	h.advance(now)
	if !h.shape.Refills() {
		return 0
	}
	return seconds((h.burst - h.tokens) / h.rate)
}

// Share is the rate, in tokens/s, that this process may go on with when the
// ledger is away, beside a lease that still refills: an equal part of the limit's
// Rate. fleet is how many processes there are if that is known from elsewhere, else 0:
// it counts if it is larger than the number that last used the key. Who knows neither
// has no share. (What each process last owned would add up to more: they
// heard of it at different times.)
func (h *Holder) Share(now time.Duration, fleet int) float64 {
	n := max(fleet, h.holders)
	if n == 0 {
		return 0
	}
	share := h.InForce().Rate / float64(n)
	if h.Running(now) {
		share = max(share-h.rate, 0)
	}
	return share
}

// Failures is the number of exchanges that failed since the last answer.
func (h *Holder) Failures() int { return h.failures }

// FailingSince is when the first of those did.
func (h *Holder) FailingSince() time.Duration { return h.failing }

// SetLimit declares another limit from the next request on. Those who wait for
// more than its Burst will never be served: they are resolved as Exceeding.
func (h *Holder) SetLimit(limit Limit) {
	if limit == h.limit {
		return
	}
	if limit.Rate > h.limit.Rate || limit.Burst > h.limit.Burst {
		h.retryAt = 0 // it was denied by the old one
	}
	if h.shape.Long() {
		h.refresh = min(h.refresh, h.last) // what it holds is of the old one
	}
	h.limit = limit
	h.turnAway(Exceeding, func(w *Waiter) bool { return w.N > float64(limit.Burst) })
}

// InForce is the limit in force as far as the holder knows: the one that it
// declares, or a lower one that others do.
func (h *Holder) InForce() Limit {
	if h.inForce != (Limit{}) && h.inForce.below(h.limit) {
		return h.inForce
	}
	return h.limit
}

// Running reports whether a lease is in force and refilling: no request is
// unanswered, and its rate has not ended.
func (h *Holder) Running(now time.Duration) bool {
	return h.running && h.shape.Refills() && now < h.rateUntil
}

// Idle reports whether the holder has nothing that the ledger should know
// about: no lease, no request under way, no one waiting. A denial may be
// forgotten: it only spares a call. So may the batch of a calm key: the ledger
// has debited it, and it lapses there by itself.
func (h *Holder) Idle(now time.Duration) bool {
	now = h.advance(now)
	return !h.out && h.queue.len() == 0 && (h.burst == 0 || h.shape.Lapses() || !h.leased(now))
}

// advance adds the refill until now and ends the lease when its time has come.
func (h *Holder) advance(now time.Duration) time.Duration {
	if now <= h.at {
		return h.at
	}
	h.refill(now)
	h.expire(now)
	return now
}

// refill adds what came until now, which is after h.at.
func (h *Holder) refill(now time.Duration) {
	if h.shape.Refills() && h.at < h.rateUntil {
		added := float64(h.rate * float64(float64(min(now, h.rateUntil)-h.at)*1e-9))
		if h.running {
			h.got += added
			h.hold(added)
		}
	}
	h.at = now
}

// expire ends the lease if its time has come.
func (h *Holder) expire(now time.Duration) {
	if !h.leased(now) {
		h.expired += h.tokens
		h.tokens = 0
	}
}

// hold adds tokens as far as there is room.
func (h *Holder) hold(tokens float64) {
	h.tokens += tokens
	if over := h.tokens - h.burst; over > 0 {
		h.tokens = h.burst
		h.spilt += over
	}
	h.peak = max(h.peak, h.tokens)
}

func (h *Holder) leased(now time.Duration) bool { return now < h.expires }

// Handle takes the answer to the outstanding request. A reply to any other is
// ignored: its tokens come back when the ledger sees that it was not accepted.
func (h *Holder) Handle(now time.Duration, r Reply) {
	now = h.advance(now)
	if !h.out || r.Seq != h.seq {
		return
	}
	if r.Stale {
		h.Fail(now)
		return
	}

	h.timed(now - h.sent)
	h.got, h.peak = r.Add, h.held+r.Add
	h.out, h.running, h.seen, h.failures, h.backoff, h.renew = false, true, r.Seq, 0, 0, 0
	h.shape, h.rate, h.burst, h.keep = r.Shape, r.Rate, r.Burst, r.Keep
	h.contended, h.dry, h.inForce = r.Contended, r.Dry, r.Limit
	h.holders = r.Holders
	refresh := r.Refresh
	if h.shape.Lapses() {
		refresh = refresh / 4 * 3 // not in vain: a request makes it ask, and another may come
	}
	h.refresh = h.sent + h.jitter(refresh)
	h.rateUntil = h.sent + early(r.RateUntil)
	h.expires = h.sent + early(r.Expires)
	h.retryAt = 0
	if retry := r.RetryAfter; retry > 0 {
		if h.InForce() != h.limit {
			// Under a lower limit that others declare it asks again: nobody
			// tells it when that has gone (TestDenialEndsWithTheLowerLimit).
			retry = min(retry, h.policy.MaxRefresh)
		}
		h.retryAt, h.denied = now+retry, h.first
		if r.Taken > 0 {
			h.denied = 1 // the pool gave all it had
		}
	}
	if h.leased(now) {
		h.hold(r.Add)
	} else {
		h.expired += h.tokens + r.Add
		h.tokens = 0 // so slow a reply is worth no more than a lost one (I2)
	}
	h.grant(r.Taken)
	switch {
	case h.queue.first() > float64(h.InForce().Burst):
		h.exceed(now)
	case now < h.retryAt:
		h.deny(now)
		h.yield(r)
	}
}

// timed takes how long an exchange took, as TCP estimates its round trips (RFC
// 6298): a division that follows each of them would change with each.
func (h *Holder) timed(d time.Duration) {
	if h.trip == 0 {
		h.trip = d
		return
	}
	h.off += ((d - h.trip).Abs() - h.off) / 4
	h.trip += (d - h.trip) / 8
}

// lag is how long an exchange may well take: the mean and two deviations.
func (h *Holder) lag() time.Duration { return h.trip + 2*h.off }

// grant serves the queue from the tokens taken for it, before those held.
func (h *Holder) grant(taken float64) {
	h.tokens += taken
	h.serve()
	if over := h.tokens - h.burst; over > 0 {
		h.tokens = h.burst // the rest was for some who have gone: it was never set aside
		h.unclaimed += over
	}
	h.peak = max(h.peak, h.tokens)
}

// Fail ends the outstanding request without an answer: the timeout has passed
// or the connection broke. Those who wait get Unavailable, but for the patient,
// who wait for the next one.
func (h *Holder) Fail(now time.Duration) {
	now = h.advance(now)
	if !h.out {
		return
	}
	h.out = false
	if h.failures == 0 {
		h.failing = now
	}
	h.failures++
	pause := h.jitter(min(minBackoff<<min(h.failures-1, 10), maxRenew))
	h.backoff, h.renew = now+min(pause, maxBackoff), now+pause
	h.turnAway(Unavailable, impatient)
	h.arm(now)
}

func early(d time.Duration) time.Duration { return d - time.Duration(float64(d)*drift) }

// jitter shortens d by up to an eighth, so that processes that started
// together do not stay together.
func (h *Holder) jitter(d time.Duration) time.Duration {
	h.random += 0x9e3779b97f4a7c15 // splitmix64
	z := h.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return d - time.Duration(float64(d)/8*float64(z>>11)/(1<<53))
}

// seconds converts s to a Duration, rounded up, and at most MaxFill.
func seconds(s float64) time.Duration {
	return time.Duration(math.Ceil(min(s, MaxFill.Seconds()) * 1e9))
}

// Outstanding is the Seq of the request that is out, or 0.
func (h *Holder) Outstanding() uint64 {
	if !h.out {
		return 0
	}
	return h.seq
}
