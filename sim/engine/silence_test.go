package engine

import (
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// silent is a log with a request at its beginning, 100 at another time, and one
// at the end.
func silent(t *testing.T, middle, end string) *scenario.Scenario {
	t.Helper()
	log := "time\n2026-01-01T00:00:00.001Z\n" + strings.Repeat(middle+"\n", 100) + end + "\n"
	s, err := scenario.Parse([]byte("limit: 10/s\nprocesses: 100\nload: {trace: {file: log.csv}, patience: 2s}\n"),
		func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(log)), nil })
	if err == nil {
		err = s.Resolve()
	}
	simtest.OK(t, err)
	return s
}

// Windows in which nothing happens cost nothing: 960 hours with 35 million windows
// are some thousand events. The timeline has them all the same.
func TestSilenceIsFree(t *testing.T) {
	s := silent(t, "2026-01-22T00:00:00.001Z", "2026-02-10T00:00:00.001Z")
	e := start(t, s, 0)
	events := 0
	for e.step() {
		events++
	}
	e.now = s.Duration
	if events > 5000 {
		t.Errorf("%d events", events)
	}
	r := e.result()
	if r.Requests != 102 || r.Pending != 0 || r.Seconds != s.Duration.Seconds() {
		t.Errorf("%d requests, %d without a verdict, in %v s", r.Requests, r.Pending, r.Seconds)
	}
	line := &r.Timeline
	if steps := int(r.Seconds / line.Step); len(line.Offered) != steps || steps < mostSteps/2 {
		t.Errorf("%d steps of %v s", len(line.Offered), line.Step)
	}
	for i, want := range map[int]float64{0: 1, int(21 * 86400 / line.Step): 100, len(line.Offered) / 4: 0} {
		if got := line.Offered[i] * line.Step; math.Abs(got-want) > 1e-9 {
			t.Errorf("step %d: %v were offered, want %v", i, got, want)
		}
	}
}

// A window that is passed over is one in which nothing would have been measured:
// a run in which each is looked at gives the same.
func TestSilenceChangesNothing(t *testing.T) {
	s := silent(t, "2026-01-01T01:02:00.234Z", "2026-01-01T02:03:00.001Z")
	play := func(look bool) *Result {
		e := start(t, s, 0)
		if look {
			e.meter.settling.planned = append(e.meter.settling.planned, math.MaxInt64) // never comes
		}
		for e.step() {
		}
		e.now = s.Duration
		return e.result()
	}
	if passed, looked := play(false), play(true); !reflect.DeepEqual(passed, looked) {
		t.Errorf("passed over: %+v\nlooked at: %+v", passed, looked)
	}
}
