package rlqs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
)

// A taker is a conversation that counts what it is sent.
type taker struct {
	conversation
	sent int
}

func (c *taker) Send(*pb.RateLimitQuotaResponse) error { c.sent++; return nil }

// TestLate: a message that has waited for too long is not sent, wherever it did.
func TestLate(t *testing.T) {
	for name, wait := range map[string][2]time.Duration{
		"in time":          {},
		"before it is put": {flight / 2, 0},
		"after":            {0, flight / 2},
		"both":             {flight / 4, flight / 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cut := context.WithCancelCause(t.Context())
			x := &stream{cut: cut, some: make(chan struct{}, 1)}
			decided := time.Now()
			time.Sleep(wait[0])
			x.put(decided, &action{})
			time.Sleep(wait[1])
			c := &taker{}
			go func() { cut(x.send(ctx, c)) }()
			synctest.Wait()
			late := wait[0]+wait[1] > 0
			if cause := context.Cause(ctx); c.sent > 0 == late || (cause != nil) != late {
				t.Errorf("%s: %d are sent, the stream ends by %v", name, c.sent, cause)
			}
			cut(nil)
		})
	}
}
