package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// tries is what an entry keeps for requests that never wait. Where only the ledger can
// tell, a Waiter asks in place of such a request, whose caller has its answer already.
// What that Waiter gets is for the next such request.
type tries struct {
	waiter  *Waiter       // that asks now
	until   time.Duration // what it gets may be used, see resolvedLocked
	fetched float64       // tokens
}

// Try is a Take that never waits, nor leaves a Waiter. Its verdict is Pending where only
// the ledger can tell: then the ledger is asked for these tokens, and a Try within the
// timeout of an exchange may have them. That is how long a granted token may be under way
// (I1).
func (e *Entry) Try(now time.Duration, n float64, away bool) Result {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fetchedLocked(now, n) {
		return Result{Verdict: lease.Admitted}
	}
	r := e.askLocked(now, n, 0, away, nil)
	if r.Waiter == nil {
		return r
	}
	if t := &e.extraLocked().tries; t.waiter == nil && !e.stray {
		*t = tries{waiter: r.Waiter, until: now + e.common.timeout}
	} else if e.holder.Withdraw(now, &r.Waiter.waiter) {
		e.leftLocked(r.Waiter)
	}
	r.Waiter = nil
	return r
}

// fetchedLocked takes n tokens of those that were got for such requests, if there are so many.
func (e *Entry) fetchedLocked(now time.Duration, n float64) bool {
	if e.extra == nil || e.life != inUse {
		return false
	}
	t := &e.extra.tries
	if now >= t.until {
		t.fetched = 0
	}
	if n == 0 || n > t.fetched {
		return false
	}
	t.fetched -= n
	e.useLocked(now)
	e.ledgerLocked(n, true)
	return true
}

// resolvedLocked takes the verdict of a Waiter that asked in place of a request, and
// reports whether it was one. What it got may be used for a timeout after it entered or, if it
// waited behind another exchange, after its own left; but not beyond a quota's window.
func (e *Entry) resolvedLocked(w *Waiter) bool {
	if e.extra == nil || w != e.extra.tries.waiter {
		return false
	}
	t := &e.extra.tries
	t.waiter = nil
	if w.Verdict() == lease.Admitted {
		t.fetched = w.waiter.N
		t.until = min(max(t.until, e.holder.Sent()+e.common.timeout), e.holder.Until())
	}
	return true
}

// giveUpLocked ends the asking for those that never wait: nobody else would.
func (e *Entry) giveUpLocked(now time.Duration) {
	if e.extra == nil {
		return
	}
	if w := e.extra.tries.waiter; w != nil && e.holder.Withdraw(now, &w.waiter) {
		e.leftLocked(w)
		e.extra.tries.waiter = nil
	}
}
