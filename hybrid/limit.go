package hybrid

import (
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// Limit is a token bucket, a quota, a sliding window, slots, Unlimited or Blocked. At most
//
//   - Burst + Rate*T tokens of a bucket are admitted over any window of T seconds; it starts full,
//   - Burst tokens of a quota in each window of the calendar,
//   - Burst tokens of a sliding window in any time of its length,
//   - Burst slots are in use at once.
//
// See "Which limit?" (docs/which-limit.md).
//
// It is comparable. Package lease calls the same limit lease.Limit; each converts to
// the other.
type Limit struct {
	// Rate is how many tokens flow into a bucket in each second, above 0 and at most 2^32.
	// It is 0 for other kinds.
	Rate float64
	// Burst is how many tokens a bucket holds, a quota or a sliding window has, or how many
	// slots there are: 1 to 2^32. More than that at once is never admitted. An empty bucket must
	// be full after 10 years at most.
	Burst int64

	// Kind is KindBucket by default. Per, Quota, Slots and Sliding set it.
	Kind Kind
	// Window is how long windows are. It is 0 for a bucket and for slots.
	Window time.Duration
	// Offset is by how much a quota's calendar is ahead of UTC, see In.
	Offset time.Duration
}

// Kind is what a Limit promises.
type Kind = lease.Kind

const (
	// KindBucket is a token bucket.
	KindBucket = lease.KindBucket
	// KindQuota is a quota.
	KindQuota = lease.KindQuota
	// KindSlots is slots, for Limiter.Acquire.
	KindSlots = lease.KindSlots
	// KindSliding is a sliding window.
	KindSliding = lease.KindSliding
)

// Windows of a quota. Weeks begin on Mondays. Month stands for those of the calendar, of 28
// to 31 days; as a duration it is their mean length.
const (
	Minute = time.Minute
	Hour   = time.Hour
	Day    = lease.Day
	Week   = lease.Week
	Month  = lease.Month
)

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

// Quota returns a Limit of n tokens in each window of the calendar: Minute, Hour, Day, Week,
// Month, or another one of 1 s to 10 years in whole seconds, counted from 1970-01-01 0:00. The
// calendar is that of UTC (see In), by the clock of the store. It does not check its
// arguments; New does, or Validate.
//
// At most n tokens are admitted in a window, whatever messages are lost or late and whichever
// processes crash. If the store loses its data, one more n may be. Two windows meet at a
// boundary: n may be admitted before it, and n after it.
func Quota(n int64, window time.Duration) Limit {
	return Limit{Burst: n, Kind: KindQuota, Window: window}
}

// Slots returns a Limit of n slots, for [Limiter.Acquire]: at most n are in use under live leases
// at any time, whatever messages are lost or late and whichever processes crash. If the store
// loses its data, n more may be, until the jobs of then are done. It does not check its
// argument; New does, or Validate.
func Slots(n int64) Limit { return Limit{Burst: n, Kind: KindSlots} }

// Sliding returns a Limit of n tokens in any time of length window, 1 s to 10 years in whole
// seconds. It does not check its arguments; New does, or Validate.
//
// At most n tokens are admitted in any window, wherever it begins, whatever messages are lost or
// late and whichever processes crash. If the store loses its data, one more n may be.
//
// A process keeps its part of n for as long as it needs it: what it has spent it may spend again
// when the window has passed, without asking. When there is more demand than n, the limit admits
// 60/61 of n in the long run.
func Sliding(n int64, window time.Duration) Limit {
	return Limit{Burst: n, Kind: KindSliding, Window: window}
}

// In returns the same quota by the calendar of a zone that is so much ahead of UTC, from -14 h
// to 14 h in whole seconds: its days begin at 0:00 there.
//
// A zone with summer time has two offsets. With the one of winter the quota is exact all year, and
// its days begin at 1:00 in summer. To have them begin at 0:00, let [Config.LimitFor] return the
// offset that holds:
//
//	zone, err := time.LoadLocation("Europe/Berlin") // once, not in LimitFor
//	...
//	_, seconds := time.Now().In(zone).Zone()
//	return hybrid.Quota(10_000, hybrid.Day).In(time.Duration(seconds) * time.Second)
//
// What was used under one offset counts under the next until its window ends: in spring until 1:00
// of the next day, and in autumn until 23:00, from when up to n more are admitted. A process that
// has changed is denied until no other one has a lease by the offset before, for Policy.MaxHold at
// most if that one does not use the key any more.
func (l Limit) In(offset time.Duration) Limit {
	l.Offset = offset
	return l
}

// WithBurst returns the same Rate with another Burst, in tokens.
func (l Limit) WithBurst(burst int64) Limit {
	l.Burst = burst
	return l
}

// Validate returns nil if l is Unlimited or Blocked, or if the fields of its Kind are within their
// ranges and the others are 0. Otherwise it returns an error that names the field and its value,
// and wraps [ErrInvalidLimit].
func (l Limit) Validate() error {
	if l == Unlimited || l == Blocked {
		return nil
	}
	return lease.Limit(l).Validate()
}

// String reads "100/s burst 20", "10000/day", "500 slots", "100 in any minute", "unlimited" or
// "blocked".
func (l Limit) String() string {
	switch l {
	case Unlimited:
		return "unlimited"
	case Blocked:
		return "blocked"
	}
	return lease.Limit(l).String()
}
