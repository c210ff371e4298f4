package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/scenarios"
	"github.com/seed13b07268/ration/sim/simtest"
)

var read = simtest.Scenario

const seed = 1

func start(t testing.TB, s *scenario.Scenario, replication int) *engine {
	t.Helper()
	e, err := newEngine(s, seed, replication, 0, nil)
	simtest.OK(t, err)
	return e
}

// watch plays a scenario to its end before a witness.
func watch(t testing.TB, s *scenario.Scenario, replication int, witness func(happening)) (*engine, *Result) {
	t.Helper()
	e := start(t, s, replication)
	e.witness = witness
	r, err := e.play(t.Context())
	simtest.OK(t, err)
	return e, r
}

// oneOf draws one of some texts.
func oneOf(r *rand.Rand) func(...string) string {
	return func(of ...string) string { return of[r.IntN(len(of))] }
}

func play(t testing.TB, s *scenario.Scenario, replication int) *Result {
	t.Helper()
	r, err := Run(context.Background(), s, seed, replication)
	simtest.OK(t, err)
	return r
}

// library opens a scenario that comes with sim.
func library(t testing.TB, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenarios.Open(name)
	if err == nil {
		err = s.Resolve()
	}
	simtest.OK(t, err)
	return s
}

// A shortened is a scenario of the library that ends when it has had its faults, and its first
// replication.
type shortened struct {
	*scenario.Scenario
	result *Result
}

var (
	shortenedMu  sync.Mutex
	shortenedAll = map[string]shortened{}
)

// shorten plays a scenario of the library once for all tests.
func shorten(t testing.TB, name string) shortened {
	t.Helper()
	shortenedMu.Lock()
	defer shortenedMu.Unlock()
	if done, ok := shortenedAll[name]; ok {
		return done
	}
	s := library(t, name)
	s.Duration = min(s.Duration, 22*time.Second)
	if name == "keys" {
		s.Duration = 6 * time.Second // half of all requests take a call
	}
	shortenedAll[name] = shortened{s, play(t, s, 0)}
	return shortenedAll[name]
}

// In every scenario of the library the envelope holds, every request has one
// outcome, and every token is accounted for.
func TestLibrary(t *testing.T) {
	for _, name := range scenarios.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !longform.Set() {
				once := shorten(t, name)
				checkResult(t, once.Scenario, once.result)
				return
			}
			s := library(t, name)
			if name == "keys" {
				s.Duration = 10 * time.Second // half a million requests, most of them with a call
			}
			for replication := range 2 {
				checkResult(t, s, play(t, s, replication))
			}
		})
	}
}

// checkResult holds a result against the promises of TestLibrary.
func checkResult(t *testing.T, s *scenario.Scenario, r *Result) {
	t.Helper()
	most := int64(s.Processes*10) + int64(s.RequestRate()*s.Load.Patience.Seconds())
	if r.Requests == 0 || r.Pending < 0 || r.Pending > most {
		t.Errorf("%d requests: %d admitted, %d denied, %d unanswered, %d pending; at most %d can be", r.Requests, r.Admitted, r.Denied, r.Unanswered, r.Pending, most)
	}
	if r.Excess > r.ExcessAllowed && r.ByOutage == 0 {
		t.Errorf("%.1f tokens above Burst + Rate*T, %.1f allowed", r.Excess, r.ExcessAllowed)
	}
	if r.CallsAdmitting+r.CallsDenying+r.CallsAhead != r.Calls {
		t.Errorf("%d calls: %d, %d and %d", r.Calls, r.CallsAdmitting, r.CallsDenying, r.CallsAhead)
	}
	checkTokens(t, s, r)
	checkFinite(t, reflect.ValueOf(*r))
}

// checkTokens holds the account of tokens against what is left unexplained.
func checkTokens(t *testing.T, s *scenario.Scenario, r *Result) {
	t.Helper()
	k := r.Tokens
	if sum := k.Admitted + k.Left + k.PoolSpilt + k.Spilt + k.Asking + k.Expired + k.Unclaimed + k.Refused +
		k.Messages + k.Forfeited + k.HeldBack + k.Other; math.Abs(sum-k.Supply) > 1e-6*k.Supply {
		t.Errorf("the parts of %v tokens add up to %v", k.Supply, sum)
	}
	unnamed, most := 1e-6*k.Supply, 1e-6*k.Supply
	rate := s.LimitOf().Rate
	// What flowed into leases while exchanges were under way as measuring began comes back
	// later: no more than the rate gives during one of them.
	for _, l := range s.Limits() {
		most += float64(l.Number) * l.Limit.Rate * s.Redis.Timeout.Seconds()
	}
	for _, f := range s.Faults {
		switch f.Kind {
		case "flush": // what was lent by the state that is lost
			unnamed, most = math.Inf(1), math.Inf(1)
		case "limit": // slices of a larger one run on until RateUntil
			most += float64(s.Keys.Number) * max(rate-f.LimitOf().Rate, 0) *
				(s.Policy.MaxRefresh*5/4 + s.Redis.Timeout).Seconds()
			rate = f.LimitOf().Rate
		}
	}
	if math.Abs(k.Other) > unnamed {
		t.Errorf("%.3f of %.1f tokens have no named cause", k.Other, k.Supply)
	}
	for name, x := range map[string]float64{
		"pool": k.PoolSpilt, "lease": k.Spilt, "expired": k.Expired, "unclaimed": k.Unclaimed, "refused": k.Refused,
		"messages": k.Messages, "forfeited": k.Forfeited, "asking": k.Asking + most,
	} {
		if x < -1e-6*k.Supply {
			t.Errorf("%s: %.3f of %.1f tokens", name, x, k.Supply)
		}
	}
}

// A raised limit is in force when all live holders declare it: with their next
// exchanges. What it would have given until then is held back, and nothing else of it
// is lost.
func TestRaisedLimitIsHeldBack(t *testing.T) {
	for _, c := range []struct {
		name, text string
		rate       float64 // by which the limit is raised, all keys together
	}{
		{"raised", "{duration: 20s, faults: [{kind: limit, at: 10s, limit: 2000/s}]}", 1000},
		{"little is wanted", "{duration: 20s, load: {rate: 1000/s}, faults: [{kind: limit, at: 10s, limit: 4000/s}]}", 3000},
		{"many keys", "{duration: 20s, keys: 20, limit: 50/s, faults: [{kind: limit, at: 10s, limit: 100/s}]}", 1000},
		{"raised in the warm-up", "{duration: 50s, warmup: 15s, faults: [{kind: limit, at: 10s, limit: 2000/s}]}", 1000},
		{"raised twice", "{duration: 30s, faults: [{kind: limit, at: 10s, limit: 1500/s}, {kind: limit, at: 20s, limit: 2000/s}]}", 500},
		{"the state is lost", "{duration: 20s, faults: [{kind: limit, at: 10s, limit: 2000/s}, {kind: flush, at: 14s}]}", 1000},
		{"taken back", "{duration: 50s, faults: [{kind: limit, at: 10s, limit: 2000/s}, {kind: limit, at: 20s, limit: 1000/s}]}", 1000},
		{"lowered", "{duration: 20s, faults: [{kind: limit, at: 10s, limit: 500/s}]}", 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := read(t, c.text)
			r := play(t, s, 0)
			waited := time.Duration(r.Tokens.HeldBack / c.rate * 1e9)
			if waited.Abs() > 2*s.Policy.MaxRefresh {
				t.Errorf("%.1f tokens were held back, for %v", r.Tokens.HeldBack, waited)
			}
			checkTokens(t, s, r)
		})
	}
}

// checkFinite: JSON knows no NaN.
func checkFinite(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			checkFinite(t, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			checkFinite(t, v.Index(i))
		}
	case reflect.Float64:
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			t.Errorf("a figure is %v", x)
		}
	}
}

// TestReplay: the same seed gives the same result to the last bit, today and on
// every machine: the file holds hashes that other machines have to reproduce.
//
//	go test ./sim/engine -run TestReplay -update
//
// writes it anew after a change of policy.
func TestReplay(t *testing.T) {
	var lines strings.Builder
	for _, name := range scenarios.Names() {
		text, err := json.Marshal(shorten(t, name).result)
		simtest.OK(t, err)
		fmt.Fprintf(&lines, "%-14s %.16s\n", name, fmt.Sprintf("%x", sha256.Sum256(text)))
	}
	simtest.Golden(t, "testdata/replay.txt", lines.String(), "results have changed")
}

// Processes that end leave nothing behind, however many there are and whatever
// is under way: else an hour of crashes would not fit into memory.
func TestEndedProcessesLeaveNothing(t *testing.T) {
	for _, kind := range []string{"crash", "leave"} {
		s := read(t, fmt.Sprintf(`{duration: 20s, keys: 3, limit: 300/s, redis: {latency: 5ms, timeout: 20ms, lost: 0.2, repeated: 0.2},
			faults: [{kind: %s, at: 10ms, every: 10ms, for: 5ms}]}`, kind))
		e, _ := watch(t, s, 0, nil)
		cells := 0
		for range present(e.cells) {
			cells++
		}
		if len(e.cells) < 1000 || cells > 60 || len(e.carried.list) > 300 || len(e.planned.list) > 100 || len(e.queue.events) > 300 {
			t.Errorf("%s: of %d cells %d are kept, %d messages, %d requests, %d events", kind, len(e.cells), cells, len(e.carried.list), len(e.planned.list), len(e.queue.events))
		}
	}
}

// The limit changes again before all leases under the one before have ended: what
// they admit is no excess.
func TestLimitChangesTwice(t *testing.T) {
	s := read(t, `{duration: 20s, load: {rate: 3000/s}, faults: [{kind: limit, at: 5s, limit: 500/s}, {kind: limit, at: 5200ms, limit: 20/s},
		{kind: limit, at: 10s, limit: 2000/s}, {kind: limit, at: 10300ms, limit: 100/s}, {kind: limit, at: 10400ms, limit: 10/s}]}`)
	r := play(t, s, 0)
	if r.Excess > 1 {
		t.Errorf("%.1f tokens above the limits that were in force", r.Excess)
	}
	checkTokens(t, s, r)
	if asking := r.Tokens.Asking; asking < -300 { // what was lent under larger limits
		t.Errorf("%.1f of %.1f tokens were lent twice", asking, r.Tokens.Supply)
	}
}

// RunWatched tells how far it is: in the end, all of it.
func TestRunWatched(t *testing.T) {
	var played atomic.Int64
	if _, err := RunWatched(t.Context(), read(t, "{duration: 3s}"), seed, 0, &played); err != nil || played.Load() != int64(3*time.Second) {
		t.Errorf("%v played, %v", time.Duration(played.Load()), err)
	}
}

// Another seed and another replication give other results.
func TestSeedsMatter(t *testing.T) {
	s := library(t, "steady")
	s.Duration = 6 * time.Second
	seen := map[int64]bool{}
	for replication := range 4 {
		seen[play(t, s, replication).Admitted*1_000_000+play(t, s, replication).Requests] = true
	}
	if len(seen) != 4 {
		t.Errorf("four replications gave %d different results", len(seen))
	}
}

// Common random numbers: whatever the policy, an open load asks for the same.
func TestPoliciesMeetTheSameRequests(t *testing.T) {
	a, b := library(t, "crashes"), library(t, "crashes")
	b.Policy.Mode = "batches"
	ra, rb := play(t, a, 0), play(t, b, 0)
	if ra.Requests != rb.Requests || !reflect.DeepEqual(ra.Timeline.Offered, rb.Timeline.Offered) {
		t.Errorf("%d and %d requests", ra.Requests, rb.Requests)
	}
	const underWay = 10 // at the end of the warm-up, and of the run
	for i := range ra.Processes {
		if math.Abs(ra.Processes[i].Offered-rb.Processes[i].Offered) > underWay {
			t.Errorf("process %d was asked for %v and %v tokens", i, ra.Processes[i].Offered, rb.Processes[i].Offered)
		}
	}
}

// The engine and the older driver of package lease, which tests its table, are
// written apart from each other; on a scenario that both can play they agree.
func TestAgreesWithTable(t *testing.T) {
	s := read(t, "{duration: 30s, balance: {by: own, skew: 1}, redis: {jitter: 0.5, timeout: 50ms}}")
	var util, calls float64
	const n = 10
	for replication := range n {
		r := play(t, s, replication)
		util += r.Utilisation / n
		calls += r.CallsPerRequest / n
	}
	// The row "offered 2 r" of docs/performance.md.
	t.Logf("utilisation %.4f, %.5f calls per request", util, calls)
	if util < 0.9978 || util > 0.9988 || calls < 0.0105 || calls > 0.0125 {
		t.Errorf("utilisation %.4f, %.4f calls per request", util, calls)
	}
}

// An interrupt leaves what was measured until then.
func TestInterrupted(t *testing.T) {
	s := read(t, "{duration: 1000h}")
	ctx, cancel := context.WithCancel(context.Background())
	e := start(t, s, 0)
	for e.now < 2*time.Second {
		e.step()
	}
	cancel()
	if err := e.run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if r := e.result(); r.Requests < 3000 || r.Seconds < 2 || r.Seconds > 20 {
		t.Errorf("%d requests in %v s", r.Requests, r.Seconds)
	}
}

// BenchmarkRequests is the speed of the simulator, measuring included: requests per second of one
// core, and what a play that has ended holds.
//
//	go test ./sim/engine -run - -bench Requests
func BenchmarkRequests(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"10_processes", "{duration: 60s, balance: {skew: 1}}"},
		{"64_processes", "{duration: 60s, processes: 64, limit: 10000/s, balance: {skew: 1}}"},
		{"1000_keys", "{duration: 60s, keys: 1000, key_skew: 1, limit: 10/s, balance: {skew: 1}}"},
		{"100000_keys", "{duration: 3s, keys: 100000, key_skew: 1, limit: 10/s, load: {rate: 100000/s}}"},
		{"a_call_each", "{duration: 60s, policy: {mode: per-request}}"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := read(b, c.text)
			requests := int64(0)
			b.ReportAllocs()
			var e *engine
			for b.Loop() {
				e = start(b, s, 0)
				r, err := e.play(b.Context())
				simtest.OK(b, err)
				requests += r.Requests
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.HeapAlloc)/1e6, "MB")
			runtime.KeepAlive(e)
		})
	}
}

// However long a run is, its timeline has enough steps for a chart and not too
// many, and they add up to all that was admitted.
func TestTimeline(t *testing.T) {
	for _, duration := range []string{"59900ms", "60s", "100s", "700s"} {
		r := play(t, read(t, "{processes: 2, limit: 10/s, duration: "+duration+"}"), 0)
		line := &r.Timeline
		sum := 0.0
		for _, x := range line.Admitted {
			sum += x * line.Step
		}
		if n := len(line.Admitted); n < mostSteps/2 || n >= mostSteps || n != len(line.Offered) || n != len(line.Ideal) || n != len(line.Limit) {
			t.Errorf("%s: %d steps", duration, n)
		}
		if covered := float64(len(line.Admitted)) * line.Step; covered > r.Seconds+1e-9 || covered < r.Seconds-line.Step || math.Abs(sum-r.TokensAdmitted) > 10*line.Step+1 {
			t.Errorf("%s: %v tokens in %v s, of %v in %v", duration, sum, covered, r.TokensAdmitted, r.Seconds)
		}
	}
}

// In the course of a run an answer comes when its trip is over: of one that was measured what the
// process was late is a part.
func TestAnswersAreNotLateTwice(t *testing.T) {
	const trip = 5 * time.Millisecond
	constant := func(d time.Duration) func(time.Duration) time.Duration {
		return func(time.Duration) time.Duration { return d }
	}
	course := Course{Late: constant(70 * time.Millisecond), Trip: constant(trip)}
	s := read(t, "{duration: 3s, processes: 1, policy: {mode: per-request}, redis: {timeout: 250ms}}")
	e, err := newEngine(s, 1, 0, 0, &course)
	simtest.OK(t, err)
	answers, left := 0, map[time.Duration]bool{}
	e.witness = func(h happening) {
		switch h.what {
		case sent:
			left[h.at] = true
		case replied:
			if answers++; !left[h.at-trip] {
				t.Fatalf("at %v, and nothing left %v before", h.at, trip)
			}
		}
	}
	if r, err := e.play(t.Context()); err != nil || answers < 100 {
		t.Errorf("%d answers of %d calls, %v", answers, r.Calls, err)
	}
}
