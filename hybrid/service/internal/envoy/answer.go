package envoy

import (
	"math"
	"strconv"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// answer makes the message of a result.
func (s *Service) answer(r *request, result rules.Result) *pb.RateLimitResponse {
	out := &pb.RateLimitResponse{
		OverallCode: pb.RateLimitResponse_OK,
		Statuses:    make([]*pb.RateLimitResponse_DescriptorStatus, len(result.Each)),
	}
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, len(result.Each))
	if !result.Allowed {
		out.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	known := s.units.table(s.limiter.Rules())
	for i, each := range result.Each {
		out.Statuses[i] = &statuses[i]
		r.status(&statuses[i], i, each, known)
	}
	if s.config.Headers {
		out.ResponseHeadersToAdd = headers(out)
	}
	if s.config.Metadata {
		out.DynamicMetadata = r.metadata(out, result, known)
	}
	return out
}

// status fills in that of descriptor i. One that no rule limits has a code only, as there.
func (r *request) status(
	out *pb.RateLimitResponse_DescriptorStatus, i int, each rules.Status, known *table,
) {
	out.Code = pb.RateLimitResponse_OK
	rule, ok := known.limits[place{r.domain, each.Rule, each.Trial}]
	switch each.State {
	case rules.Unlimited:
		out.LimitRemaining = math.MaxUint32
	case rules.Shadow:
		if ok { // nobody waits for a shadow, so what is left of it is not known here
			out.CurrentLimit = rule.said
		}
	case rules.Banned:
		out.Code = pb.RateLimitResponse_OVER_LIMIT
		out.DurationUntilReset = durationpb.New(each.Decision.RetryAfter)
	case rules.Limited:
		d := each.Decision
		if !d.Allowed {
			out.Code = pb.RateLimitResponse_OVER_LIMIT
		}
		switch {
		case r.overrides != nil && r.overrides[i].said != nil:
			out.CurrentLimit = r.overrides[i].said
		case ok && d.Limit == rule.limit:
			out.CurrentLimit = rule.said
		case ok: // other processes go by another one still
			out.CurrentLimit = describe(d.Limit, rule.said.GetUnit(), each.Name)
		default: // the rule has just gone
			out.CurrentLimit = describe(d.Limit, guess(d.Limit), each.Name)
		}
		out.LimitRemaining = uint32(min(max(d.Remaining, 0), math.MaxUint32))
		reset := untilReset(d, out.GetCurrentLimit().GetUnit(), time.Now())
		out.DurationUntilReset = durationpb.New(reset)
	}
}

// headers name a limit that denies, or else the one with the fewest tokens left, as there.
func headers(out *pb.RateLimitResponse) []*core.HeaderValue {
	var least *pb.RateLimitResponse_DescriptorStatus
	for _, s := range out.GetStatuses() {
		if s.GetDurationUntilReset() == nil {
			continue
		}
		if s.GetCode() == pb.RateLimitResponse_OVER_LIMIT {
			least = s
			break
		}
		if least == nil || s.GetLimitRemaining() < least.GetLimitRemaining() {
			least = s
		}
	}
	if least == nil {
		return nil
	}
	reset := least.GetDurationUntilReset().AsDuration()
	number := func(key string, n uint64) *core.HeaderValue {
		return &core.HeaderValue{Key: key, Value: strconv.FormatUint(n, 10)}
	}
	return []*core.HeaderValue{
		number("RateLimit-Limit", uint64(least.GetCurrentLimit().GetRequestsPerUnit())),
		number("RateLimit-Remaining", uint64(least.GetLimitRemaining())),
		number("RateLimit-Reset", uint64((reset+time.Second-1)/time.Second)),
	}
}

// describe says a limit in the terms of the protocol: so many requests in a unit. Of a bucket that
// is the rate, without the burst.
func describe(limit hybrid.Limit, u unit, name string) *pb.RateLimitResponse_RateLimit {
	n := float64(limit.Burst)
	if limit.Kind == hybrid.KindBucket && limit != hybrid.Blocked {
		n = math.Round(limit.Rate * windows[u].Seconds())
	}
	return &pb.RateLimitResponse_RateLimit{
		Name: name, Unit: u, RequestsPerUnit: uint32(min(n, math.MaxUint32)),
	}
}
