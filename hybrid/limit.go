package hybrid

import (
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// Limit is a token bucket, which starts full. Over any window of T seconds it lets
// Burst + Rate*T tokens through. Or it is Unlimited or Blocked.
//
// It is comparable. Package lease calls the same bucket lease.Limit; each converts to
// the other.
type Limit struct {
	// Rate is how many tokens flow in each second, above 0 and at most 2^32.
	Rate float64
	// Burst is how many tokens fit, 1 to 2^32. More than that at once is never
	// admitted. An empty bucket must be full after 10 years at most.
	Burst int64
}

var (
	// Unlimited admits everything, also in an outage, and never asks the store. A
	// Decision has its fields, and they suit headers: an infinite Rate, and a Burst of
	// 999,999,999,999,999, which is Remaining as well.
	Unlimited = Limit(local.Unlimited)

	// Blocked admits nothing, also in an outage, and never asks the store. A Decision
	// has its fields: a Rate of nearly 0, and a Burst of 0. RetryAfter is a minute, as
	// nobody knows when it ends. Wait returns ErrExceedsBurst at once.
	Blocked = Limit(local.Blocked)
)

// Policy says how the bucket is divided among processes; the zero Policy is a
// good one. See lease.Policy for its fields; `go run ./sim` shows what they do.
type Policy = lease.Policy

// PerSecond returns a Limit of n tokens each second, with a Burst of n rounded up.
func PerSecond(n float64) Limit { return Per(n, time.Second) }

// PerMinute returns a Limit of n tokens each minute, with a Burst of n rounded up.
func PerMinute(n float64) Limit { return Per(n, time.Minute) }

// PerHour returns a Limit of n tokens each hour, with a Burst of n rounded up.
func PerHour(n float64) Limit { return Per(n, time.Hour) }

// Per returns a Limit of n tokens each d, with a Burst of n rounded up. It does not
// check its arguments; New does, or Validate.
func Per(n float64, d time.Duration) Limit { return Limit(lease.Per(n, d)) }

// WithBurst returns the same Rate with another Burst, in tokens.
func (l Limit) WithBurst(burst int64) Limit {
	l.Burst = burst
	return l
}

// Validate returns an error that names the field and its value, and wraps
// ErrInvalidLimit, unless Rate and Burst are within their ranges, or l is Unlimited or
// Blocked.
func (l Limit) Validate() error {
	if l == Unlimited || l == Blocked {
		return nil
	}
	return lease.Limit(l).Validate()
}

// String reads "100/s burst 20", "unlimited" or "blocked".
func (l Limit) String() string {
	switch l {
	case Unlimited:
		return "unlimited"
	case Blocked:
		return "blocked"
	}
	return lease.Limit(l).String()
}
