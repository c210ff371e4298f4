package peer

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid"
)

func of(pairs ...string) *common.RateLimitDescriptor {
	d := &common.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries,
			&common.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// draw returns a descriptor, of those that mean the same to both.
func draw(r *rand.Rand) *common.RateLimitDescriptor {
	value := fmt.Sprint(r.IntN(4))
	switch r.IntN(16) {
	case 0, 1, 2:
		keys := []string{"second", "minute", "hour", "day", "year"}
		return of(keys[r.IntN(len(keys))], value)
	case 3:
		d := of("batch", value)
		d.HitsAddend = wrapperspb.UInt64(4) // 12 are three of them
		return d
	case 4:
		return of("second", "vip")
	case 5:
		return of("second", "bot"+value)
	case 6:
		return of("path", "/files/"+value)
	case 7:
		return of("blocked", value)
	case 8:
		return of("free", value)
	case 9:
		return of("unknown", value)
	case 10:
		return of("better", value)
	case 11:
		return of("minute", value)
	case 12:
		return of("tenant", value) // has no limit
	case 13:
		return of("tenant", value, "user", "root")
	case 14:
		d := of("own", value)
		d.Limit = &common.RateLimitDescriptor_RateLimitOverride{
			RequestsPerUnit: 6, Unit: envoytype.RateLimitUnit_DAY,
		}
		return d
	default:
		return of("tenant", value, "user", value)
	}
}

// drawRequest returns a request in which no descriptor is twice.
func drawRequest(r *rand.Rand) *pb.RateLimitRequest {
	in := &pb.RateLimitRequest{Domain: "shop", HitsAddend: uint32(r.IntN(2))}
	if r.IntN(50) == 0 {
		in.Domain = "elsewhere"
	}
	seen := map[string]bool{}
	for range 1 + r.IntN(4)*r.IntN(2) {
		d := draw(r)
		if name := d.String(); !seen[name] && (d.Entries[0].Key != "path" || !seen["path"]) {
			seen[name], seen[d.Entries[0].Key] = true, true
			in.Descriptors = append(in.Descriptors, d)
		}
	}
	return in
}

// agree reports whether answers are the same. Where a request is denied, ours does not ask the
// store for limits that do not matter any more: those that deny are among theirs, and of the
// others only the limit itself is the same.
func agree(our, their *pb.RateLimitResponse) bool {
	if our.GetOverallCode() == pb.RateLimitResponse_OK {
		return say(our, nil) == say(their, nil)
	}
	over := 0
	for i, o := range our.GetStatuses() {
		t := their.GetStatuses()[i]
		if o.GetCurrentLimit().String() != t.GetCurrentLimit().String() {
			return false
		}
		if o.GetCode() == pb.RateLimitResponse_OK {
			continue
		}
		over++
		if line(o) != line(t) {
			return false
		}
	}
	return over > 0 && their.GetOverallCode() == our.GetOverallCode()
}

// TestAnswers: both give the same answers to thousands of random requests, while windows end.
func TestAnswers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	now := &clock{}
	they := theirs(&memory{counts: map[string]uint64{}}, now, true)
	synctest.Test(t, func(t *testing.T) {
		we := ours(t, hybrid.NewMemory())
		r := rand.New(rand.NewPCG(seed, 1))
		time.Sleep(time.Second / 2)
		codes := map[pb.RateLimitResponse_Code]int{}
		for i := range 5000 {
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			now.Store(time.Now().Unix())
			in := drawRequest(r)
			their, err := they.ShouldRateLimit(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			our, err := we.ShouldRateLimit(t.Context(), in)
			if err != nil || !agree(our, their) {
				t.Fatalf("request %d: %v\n  ours %s\ntheirs %s", i, in, say(our, err), say(their, nil))
			}
			codes[our.GetOverallCode()]++
		}
		t.Log(codes)
		if codes[pb.RateLimitResponse_OK] < 1000 || codes[pb.RateLimitResponse_OVER_LIMIT] < 1000 {
			t.Errorf("the requests are not of both kinds: %v", codes)
		}
	})
}
