package lease

import (
	"math"
	"time"
)

// Poll serves those who wait, and returns the request to deliver, if there is
// one. It must be answered by exactly one Handle or Fail. Call it after Handle
// and Fail, when Due says so after Take, and at the time Wake.
func (h *Holder) Poll(now time.Duration) (Request, bool) {
	ask, quit := h.consider(now)
	if !ask {
		return Request{}, false
	}
	return h.request(h.at, quit), true
}

// Wants does what Poll does, but for the request: it reports whether there is
// one to make, and whether anybody waits for the answer. It is for callers that
// cannot deliver it at once. They call Poll when they can, or PutOff.
func (h *Holder) Wants(now time.Duration) (ask, urgent bool) {
	ask, _ = h.consider(now)
	return ask, h.queue.len() > 0
}

// consider serves those who wait, decides whether to ask, and if not, when to
// consider it again.
func (h *Holder) consider(now time.Duration) (ask, quit bool) {
	now = h.advance(now)
	h.serve()
	h.measure(now)
	if ask, quit = h.reason(now); !ask {
		h.arm(now)
	}
	return ask, quit
}

// PutOff is for when what Poll would ask cannot be delivered: it asks again
// after a pause, or when Probe says so. All who wait are resolved as Unavailable.
func (h *Holder) PutOff(now time.Duration) {
	now = h.advance(now)
	h.probe = false
	h.renew = max(h.renew, now+h.jitter(putOff))
	h.Dismiss(now)
	h.arm(now)
}

// measure brings the meter to now. Two looks at the same request are one: time
// between them is not time in which nothing came.
func (h *Holder) measure(now time.Duration) {
	if h.meter.at <= now && now < h.meter.at+atOnce {
		return
	}
	arriving := 0.0
	if now-h.last < atOnce && h.meter.calls > 0 {
		arriving = h.lastN
	}
	h.meter.fold(now, arriving)
}

// Owes reports whether there is anything to hand back, and no request is out.
func (h *Holder) Owes(now time.Duration) bool {
	now = h.advance(now)
	return !h.out && h.burst > 0 && h.leased(now)
}

// Quit returns the request that hands everything back, if there is anything
// and no request is out. It must be answered like any other.
func (h *Holder) Quit(now time.Duration) (Request, bool) {
	if !h.Owes(now) {
		return Request{}, false
	}
	now = h.at
	q := h.request(now, true)
	h.burst, h.expires = 0, now // whether or not the request arrives
	return q, true
}

// Dismiss ends the wait of all who wait, as Unavailable.
func (h *Holder) Dismiss(now time.Duration) {
	h.advance(now)
	h.turnAway(Unavailable, func(*Waiter) bool { return true })
}

// Probe makes the next Poll ask, though nobody waits: now, or when the pause
// after exchanges that failed is over.
func (h *Holder) Probe(now time.Duration, atOnce bool) {
	now = h.advance(now)
	h.probe = true
	if atOnce {
		h.backoff, h.renew = 0, 0
	}
	h.arm(now)
}

// reason decides whether to ask now, and whether to give everything back.
func (h *Holder) reason(now time.Duration) (ask, quit bool) {
	if h.out || now < h.backoff {
		return false, false
	}
	if h.queue.len() > 0 && (now >= h.retryAt || h.queue.first() < h.denied) {
		return true, false
	}
	if now < h.renew {
		return false, false
	}
	if h.probe {
		return true, false
	}
	if h.burst == 0 || !h.leased(now) {
		return false, false // nothing to renew or to return: the next request will ask
	}
	switch {
	case now >= h.silentAt():
		return true, true
	case now >= h.refresh && h.shape.Lapses():
		return h.last >= h.refresh, false
	case now >= h.refresh:
		return true, h.unused() && h.queue.len() == 0
	case now < max(h.sent+lowPause, h.retryAt):
		return false, false
	}
	return h.low(), false
}

// unused reports whether less than a request is to be expected before the longest
// Refresh: a lease would cost more calls than it saves.
func (h *Holder) unused() bool {
	return h.meter.demand()*h.policy.MaxRefresh.Seconds() < h.meter.cost
}

// low reports whether a plain batch is nearly used up, or a slice that is lent for
// long, by requests that came since it asked: while there is none to be had, it
// does not ask again and again. It is renewed ahead of need; another share
// refills itself.
func (h *Holder) low() bool {
	return h.shape.RunsLow() && h.keep > 0 && h.tokens <= h.keep*lowWater && h.last > h.sent
}

// silentAt is when silence says that the traffic has gone elsewhere, where
// somebody may miss what is held here, or it is held for long.
func (h *Holder) silentAt() time.Duration {
	if !h.contended && h.shape != LongSlice || h.asked == 0 || h.burst == 0 || h.queue.len() > 0 {
		return math.MaxInt64
	}
	pause := max(quiet, h.lag()) // it could not be back with somebody else before
	if h.shape.Long() {
		pause = h.policy.MaxRefresh
	}
	return h.last + max(seconds(silence*h.meter.cost/h.asked), pause)
}

// arm sets the time and the count at which Poll has something to do.
func (h *Holder) arm(now time.Duration) {
	h.alarm = math.Inf(1)
	h.wake, h.look = math.MaxInt64, math.MaxInt64
	if h.out {
		return // Handle or Fail comes first
	}
	if h.burst > 0 && h.leased(now) {
		h.armLease(now)
	}
	if h.probe {
		h.look = now
	}
	h.wake, h.look = max(h.wake, h.renew), max(h.look, h.renew)
	if h.queue.len() > 0 {
		ask := now
		if h.queue.first() >= h.denied {
			ask = max(h.retryAt, now)
		}
		if need := h.queue.first() - h.tokens; h.Running(now) && need <= h.burst-h.tokens {
			ask = min(ask, now+seconds(need/h.rate)+1)
		}
		h.wake = min(h.wake, ask)
	}
	h.wake, h.look = max(h.wake, h.backoff), max(h.look, h.backoff)
}

// armLease is arm for the lease in force.
func (h *Holder) armLease(now time.Duration) {
	if h.shape.Long() {
		h.look = now + h.policy.MaxRefresh // the limit may have changed meanwhile
	}
	if h.shape.Lapses() {
		h.look = min(h.look, h.refresh)
	} else {
		h.wake = min(h.refresh, h.silentAt())
	}
	if h.shape.RunsLow() && h.keep > 0 {
		h.alarm = h.meter.count + max(h.tokens-float64(h.keep*lowWater), 0)
	}
	if early := max(h.sent+lowPause, h.retryAt, h.renew); h.alarm < h.meter.count+h.meter.cost && now < early {
		h.alarm = math.Inf(1) // there is cause to ask already, but not yet leave
		if h.shape.Lapses() {
			h.look = min(h.look, early)
		} else {
			h.wake = min(h.wake, early)
		}
	}
}
