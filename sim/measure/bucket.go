package main

import (
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// bucket is an exact central token bucket: what a limiter would do that asked
// Redis for each request and got its answer in no time.
type bucket struct {
	limit  hybrid.Limit
	tokens float64
	at     time.Duration // tokens are counted up to here
}

func newBucket(limit hybrid.Limit) *bucket {
	return &bucket{limit: limit, tokens: float64(limit.Burst)}
}

// take takes n tokens if they are there. Times must not go back.
func (b *bucket) take(at time.Duration, n float64) bool {
	b.tokens = min(b.tokens+b.limit.Rate*(at-b.at).Seconds(), float64(b.limit.Burst))
	b.at = at
	if b.tokens < n {
		return false
	}
	b.tokens -= n
	return true
}

// gauge measures the worst window at a constant cost per admission. Admitted
// tokens pour into a vessel that leaks at Rate; its level is the largest
// admitted - Rate*T of all windows T that end now, and what stands above Burst
// is the excess over Burst + Rate*T.
type gauge struct {
	limit hybrid.Limit
	level float64
	at    time.Duration
}

// pour adds n admitted tokens and returns the excess of the worst window that
// ends now, below zero if none exceeds. Times must not go back.
func (g *gauge) pour(at time.Duration, n float64) float64 {
	g.level = max(g.level-g.limit.Rate*(at-g.at).Seconds(), 0) + n
	g.at = at
	return g.level - float64(g.limit.Burst)
}
