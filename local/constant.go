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

// constant reports whether the limit is one of these, and its verdict.
func constant(limit lease.Limit) (lease.Verdict, bool) {
	switch limit {
	case Unlimited:
		return lease.Admitted, true
	case Blocked:
		return lease.Denied, true
	}
	return 0, false
}

// holderLimit is the limit for the holder of an entry that may have no use for it.
func holderLimit(limit lease.Limit) lease.Limit {
	if _, ok := constant(limit); ok {
		return lease.Limit{Rate: lease.MaxRate, Burst: lease.MaxBurst}
	}
	return limit
}

// Constant reports whether the entry's limit is Unlimited or Blocked, and the verdict.
func (e *Entry) Constant() (lease.Verdict, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return constant(e.limit)
}

// takeConstantLocked decides by such a limit.
func (e *Entry) takeConstantLocked(now time.Duration, n float64) Result {
	e.used = now
	v, _ := constant(e.limit)
	if v == lease.Admitted {
		e.count.Lease.admit(n)
	} else {
		e.count.Lease.deny(n)
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
