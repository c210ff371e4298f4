package rlqs_test

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	kinds "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
)

// A client is a copy of Envoy's, in virtual time: docs/rlqs.md has what is copied, and TestEnvoy
// holds it against the binary. It has one bucket.
type client struct {
	id     *pb.BucketId
	refill bool // a changed bucket starts full, and not as full as it was
	slow   float64

	mu      sync.Mutex
	max     float64 // of the assignment; 0 is none
	rate    float64
	level   float64
	at      time.Time // of level
	until   time.Time
	blanket kinds.RateLimitStrategy_BlanketRule
	blank   bool

	first           bool // a report is due at once
	allowed, denied uint64
	since           time.Time // of the last report

	conn *conn
}

// A conn is a stream between a client and a service. Messages to the client take up to delay.
type conn struct {
	grpc.ServerStream
	ctx     context.Context
	reports chan *pb.RateLimitQuotaUsageReports
	to      *client
	chance  *rand.Rand // of messages to the client, which one goroutine sends
	delay   time.Duration
	last    time.Time // when the last message arrives
	cut     context.CancelFunc
}

func (c *conn) Context() context.Context { return c.ctx }

func (c *conn) Recv() (*pb.RateLimitQuotaUsageReports, error) {
	select {
	case m := <-c.reports:
		return m, nil
	case <-c.ctx.Done():
		return nil, io.EOF
	}
}

// Send delivers a message in its order.
func (c *conn) Send(m *pb.RateLimitQuotaResponse) error {
	at := time.Now().Add(time.Duration(c.chance.Int64N(int64(c.delay))))
	if at.Before(c.last) {
		at = c.last
	}
	c.last = at
	time.AfterFunc(time.Until(at), func() {
		if c.ctx.Err() == nil {
			c.to.handle(m)
		}
	})
	return nil
}

// handle takes an answer.
func (c *client) handle(m *pb.RateLimitQuotaResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, a := range m.GetBucketAction() {
		if a.GetAbandonAction() != nil {
			c.max, c.blank, c.first, c.until = 0, false, false, time.Time{}
			c.allowed, c.denied = 0, 0
			continue
		}
		q := a.GetQuotaAssignmentAction()
		c.expire(now)
		// Seconds only, on a clock that may be slow.
		life := time.Duration(float64(q.GetAssignmentTimeToLive().GetSeconds()) * (1 + c.slow) * 1e9)
		c.until = now.Add(life)
		t := q.GetRateLimitStrategy().GetTokenBucket()
		if t == nil {
			c.max, c.blank = 0, true
			c.blanket = q.GetRateLimitStrategy().GetBlanketRule()
			continue
		}
		c.blank = false
		most := float64(t.GetMaxTokens())
		rate := float64(t.GetTokensPerFill().GetValue()) / float64(t.GetFillInterval().GetSeconds())
		if most == c.max && rate == c.rate {
			continue
		}
		c.flow(now)
		full := 1.0
		if c.max > 0 && !c.refill {
			full = c.level / c.max
		}
		c.max, c.rate, c.level, c.at = most, rate, most*full, now
	}
}

// expire ends an assignment that has not been renewed.
func (c *client) expire(now time.Time) {
	if !c.until.IsZero() && !now.Before(c.until) {
		c.max, c.blank, c.until = 0, false, time.Time{}
	}
}

func (c *client) flow(now time.Time) {
	c.level = math.Min(c.max, c.level+c.rate*now.Sub(c.at).Seconds())
	c.at = now
}

// ask has n requests decided, and returns how many are let through.
func (c *client) ask(n int) (through int) {
	if n == 0 {
		return 0
	}
	c.mu.Lock()
	now := time.Now()
	c.expire(now)
	switch {
	case c.blank && c.blanket == kinds.RateLimitStrategy_ALLOW_ALL:
		through = n
	case c.max > 0:
		c.flow(now)
		through = min(n, int(c.level))
		c.level -= float64(through)
	}
	c.allowed += uint64(through)
	c.denied += uint64(n - through)
	at := !c.first
	c.first = true
	if at {
		c.since = now
	}
	c.mu.Unlock()
	if at {
		c.report(false)
	}
	return through
}

// report tells what has been used. What is told without a stream is lost, and what the test says.
func (c *client) report(lost bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.first {
		return
	}
	now := time.Now()
	m := &pb.RateLimitQuotaUsageReports{Domain: "shop",
		BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{{
			BucketId: c.id, TimeElapsed: seconds(now.Sub(c.since)),
			NumRequestsAllowed: c.allowed, NumRequestsDenied: c.denied,
		}}}
	c.allowed, c.denied, c.since = 0, 0, now
	if c.conn == nil || c.conn.ctx.Err() != nil || lost {
		return
	}
	select {
	case c.conn.reports <- m:
	default:
	}
}

// poisson draws the number of requests of a time.
func poisson(r *rand.Rand, mean float64) int {
	if mean > 30 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	n, p := 0, math.Exp(-mean)
	for x := r.Float64(); x > p; n++ {
		x *= r.Float64()
	}
	return n
}
