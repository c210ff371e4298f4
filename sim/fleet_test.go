package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/seed13b07268/ration/hybrid"
)

// A fleet over ledgers in memory, in virtual time: nothing is late, and the
// figures are those of the limiters alone.
func TestFleetInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := hybrid.PerSecond(1000)
		rng := rand.New(rand.NewPCG(1, 1))
		s, err := poisson{rate: 2000, keys: 1, duration: 10 * time.Second}.schedule(10, spread(10, 1, rng), rng)
		if err != nil {
			t.Fatal(err)
		}
		store := distant{hybrid.NewMemory(), time.Millisecond}
		f, err := newFleet(s, hybrid.Config{Limit: limit}, func() hybrid.Store { return store })
		if err != nil {
			t.Fatal(err)
		}
		f.run(t.Context())
		cost := f.traffic()
		if err := f.close(); err != nil {
			t.Error(err)
		}
		m := measure(f.drivers, 1, limit, 250*time.Millisecond)
		m.charge(cost, cost.calls)
		if m.Requests != s.requests() || m.LateMax > 0 {
			t.Errorf("%d of %d requests, up to %v s late", m.Requests, s.requests(), m.LateMax)
		}
		if m.Excess > m.Slack {
			t.Errorf("excess %v, promised %v", m.Excess, m.Slack)
		}
		if m.Utilisation < 0.95 || m.Utilisation > 1.02 || m.JainAccepted < 0.98 || m.CallsPerRequest > 0.2 {
			t.Errorf("utilisation %v, Jain %v, calls per request %v", m.Utilisation, m.JainAccepted, m.CallsPerRequest)
		}
	})
}

// sim runs the program.
func sim(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = dispatch(ctx, args, &out, &err)
	return code, out.String(), err.String()
}

// simJSON runs a fleet. The timeout is long, because under the race detector
// the embedded Redis needs more than the default where many keys come at once.
func simJSON(t *testing.T, args ...string) (f figures) {
	t.Helper()
	code, stdout, stderr := sim(t, t.Context(), append([]string{"fleet", "-json", "-timeout", "2s"}, args...)...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &f); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	t.Logf("admitted %d of %d, utilisation %.3f, excess %.1f, %.3f calls per request, late %.4f s at most",
		f.Admitted, f.Requests, f.Utilisation, f.Excess, f.CallsPerRequest, f.LateMax)
	return f
}

// checkFigures has wide bounds, because the time is real. Where the driver came
// late the machine had no time for Redis either, least of all under the race
// detector: then only the promise is checked, which holds even so.
func checkFigures(t *testing.T, f figures) {
	t.Helper()
	if f.Excess > f.Slack {
		t.Errorf("excess %v, promised %v", f.Excess, f.Slack)
	}
	if f.LateMax > 0.05 {
		t.Logf("utilisation %.3f and %d requests without a verdict are not judged: the machine was too busy", f.Utilisation, f.NoVerdict)
		return
	}
	if f.Utilisation < 0.6 || f.Utilisation > 1.2 {
		t.Errorf("utilisation %v", f.Utilisation)
	}
	if f.NoVerdict+f.AboveBurst > f.Requests/100 {
		t.Errorf("%d requests without a verdict, %d above the burst", f.NoVerdict, f.AboveBurst)
	}
}

func TestFleetOnEmbeddedRedis(t *testing.T) {
	f := simJSON(t, "-duration", "1s", "-limit", "500/s", "-burst", "100")
	checkFigures(t, f)
	if f.RedisCalls == 0 || f.RoundTrips == 0 || f.CallsPerRequest > 0.5 {
		t.Errorf("%d Redis calls in %d round trips for %d requests", f.RedisCalls, f.RoundTrips, f.Requests)
	}
}

func TestFleetPrintsTable(t *testing.T) {
	code, stdout, stderr := sim(t, t.Context(), "fleet", "-duration", "300ms", "-procs", "25", "-keys", "5")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"requests", "admitted", "ideal admits", "utilisation", "Jain (acceptance)", "Jain (ideal)",
		"worst excess", "Redis calls", "round trips", "fired late", "median", "worst: ", "5 keys",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// A real server is the one that the fleet did not start.
func TestFleetLeavesForeignRedisClean(t *testing.T) {
	server := miniredis.RunT(t)
	if err := server.Set("theirs", "1"); err != nil {
		t.Fatal(err)
	}
	f := simJSON(t, "-duration", "300ms", "-procs", "3", "-keys", "3", "-redis", server.Addr())
	checkFigures(t, f)
	for _, key := range server.Keys() {
		if key != "theirs" {
			t.Errorf("key %q was left behind", key)
		}
	}
	if !server.Exists("theirs") {
		t.Error("a foreign key was deleted")
	}
}

func TestFleetWithoutRedis(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	code, _, stderr := sim(t, t.Context(), "fleet", "-redis", addr)
	if code != 1 || !strings.Contains(stderr, addr) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// trigger is an output that starts something when the run begins.
type trigger struct {
	bytes.Buffer
	once  sync.Once
	start func()
}

func (w *trigger) Write(p []byte) (int, error) {
	w.once.Do(w.start)
	return w.Buffer.Write(p)
}

// An interrupt in the midst of an hour's run: figures, exit code, no keys left.
func TestFleetInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := miniredis.RunT(t)
	stdout := &trigger{start: func() { time.AfterFunc(300*time.Millisecond, cancel) }}
	code := dispatch(ctx, []string{"fleet", "-duration", "1h", "-limit", "100/s", "-redis", server.Addr()}, stdout, io.Discard)
	if text := stdout.String(); code != 130 || !strings.Contains(text, "INTERRUPTED") || !strings.Contains(text, "utilisation") {
		t.Errorf("exit code %d:\n%s", code, text)
	}
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("keys %q were left behind", keys)
	}
}

const traces = "../../shared/traces"

func trace(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(traces, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("a real log is not on this machine: %v", err)
	}
	return path
}

func TestFleetReplaysCombinedLog(t *testing.T) {
	f := simJSON(t, "-trace", trace(t, "apache_combined.log"), "-duration", "2s")
	checkFigures(t, f)
	if f.Requests != 10_000 {
		t.Errorf("%d requests, the log has 10000", f.Requests)
	}
}

func TestFleetReplaysClients(t *testing.T) {
	// No faster, because each of its hundreds of keys needs a first exchange,
	// and under the race detector the embedded Redis takes 5 ms for one.
	f := simJSON(t, "-trace", trace(t, "apache_combined.log"), "-speedup", "10000", "-duration", "2s",
		"-key", "client", "-sticky", "-limit", "3/s")
	checkFigures(t, f)
	if f.Requests < 500 || f.Requests > 1000 {
		t.Errorf("%d requests in the first 20,000 seconds of the log", f.Requests)
	}
}

func TestFleetReplaysCosts(t *testing.T) {
	f := simJSON(t, "-trace", trace(t, "azure_llm_conv.csv"), "-cost-col", "ContextTokens+GeneratedTokens", "-duration", "2s")
	checkFigures(t, f)
	if f.Requests != 19_366 || f.TokensOffered != 26_450_535 {
		t.Errorf("%d requests for %v tokens, the log has 19366 for 26450535", f.Requests, f.TokensOffered)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	csv := filepath.Join(t.TempDir(), "log.csv")
	if err := os.WriteFile(csv, []byte("time\n2026-01-02 03:04:05\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"flee", []string{`"flee"`}},
		{"-procs 3", []string{"-procs", "sim fleet -procs"}},
		{"fleet extra", []string{`"extra"`}},
		{"fleet -nosuch", []string{"-nosuch"}},
		{"fleet -procs 0", []string{"-procs", `"0"`}},
		{"fleet -procs x", []string{"-procs", `"x"`}},
		{"fleet -skew -1", []string{"-skew", `"-1"`}},
		{"fleet -skew NaN", []string{"-skew", `"NaN"`}},
		{"fleet -skew 1 -sticky", []string{"-skew", "-sticky"}},
		{"fleet -limit 100", []string{"-limit", `"100"`, "100/s"}},
		{"fleet -limit 0/s", []string{"-limit", `"0/s"`}},
		{"fleet -burst 0", []string{"-burst", `"0"`}},
		{"fleet -burst 99999999999", []string{"-burst 99999999999"}},
		{"fleet -duration 0s", []string{"-duration", `"0s"`}},
		{"fleet -duration 5", []string{"-duration", `"5"`}},
		{"fleet -offered 0", []string{"-offered", `"0"`}},
		{"fleet -keys 0", []string{"-keys", `"0"`}},
		{"fleet -limit 1e9/s", []string{"requests/s", "memory"}},
		{"fleet -timeout 1h", []string{"-timeout", `"1h0m0s"`}},
		{"fleet -mode fast", []string{"-mode", `"fast"`, "per-request"}},
		{"fleet -fairness none", []string{"-fairness", `"none"`, "max-min"}},
		{"fleet -batch -1", []string{"-batch", `"-1"`}},
		{"fleet -min-refresh 0.1ms", []string{"-min-refresh", `"0.1ms"`}},
		{"fleet -min-refresh 2s -max-refresh 1s", []string{"MaxRefresh 1s", "MinRefresh 2s"}},
		{"fleet -speedup 10", []string{"-speedup", "-trace"}},
		{"fleet -trace x -speedup -1", []string{"-speedup", `"-1"`}},
		{"fleet -trace x -offered 3", []string{"-offered", "-trace"}},
		{"fleet -trace x -key user", []string{"-key", `"user"`}},
		{"fleet -trace " + csv + " -sticky", []string{"-sticky", csv, "-key-col"}},
		{"fleet -trace " + csv + " -key client", []string{"-key client", csv, "-key-col"}},
		{"fleet -redis localhost", []string{"-redis", `"localhost"`, "host:port"}},
	} {
		code, _, stderr := sim(t, t.Context(), strings.Fields(c.args)...)
		if code != 2 {
			t.Errorf("%s: exit code %d: %s", c.args, code, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stderr, want) {
				t.Errorf("%s: no %s in %s", c.args, want, stderr)
			}
		}
	}
	if code, _, stderr := sim(t, t.Context(), "fleet", "-trace", "no/such/file"); code != 1 || !strings.Contains(stderr, "no/such/file") {
		t.Errorf("a missing log: exit code %d: %s", code, stderr)
	}
}

func TestHelpNamesAllFlags(t *testing.T) {
	if code, stdout, _ := sim(t, t.Context(), "-h"); code != 0 || !strings.Contains(stdout, "fleet") {
		t.Errorf("sim -h: exit code %d: %s", code, stdout)
	}
	code, stdout, _ := sim(t, t.Context(), "fleet", "-h")
	if code != 0 {
		t.Errorf("sim fleet -h: exit code %d", code)
	}
	new(fleetFlags).flagSet().VisitAll(func(f *flag.Flag) {
		if !strings.Contains(stdout, "  -"+f.Name+" ") {
			t.Errorf("the help does not have -%s", f.Name)
		}
	})
}

// Bad lines cost themselves, and the report says so.
func TestBadLinesAreReported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	const log = "1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\r\n" +
		"what is this\r\n" +
		"1.2.3.5 - - [17/May/2015:10:05:01 +0000] \"GET / HTTP/1.1\" 200 -\r\n"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := sim(t, t.Context(), "fleet", "-trace", path, "-speedup", "100")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"1 bad lines of 3", "line 2", "1 out of order", "by 2 clients", "chosen: -limit"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
}

// No terminal, no progress.
func TestProgressOnlyOnTerminal(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stop := showProgress(w, time.Second, func() (int, int) { return 1, 1 })
	stop()
	w.Close()
	if text, err := io.ReadAll(r); err != nil || len(text) > 0 {
		t.Errorf("wrote %q, %v", text, err)
	}
}
