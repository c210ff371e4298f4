package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	envoytype "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A difference is what docs/migrating.md lists: the answers to the last of some requests.
type difference struct {
	name         string // as in the table there
	requests     []*pb.RateLimitRequest
	waits        []time.Duration // before the second one and further ones
	ours, theirs string          // how the answer begins
}

func ask(all ...*common.RateLimitDescriptor) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: "shop", Descriptors: all}
}

func hits(d *common.RateLimitDescriptor, n uint64) *common.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(n)
	return d
}

func limited(
	d *common.RateLimitDescriptor, n uint32, multiplier *wrapperspb.UInt32Value,
) *common.RateLimitDescriptor {
	d.Limit = &common.RateLimitDescriptor_RateLimitOverride{
		RequestsPerUnit: n, Unit: envoytype.RateLimitUnit_DAY, UnitMultiplier: multiplier,
	}
	return d
}

func refund(d *common.RateLimitDescriptor) *common.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

func many(n int) (all []*common.RateLimitDescriptor) {
	for range n {
		all = append(all, of("unknown", "x"))
	}
	return all
}

type requests = []*pb.RateLimitRequest

// The bubble's clock begins at 2000-01-01 00:00 UTC, a Saturday.
var differences = []difference{
	{
		name:     "a limit denies, others of the request do not",
		requests: requests{ask(of("blocked", "x"), of("day", "1")), ask(of("day", "1"))},
		ours:     "OK; OK, 8 left", theirs: "OK; OK, 7 left",
	}, {
		name: "more hits than are left",
		requests: requests{
			ask(hits(of("day", "2"), 8)), ask(hits(of("day", "2"), 8)), ask(of("day", "2")),
		},
		ours: "OK; OK, 0 left", theirs: "OVER_LIMIT",
	}, {
		name:     "0 hits where nothing is left",
		requests: requests{ask(hits(of("day", "3"), 9)), ask(hits(of("day", "3"), 0))},
		ours:     "OVER_LIMIT", theirs: "OK; OK, 0 left",
	}, {
		name:     "other limits of a request that is denied",
		requests: requests{ask(of("day", "4")), ask(of("day", "4"), of("blocked", "x"))},
		waits:    []time.Duration{8 * time.Second},
		ours:     "OVER_LIMIT; OK, 9 left", theirs: "OVER_LIMIT; OK, 7 left",
	}, {
		name:     "a shadow",
		requests: requests{ask(of("shadow", "1"))},
		ours:     "OK; OK, 0 left of 2/MINUTE ", theirs: "OK; OK, 1 left of 2/MINUTE  for 60 s",
	}, {
		name: "units without kind: quota",
		requests: requests{
			ask(of("unknown", "x")), ask(hits(of("bucket", "6"), 5)), ask(of("bucket", "6")),
		},
		waits: []time.Duration{59 * time.Second, time.Second},
		ours:  "OVER_LIMIT; OVER_LIMIT, 0 left of 5/MINUTE  for 59 s", theirs: "OK; OK, 4 left",
	}, {
		name:     "weeks",
		requests: requests{ask(of("week", "7"))},
		ours:     "OK; OK, 8 left of 9/WEEK  for 172800 s",
		theirs:   "OK; OK, 8 left of 9/WEEK  for 432000 s",
	}, {
		name:     "months",
		requests: requests{ask(of("month", "8"))},
		ours:     "OK; OK, 8 left of 9/MONTH  for 2678400 s",
		theirs:   "OK; OK, 8 left of 9/MONTH  for 1987200 s",
	}, {
		name: "a limit that a request brings",
		requests: requests{
			ask(of("day", "9")), ask(limited(of("day", "9"), 5, nil)),
		},
		ours: "OK; OK, 4 left of 5/DAY", theirs: "OK; OK, 3 left of 5/DAY",
	}, {
		name:     "unit_multiplier",
		requests: requests{ask(limited(of("day", "10"), 5, wrapperspb.UInt32(3)))},
		ours:     "OK; OK, 4 left of 5/DAY  for 172800 s",
		theirs:   "OK; OK, 4 left of 5/DAY  for 86400 s",
	}, {
		name: "is_negative_hits", // what comes back is told once the store has it
		requests: requests{
			ask(of("day", "11")), ask(refund(of("day", "11"))), ask(hits(of("day", "11"), 0)),
		},
		waits: []time.Duration{0, time.Second},
		ours:  "OK; OK, 9 left", theirs: "OK; OK, 7 left",
	}, {
		name:     "a descriptor twice in a request",
		requests: requests{ask(of("day", "12"), of("day", "12"))},
		ours:     "OK; OK, 7 left of 9/DAY  for 86400 s; OK, 7",
		theirs:   "OK; OK, 8 left of 9/DAY  for 86400 s; OK, 7",
	}, {
		name:     "a key with the value of another",
		requests: requests{ask(of("second_vip", "x"))},
		ours:     "OK; OK, 0 left", theirs: "OK; OK, 19 left of 20/SECOND",
	}, {
		name:     "no domain, or no descriptors",
		requests: requests{{Descriptors: many(1)}},
		ours:     "InvalidArgument: rate limit domain must not be empty",
		theirs:   "Unknown: rate limit domain must not be empty",
	}, {
		name:     "a descriptor without entries",
		requests: requests{ask(&common.RateLimitDescriptor{})},
		ours:     "InvalidArgument: descriptor 0 has 0 entries", theirs: "OK; OK, 0 left",
	}, {
		name:     "more than 16 descriptors, 16 entries of one, or 4 KiB",
		requests: requests{ask(many(17)...)},
		ours:     "InvalidArgument: 17 descriptors are more than 16", theirs: "OK; OK, 0 left",
	},
}

// TestDifferences: each is as the table of docs/migrating.md lists it, and there are no others.
func TestDifferences(t *testing.T) {
	for _, d := range differences {
		t.Run(d.name, func(t *testing.T) {
			now := &clock{}
			they := theirs(&memory{counts: map[string]uint64{}}, now, false)
			synctest.Test(t, func(t *testing.T) {
				we := ours(t, hybrid.NewMemory())
				var our, their string
				for i, in := range d.requests {
					if i > 0 && i <= len(d.waits) {
						time.Sleep(d.waits[i-1])
					}
					now.Store(time.Now().Unix())
					our, their = say(we.ShouldRateLimit(t.Context(), in)),
						say(they.ShouldRateLimit(t.Context(), in))
				}
				if !strings.HasPrefix(our, d.ours) || !strings.HasPrefix(their, d.theirs) {
					t.Errorf("\n  ours %s\n   not %s\ntheirs %s\n   not %s",
						our, d.ours, their, d.theirs)
				}
				if our == their {
					t.Errorf("both answer %s", our)
				}
			})
		})
	}
}

// TestReports: a gateway that looks, and reports afterwards, gets the same verdicts from both: what
// was under way when the limit was reached counts.
func TestReports(t *testing.T) {
	now := &clock{}
	they := theirs(&memory{counts: map[string]uint64{}}, now, false)
	synctest.Test(t, func(t *testing.T) {
		we := ours(t, hybrid.NewMemory())
		now.Store(time.Now().Unix())
		for _, cost := range []uint64{4, 7, 12} {
			key := fmt.Sprint("report", cost)
			used := map[string]uint64{}
			for range 10 {
				for name, service := range map[string]pb.RateLimitServiceServer{
					"ours": we, "theirs": they,
				} {
					look, err := service.ShouldRateLimit(t.Context(), ask(hits(of("day", key), 0)))
					if err == nil && look.GetOverallCode() == pb.RateLimitResponse_OK {
						_, err = service.ShouldRateLimit(t.Context(), ask(hits(of("day", key), cost)))
						used[name] += cost
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if used["ours"] != used["theirs"] || used["ours"] >= 9+cost {
				t.Errorf("costs of %d: %v were used of 9", cost, used)
			}
		}
	})
}

// TestListed: the table has a row for each difference, and no other.
func TestListed(t *testing.T) {
	page, err := os.ReadFile("../../../../../docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Differences\n")
	section, _, _ = strings.Cut(section, "\n#")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|.*\|.*\|$`).FindAllStringSubmatch(
		section, -1) {
		listed[row[1]] = true
	}
	delete(listed, "of")
	for _, d := range differences {
		if !listed[d.name] {
			t.Errorf("%q is not listed", d.name)
		}
		delete(listed, d.name)
	}
	for name := range listed {
		t.Errorf("%q is listed, and not tested", name)
	}
}

// lost is a store of ours that does not answer.
type lost struct{}

func (lost) Exchange(_ context.Context, calls []*lease.Call) {
	for _, c := range calls {
		c.Err = errors.New("connection refused")
	}
}

// TestAway: while Redis is away theirs fails, and ours goes by the outage policy: with share, which
// is the default, a process that has never heard of the store denies.
func TestAway(t *testing.T) {
	they := theirs(&memory{gone: true}, &clock{}, false)
	in := ask(of("day", "1"))
	if got := say(they.ShouldRateLimit(t.Context(), in)); got != "Unknown: connection refused" {
		t.Errorf("theirs: %s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		we := ours(t, lost{})
		for range 10 { // until it knows that the store is away
			_, _ = we.ShouldRateLimit(t.Context(), in)
			time.Sleep(time.Second)
		}
		if got := say(we.ShouldRateLimit(t.Context(), in)); !strings.HasPrefix(got, "OVER_LIMIT") {
			t.Errorf("ours: %s", got)
		}
	})
}
