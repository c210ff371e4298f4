package envoy

import (
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid"
)

// An override is the limit that a descriptor brings, in place of its rule's.
type override struct {
	limit hybrid.Limit
	said  *pb.RateLimitResponse_RateLimit // as the answer says it
}

// override reads the limit that descriptor i brings.
func (r *request) override(i int, in *ratelimit.RateLimitDescriptor_RateLimitOverride) error {
	o, err := overrideOf(i, in)
	if r.overrides == nil {
		r.overrides = make([]override, len(r.descriptors))
	}
	r.overrides[i], r.descriptors[i].Limit = o, o.limit
	return err
}

// overrideOf returns that of descriptor i. Its kind is by the unit, as in a document: a bucket
// below a day, else a quota.
func overrideOf(
	i int, in *ratelimit.RateLimitDescriptor_RateLimitOverride,
) (override, error) {
	u := unit(in.GetUnit())
	if u <= unknown || int(u) >= len(windows) {
		return override{}, invalid("the limit of descriptor %d has the unit %d", i, in.GetUnit())
	}
	times := uint32(1)
	said := &pb.RateLimitResponse_RateLimit{RequestsPerUnit: in.GetRequestsPerUnit(), Unit: u}
	if m := in.GetUnitMultiplier(); m != nil {
		times = m.GetValue()
		said.UnitMultiplier = wrapperspb.UInt32(times)
	}
	most := int64(10 * windows[year] / windows[u])
	if times < 1 || int64(times) > most {
		return override{}, invalid("unit_multiplier %d of descriptor %d is not 1 to %d",
			times, i, most)
	}
	n, window := int64(in.GetRequestsPerUnit()), time.Duration(times)*windows[u]
	var limit hybrid.Limit
	switch {
	case n == 0:
		return override{hybrid.Blocked, said}, nil
	case u == second || u == minute || u == hour:
		limit = hybrid.Per(float64(n), window)
	default:
		limit = hybrid.Quota(n, window)
	}
	if err := limit.Validate(); err != nil {
		return override{}, invalid("the limit of descriptor %d: %v", i, err)
	}
	return override{limit, said}, nil
}
