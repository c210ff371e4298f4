package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/live"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/simtest"
)

// The test program is a process of a live run, too.
func TestMain(m *testing.M) {
	if slices.Equal(os.Args[1:], []string{"live", processFlag}) {
		os.Exit(dispatch(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// These runs are short ones of real processes in real time: their figures are
// judged in package live.
func TestLivePrintsPredictionBesideMeasurement(t *testing.T) {
	longform.None(t)
	prints(t, "live -duration 600ms -warmup 100ms -limit 300/s -timeout 2s -replications 3",
		"steady", "embedded", "predicted", "50 % of runs in", "side", "measured", "tolerance", "10 %", "1 point",
		"Redis calls / request", "utilisation", "fairness", "the mean of 3 simulations", "promised: at most 600.\n", "late (p99)")
}

func TestLiveJSONOfSeparateProcesses(t *testing.T) {
	longform.None(t)
	server := redistest.Start(t)
	stdout := must(t, "live -json -separate -redis "+server.Addr+
		" -procs 2 -duration 600ms -warmup 100ms -limit 300/s -timeout 2s -seed 7")
	var r struct {
		Schema      int              `json:"schema"`
		Command     string           `json:"command"`
		Seed        uint64           `json:"seed"`
		Interrupted bool             `json:"interrupted"`
		Redis       string           `json:"redis"`
		Separate    bool             `json:"separate"`
		Measured    *engine.Result   `json:"measured"`
		Predicted   []*engine.Result `json:"predicted"`
		Comparison  []live.Row       `json:"comparison"`
	}
	simtest.OK(t, json.Unmarshal([]byte(stdout), &r))
	if r.Schema != schema || r.Command != "live" || r.Seed != 7 || r.Interrupted || r.Redis != server.Addr || !r.Separate {
		t.Errorf("%+v", r)
	}
	if r.Measured.Admitted == 0 || len(r.Predicted) != measure.Predictions || len(r.Comparison) == 0 {
		t.Errorf("%d admitted, %d predictions, %d rows", r.Measured.Admitted, len(r.Predicted), len(r.Comparison))
	}
	if keys, err := server.Client().Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("keys %q are there, %v", keys, err)
	}
}

// An interrupt in the midst of a minute's run: figures and the exit code. A slow
// machine may need longer than the first deadline to have measured anything.
func TestLiveInterrupted(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"live -duration 1m -warmup 1ms -limit 100/s", "INTERRUPTED"}, {"live -check", ""},
	} {
		for deadline := time.Second / 8; ; deadline *= 4 {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			code, stdout, _ := sim(ctx, c.args)
			cancel()
			if code == 130 && strings.Contains(stdout, c.want) {
				break
			}
			if code != 130 || deadline > 10*time.Second {
				t.Fatalf("%s: exit code %d:\n%s", c.args, code, stdout)
			}
		}
	}
}

// Lateness is told where it may be why a figure is not as predicted: when it is longer than a
// round trip.
func TestLateHint(t *testing.T) {
	for _, c := range []struct {
		late   float64
		inside bool
		want   bool
	}{
		{0.003, false, true}, {0.003, true, false}, {0.001, false, false}, {0.011, true, true},
	} {
		r := liveRun{
			Measured:   &engine.Result{},
			Extra:      live.Extra{LateP99: c.late, Trips: []live.Lapse{{Took: 2 * time.Millisecond}}},
			Comparison: []live.Row{{Tolerance: 0.1, Inside: c.inside}, {}},
		}
		var text bytes.Buffer
		r.printHints(&text)
		if got := strings.Contains(text.String(), "could not fire"); got != c.want {
			t.Errorf("%v s late, inside %v: %q", c.late, c.inside, &text)
		}
	}
}

func TestLiveMistakes(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"live -redis localhost", "host:port"},
		{"live -replications 0", "-replications"},
		{"live -check -duration 7s", "-check"},
		{"live -check -json", "-check"},
		{"live -separate -set load.retry.times=2", "load.retry"},
		{"live -procs 1001", "1001 processes"},
	} {
		refused(t, c.want, c.args)
	}
	if code, _, stderr := sim(t.Context(), "live -redis "+redistest.FreeAddr(t)); code != 1 {
		t.Errorf("no Redis: exit code %d: %s", code, stderr)
	}
}
