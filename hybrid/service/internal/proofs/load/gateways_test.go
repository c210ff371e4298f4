//go:build linux

package load

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote/redistest"
)

var gatewaysFor = flag.Duration("gateways", 12*time.Second, "how long TestGateways asks")

// The limits of TestGateways, in tokens: one of each minute, and a bucket.
const (
	minuteSize              = 20_000
	budgetRate, budgetBurst = 1000, 5000
	mostCost                = 400 // of a call
	atOnce                  = 8   // calls of each client
)

var budgets = fmt.Sprintf(`domain: gateway
descriptors:
  - {key: minute, overdraft: true, rate_limit: {unit: minute, requests_per_unit: %d, kind: quota}}
  - {key: bucket, overdraft: true, rate_limit: {unit: second, requests_per_unit: %d, burst: %d}}
`, minuteSize, budgetRate, budgetBurst)

// knows is within what time all replicas know of a report: Policy.MaxRefresh, and as long again on
// a machine that is busy. A call that begins in it, and while the machine stands still, is under
// way.
const knows = 500 * time.Millisecond

// A call is one that a gateway has let through.
type call struct {
	begun time.Time // before its look
	sent  time.Time // its report, when the stream had ended
	known time.Time // the report's answer, if it has one; 0: it may be lost
	cost  int
}

// gateways are what asks: a client that plays the calls of one, and perhaps a real Envoy.
type gateways struct {
	*testing.T
	services [2]*process
	replicas [2]pb.RateLimitServiceClient
	dead     int        // the replica that is killed
	mu       sync.Mutex // of what follows
	calls    map[string][]*call
	denied   int
	killed   time.Time
	away     bool          // the dead one; the gateway's checks of health tell
	stood    time.Duration // for how long the machine has stood still at most
}

// watch sees when the machine stands still, until ctx ends.
func (g *gateways) watch(ctx context.Context) {
	const step = 10 * time.Millisecond
	for last := time.Now(); ctx.Err() == nil; {
		pause(ctx, step)
		now := time.Now()
		g.stood = max(g.stood, now.Sub(last)-step)
		last = now
	}
}

// send sends hits of a limit.
func (g *gateways) send(replica int, key string, hits uint64) (pb.RateLimitResponse_Code, error) {
	ctx, end := context.WithTimeout(context.Background(), 10*time.Second)
	defer end()
	in := request("gateway", key, "model")
	in.Descriptors[0].HitsAddend = wrapperspb.UInt64(hits)
	out, err := g.replicas[replica].ShouldRateLimit(ctx, in)
	return out.GetOverallCode(), err
}

// living is a replica, or the other one where that is away.
func (g *gateways) living(replica int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.away {
		return 1 - g.dead
	}
	return replica
}

// client plays the calls of a gateway, one after the other, until ctx ends: a look at a replica, a
// stream, and a report to the other. A report without an answer is not sent again.
func (g *gateways) client(ctx context.Context, key string, random *rand.Rand) {
	for ctx.Err() == nil {
		replica := g.living(random.IntN(2))
		c := &call{begun: time.Now(), cost: 1 + random.IntN(mostCost)}
		code, err := g.send(replica, key, 0)
		if err != nil || code != pb.RateLimitResponse_OK {
			g.deny()
			pause(ctx, 20*time.Millisecond)
			continue
		}
		pause(context.Background(), stream(random))
		c.sent = time.Now()
		replica = g.living(1 - replica)
		_, err = g.send(replica, key, uint64(c.cost))
		if err == nil {
			c.known = time.Now()
		}
		g.add(key, c, replica == g.dead)
	}
}

// envoy asks a real one, which limits the calls by itself. Its reports have no answer that is seen.
func (g *gateways) envoy(ctx context.Context, url, key string) {
	for ctx.Err() == nil {
		c := &call{begun: time.Now()}
		res, err := http.Get(url)
		if err != nil {
			g.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK {
			g.deny()
			pause(ctx, 20*time.Millisecond)
			continue
		}
		c.cost, _ = strconv.Atoi(res.Header.Get("X-Tokens"))
		c.sent = time.Now()
		c.known = c.sent.Add(knows)
		g.add(key, c, true)
	}
}

func stream(random *rand.Rand) time.Duration {
	return 250*time.Millisecond + time.Duration(random.Int64N(int64(500*time.Millisecond)))
}

func (g *gateways) deny() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied++
}

// add notes a call. What may have been reported to the replica that is killed, at a time at which
// it may not have told the store, may be lost.
func (g *gateways) add(key string, c *call, dead bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls[key] = append(g.calls[key], c)
	if dead && c.sent.Before(g.killed.Add(2*time.Second)) { // by when all checks have failed
		c.known = time.Time{}
	}
}

// kill ends a replica as kill -9 does, and starts it anew later.
func (g *gateways) kill(ctx context.Context, away time.Duration) {
	g.services[g.dead].Kill()
	now := time.Now()
	g.mu.Lock()
	g.killed, g.away = now, true
	for _, list := range g.calls {
		for _, c := range list {
			if c.known.After(now.Add(-knows)) {
				c.known = time.Time{}
			}
		}
	}
	g.mu.Unlock()
	pause(ctx, away)
	g.services[g.dead].Start()
	g.mu.Lock()
	g.away = false
	g.mu.Unlock()
}

// TestGateways: a client that plays the calls of a gateway, and a real Envoy if there is one, use
// no more than the limits and what is under way when these are reached, by two replicas on a Redis,
// of which one is killed and started again.
func TestGateways(t *testing.T) {
	g := newGateways(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var asking sync.WaitGroup
	asking.Go(func() { g.watch(ctx) })
	for _, key := range []string{"minute", "bucket"} {
		for i := range atOnce {
			random := rand.New(rand.NewPCG(uint64(i), uint64(len(g.calls))))
			asking.Go(func() { g.client(ctx, key, random) })
		}
		g.calls[key] = nil
	}
	if url := g.front(); url != "" {
		for range atOnce {
			asking.Go(func() { g.envoy(ctx, url, "minute") })
		}
	}
	pause(ctx, *gatewaysFor/2)
	g.kill(ctx, min(*gatewaysFor/8, 10*time.Second))
	pause(ctx, *gatewaysFor/2)
	stop()
	asking.Wait()
	g.judgeMinutes(g.calls["minute"])
	g.judgeBucket(g.calls["bucket"])
	if g.denied == 0 {
		t.Error("nothing was denied: the limits were not reached")
	}
}

func newGateways(t *testing.T) *gateways {
	g := &gateways{T: t, calls: map[string][]*call{}}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "gateway.yaml"), []byte(budgets), 0o600); err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	for i := range g.services {
		g.services[i] = start(t, "-redis", "redis://"+redis.Addr, "-rules", "files:"+folder, "-outage",
			"deny")
		g.replicas[i] = g.services[i].dial()
	}
	return g
}

// front starts an Envoy before a model, and returns its URL, or nothing where there is no Envoy.
func (g *gateways) front() string {
	if _, err := exec.LookPath(cmp.Or(os.Getenv("RATION_ENVOY"), "envoy")); err != nil {
		g.Log("without an Envoy:", err)
		return ""
	}
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		pause(context.Background(), stream(rand.New(rand.NewPCG(rand.Uint64(), 0))))
		w.Header().Set("X-Tokens", fmt.Sprint(1+rand.IntN(mostCost)))
		_, _ = io.WriteString(w, "hello")
	}))
	g.Cleanup(model.Close)
	return servicetest.StartEnvoy(g, servicetest.Gateway("minute", model.Listener.Addr().String(),
		g.services[0].GRPC, g.services[1].GRPC))
}

// judgeMinutes holds each minute to the limit and what was under way when that was reached.
func (g *gateways) judgeMinutes(calls []*call) {
	minutes := map[time.Time][]*call{}
	for _, c := range calls {
		at := c.sent.Truncate(time.Minute)
		minutes[at] = append(minutes[at], c)
	}
	for at, list := range minutes {
		slices.SortFunc(list, func(a, b *call) int { return a.known.Compare(b.known) })
		reached, sum, used, lost := at.Add(time.Minute), 0, 0, 0
		for _, c := range list {
			used += c.cost
			if c.known.IsZero() {
				lost += c.cost
			} else if sum += c.cost; sum-c.cost < minuteSize && sum >= minuteSize {
				reached = c.known
			}
		}
		under, late := 0, 0
		for _, c := range list {
			switch {
			case c.begun.After(reached.Add(knows + g.stood)):
				late++
			case !c.known.IsZero() && !c.known.Before(reached):
				under += c.cost
			}
		}
		g.Logf("minute %v: %d calls used %d of %d: %d were under way when it was reached, %d may be lost",
			at.Format("15:04"), len(list), used, minuteSize, under, lost)
		if late > 0 || used > minuteSize+under+lost {
			g.Errorf("minute %v: that is too much, and %d calls began after it was known", at, late)
		}
	}
}

// judgeBucket holds any time to what the bucket has by then, and what was under way when that was
// used up: for each call at once that one, and one that began before all replicas knew.
func (g *gateways) judgeBucket(calls []*call) {
	slices.SortFunc(calls, func(a, b *call) int { return a.sent.Compare(b.sent) })
	used, lost, lowest, over := 0, 0, 0.0, 0.0
	for _, c := range calls {
		flowed := budgetRate * c.sent.Sub(calls[0].sent).Seconds()
		lowest = min(lowest, float64(used)-flowed)
		used += c.cost
		over = max(over, float64(used)-flowed-lowest)
		if c.known.IsZero() {
			lost += c.cost
		}
	}
	const under = 2 * atOnce * mostCost
	g.Logf("bucket: %d calls used %d tokens, at most %.0f above rate * t, of %d and %d under way; %d may "+
		"be lost", len(calls), used, over, budgetBurst, under, lost)
	if over > float64(budgetBurst+under+lost) {
		g.Error("that is too much")
	}
	if seconds := gatewaysFor.Seconds(); float64(used) < 0.9*budgetRate*seconds {
		g.Errorf("only %d tokens in %v: less than the bucket has", used, *gatewaysFor)
	}
}
