//go:build linux

package load

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote/redistest"
)

var long = flag.Duration("load", 0, "how long TestLoad asks; 0 is a short form of 10 s, of "+
	"which no figure of speed, of memory or of lost tokens is held to anything")

const (
	askers = 32 // at once, half of them at each service
	users  = 1000

	// life is the longest life of a slice after a crash, 3.25 MaxRefresh: docs/guarantees.md.
	life = 3250 * time.Millisecond / 4

	// memory is what a process may grow besides a fifth: the history of the live view, and what
	// the garbage collector leaves.
	memory = 16 << 20
)

// steadyBurst is that of the key whose lost tokens are counted.
const steadyBurst = 50

// rulesOf is the version of a second. The rule of steady stays.
func rulesOf(second int, steady float64) string {
	text := fmt.Sprintf("domain: load\ndescriptors:\n"+
		"  - {key: steady, rate_limit: {unit: second, requests_per_unit: %d, burst: %d}}\n"+
		"  - {key: user, rate_limit: {unit: second, requests_per_unit: %d, burst: 20}}\n",
		max(1, int(steady)), steadyBurst, 5+second%7)
	if second%2 == 1 {
		text += "  - {key: user, value: user7, rate_limit: {unit: hour, requests_per_unit: 9, " +
			"kind: quota}}\n"
	}
	return text
}

// A scene is two services under load.
type scene struct {
	t        *testing.T
	services [2]*process
	clients  [2]pb.RateLimitServiceClient
	v        *servicetest.Visitor // of the first
	begin    time.Time
	steady   float64 // tokens/s of the key of this name

	away atomic.Bool // the second service

	mu       sync.Mutex
	latency  []time.Duration
	asked    int
	failed   [2][]failure
	admitted []admission // of steady
}

func newScene(t *testing.T, args ...string) *scene {
	redis := redistest.Start(t, "appendonly yes", "dir "+t.TempDir())
	args = append(args, "-redis", "redis://"+redis.Addr, "-rules", "redis:load", "-seed", "true")
	s := &scene{t: t, begin: time.Now(), steady: 1}
	for i := range s.services {
		s.services[i] = start(t, args...)
		s.clients[i] = s.services[i].dial()
	}
	s.v = s.services[0].visit()
	must(t, s.v, "PUT", "v1/domains/load?reason=test", rulesOf(0, 1), "If-None-Match", "*")
	await(t, "the rules are in force", func() bool {
		const path = "v1/explain?domain=load&descriptor=user"
		a, err := s.v.API(t.Context(), "GET", path, "")
		return err == nil && a.Status == 200
	})
	return s
}

// A tally is what one asker has seen.
type tally struct {
	latency  []time.Duration
	failed   []failure
	admitted []admission
}

// one sends a request that was due at a time: a quarter are for one key.
func (s *scene) one(to int, random *rand.Rand, due time.Time, sum *tally) {
	r := request("load", "user", "user"+strconv.Itoa(random.IntN(users)))
	steady := random.IntN(4) == 0
	if steady {
		r = request("load", "steady", "one")
	}
	before := time.Since(s.begin)
	out, err := s.clients[to].ShouldRateLimit(context.Background(), r)
	after := time.Since(s.begin)
	switch {
	case err != nil:
		sum.failed = append(sum.failed, failure{before, after, err})
	case steady && out.GetOverallCode() == pb.RateLimitResponse_OK:
		sum.admitted = append(sum.admitted, admission{before, after})
	}
	sum.latency = append(sum.latency, time.Since(due))
}

// ask asks until ctx ends: at a rate of all askers, or for 0 as fast as the services answer.
func (s *scene) ask(ctx context.Context, rate float64) {
	var asking sync.WaitGroup
	for i := range askers {
		asking.Go(func() {
			sum, to := tally{}, i%2
			random := rand.New(rand.NewPCG(1, uint64(i)))
			every := time.Duration(0)
			if rate > 0 {
				every = time.Duration(askers / rate * float64(time.Second))
			}
			due := time.Now().Add(time.Duration(random.Float64() * float64(every)))
			for ctx.Err() == nil {
				pause(ctx, time.Until(due))
				if ctx.Err() != nil {
					break
				}
				if rate == 0 {
					due = time.Now()
				}
				if to == 0 || !s.away.Load() {
					s.one(to, random, due, &sum)
				}
				due = due.Add(every)
			}
			s.add(to, sum)
		})
	}
	asking.Wait()
}

func (s *scene) add(to int, sum tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked += len(sum.latency)
	s.latency = append(s.latency, sum.latency...)
	s.failed[to] = append(s.failed[to], sum.failed...)
	s.admitted = append(s.admitted, sum.admitted...)
}

// topRate is how many requests the services answer in a second.
func (s *scene) topRate(d time.Duration) float64 {
	s.ask(timed(s.t, d/4), 0) // connections, keys
	s.asked = 0
	begin := time.Now()
	s.ask(timed(s.t, d), 0)
	rate := float64(s.asked) / time.Since(begin).Seconds()
	for i, list := range s.failed {
		if len(list) > 0 {
			s.t.Errorf("service %d at its top rate: %v", i, list[0].err)
		}
	}
	s.asked, s.latency, s.failed, s.admitted = 0, nil, [2][]failure{}, nil
	return rate
}

func timed(t *testing.T, d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), d)
	t.Cleanup(stop)
	return ctx
}

// operate changes the rules each second, looks at the page and the API, and returns the memory of
// the first service in each second.
func (s *scene) operate(ctx context.Context) (memory []int) {
	version := s.setRules(0, `"1"`)
	paths := []string{"domains/load", "live/load", "domains/load/history"}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for second := 1; ; second++ {
		select {
		case <-ctx.Done():
			return memory
		case <-tick.C:
		}
		version = s.setRules(second, version)
		for _, path := range paths {
			a, err := s.v.Get(s.t.Context(), path)
			if err != nil || a.Status != 200 {
				s.t.Errorf("/%s in second %d: %d %v", path, second, a.Status, err)
			}
		}
		if resp, err := http.Get("http://" + s.services[0].Metrics + "/metrics"); err != nil {
			s.t.Errorf("metrics in second %d: %v", second, err)
		} else if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			s.t.Errorf("metrics in second %d: %d", second, resp.StatusCode)
		}
		a, err := s.v.API(s.t.Context(), "POST", "v1/take",
			`{"domain": "load", "descriptors": [{"entries": [{"key": "user", "value": "api"}]}]}`)
		if err != nil || a.Status != 200 {
			s.t.Errorf("take in second %d: %d %v: %s", second, a.Status, err, a.Text)
		}
		memory = append(memory, s.services[0].rss())
	}
}

// setRules saves the version of a second on top of one, and returns its ETag.
func (s *scene) setRules(second int, on string) string {
	a, err := s.v.API(s.t.Context(), "PUT", "v1/domains/load?reason=load",
		rulesOf(second, s.steady), "If-Match", on)
	if err != nil || a.Status != 200 {
		s.t.Errorf("rules of second %d: %d %v: %s", second, a.Status, err, a.Text)
	}
	return a.Header.Get("ETag")
}

// TestLoad: two services at half of their top rate, while rules change each second, and one of
// them is killed and comes back. The first one answers each request, of gRPC, the API and the page.
func TestLoad(t *testing.T) {
	d, held := *long, *long > 0
	var args []string
	if !held {
		d = 10 * time.Second
		args = []string{"-timeout", "20s"} // longer than a busy machine stands still
		t.Log("the short form: its figures of speed, memory and lost tokens are held to nothing. " +
			"See -load")
	}
	s := newScene(t, args...)
	top := s.topRate(min(d/5, 10*time.Second))
	s.steady = top / 32 // the first service alone is asked twice that

	ctx := timed(t, d)
	var beside sync.WaitGroup
	var rss []int
	beside.Go(func() { rss = s.operate(ctx) })
	beside.Go(func() { s.ask(ctx, top/2) })
	killed, back := s.crash(ctx, d/2)
	beside.Wait()
	s.report(top, d)
	s.judgeFailures(killed, back)
	s.judgeMemory(rss, held)
	s.judgeLost(killed, held)
}

// crash kills the second service after a time, and starts it again.
func (s *scene) crash(ctx context.Context, after time.Duration) (killed, back time.Duration) {
	pause(ctx, after)
	killed = time.Since(s.begin)
	s.services[1].Kill()
	s.away.Store(true)
	pause(ctx, 2*time.Second) // its leases end meanwhile
	s.services[1].Start()
	probe := request("load", "user", "probe")
	await(s.t, "the second service answers", func() bool {
		_, err := s.clients[1].ShouldRateLimit(context.Background(), probe)
		return err == nil
	})
	s.away.Store(false)
	return killed, time.Since(s.begin)
}

func (s *scene) report(top float64, d time.Duration) {
	slices.Sort(s.latency)
	at := func(part float64) time.Duration {
		return s.latency[int(part*float64(len(s.latency)-1))].Round(time.Microsecond)
	}
	s.t.Logf("top rate %.0f/s; %d requests in %v, %.0f/s; from when each was due: p50 %v, p99 %v, "+
		"p99.9 %v, longest %v", top, s.asked, d, float64(s.asked)/d.Seconds(), at(0.5), at(0.99),
		at(0.999), at(1))
}

func (s *scene) judgeFailures(killed, back time.Duration) {
	for i, list := range s.failed {
		for n, f := range list {
			// Requests that were under way, or began before its clients knew.
			if i == 1 && f.end > killed && f.at < back {
				continue
			}
			if n < 5 {
				s.t.Errorf("service %d, at %v: %v", i, f.at, f.err)
			}
		}
	}
	s.t.Logf("killed at %v, back after %v; %d requests failed of the service that was killed, %d "+
		"of the other one", killed, back-killed, len(s.failed[1]), len(s.failed[0]))
}

// judgeMemory compares the memory of the last seconds with that after a third.
func (s *scene) judgeMemory(rss []int, held bool) {
	if len(rss) < 6 && !held {
		return
	}
	if len(rss) < 6 {
		s.t.Fatalf("the memory was looked at %d times only", len(rss))
	}
	mean := func(list []int) float64 {
		sum := 0
		for _, n := range list {
			sum += n
		}
		return float64(sum) / float64(len(list))
	}
	n := max(1, len(rss)/20)
	third, end := mean(rss[len(rss)/3:len(rss)/3+n]), mean(rss[len(rss)-n:])
	s.t.Logf("memory: %.1f MiB after a third, %.1f MiB in the end, %.1f MiB at most",
		third/(1<<20), end/(1<<20), float64(slices.Max(rss))/(1<<20))
	if held && end > 1.2*third+memory {
		s.t.Errorf("memory grows from %.0f to %.0f bytes", third, end)
	}
}

// judgeLost compares what was admitted of a key after the crash with its rate: the other service
// asks for more than that.
func (s *scene) judgeLost(killed time.Duration, held bool) {
	const seconds = 2
	n := 0
	for _, a := range s.admitted {
		if a.before >= killed && a.after < killed+seconds*time.Second {
			n++
		}
	}
	rate := float64(max(1, int(s.steady)))
	lost := seconds*rate - float64(n)
	bound := rate*life.Seconds() + steadyBurst
	s.t.Logf("of %.0f tokens/s, %.0f of the %.0f tokens of %d s after the crash were lost; %.0f are "+
		"what a crash may cost", rate, lost, seconds*rate, seconds, bound)
	if held && lost > bound {
		s.t.Errorf("the crash has cost %.0f tokens, more than %.0f", lost, bound)
	}
}
