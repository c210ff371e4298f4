package measure

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Bucket is an exact central token bucket: what a limiter would do that asked
// for each request and got its answer in no time. It starts full. Callers who
// wait take tokens that have not come yet, in order of arrival.
type Bucket struct {
	limit  lease.Limit
	wait   float64       // seconds
	tokens float64       // below 0 while some wait
	at     time.Duration // tokens are counted up to here
	spilt  float64
}

// NewBucket returns a full Bucket at time at, whose callers wait up to patience.
func NewBucket(at time.Duration, limit lease.Limit, patience time.Duration) *Bucket {
	return &Bucket{limit: limit, wait: patience.Seconds(), tokens: float64(limit.Burst), at: at}
}

// Take takes n tokens if they are there, or will be in time.
func (b *Bucket) Take(at time.Duration, n float64) bool {
	b.refill(at)
	if b.tokens+float64(b.wait*b.limit.Rate) < n {
		return false
	}
	b.tokens -= n
	return true
}

// SetLimit changes the limit from at on. What is above a lowered Burst is lost.
func (b *Bucket) SetLimit(at time.Duration, limit lease.Limit) {
	b.refill(at)
	b.limit = limit
	b.refill(at)
}

// Level sets how many tokens there are, as far as they fit.
func (b *Bucket) Level(at time.Duration, tokens float64) {
	b.refill(at)
	b.tokens = min(tokens, float64(b.limit.Burst))
}

// Spilt is how many tokens found no room until at: demand was too small for them.
func (b *Bucket) Spilt(at time.Duration) float64 {
	b.refill(at)
	return b.spilt
}

// Tokens is how many there are at at.
func (b *Bucket) Tokens(at time.Duration) float64 {
	b.refill(at)
	return b.tokens
}

func (b *Bucket) refill(at time.Duration) {
	b.tokens += float64(b.limit.Rate * (float64(at-b.at) / 1e9))
	b.at = at
	if over := b.tokens - float64(b.limit.Burst); over > 0 {
		b.tokens = float64(b.limit.Burst)
		b.spilt += over
	}
}

// A Gauge measures the worst window at a constant cost for each admission.
// Admitted tokens pour into a vessel that leaks at Rate; its level is the
// largest admitted - Rate*T of all windows T that end now, and what stands
// above Burst is the excess over Burst + Rate*T.
type Gauge struct {
	limit lease.Limit
	level float64
	at    time.Duration
}

// NewGauge returns an empty Gauge.
func NewGauge(limit lease.Limit) *Gauge { return &Gauge{limit: limit} }

// Pour adds n admitted tokens and returns the excess of the worst window that
// ends now, below zero if none exceeds.
func (g *Gauge) Pour(at time.Duration, n float64) float64 {
	g.leak(at)
	g.level += n
	return g.level - float64(g.limit.Burst)
}

// SetLimit changes what is allowed from at on.
func (g *Gauge) SetLimit(at time.Duration, limit lease.Limit) {
	g.leak(at)
	g.limit = limit
}

func (g *Gauge) leak(at time.Duration) {
	g.level = max(g.level-float64(g.limit.Rate*(float64(at-g.at)/1e9)), 0)
	g.at = at
}
