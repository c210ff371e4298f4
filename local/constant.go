package local

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// Unlimited and Blocked are limits that no ledger has: an Entry admits all by the first
// one, and nothing by the second. Their fields are what such a bucket comes closest to.
var (
	// Its Burst is the largest integer of an HTTP field (RFC 9651).
	Unlimited = lease.Limit{Rate: math.Inf(1), Burst: 999_999_999_999_999}
	Blocked   = lease.Limit{Rate: math.SmallestNonzeroFloat64}
)

// blockedRetry is the RetryAfter of Blocked. Nobody knows when it ends.
const blockedRetry = time.Minute

// A fixed is one of these, or none.
type fixed uint8

const (
	leased fixed = iota // the limit is the holder's
	unlimited
	blocked
)

func fixedOf(limit lease.Limit) fixed {
	switch limit {
	case Unlimited:
		return unlimited
	case Blocked:
		return blocked
	}
	return leased
}

// verdict is that of such a limit, if it is one.
func (f fixed) verdict() (v lease.Verdict, ok bool) {
	if f == blocked {
		return lease.Denied, true
	}
	return lease.Admitted, f == unlimited
}

// limitLocked is the key's limit as last declared.
func (e *Entry) limitLocked() lease.Limit {
	switch e.fixed {
	case unlimited:
		return Unlimited
	case blocked:
		return Blocked
	}
	return e.holder.Declared()
}

// holderLimit is the limit for the holder of an entry that may have no use for it.
func holderLimit(limit lease.Limit) lease.Limit {
	if fixedOf(limit) != leased {
		return lease.Limit{Rate: lease.MaxRate, Burst: lease.MaxBurst}
	}
	return limit
}

// Constant reports whether the entry's limit is Unlimited or Blocked, and the verdict.
func (e *Entry) Constant() (lease.Verdict, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.fixed.verdict()
}

// takeConstantLocked decides by such a limit.
func (e *Entry) takeConstantLocked(now time.Duration, n float64) Result {
	e.used = now
	v, _ := e.fixed.verdict()
	if v == lease.Admitted {
		e.count.admit(n)
	} else {
		e.denyLocked(n)
	}
	return Result{Verdict: v, Due: e.limitDueLocked(now)}
}

// constantState is the State of an entry with such a limit.
func constantState(limit lease.Limit) State {
	if limit == Blocked {
		return State{RetryAfter: blockedRetry, Limit: limit}
	}
	return State{Level: limit.Burst, Held: limit.Burst, Limit: limit}
}
