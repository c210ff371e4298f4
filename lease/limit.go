package lease

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Limit is a token bucket, or a limit of another Kind.
//
// A bucket holds Burst tokens, and Rate of them flow in each second. Over any window of T
// seconds it lets Burst + Rate*T tokens through. A quota lets Burst tokens through in each
// window of the calendar, a sliding window in any time of that length. Slots let Burst tokens
// be in use at a time.
type Limit struct {
	// Rate is the refill of a bucket in tokens per second, above 0 and at most MaxRate. It
	// is 0 for other kinds.
	Rate float64
	// Burst is the most tokens at once, whole ones, 1 to MaxBurst: what a bucket holds, or
	// a quota or a sliding window, or how many slots there are.
	Burst int64

	// Kind is KindBucket by default.
	Kind Kind
	// Window is how long windows are, from 1 s to 10 years, in whole seconds. Those of a quota
	// are counted from 1970-01-01 0:00, weeks from a Monday; Month stands for those of the
	// calendar. It is 0 for a bucket and for slots.
	Window time.Duration
	// Offset is by how much the calendar of a quota is ahead of UTC, from -14 h to 14 h, in
	// whole seconds: its days begin at 0:00 there.
	Offset time.Duration
}

const (
	// MaxRate is the largest Rate, in tokens per second. Slices of a rate are multiples
	// of 2^-20 tokens per second. Up to here the sum of all slices is exact in a
	// float64, Lua's only number.
	MaxRate = 1 << 32

	// MaxBurst is the largest Burst, in tokens. A float64 near 2^32 resolves
	// less than a millionth of a token.
	MaxBurst = 1 << 32

	// MaxFill is the longest time that an empty bucket may take to fill,
	// Burst/Rate. It bounds the life of a key in Redis.
	MaxFill = 10 * 365 * 24 * time.Hour
)

// ErrInvalidLimit is wrapped by the error of every Limit that is refused.
var ErrInvalidLimit = errors.New("invalid limit")

// Per returns a Limit of n tokens each d, with a Burst of n rounded up.
// It does not check its arguments; Validate does.
func Per(n float64, d time.Duration) Limit {
	return Limit{Rate: n / d.Seconds(), Burst: int64(math.Ceil(min(max(n, 0), MaxBurst+1)))}
}

// WithBurst returns the same Rate with another Burst, in tokens.
func (l Limit) WithBurst(burst int64) Limit {
	l.Burst = burst
	return l
}

// Validate returns an error that names the field and its value, and wraps
// ErrInvalidLimit, unless Rate and Burst are within their ranges.
func (l Limit) Validate() error {
	if l.Kind > KindSliding {
		return fmt.Errorf("lease: %w: Kind %v is not a known kind", ErrInvalidLimit, l.Kind)
	}
	return l.Kind.of().validate(l)
}

// validateBurst is Validate for Burst.
func (l Limit) validateBurst() error {
	if l.Burst < 1 || l.Burst > MaxBurst {
		return fmt.Errorf("lease: %w: Burst %d is not from 1 to %d tokens", ErrInvalidLimit, l.Burst, int64(MaxBurst))
	}
	return nil
}

// String reads "100/s burst 20", "10000/day", "500 slots", or "100 in any minute".
func (l Limit) String() string { return l.Kind.of().text(l) }

// Mean is the rate at which the limit lets tokens through if it is used up all the time, in
// tokens/s. It is the Rate of a bucket. For a quota or a sliding window it is Burst by the length
// of the window, and for slots 0.
func (l Limit) Mean() float64 {
	if l.Window > 0 {
		return float64(l.Burst) / l.Window.Seconds()
	}
	return l.Rate
}

// numbers are those of a Limit that the lowest one of several is found by.
type numbers struct {
	rate  float64
	burst int64
}

func (l Limit) numbers() numbers { return numbers{l.Rate, l.Burst} }

// lowest is l with the lower Rate and the lower Burst of both. Zero is none.
func (l Limit) lowest(x numbers) Limit {
	if x.rate > 0 {
		l.Rate = min(l.Rate, x.rate)
	}
	if x.burst > 0 {
		l.Burst = min(l.Burst, x.burst)
	}
	return l
}

// below is what of n is lower than in x. The rest is zero.
func (n numbers) below(x numbers) numbers {
	if n.rate >= x.rate {
		n.rate = 0
	}
	if n.burst >= x.burst {
		n.burst = 0
	}
	return n
}

// resolution is the number of steps in one token per second: rates and demands
// are cut to multiples of 1/resolution, so that their sums have no rounding and
// removing what was added leaves nothing behind (I4). Bursts are, too: a holder
// may keep a part of a token.
const resolution = 1 << 20

// quantize returns the largest multiple that is not above x.
func quantize(x float64) float64 {
	return float64(math.Floor(x*resolution) / resolution)
}

// above returns the smallest multiple that is not below x.
func above(x float64) float64 {
	return float64(math.Ceil(x*resolution) / resolution)
}
