//go:build linux

package load

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/remote/redistest"
)

var two = flag.Duration("two", 5*time.Second, "how long each part of TestTwoServices asks")

const (
	bucketRate, bucketBurst = 200, 100
	quotaSize               = 150
	timeout                 = 250 * time.Millisecond // the default of -timeout
	callers                 = 8
)

var limits = fmt.Sprintf(`domain: two
descriptors:
  - {key: bucket, rate_limit: {unit: second, requests_per_unit: %d, burst: %d}}
  - {key: quota, rate_limit: {unit: second, requests_per_unit: %d, kind: quota}}
`, bucketRate, bucketBurst, quotaSize)

// request is for one token of a user, or of what else the key names.
func request(domain, key, value string) *pb.RateLimitRequest {
	return &pb.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: key, Value: value}},
	}}}
}

// A failure is a request without an answer.
type failure struct {
	at, end time.Duration
	err     error
}

// An envoy asks two services at random.
type envoy struct {
	services [2]pb.RateLimitServiceClient
	begin    time.Time

	mu     sync.Mutex
	tokens map[string][]admission
	asked  int
	errors [2][]failure
	stood  []gap // in which the machine stood still
}

func (e *envoy) clock() time.Duration { return time.Since(e.begin) }

// ask asks as fast as the services answer, until ctx ends.
func (e *envoy) ask(ctx context.Context, random *rand.Rand) {
	tokens := map[string][]admission{}
	asked := 0
	var errs [2][]failure
	for ctx.Err() == nil {
		key := []string{"bucket", "quota"}[random.IntN(2)]
		to := random.IntN(2)
		before := e.clock()
		out, err := e.services[to].ShouldRateLimit(context.WithoutCancel(ctx),
			request("two", key, "one"))
		asked++
		switch {
		case err != nil:
			errs[to] = append(errs[to], failure{before, e.clock(), err})
		case out.GetOverallCode() == pb.RateLimitResponse_OK:
			tokens[key] = append(tokens[key], admission{before, e.clock()})
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked += asked
	for key, list := range tokens {
		e.tokens[key] = append(e.tokens[key], list...)
	}
	for i := range errs {
		e.errors[i] = append(e.errors[i], errs[i]...)
	}
}

// watch notes when the machine stands still, until ctx ends: requests of then may get no answer.
func (e *envoy) watch(ctx context.Context) {
	for last := e.clock(); ctx.Err() == nil; {
		pause(ctx, timeout/20)
		now := e.clock()
		if now-last > timeout/2 {
			e.stood = append(e.stood, gap{from: last - timeout, to: now + timeout})
		}
		last = now
	}
}

// TestTwoServices: limits hold over two services, as a client sees it that asks both, while Redis
// is killed and started again, and one of the services is killed. With -outage deny there is no
// exception; with share there is that of docs/guarantees.md.
func TestTwoServices(t *testing.T) {
	for _, outage := range []string{"deny", "share"} {
		t.Run(outage, func(t *testing.T) { twoServices(t, outage) })
	}
}

func twoServices(t *testing.T, outage string) {
	// What is answered is on the disk, so that a restart loses neither rules nor ledgers.
	redis := redistest.Start(t, "appendonly yes", "dir "+t.TempDir())
	args := []string{"-redis", "redis://" + redis.Addr, "-rules", "redis:two",
		"-seed", "true", "-outage", outage}
	first := start(t, args...)
	second := start(t, args...)
	v := first.visit()
	must(t, v, "PUT", "v1/domains/two?reason=test", limits, "If-None-Match", "*")
	w := second.visit() // accounts are in SQLite, of each service its own
	await(t, "both have the rules", func() bool {
		const path = "v1/explain?domain=two&descriptor=quota"
		a, err := v.API(t.Context(), "GET", path, "")
		b, err2 := w.API(t.Context(), "GET", path, "")
		return err == nil && err2 == nil && a.Status == 200 && b.Status == 200
	})

	e := &envoy{tokens: map[string][]admission{}, begin: time.Now()}
	e.services = [2]pb.RateLimitServiceClient{first.dial(), second.dial()}
	offset := time.Duration(e.begin.UnixNano())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() { e.watch(ctx) })
	for i := range callers {
		asking.Go(func() { e.ask(ctx, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	running(ctx, *two*2/5)
	away := gap{from: e.clock()}
	redis.Restart()
	away.to = e.clock()
	running(ctx, *two/5)
	second.Kill()
	running(ctx, *two*2/5)
	stop()
	asking.Wait()
	first.Terminate()
	if told := first.Told(); !strings.Contains(told, `"ending"`) ||
		strings.Contains(told, "not handed back") || strings.Contains(told, "cut off") {
		t.Error("the first service has not ended in order")
	}
	e.judge(t, outage, away, offset)
	if t.Failed() {
		t.Logf("the first service:\n%s", first.Told())
	}
}

// judge holds what was admitted to the limits.
func (e *envoy) judge(t *testing.T, outage string, away gap, offset time.Duration) {
	t.Helper()
	var gaps []gap
	quota := quotaSize
	if outage == "share" {
		// The services notice that Redis is away, share, and notice that it is back: by 1.5
		// intervals of probes and a timeout.
		lasts := (away.to - away.from + time.Second).Seconds()
		away.to += time.Second
		away.more = bucketBurst + bucketRate*lasts + 2
		gaps = append(gaps, away)
		quota += min(quotaSize, int(quotaSize*lasts)+2)
	}
	bucket := e.tokens["bucket"]
	worst, at := excess(bucket, bucketBurst, bucketRate, timeout, gaps...)
	fullest := most(e.tokens["quota"], time.Second, offset)
	t.Logf("%d requests in %v, Redis away from %v to %v; bucket: %d admitted, %.1f beyond the "+
		"envelope at most; quota: %d admitted, %d in the fullest window of %d", e.asked, *two,
		away.from, away.to, len(bucket), worst, len(e.tokens["quota"]), fullest, quotaSize)
	if worst > 0 {
		t.Errorf("the bucket has admitted %.2f tokens too many in a window that ends at %v", worst, at)
	}
	if fullest > quota {
		t.Errorf("a window of the quota has %d tokens, of %d", fullest, quota)
	}
	if len(bucket) < int(bucketRate**two/time.Second)/4 {
		t.Errorf("only %d tokens of the bucket in %v: nothing was tried", len(bucket), *two)
	}
	if fullest < quotaSize/2 {
		t.Errorf("no window of the quota has more than %d of %d", fullest, quotaSize)
	}
	e.judgeErrors(t, away)
}

// judgeErrors: a service that lives fails only those requests that wait for Redis as it goes away,
// before the outage policy decides. That of a service that was killed fails.
func (e *envoy) judgeErrors(t *testing.T, away gap) {
	t.Helper()
	excuses := append(e.stood, gap{from: away.from - timeout, to: away.to + 2*time.Second})
	for _, f := range e.errors[0] {
		near := func(g gap) bool { return g.from <= f.at && f.at <= g.to }
		if status.Code(f.err) != codes.Unavailable || !slices.ContainsFunc(excuses, near) {
			t.Errorf("the service that lives, at %v: %v", f.at, f.err)
		}
	}
	if n := len(e.errors[0]); n > mostWaiting*len(excuses) {
		t.Errorf("the service that lives has failed %d requests as Redis went away", n)
	}
	if len(e.errors[1]) == 0 {
		t.Error("no error of the service that was killed")
	}
	t.Logf("%d requests failed as Redis went away", len(e.errors[0]))
}

// mostWaiting is how many requests may fail as Redis goes away: each of the callers waits, for
// up to the timeout, for at most a few times.
const mostWaiting = 8 * callers
