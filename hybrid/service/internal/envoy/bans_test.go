package envoy_test

import (
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
)

// TestBanned: a ban is OVER_LIMIT until its end, for takes and looks, takes nothing of the
// request's other limits, and tells its reason in the metadata alone.
func TestBanned(t *testing.T) {
	client := serve(t, hybrid.NewMemory(), hybrid.Config{}, envoy.Config{Headers: true, Metadata: true})
	const look = `user=banned "hitsAddend": 0`
	for name, descriptors := range map[string][]string{
		"take": {"user=banned"}, "look": {look}, "beside": {"user=ann", "user=banned"},
		"beside a look": {"user=ann", look}, "address": {"user=ann", "address=203.0.113.7"},
		"both": {"user=banned", "address=203.0.113.7"},
	} {
		out, err := ask(t, client, "", descriptors...)
		if err != nil {
			t.Fatal(err)
		}
		i := len(descriptors) - 1
		status, reason := out.GetStatuses()[i], "scrapes"
		if name == "address" || name == "both" {
			reason = "floods"
		}
		end := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
		left := status.GetDurationUntilReset().AsDuration()
		ban := out.GetDynamicMetadata().GetFields()["ban"].GetStructValue().GetFields()
		if out.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT ||
			status.GetCode() != pb.RateLimitResponse_OVER_LIMIT || left < time.Until(end)-time.Minute ||
			ban["reason"].GetStringValue() != reason || ban["until"].GetStringValue() == "" {
			t.Errorf("%s: %v", name, out)
		}
		headers := map[string]string{}
		for _, h := range out.GetResponseHeadersToAdd() {
			headers[h.GetKey()] = h.GetValue()
		}
		if len(headers) != 3 || headers["RateLimit-Remaining"] != "0" ||
			len(headers["RateLimit-Reset"]) < 10 { // 73 years in seconds
			t.Errorf("%s: %v", name, headers)
		}
	}
	out, err := ask(t, client, "", "user=ann")
	if err != nil || out.GetStatuses()[0].GetLimitRemaining() != 2 ||
		out.GetDynamicMetadata().GetFields()["ban"] != nil {
		t.Errorf("something was taken of ann's limit: %v %v", out, err)
	}
}
