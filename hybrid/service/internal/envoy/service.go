// Package envoy serves Envoy's rate limit service, envoy.service.ratelimit.v3, over rules.
//
// # Promise
//
// A request is answered as envoyproxy/ratelimit answers it where both mean the same.
// docs/migrating.md lists the differences, and the module hybrid/service/internal/proofs/peer tests
// them. The most important one: a request that a limit denies takes nothing of its other limits.
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
	"slices"

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

	// Metadata has answers bring dynamic_metadata: the request, and the Metadata of the rules that
	// have a limit and admit it.
	Metadata bool

	// Log is told, at level debug, of the cause of Unavailable and Internal. Default:
	// slog.Default(). The Limiter itself tells when its store goes away.
	Log *slog.Logger
}

// Name is what the service is called, for health checks.
const Name = "envoy.service.ratelimit.v3.RateLimitService"

// A Service answers requests over gRPC and over HTTP: a look by one of them is known to the other.
type Service struct {
	pb.UnimplementedRateLimitServiceServer
	limiter *rules.Limiter
	config  Config
	units   units
	reports reports
}

// New returns a service of limiter.
func New(limiter *rules.Limiter, c Config) *Service {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Service{limiter: limiter, config: c}
}

// Register serves on a server of gRPC.
func (s *Service) Register(server grpc.ServiceRegistrar) {
	pb.RegisterRateLimitServiceServer(server, s)
}

// ShouldRateLimit implements envoy.service.ratelimit.v3.RateLimitService. It blocks as
// rules.Limiter.Take does, at most for Config.Timeout of hybrid, and twice as long where a
// descriptor has 0 hits, or three times if it is of a rule in quota mode and another has a report.
func (s *Service) ShouldRateLimit(
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
	in          *pb.RateLimitRequest
	domain      string
	descriptors []rules.Descriptor
	verbs       [rules.MaxDescriptors]verb // of each descriptor
	said        [rules.MaxDescriptors]bool // hits of each, or they are 1 by default
	plain       bool                       // all take
	told        bool                       // hits of one are said
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
		in: in, domain: in.GetDomain(),
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
	r.said[i] = d.GetHitsAddend() != nil || in.GetHitsAddend() > 0
	r.told = r.told || r.said[i]
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
// others but what is reported. A report to a rule in quota mode beside one that admits is counted
// apart: it may not fit, and that denies nothing.
func (s *Service) decide(ctx context.Context, r *request) (rules.Result, error) {
	if r.told {
		if err := s.reports.mark(r, s.limiter.Rules()); err != nil {
			return rules.Result{}, err
		}
	}
	if r.plain {
		return s.limiter.Take(ctx, r.domain, r.descriptors...)
	}
	if err := s.refund(r); err != nil {
		return rules.Result{}, err
	}
	seen, passes, err := s.peek(ctx, r)
	if err != nil {
		seen.Each = make([]rules.Status, len(r.descriptors)) // reports are counted all the same
	}
	s.reports.see(r, seen)
	var decide, count asked
	for i, each := range seen.Each {
		d := r.descriptors[i]
		beside := passes && each.QuotaMode // its denial is left out
		switch {
		case r.verbs[i] != take || each.State == rules.Replaced:
		case beside && d.Used:
			count.add(i, d)
		case d.Used || seen.Allowed && !(beside && over(each)):
			decide.add(i, d)
		}
	}
	allowed, failed := s.take(ctx, r, &seen, decide)
	seen.Allowed = seen.Allowed && allowed
	_, uncounted := s.take(ctx, r, &seen, count)
	return seen, errors.Join(err, failed, uncounted)
}

// asked are descriptors that take, and which of the request they are.
type asked struct {
	descriptors []rules.Descriptor
	from        []int
}

func (a *asked) add(i int, d rules.Descriptor) {
	a.descriptors, a.from = append(a.descriptors, d), append(a.from, i)
}

// take takes, and notes in seen what each descriptor has got.
func (s *Service) take(
	ctx context.Context, r *request, seen *rules.Result, a asked,
) (allowed bool, _ error) {
	if len(a.from) == 0 {
		return true, nil
	}
	taken, err := s.limiter.Take(ctx, r.domain, a.descriptors...)
	for i, each := range taken.Each {
		seen.Each[a.from[i]] = each
	}
	return taken.Allowed, err
}

// peek looks at all descriptors: a rule of one may replace that of another. A report that is more
// than there ever is would hide what else is known.
func (s *Service) peek(ctx context.Context, r *request) (_ rules.Result, passes bool, _ error) {
	looks := slices.Clone(r.descriptors)
	for i := range looks {
		if looks[i].Used {
			looks[i].Hits = 0
		}
	}
	seen, err := s.limiter.Peek(ctx, r.domain, looks...)
	if err != nil {
		return seen, false, err
	}
	passes = r.judge(&seen)
	return seen, passes, nil
}

// judge decides by the descriptors that take nothing, and reports whether one of them is of a rule
// in quota mode that admits.
func (r *request) judge(seen *rules.Result) (passes bool) {
	quota, others := -1, false // one in quota mode that denies; those that take are asked later
	seen.Denied = -1
	for i := range seen.Each {
		each := &seen.Each[i]
		if r.verbs[i] == refund {
			each.Decision.Allowed = true
		}
		counts := each.State == rules.Limited || each.State == rules.Shadow
		switch {
		case r.verbs[i] == take:
			others = others || counts && each.QuotaMode
		case !over(*each):
			passes = passes || counts && each.QuotaMode
		case each.QuotaMode:
			quota = i
		case seen.Denied < 0:
			seen.Denied = i
		}
	}
	if quota >= 0 && !passes && !others && seen.Denied < 0 {
		seen.Denied = quota
	}
	seen.Allowed = seen.Denied < 0
	return passes
}

// refund gives back what can be, before the store is asked for anything: what a process has told
// the store stays spent.
func (s *Service) refund(r *request) error {
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

func over(s rules.Status) bool {
	return s.State == rules.Banned || s.State == rules.Limited && !s.Decision.Allowed
}

// fail makes an error of gRPC. A client learns what it can do about it, and no more.
func (s *Service) fail(ctx context.Context, err error) error {
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
