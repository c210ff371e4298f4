package ideal

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A bucket is an exact central token bucket. It starts full.
type bucket struct {
	limit  lease.Limit
	wait   float64       // seconds
	tokens float64       // below 0 while some wait
	at     time.Duration // tokens are counted up to here
	spilt  float64
}

func (b *bucket) Fits(at time.Duration, n float64) bool {
	b.refill(at)
	return b.tokens+float64(b.wait*b.limit.Rate) >= n
}

func (b *bucket) Take(at time.Duration, n float64, _ time.Duration) bool {
	fits := b.Fits(at, n)
	if fits {
		b.tokens -= n
	}
	return fits
}

func (b *bucket) SetLimit(at time.Duration, limit lease.Limit) {
	b.refill(at)
	b.limit = limit
	b.refill(at)
}

func (b *bucket) Level(at time.Duration, tokens float64, _ Gauge) {
	b.refill(at)
	b.tokens = min(tokens, float64(b.limit.Burst))
}

func (b *bucket) Spilt(at time.Duration) float64 {
	b.refill(at)
	return b.spilt
}

func (b *bucket) Tokens(at time.Duration) float64 {
	b.refill(at)
	return b.tokens
}

func (b *bucket) refill(at time.Duration) {
	b.tokens += float64(b.limit.Rate * (float64(at-b.at) / 1e9))
	b.at = at
	if over := b.tokens - float64(b.limit.Burst); over > 0 {
		b.tokens = float64(b.limit.Burst)
		b.spilt += over
	}
}

// A leak is the Gauge of a bucket, at a constant cost for each admission.
// Admitted tokens pour into a vessel that leaks at Rate; its level is the
// largest admitted - Rate*T of all windows T that end now, and what stands
// above Burst is the excess over Burst + Rate*T.
type leak struct {
	limit lease.Limit
	level float64
	at    time.Duration
}

func (g *leak) Pour(_, at time.Duration, n float64, _ time.Duration) float64 {
	g.advance(at)
	g.level += n
	return g.level - float64(g.limit.Burst)
}

func (g *leak) SetLimit(at time.Duration, limit lease.Limit) {
	g.advance(at)
	g.limit = limit
}

func (g *leak) Copy() Gauge {
	c := *g
	return &c
}

func (g *leak) advance(at time.Duration) {
	g.level = max(g.level-float64(g.limit.Rate*(float64(at-g.at)/1e9)), 0)
	g.at = at
}
