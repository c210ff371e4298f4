package envoy

import (
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// metadata is what an answer tells Envoy's filters: the request, and what the rules that admit it
// have beside their limits, as envoyproxy/ratelimit has it. Of two values of one name the first
// one stays, unless both are maps, which are merged.
func (r *request) metadata(
	out *pb.RateLimitResponse, result rules.Result, known *table,
) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(r.in.GetDescriptors()))
	for i, d := range r.in.GetDescriptors() {
		entries := make([]*structpb.Value, len(d.GetEntries()))
		for j, e := range d.GetEntries() {
			entries[j] = text(e.GetKey() + "=" + e.GetValue())
		}
		fields := map[string]*structpb.Value{
			"entries": structpb.NewListValue(&structpb.ListValue{Values: entries}),
		}
		if d.GetLimit() != nil {
			fields["limit"] = text(d.GetLimit().String())
		}
		if hits := d.GetHitsAddend(); hits != nil {
			fields["hitsAddend"] = structpb.NewNumberValue(float64(hits.GetValue()))
		}
		descriptors[i] = structpb.NewStructValue(&structpb.Struct{Fields: fields})
	}
	fields := map[string]*structpb.Value{
		"domain":      text(r.domain),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if hits := r.in.GetHitsAddend(); hits != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(hits))
	}
	passed := map[string]*structpb.Value{}
	for i, each := range result.Each {
		if each.State == rules.Banned && i == result.Denied {
			fields["ban"] = banOf(each.Ban)
		}
		counts := each.State == rules.Limited || each.State == rules.Shadow
		if rule, ok := known.limits[place{r.domain, each.Rule, each.Trial}]; ok && counts &&
			out.GetStatuses()[i].GetCode() == pb.RateLimitResponse_OK {
			merge(passed, rule.metadata)
		}
	}
	if len(passed) > 0 {
		fields["metadata"] = structpb.NewStructValue(&structpb.Struct{Fields: passed})
	}
	return &structpb.Struct{Fields: fields}
}

// banOf tells why and until when a request is denied.
func banOf(b *rules.Ban) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"descriptor": text(b.String()), "reason": text(b.Reason),
		"until": text(b.Until.Format(time.RFC3339)),
	}})
}

// text is a value of valid UTF-8: another one could not be sent.
func text(s string) *structpb.Value { return structpb.NewStringValue(strings.ToValidUTF8(s, "?")) }

// merge adds what is in from, and does not change it.
func merge(to map[string]*structpb.Value, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		was, both := to[name]
		switch {
		case !both:
			to[name] = value
		case was.GetStructValue() != nil && value.GetStructValue() != nil:
			all := map[string]*structpb.Value{}
			merge(all, was.GetStructValue())
			merge(all, value.GetStructValue())
			to[name] = structpb.NewStructValue(&structpb.Struct{Fields: all})
		}
	}
}
