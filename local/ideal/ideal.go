package ideal

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// An Ideal is an exact central limit of a key: what a limiter would do that asked for each
// request and got its answer in no time. It begins with all its tokens. Callers who wait
// take tokens that have not come yet, in order of arrival. Times must not go back.
type Ideal interface {
	// Fits reports whether n tokens are there, or will be in time. Take takes them then. Slots
	// come back after hold.
	Fits(at time.Duration, n float64) bool
	Take(at time.Duration, n float64, hold time.Duration) bool

	// SetLimit changes the limit, to one of the same kind and windows. Tokens
	// for which a lowered one has no room are lost.
	SetLimit(at time.Duration, limit lease.Limit)

	// Tokens is how many there are, and Level sets that, as far as they fit. A sliding window
	// and slots go on from what the Gauge of a fleet has seen admitted instead, if one is given:
	// it matters when tokens come back as well.
	Tokens(at time.Duration) float64
	Level(at time.Duration, tokens float64, fleet Gauge)

	// Spilt is how many tokens were lost until at: demand was too small for them.
	Spilt(at time.Duration) float64
}

// A Gauge measures by how many tokens the worst window of a key exceeds its limit, or how many
// more slots are in use than there are.
type Gauge interface {
	// Pour adds n tokens that were admitted at a time from from to at, the time now, and
	// returns the excess of the worst window that ends now, below zero if none exceeds. Of
	// from, what has a Window makes use: tokens count at the moment between at which the excess
	// is least. Slots come back after hold; the same with an n below zero takes back those that
	// do so earlier.
	Pour(from, at time.Duration, n float64, hold time.Duration) float64

	SetLimit(at time.Duration, limit lease.Limit)

	// Copy returns another Gauge that goes on from here.
	Copy() Gauge
}
