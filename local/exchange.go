package local

import (
	"errors"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// probe makes a request due, though nobody waits for it. It reports whether that is news,
// as ready does; until the next request or putOff, ready does not say so again.
func (e *Entry) probe(now time.Duration) (ask bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	if e.life == gone {
		return false
	}
	e.holder.Probe(now, true)
	return e.readyLocked(now).Ask && e.wantLocked(renewal)
}

// ready serves waiters and ends an exchange that has taken too long. ask says that a request is
// due, and that no ready has said so since the last request. urgent says that somebody waits for
// the request. After ask call request when it can be delivered, or putOff. wake is when to call
// ready again, or math.MaxInt64 for never. It does not count the timeout of an exchange: the
// caller that delivers the exchange watches its timeout.
func (e *Entry) ready(now time.Duration) (ask, urgent bool, wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	wake = math.MaxInt64
	if !e.attendLocked(now) {
		return false, false, wake
	}
	if e.life == closing {
		if ask = e.holder.Owes(now); !ask && e.holder.Outstanding() == 0 {
			wake = e.restLocked(now)
		}
	} else {
		r := e.readyLocked(now)
		ask, urgent, wake = r.Ask, r.Urgent, e.lookLocked(r.Wake)
	}
	if !ask {
		return false, false, wake
	}
	want := renewal
	if urgent {
		want = waited
	}
	return e.wantLocked(want), urgent, wake
}

// wantLocked notes that a request is wanted, and reports whether that was not known.
func (e *Entry) wantLocked(want uint8) (news bool) {
	news = want > e.wanted
	e.wanted = max(e.wanted, want)
	return news
}

// What a ready since the last request has said.
const (
	nothing = uint8(iota)
	renewal
	waited
)

// request does what ready does, and makes the request that is due by now, if any. Its exchange
// ends with answer, or with a ready after the timeout: wake counts the timeout.
func (e *Entry) request(now time.Duration) (q lease.Request, ok bool, wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = nothing
	if !e.attendLocked(now) {
		return q, false, math.MaxInt64
	}
	var r lease.Ready
	if e.life == inUse {
		if r = e.readyLocked(now); r.Ask {
			q, ok = e.holder.Request(now)
		}
	} else if e.holder.Outstanding() == 0 {
		if q, ok = e.holder.Quit(now); !ok {
			return q, false, e.restLocked(now)
		}
	}
	if ok {
		e.lent.refills = min(e.lent.refills, now) // it adds nothing until there is an answer
		if x := e.extra; x != nil && x.name != nil {
			x.name.sign(&q)
			x.signed = q.Seq
		}
	}
	return q, ok, e.wakeLocked(r)
}

// putOff is for a due request that cannot be delivered. All waiters are sent away as Unavailable.
// wake is when to call ready again. An entry that is closing ends, unless it has a debt: its lease
// will end by itself.
func (e *Entry) putOff(now time.Duration) (wake time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	e.wanted = nothing
	if e.life == gone {
		return math.MaxInt64
	}
	if e.life == closing && e.holder.Outstanding() == 0 {
		return max(e.restLocked(now), now+ProbeInterval)
	}
	e.holder.PutOff(now)
	e.tellLocked()
	return e.wakeLocked(e.readyLocked(now))
}

// attendLocked brings the entry to now, and reports whether it is in use.
func (e *Entry) attendLocked(now time.Duration) bool {
	e.settleLocked(now)
	if e.life == gone {
		return false
	}
	if e.holder.Outstanding() != 0 && now >= e.holder.Sent()+e.common.timeout {
		e.failLocked(now)
	}
	return true
}

// failLocked ends the outstanding request without an answer. When that was the last
// of a few, nobody waits for another one.
func (e *Entry) failLocked(now time.Duration) {
	e.holder.Fail(now)
	e.tellLocked()
	e.giveUpLocked(now)
	if e.failing() {
		e.holder.Dismiss(now)
	}
	e.readyLocked(now)
}

// wakeLocked is when the entry wants attention next, after its holder said r.
func (e *Entry) wakeLocked(r lease.Ready) time.Duration {
	if e.holder.Outstanding() != 0 {
		return e.lookLocked(e.holder.Sent() + e.common.timeout)
	}
	return e.lookLocked(r.Wake)
}

// lookLocked is wake, or when the lease of jobs ends if that is earlier, or when the limit
// may have changed while somebody waits in Wait or Acquire: nothing else may happen for long
// then. Others wait for an exchange.
func (e *Entry) lookLocked(wake time.Duration) time.Duration {
	if len(e.jobsLocked()) > 0 && e.holder.Reserving() > 0 {
		wake = min(wake, e.holder.Expires())
	}
	if e.patient > 0 {
		return min(wake, e.recheck)
	}
	return wake
}

// answer ends the exchange of q with a reply, or, if err is not nil, without.
// Then call ready. It reports whether the answer came in time.
func (e *Entry) answer(now time.Duration, q lease.Request, r lease.Reply, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	seq := e.holder.Outstanding()
	if x := e.extra; x != nil && x.name != nil {
		if q.Seq != x.signed {
			return false
		}
		r.Seq = seq
	} else if q.Seq != seq {
		return false
	}
	if e.life == gone || seq == 0 {
		return false
	}
	e.refused = errors.Is(err, lease.ErrRefused) || errors.Is(err, lease.ErrUnable)
	if err == nil && now < e.holder.Sent()+e.common.timeout {
		e.holder.Handle(now, r)
		e.lentLocked(now, r)
		e.heard = max(now, 1)
		e.tellLocked()
		e.readyLocked(now)
		return true
	}
	e.failLocked(now)
	return err != nil
}

// lentLocked notes the lease of an answer, unless it has ended on the way: then it is none.
func (e *Entry) lentLocked(now time.Duration, r lease.Reply) {
	sent := e.holder.Sent()
	ends := sent + min(r.Expires, lease.MaxFill)
	if r.Burst > 0 && now >= ends {
		return
	}
	e.lent = term{from: now, ends: ends, size: r.Burst}
	if r.Shape.Refills() {
		e.lent.refills, e.lent.rate = sent+min(r.RateUntil, lease.MaxFill), r.Rate
	}
}

// readyLocked asks what the holder wants, and wakes those whose verdict has come.
func (e *Entry) readyLocked(now time.Duration) lease.Ready {
	r := e.holder.Ready(now)
	e.endJobsLocked(now, false)
	for _, x := range r.Resolved {
		e.leftLocked(x.Tag.(*Waiter))
		if e.resolvedLocked(x.Tag.(*Waiter)) {
			continue
		}
		switch x.Verdict {
		case lease.Admitted:
			if j := x.Tag.(*Waiter).job; j != nil {
				e.beginLocked(j, x.Reserved)
			}
			if x.Hold == 0 || x.Tag.(*Waiter).job != nil { // else it is counted when it is used
				e.ledgerLocked(x.N, true)
			}
		case lease.Denied:
			e.ledgerLocked(x.N, false)
		}
		close(x.Tag.(*Waiter).done)
		e.settled++
	}
	return r
}
