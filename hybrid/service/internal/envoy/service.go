// Package envoy serves Envoy's rate limit service, envoy.service.ratelimit.v3, over rules.
//
// # Promise
//
// A request is answered as envoyproxy/ratelimit answers it where both mean the same.
// docs/service.md lists the differences, and the module hybrid/service/peer tests them. The most
// important one: a request that a limit denies takes nothing of its other limits.
//
// A bad request gets InvalidArgument, and takes nothing. While the store is away the outage policy
// of the domain decides; where it does not, the answer is Unavailable. No error names a store,
// a key or a value.
package envoy

import (
	"context"
	"errors"
	"log/slog"
	"math"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// Config configures the service. Its zero value is a good one.
type Config struct {
	// Headers has answers name the limit that is nearest to its end, in response_headers_to_add:
	// RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, in seconds.
	Headers bool

	// Log is told, at level debug, of the cause of Unavailable and Internal. Default:
	// slog.Default(). The Limiter itself tells when its store goes away.
	Log *slog.Logger
}

// Name is what the service is called, for health checks.
const Name = "envoy.service.ratelimit.v3.RateLimitService"

// Register serves limiter on a server of gRPC.
func Register(server grpc.ServiceRegistrar, limiter *rules.Limiter, c Config) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	pb.RegisterRateLimitServiceServer(server, &service{limiter: limiter, config: c})
}

type service struct {
	pb.UnimplementedRateLimitServiceServer
	limiter *rules.Limiter
	config  Config
	units   units
}

// ShouldRateLimit implements envoy.service.ratelimit.v3.RateLimitService. It blocks as
// rules.Limiter.Take does, at most for Config.Timeout of hybrid, and twice as long where a
// descriptor has 0 hits.
func (s *service) ShouldRateLimit(
	ctx context.Context, in *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	var r request
	if err := r.read(in); err != nil {
		return nil, err
	}
	result, err := s.decide(ctx, &r)
	if err != nil {
		return nil, s.fail(ctx, err)
	}
	return s.answer(&r, result), nil
}

// A request is what a message asks for.
type request struct {
	domain      string
	descriptors []rules.Descriptor
	verbs       [rules.MaxDescriptors]verb // of each descriptor
	plain       bool                       // all take
	overrides   []override                 // of each descriptor, if there are any
}

// A verb is what a descriptor asks for.
type verb byte

const (
	take   verb = iota
	look        // it has 0 hits
	refund      // it has is_negative_hits
)

// read reads a message. It refuses what makes no sense.
func (r *request) read(in *pb.RateLimitRequest) error {
	switch n := len(in.GetDescriptors()); {
	case in.GetDomain() == "":
		return invalid("rate limit domain must not be empty")
	case n == 0:
		return invalid("rate limit descriptor list must not be empty")
	case n > rules.MaxDescriptors:
		return invalid("%d descriptors are more than %d", n, rules.MaxDescriptors)
	}
	*r = request{
		domain:      in.GetDomain(),
		descriptors: make([]rules.Descriptor, len(in.GetDescriptors())), plain: true,
	}
	total := 0
	for _, d := range in.GetDescriptors() {
		total += len(d.GetEntries())
	}
	entries := make([]rules.Entry, 0, min(total, rules.MaxDescriptors*rules.MaxEntries))
	for i, d := range in.GetDescriptors() {
		if n := len(d.GetEntries()); n < 1 || n > rules.MaxEntries {
			return invalid("descriptor %d has %d entries, not 1 to %d", i, n, rules.MaxEntries)
		}
		first := len(entries)
		for _, e := range d.GetEntries() {
			entries = append(entries, rules.Entry{Key: e.GetKey(), Value: e.GetValue()})
		}
		r.descriptors[i].Entries = entries[first:len(entries):len(entries)]
		if err := r.amounts(in, i, d); err != nil {
			return err
		}
	}
	return nil
}

// amounts reads how many tokens descriptor i takes, and the limit that it brings.
func (r *request) amounts(
	in *pb.RateLimitRequest, i int, d *ratelimit.RateLimitDescriptor,
) error {
	hits, err := hitsOf(in, i, d)
	if err != nil {
		return err
	}
	r.descriptors[i].Hits = hits
	switch {
	case hits == 0:
		r.verbs[i] = look
	case d.GetIsNegativeHits():
		r.verbs[i] = refund
	}
	r.plain = r.plain && r.verbs[i] == take
	if d.GetLimit() == nil {
		return nil
	}
	return r.override(i, d.GetLimit())
}

// hitsOf is how many tokens descriptor i takes, or gives back. Its own number goes before that of
// the request, and may be 0. That of the request stands for 1 if it is 0.
func hitsOf(in *pb.RateLimitRequest, i int, d *ratelimit.RateLimitDescriptor) (int, error) {
	hits := uint64(max(in.GetHitsAddend(), 1))
	if own := d.GetHitsAddend(); own != nil {
		hits = own.GetValue()
	}
	const most uint64 = min(rules.MaxHits, math.MaxInt) // an int may have 32 bits
	if hits > most {
		return 0, invalid("hits_addend %d of descriptor %d is more than %d", hits, i, most)
	}
	return int(hits), nil
}

// decide gives back what is to be refunded, and then takes the tokens of all other descriptors, or
// none. Those without hits are peeked at first, and deny as well: then nothing is taken of the
// others.
func (s *service) decide(ctx context.Context, r *request) (rules.Result, error) {
	if r.plain {
		return s.limiter.Take(ctx, r.domain, r.descriptors...)
	}
	if err := s.refund(r); err != nil {
		return rules.Result{}, err
	}
	// All are peeked at: a rule of one may replace that of another.
	seen, err := s.limiter.Peek(ctx, r.domain, r.descriptors...)
	if err != nil {
		return seen, err
	}
	var takes []rules.Descriptor
	var from []int
	seen.Denied = -1
	for i := range seen.Each {
		each := &seen.Each[i]
		switch verb := r.verbs[i]; {
		case each.State == rules.Replaced:
		case verb == take:
			takes, from = append(takes, r.descriptors[i]), append(from, i)
		case verb == refund:
			each.Decision.Allowed = true
		case over(*each) && seen.Denied < 0:
			seen.Denied = i
		}
	}
	if seen.Allowed = seen.Denied < 0; !seen.Allowed || len(takes) == 0 {
		return seen, nil
	}
	taken, err := s.limiter.Take(ctx, r.domain, takes...)
	if err != nil {
		return taken, err
	}
	seen.Allowed = taken.Allowed
	for i, each := range taken.Each {
		seen.Each[from[i]] = each
	}
	return seen, nil
}

// refund gives back what can be, before the store is asked for anything: what a process has told
// the store stays spent.
func (s *service) refund(r *request) error {
	var refunds []rules.Descriptor
	explained, err := s.limiter.Rules().Explain(r.domain, r.descriptors...)
	for i, e := range explained {
		if r.verbs[i] == refund && e.State != rules.Replaced {
			refunds = append(refunds, r.descriptors[i])
		}
	}
	if err != nil || refunds == nil {
		return err
	}
	return s.limiter.Refund(r.domain, refunds...)
}

func over(s rules.Status) bool { return s.State == rules.Limited && !s.Decision.Allowed }

// fail makes an error of gRPC. A client learns what it can do about it, and no more.
func (s *service) fail(ctx context.Context, err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch {
	case errors.Is(err, rules.ErrDescriptor):
		return status.Error(codes.InvalidArgument, err.Error())
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, hybrid.ErrClosed):
		return status.Error(codes.Unavailable, "the service ends")
	case errors.Is(err, hybrid.ErrUnavailable):
		s.config.Log.Debug("envoy: no verdict", "error", err)
		return status.Error(codes.Unavailable, "the store did not answer in time")
	}
	s.config.Log.Debug("envoy: no verdict", "error", err)
	return status.Error(codes.Internal, "no verdict")
}

func invalid(format string, args ...any) error {
	return status.Errorf(codes.InvalidArgument, format, args...)
}
