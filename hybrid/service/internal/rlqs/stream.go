package rlqs

import (
	"context"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid/rules"
)

type conversation = grpc.BidiStreamingServer[
	pb.RateLimitQuotaUsageReports, pb.RateLimitQuotaResponse]

type action = pb.RateLimitQuotaResponse_BucketAction

// A stream is that of an Envoy. Buckets put actions into it, and one goroutine sends them.
type stream struct {
	cut context.CancelCauseFunc

	mu      sync.Mutex
	out     []*action
	since   time.Time     // the oldest decision in out
	sending time.Time     // the oldest one that is being sent
	some    chan struct{} // out has some
}

var errSlow = status.Error(codes.DeadlineExceeded, "a message to the client has waited for too long")

// StreamRateLimitQuotas implements envoy.service.rate_limit_quota.v3.RateLimitQuotaService. It
// ends with its client, and where that reads so slowly that a message may be late.
func (s *service) StreamRateLimitQuotas(c conversation) error {
	ctx, cut := context.WithCancelCause(c.Context())
	defer cut(nil)
	x := &stream{cut: cut, some: make(chan struct{}, 1)}
	// A Send and a Recv that block end when this method has returned.
	go func() { cut(s.receive(c, x)) }()
	go func() { cut(x.send(ctx, c)) }()
	<-ctx.Done()
	return context.Cause(ctx)
}

// receive reads reports, and gives them to their buckets, until there are no more.
func (s *service) receive(c conversation, x *stream) error {
	defer s.gone(x)
	domain := ""
	for {
		m, err := c.Recv()
		if err != nil {
			return err
		}
		if domain == "" {
			domain = m.GetDomain()
		}
		if domain == "" {
			return status.Error(codes.InvalidArgument, "the domain of the first report is empty")
		}
		now := time.Now()
		for _, u := range m.GetBucketQuotaUsages() {
			if n := len(u.GetBucketId().GetBucket()); n < 1 || n > rules.MaxEntries {
				s.config.Log.Debug("rlqs: a bucket's id has too many entries, or none", "entries", n,
					"most", rules.MaxEntries)
				continue
			}
			s.tell(domain, u.GetBucketId(), report{
				from: x, at: now, elapsed: u.GetTimeElapsed().AsDuration(),
				allowed: u.GetNumRequestsAllowed(), denied: u.GetNumRequestsDenied(),
			})
		}
	}
}

// send sends what there is, until ctx ends.
func (x *stream) send(ctx context.Context, c conversation) error {
	for {
		select {
		case <-x.some:
		case <-ctx.Done():
			return nil
		}
		x.mu.Lock()
		out := x.out
		x.sending = x.since
		x.out, x.since = nil, time.Time{}
		late := waits(x.sending)
		x.mu.Unlock()
		if late {
			return errSlow
		}
		if err := c.Send(&pb.RateLimitQuotaResponse{BucketAction: out}); err != nil {
			return err
		}
		x.mu.Lock()
		x.sending = time.Time{}
		x.mu.Unlock()
	}
}

// waits reports whether what was decided then is too old to be sent.
func waits(since time.Time) bool { return !since.IsZero() && time.Since(since) >= flight/2 }

// put has an action sent that was decided at a time. Where one has waited for long, the stream is
// cut: that action must not arrive late, and those after it are priced as if it had.
func (x *stream) put(decided time.Time, a *action) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.since.IsZero() || decided.Before(x.since) {
		x.since = decided
	}
	if waits(x.since) || waits(x.sending) {
		x.cut(errSlow)
		return
	}
	x.out = append(x.out, a)
	select {
	case x.some <- struct{}{}:
	default:
	}
}
