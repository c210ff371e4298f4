package live

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9/logging"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/simtest"
	"github.com/seed13b07268/ration/sim/workload"
)

// childVariable makes the test program a child.
const childVariable = "RATION_LIVE_CHILD"

func TestMain(m *testing.M) {
	logging.Disable() // of go-redis: that nobody answers is what some tests want
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	if err := Play(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// asChildren makes the run's processes children: the test program again.
func asChildren(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	simtest.OK(t, err)
	return []string{"env", childVariable + "=1", self}
}

// check has wide bounds, because the time is real: these tests are of real
// processes. Where requests came late the machine had no time for Redis either,
// least of all under the race detector: then only the promise is checked, which
// holds even so. The timeout is long for the same reason.
// A flush fills buckets, of so many tokens, once more.
func check(t *testing.T, m *engine.Result, x Extra, flushed float64) {
	t.Helper()
	t.Logf("%d requests, %d admitted, utilisation %.3f, calls %.3f, excess %.1f of %.1f, late %.4f s at most",
		m.Requests, m.Admitted, m.Utilisation, m.CallsPerRequest, m.Excess, m.ExcessAllowed, x.LateMax)
	if m.Excess > m.ExcessAllowed && m.ByOutage == 0 {
		t.Errorf("excess %v, promised %v", m.Excess, m.ExcessAllowed)
	}
	if x.LateMax > 0.05 {
		t.Logf("utilisation is not judged: the machine was too busy")
		return
	}
	if most := 1.05 + flushed/m.TokensIdeal; m.Utilisation < 0.6 || m.Utilisation > most {
		t.Errorf("utilisation %v, at most %v is wanted", m.Utilisation, most)
	}
	if m.Calls == 0 || m.CallsPerRequest > 0.9 || len(x.Trips) == 0 {
		t.Errorf("%d calls for %d requests, %d trips", m.Calls, m.Requests, len(x.Trips))
	}
}

// short has no warm-up, so that what is saved then need not be reckoned (see
// TestEngineFollowsLimiters): where a look at the pool takes 100 ms, it is not what it was when the
// warm-up ended.
const short = "duration: 1s\nlimit: 500/s\nburst: 100\nbalance: {skew: 1}\nredis: {jitter: 0.5, timeout: 2s}\n"

func TestOnEmbeddedRedis(t *testing.T) {
	longform.None(t)
	progress := new(Progress)
	m, x, err := Run(t.Context(), read(t, short), Options{Seed: 1, Progress: progress})
	simtest.OK(t, err)
	check(t, m, x, 0)
	if x.Redis != Embedded || x.Separate {
		t.Errorf("%+v", x)
	}
	if progress.Fired.Load() < m.Requests || progress.Admitted.Load() < m.Admitted {
		t.Errorf("progress %d, %d", progress.Fired.Load(), progress.Admitted.Load())
	}
}

// Everything that can happen, once, and nothing is left behind on a server that
// is not only ours.
func TestOnRealRedis(t *testing.T) {
	longform.None(t)
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	simtest.OK(t, rdb.Set(t.Context(), "theirs", 1, 0).Err())
	const faults = `faults: [{kind: crash, at: 300ms, for: 100ms}, {kind: crash, at: 500ms}, {kind: leave, at: 350ms, for: 200ms},
  {kind: join, at: 400ms}, {kind: flush, at: 600ms}, {kind: limit, at: 700ms, limit: 300/s}, {kind: deploy, at: 800ms, every: 20ms, for: 50ms}]`
	for _, c := range []struct {
		name, more string
		flushed    float64
	}{
		{"keys", "keys: 20\nload: {rate: 2000/s}", 0}, {"faults", faults, 100},
		{"clients", "load: {clients: {count: 50, think: 50ms}, retry: {times: 2}}", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, x, err := Run(t.Context(), read(t, short+c.more), Options{Redis: server.Addr, Seed: 1})
			simtest.OK(t, err)
			check(t, m, x, c.flushed)
		})
	}
	if keys, err := rdb.Keys(t.Context(), "*").Result(); err != nil || len(keys) != 1 || keys[0] != "theirs" {
		t.Errorf("keys %q are there, %v", keys, err)
	}
}

// Windows are those of the server's clock, and of a quota those of its calendar, wherever in them
// the run begins. No token above them is allowed.
func TestWindowsOnRealRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	text := "duration: " + longform.Of("2500ms", "4s") + "\n" +
		"balance: {skew: 1}\nredis: {jitter: 0.5, timeout: 2s}\nlimit: "
	for name, o := range map[string]Options{
		"here":     {Redis: server.Addr, Seed: 1},
		"separate": {Redis: server.Addr, Seed: 1, Separate: asChildren(t)},
	} {
		for _, limit := range []string{"500/second", "500 in any second"} {
			t.Run(name+" "+limit, func(t *testing.T) {
				t.Parallel()
				if o.Separate != nil {
					longform.Only(t, "starts processes, whose times are real")
				}
				s := read(t, text+limit)
				m, x, err := Run(t.Context(), s, o)
				simtest.OK(t, err)
				check(t, m, x, 0)
				if m.ExcessAllowed > 0 || s.HasQuotas() && x.Began < 50*365*24*time.Hour {
					t.Errorf("%v tokens above the limit are allowed, the run began %v after 1970",
						m.ExcessAllowed, x.Began)
				}
			})
		}
	}
}

func TestSeparateProcesses(t *testing.T) {
	longform.None(t)
	if testing.Short() {
		t.Skip("starts processes, whose times are real: left out with -short")
	}
	t.Parallel()
	server := redistest.Start(t)
	o := Options{Redis: server.Addr, Seed: 1, Separate: asChildren(t)}
	const faults = "processes: 4\nfaults: [{kind: crash, at: 400ms, for: 200ms, process: 0}, {kind: crash, at: 500ms, process: 1}, {kind: leave, at: 700ms, process: 2}, {kind: join, at: 800ms}]"
	m, x, err := Run(t.Context(), read(t, short+faults), o)
	simtest.OK(t, err)
	check(t, m, x, 0)
	if !x.Separate || len(m.Processes) != 5 {
		t.Errorf("%d processes, %+v", len(m.Processes), x)
	}
	for i, p := range m.Processes {
		if p.Admitted == 0 {
			t.Errorf("process %d admitted nothing", i)
		}
	}
	if keys, err := server.Client().Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("keys %q are there, %v", keys, err)
	}
}

// An interrupt in the midst of a long run: figures, no keys, no children.
func TestInterruptedRun(t *testing.T) {
	longform.None(t)
	t.Parallel()
	server := miniredis.RunT(t)
	for _, separate := range [][]string{nil, asChildren(t)} {
		ctx, cancel := context.WithCancel(t.Context())
		o := Options{Redis: server.Addr(), Seed: 1, Separate: separate, Progress: new(Progress)}
		go func() {
			for o.Progress.Fired.Load() < 50 {
				time.Sleep(10 * time.Millisecond) // a real run, of real processes
			}
			cancel()
		}()
		m, x, err := Run(ctx, read(t, "processes: 3\nduration: 10m\nlimit: 100/s\nredis: {timeout: 2s}"), o)
		cancel()
		if !errors.Is(err, context.Canceled) || m.Requests < 50 || m.Seconds > 60 {
			t.Errorf("%d requests in %v s, %+v, %v", m.Requests, m.Seconds, x, err)
		}
		if keys := server.Keys(); len(keys) > 0 {
			t.Errorf("keys %q were left behind", keys)
		}
	}
}

// A child that dies without being told to ends the run with what it said.
func TestChildDies(t *testing.T) {
	_, _, err := Run(t.Context(), read(t, "processes: 2\nduration: 1h\nlimit: 10/s"), Options{Separate: []string{"sh", "-c", "echo out of memory >&2; exit 3"}})
	simtest.Refused(t, "a process", err, "out of memory", "process ")
}

// Whoever closes a child's input, be it by dying, ends it.
func TestOrphanEnds(t *testing.T) {
	var out strings.Builder
	simtest.Refused(t, "no orders", Play(t.Context(), strings.NewReader(""), &out), "orders")
}

func TestUnsupported(t *testing.T) {
	for text, want := range map[string]string{
		"load: {clients: {count: 2, think: 1s}}": "load.clients",
		"load: {retry: {times: 2}}":              "load.retry",
		"redis: {apart: 5ms}":                    "redis.apart",
		"balance: {by: least-outstanding}":       "least-outstanding",
		"load: {patience: 50ms}":                 "load.patience 50ms",
		"limit: 5 slots":                         "load.patience 0s with limit 5 slots",
		"processes: 101":                         "101 separate processes",
		"processes: 1001":                        "1001 processes",
		"duration: 2h\nlimit: 1e4/s":             "10000000 requests",
	} {
		_, _, err := Run(t.Context(), read(t, text), Options{Separate: []string{"/nowhere"}})
		if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Callers who wait cannot be played in one process either.
func TestPatienceIsUnsupported(t *testing.T) {
	_, _, err := Run(t.Context(), read(t, "load: {patience: 2s}"), Options{})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "load.patience 2s") {
		t.Errorf("%v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, addr := range []string{"localhost", "redis://user:secret@:x", "nonsense://user:secret@host"} {
		_, _, err := Run(t.Context(), read(t, ""), Options{Redis: addr})
		if !errors.Is(err, ErrAddress) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", addr, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	simtest.OK(t, err)
	addr := l.Addr().String()
	l.Close()
	_, _, err = Run(t.Context(), read(t, ""), Options{Redis: addr})
	simtest.Refused(t, "nobody is there", err, addr)
}

// What is predicted for the same requests is compared, with its tolerance.
func TestCompare(t *testing.T) {
	measured := &engine.Result{CallsPerRequest: 0.12, Utilisation: 0.98, Fairness: 0.999, LatencyP99: 0.002, Excess: -5}
	predicted := []*engine.Result{
		{CallsPerRequest: 0.09, Utilisation: 0.99, Fairness: 0.995},
		{CallsPerRequest: 0.11, Utilisation: 0.98, Fairness: 0.993},
	}
	got := map[string]Row{}
	for _, row := range Compare(measured, predicted, nil) {
		if got[row.Name] = row; row.Predicted.Low < 0 || row.Tolerance == 0.01 && row.Predicted.High > 1 {
			t.Errorf("%+v: nothing measures so", row)
		}
	}
	if r := got["calls_per_request"]; r.OK || !r.Relative || math.Abs(r.Difference-0.2) > 1e-9 || r.Predicted.N != 2 {
		t.Errorf("%+v", r)
	}
	if r := got["utilisation"]; !r.OK || r.Relative || math.Abs(r.Difference+0.005) > 1e-9 {
		t.Errorf("%+v", r)
	}
	if r := got["fairness"]; !r.OK || math.Abs(r.Difference-0.005) > 1e-9 {
		t.Errorf("%+v", r)
	}
	if r := got["latency_p99_seconds"]; !r.OK || r.Relative || r.Difference != 0.002 {
		t.Errorf("%+v: of nothing there is no part", r)
	}
	if r := got["excess"]; r.Measured != 0 {
		t.Errorf("%+v: no excess is none", r)
	}
}

// An interval ends at 1 of a part of a whole, unless what is predicted exceeds it.
func TestPredictionAboveOne(t *testing.T) {
	high := func(utilisation ...float64) float64 {
		var predicted []*engine.Result
		for _, x := range utilisation {
			predicted = append(predicted, &engine.Result{Utilisation: x})
		}
		return Compare(&engine.Result{}, predicted, nil)[1].Predicted.High
	}
	if x := high(0.97, 0.99, 1); x != 1 {
		t.Errorf("up to 1: %v", x)
	}
	if x := high(0.99, 1.01, 1.03); x != 1.03 {
		t.Errorf("up to 1.03: %v", x)
	}
}

func TestNear(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 0))
	list := []Lapse{{10, 1}, {20, 2}, {30, 3}, {40, 4}}
	for _, c := range []struct {
		at     time.Duration
		around int
		want   []time.Duration
	}{
		{0, 1, []time.Duration{1}}, {11, 1, []time.Duration{2}}, {20, 1, []time.Duration{2}},
		{41, 1, []time.Duration{4}}, {30, 3, []time.Duration{2, 3, 4}}, {20, 2, []time.Duration{1, 2}},
	} {
		drawn := map[time.Duration]bool{}
		for range 100 {
			drawn[near(list, c.around, random)(c.at)] = true
		}
		if got := slices.Sorted(maps.Keys(drawn)); !slices.Equal(got, c.want) {
			t.Errorf("at %d, around %d: %d, want %d", c.at, c.around, got, c.want)
		}
	}
	if near(nil, 1, random) != nil {
		t.Error("of an empty list something is near")
	}
}

// A lease refills from when its answer comes until the next request leaves, which tells what is held.
func TestHoldingLeft(t *testing.T) {
	const ms = time.Millisecond
	lent := lease.Reply{Add: 4, Taken: 2, Shape: lease.Slice, Rate: 100, Burst: 25, RateUntil: 100 * ms, Expires: 300 * ms}
	var answered holding
	answered.answered(time.Second, 1010*ms, &lease.Request{Held: 4}, &lent)
	asking, batch := answered, answered
	asking.asks(1050*ms, &lease.Request{Held: 7})
	lent.Shape = lease.Batch
	batch.answered(time.Second, 1010*ms, &lease.Request{Held: 4}, &lent)
	full := answered
	full.Tokens, full.Taken = 24, 0
	var served holding // its answer has more than fits, as callers waited
	served.answered(time.Second, 1010*ms, &lease.Request{},
		&lease.Reply{Add: 25, Taken: 10, Shape: lease.Batch, Burst: 25, Expires: 300 * ms})
	at := func(at time.Duration, costs ...int64) (all []*shot) {
		for _, c := range costs {
			all = append(all, &shot{workload.Request{Cost: c}, answer{Returned: at * ms}})
		}
		return all
	}
	for _, c := range []struct {
		h     holding
		at    time.Duration
		spent []*shot
		want  float64
	}{
		{answered, 1050, nil, 14}, {answered, 1050, at(1040, 6, 6), 2}, {answered, 1200, nil, 19},
		{answered, 1050, at(1040, 6, 99), 1}, {answered, 1299, at(1250, 18), 1}, {answered, 1300, nil, 0},
		{full, 1090, append(at(1080, 20), at(1040, 1)...), 6}, // it was full at 1040 and at 1080
		{asking, 1090, at(1060, 2), 5}, {asking, 1300, nil, 0}, {batch, 1090, at(1010, 1), 9},
		{served, 1090, at(1010, 10), 25}, {served, 1090, nil, 25},
	} {
		if got := c.h.left(c.at*ms, c.spent); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("at %v ms: %v, want %v", int(c.at), got, c.want)
		}
	}
}
