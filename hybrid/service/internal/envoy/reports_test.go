package envoy_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// Limits of 1000 tokens, and a wide one beside them that does not deny.
const budgets = `domain: gateway
descriptors:
  - {key: quota, rate_limit: {unit: minute, requests_per_unit: 1000, kind: quota}}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 1000}}
  - {key: sliding, rate_limit: {unit: minute, requests_per_unit: 1000, kind: sliding}}
  - {key: wide, rate_limit: {unit: day, requests_per_unit: 1000000}}
  - {key: long, rate_limit: {unit: year, requests_per_unit: 1000}}
  - {key: always, overdraft: true, rate_limit: {unit: minute, requests_per_unit: 1000, kind: quota}}
  - {key: never, overdraft: false, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: open, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: spent, quota_mode: true, overdraft: true, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: dark, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 1000}}
  - {key: slow, rate_limit: {unit: day, requests_per_unit: 1000, kind: bucket}}
  - {key: priority, rate_limit: {unit: second, requests_per_unit: 1000},
     classes: [{value: critical, floor: 0.5}, {value: batch, weight: 1}]}
`

// fixed is a Source of one document that does not change.
type fixed string

func (f fixed) Load(context.Context) ([]rules.Document, string, error) {
	return []rules.Document{{Name: "fixed.yaml", Text: []byte(f)}}, "1", nil
}

func (f fixed) Wait(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// A gateway looks when a request comes, at one of two replicas, and reports the cost when its
// stream has ended, at the other one.
type gateway struct {
	*testing.T
	services [2]*envoy.Service
	replicas [2]pb.RateLimitServiceServer
	limiters [2]*rules.Limiter
	keys     []string // each request has a descriptor of each
}

// timeout is that of an exchange, for a machine that stands still.
const timeout = 30 * time.Second

// newGateway starts two replicas on one store. Close it.
func newGateway(t *testing.T, store func() hybrid.Store, keys ...string) *gateway {
	g := &gateway{T: t, keys: keys}
	for i := range g.replicas {
		silent := slog.New(slog.DiscardHandler)
		l, err := rules.New(store(), fixed(budgets), rules.Config{
			Limiter: hybrid.Config{
				SlogLogger: silent, Process: hybrid.NewProcess(), Timeout: timeout,
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		var c catcher
		g.services[i] = envoy.New(l, envoy.Config{Log: silent})
		g.services[i].Register(&c)
		g.replicas[i], g.limiters[i] = c.RateLimitServiceServer, l
	}
	return g
}

func (g *gateway) close() {
	for _, l := range g.limiters {
		_ = l.Close(context.Background())
	}
}

// request is one of n hits for each descriptor.
func (g *gateway) request(n uint64) *pb.RateLimitRequest {
	in := &pb.RateLimitRequest{Domain: "gateway"}
	for _, key := range g.keys {
		in.Descriptors = append(in.Descriptors, &common.RateLimitDescriptor{
			Entries:    []*common.RateLimitDescriptor_Entry{{Key: key, Value: "model"}},
			HitsAddend: wrapperspb.UInt64(n),
		})
	}
	return in
}

// send sends a request of n hits for each descriptor.
func (g *gateway) send(replica int, n uint64) *pb.RateLimitResponse {
	g.Helper()
	out, err := g.replicas[replica%2].ShouldRateLimit(g.Context(), g.request(n))
	if err != nil {
		g.Fatal(err)
	}
	return out
}

// look reports whether a request may begin.
func (g *gateway) look(replica int) bool {
	return g.send(replica, 0).GetOverallCode() == pb.RateLimitResponse_OK
}

// serve plays requests of which so many are under way at a time, until pause says that there is no
// more of it. It returns the tokens that were used.
func (g *gateway) serve(rounds, atOnce int, cost uint64, pause func(used uint64)) (used uint64) {
	for range rounds {
		begun := 0
		for i := range atOnce {
			if g.look(i) {
				begun++
			}
		}
		for i := range begun {
			g.send(i+1, cost)
			used += cost
		}
		pause(used)
	}
	return used
}

// scenes are requests that a limit of 1000 tokens has to bear.
var scenes = []struct {
	atOnce int
	cost   uint64
}{{1, 1500}, {1, 600}, {5, 300}, {3, 50}, {16, 1500}}

// bound is the most that may be used: what is under way when the limit is reached goes beyond it.
func bound(limit uint64, atOnce int, cost uint64) uint64 { return limit - 1 + uint64(atOnce)*cost }

// TestReports: a gateway that looks, and reports what a request has cost when its stream has ended,
// uses no more than the limit and what was under way when that was reached, once in each window.
func TestReports(t *testing.T) {
	for _, keys := range [][]string{
		{"quota"}, {"bucket"}, {"sliding"}, {"always"}, {"quota", "wide"}, {"wide", "bucket"},
	} {
		for _, s := range scenes {
			name := fmt.Sprintf("%v, %d of %d", keys, s.atOnce, s.cost)
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					memory := hybrid.NewMemory()
					g := newGateway(t, func() hybrid.Store { return memory }, keys...)
					defer g.close()
					g.look(0) // as any replica that is not new
					g.look(1)
					rounds := 5 + int(1000/(uint64(s.atOnce)*s.cost))
					pause := func(uint64) { time.Sleep(300 * time.Millisecond) } // above MaxRefresh
					most := bound(1000, s.atOnce, s.cost)
					for window := range 3 {
						used := g.serve(rounds, s.atOnce, s.cost, pause)
						if used < 1000 || used > most {
							t.Errorf("window %d: %d tokens were used, not 1000 to %d", window, used, most)
						}
						if slices.Contains(keys, "bucket") { // its debt is paid at 1000 a minute
							time.Sleep(time.Duration(used) * time.Minute / 1000)
						}
						time.Sleep(3 * time.Minute)
					}
				})
			})
		}
	}
}

// TestReportsOnRedis is TestReports on a real Redis, in one window of a day: that of a minute would
// end in the middle of the test now and then.
func TestReportsOnRedis(t *testing.T) {
	server := redistest.Start(t)
	opt := remote.Options(server.Addr)
	opt.DialTimeout, opt.ReadTimeout, opt.WriteTimeout = timeout, timeout, timeout
	client := redis.NewClient(opt)
	defer client.Close()
	for _, key := range []string{"day", "slow"} {
		for _, s := range scenes {
			t.Run(fmt.Sprintf("%s, %d of %d", key, s.atOnce, s.cost), func(t *testing.T) {
				if err := client.FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				g := newGateway(t, func() hybrid.Store { return remote.New(client) }, key)
				defer g.close()
				g.look(0)
				g.look(1)
				pause := func(used uint64) {
					for start := time.Now(); used > 1000 && (g.look(0) || g.look(1)); {
						if time.Since(start) > 20*time.Second {
							t.Fatalf("%d tokens were used, and a look says OK", used)
						}
					}
				}
				rounds := 5 + int(1000/(uint64(s.atOnce)*s.cost))
				used := g.serve(rounds, s.atOnce, s.cost, pause)
				if most := bound(1000, s.atOnce, s.cost); used < 1000 || used > most {
					t.Errorf("%d tokens were used, not 1000 to %d", used, most)
				}
			})
		}
	}
}

// TestNoReports: hits that do not fit take nothing where nobody has looked, or where the rule says
// so, however often they are asked for; and where the rule says that they are reports, they count.
func TestNoReports(t *testing.T) {
	for key, left := range map[string]uint32{"quota": 300, "never": 300, "always": 0} {
		synctest.Test(t, func(t *testing.T) {
			memory := hybrid.NewMemory()
			g := newGateway(t, func() hybrid.Store { return memory }, key)
			defer g.close()
			if key == "never" {
				g.look(0)
			}
			g.send(0, 700)
			for range 3 {
				if out := g.send(0, 600); out.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
					t.Fatalf("%s: 600 of 300: %v", key, out)
				}
			}
			time.Sleep(300 * time.Millisecond)
			if out := g.send(1, 0); out.GetStatuses()[0].GetLimitRemaining() != left {
				t.Errorf("%s: %v, not %d left", key, out, left)
			}
		})
	}
}

// TestReportsBeside: a report counts whatever the other descriptors of its request say. A shadow
// has it, too, and tells that it would have denied.
func TestReportsBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		g := newGateway(t, func() hybrid.Store { return memory }, "quota", "dark")
		defer g.close()
		g.look(1)
		pause := func(uint64) { time.Sleep(300 * time.Millisecond) }
		if used := g.serve(4, 1, 600, pause); used != 1200 {
			t.Errorf("%d tokens were used, not 1200", used)
		}
		shadow := g.limiters[1].Stats().Domains[0].Rules[9]
		if shadow.ShadowAdmitted != 1 || shadow.ShadowDenied != 1 {
			t.Errorf("the shadow has counted %+v", shadow)
		}
		g.keys = []string{"wide"}
		g.look(0)
		for i, want := range []uint32{999_500, 999_000} {
			in := g.request(500)
			quota := g.request(uint64(i)).GetDescriptors()[0] // a look that denies, and a take
			quota.Entries[0].Key = "quota"
			in.Descriptors = append(in.Descriptors, quota)
			out, err := g.replicas[0].ShouldRateLimit(t.Context(), in)
			if err != nil || out.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
				t.Errorf("quota denies, but: %v %v", out, err)
			}
			pause(0)
			if left := g.send(0, 0).GetStatuses()[0].GetLimitRemaining(); left != want {
				t.Errorf("%d are left of the other limit, not %d", left, want)
			}
		}
	})
}

// TestReportsInQuotaMode: a report that does not fit a rule in quota mode counts, and denies
// nothing beside a look at another one that admits: neither the request nor what a third one takes.
func TestReportsInQuotaMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		g := newGateway(t, func() hybrid.Store { return memory }, "spent")
		defer g.close()
		g.send(0, 900)
		g.keys = []string{"open", "spent", "wide"}
		for i := range 2 { // one that begins a debt, and one of a rule that has nothing left
			in := g.request(300)
			in.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
			out, err := g.replicas[0].ShouldRateLimit(t.Context(), in)
			if err != nil || out.GetOverallCode() != pb.RateLimitResponse_OK {
				t.Errorf("%d: %v %v", i, out, err)
			}
			if code := out.GetStatuses()[1].GetCode(); code != pb.RateLimitResponse_OVER_LIMIT {
				t.Errorf("%d: a report that does not fit: %v", i, code)
			}
			time.Sleep(300 * time.Millisecond)
			if left := out.GetStatuses()[2].GetLimitRemaining(); left != uint32(999_700-i*300) {
				t.Errorf("%d: %d are left of the third rule", i, left)
			}
		}
		g.keys = []string{"spent"}
		if g.look(0) {
			t.Error("the reports are not counted")
		}
	})
}

// TestReportsOverHTTP: a look over gRPC makes hits over HTTP reports.
func TestReportsOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := hybrid.NewMemory()
		g := newGateway(t, func() hybrid.Store { return memory }, "quota")
		defer g.close()
		g.look(0)
		body, err := protojson.Marshal(g.request(1500))
		if err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		g.services[0].Handler().ServeHTTP(w, httptest.NewRequest("POST", "/json", bytes.NewReader(body)))
		if w.Code != http.StatusTooManyRequests || g.look(0) {
			t.Errorf("the report got %d, and a look after it may say OK", w.Code)
		}
	})
}

// TestReportsOfClasses: requests of two classes are looked at when they come, at one of two replicas,
// and reported when they have been served. A class that wants less than its floor has all but a few,
// beside another one that wants three times the limit. It has fewer where a report never comes to the
// replica that was looked at, and what is used stays within the limit.
func TestReportsOfClasses(t *testing.T) {
	for name, c := range map[string]struct {
		reportAt func(looked int, rng *rand.Rand) int
		served   float64
	}{
		"anywhere":  {func(_ int, rng *rand.Rand) int { return rng.IntN(2) }, 0.85},
		"elsewhere": {func(looked int, _ *rand.Rand) int { return 1 - looked }, 0.5},
	} {
		synctest.Test(t, func(t *testing.T) {
			memory := hybrid.NewMemory()
			g := newGateway(t, func() hybrid.Store { return memory }, "priority")
			defer g.close()
			const cost, serves, warm, lasts = 10, 300 * time.Millisecond, 5 * time.Second, 30 * time.Second
			send := func(replica int, class string, n uint64) bool {
				in := g.request(n)
				in.Descriptors[0].Entries[0].Value = class
				out, err := g.replicas[replica].ShouldRateLimit(t.Context(), in)
				if err != nil {
					t.Error(err)
				}
				return out.GetOverallCode() == pb.RateLimitResponse_OK
			}
			var all sync.WaitGroup
			var asked, used [2]atomic.Int64
			began := time.Now()
			for class, rate := range []float64{400, 3000} {
				all.Go(func() {
					of, rng := []string{"critical", "batch"}[class], rand.New(rand.NewPCG(1, uint64(class)))
					for time.Since(began) < lasts {
						time.Sleep(time.Duration(rng.ExpFloat64() * cost / rate * 1e9))
						replica, counts := rng.IntN(2), time.Since(began) > warm
						report := c.reportAt(replica, rng)
						if counts {
							asked[class].Add(cost)
						}
						if !send(replica, of, 0) {
							continue
						}
						all.Go(func() {
							time.Sleep(serves)
							send(report, of, cost)
							if counts {
								used[class].Add(cost)
							}
						})
					}
				})
			}
			all.Wait()
			served, sum := float64(used[0].Load())/float64(asked[0].Load()), used[0].Load()+used[1].Load()
			t.Logf("%s: %.3f of critical requests, %d tokens in 25 s", name, served, sum)
			if served < c.served {
				t.Errorf("%s: %.3f of critical requests within the floor are served", name, served)
			}
			// 1000/s, burst 1000, what is under way, and a Burst that batch may owe apart.
			if most := int64(27_000 + 3400*serves/time.Second); sum < 22_000 || sum > most {
				t.Errorf("%s: %d tokens are used in 25 s, not 22000 to %d", name, sum, most)
			}
		})
	}
}
