package scenario_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// logOf is a CSV log of requests at these times, in turn from clients a and b and
// by processes x, y and z.
func logOf(seconds ...float64) string {
	text := "time,key,cost,upstream\n"
	start := time.Date(2026, 1, 1, 0, 0, 0, 1e6, time.UTC) // whole seconds would be spread
	for i, s := range seconds {
		at := start.Add(time.Duration(s * float64(time.Second)))
		text += fmt.Sprintf("%s,%c,%d,%c\n", at.Format(time.RFC3339Nano), 'a'+i%2, 1+i, 'x'+i%3)
	}
	return text
}

// readLog resolves a scenario beside the log "log.csv".
func readLog(t *testing.T, text, log string) (*scenario.Scenario, error) {
	t.Helper()
	s, err := scenario.Parse([]byte(text), scenario.Folder(files(t, map[string]string{"log.csv": log})))
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Resolve()
}

// A log says when requests come, from whom, what they cost and who serves them.
func TestReplay(t *testing.T) {
	s, err := readLog(t, "duration: 10s\nload: {trace: {file: log.csv, key: key, cost: cost, upstream: upstream, per_client: true}}", logOf(0, 1, 2, 4))
	if err != nil {
		t.Fatal(err)
	}
	r := s.Replay()
	if got := fmt.Sprint(r.Requests); got != "[{0s 0 0 1} {1s 1 1 2} {2s 0 2 3} {4s 1 0 4}]" {
		t.Errorf("requests %s", got)
	}
	if got := fmt.Sprint(r.Clients, r.Upstreams); got != "[a b] [x y z]" {
		t.Errorf("clients and processes %s", got)
	}
	if s.Processes != 3 || s.Keys != 2 {
		t.Errorf("%d processes, %d keys", s.Processes, s.Keys)
	}
	// 10 tokens in 4 s of 2 keys, half of it; the largest request fits.
	if l := s.LimitOf(); l.Rate != 0.625 || l.Burst != 4 {
		t.Errorf("chosen: %v", l)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "4 requests in 4s, played 1 times as fast; 0 bad lines of 4") ||
		!strings.Contains(notes, "chosen: limit 37.5/m, burst 4") {
		t.Errorf("notes:\n%s", notes)
	}

	s, err = readLog(t, "limit: 7/s\nprocesses: 5\nload: {trace: {file: log.csv}}", strings.ReplaceAll(logOf(0, 1), "upstream", "whatever"))
	if err != nil || s.Keys != 1 || s.LimitOf().Rate != 7 || s.Processes != 5 || len(s.Replay().Upstreams) != 0 {
		t.Errorf("%v: %d keys, %v, %d processes", err, s.Keys, s.LimitOf(), s.Processes)
	}
}

// A log that is longer than the run is played faster, if nobody says how fast;
// what does not fit is left out.
func TestSpeedup(t *testing.T) {
	for _, c := range []struct {
		speedup string
		want    string
		notes   string
	}{
		{"", "[0s 10s]", "played 10 times as fast"},
		{", speedup: 20", "[0s 5s]", "played 20 times as fast"},
		{", speedup: 1", "[0s]", "1 requests come after the end of the run and are left out"},
		{", speedup: 1e-6", "[0s]", "left out"},
	} {
		s, err := readLog(t, "duration: 10s\nload: {trace: {file: log.csv"+c.speedup+"}}", logOf(0, 100))
		if err != nil {
			t.Errorf("%q: %v", c.speedup, err)
			continue
		}
		var times []time.Duration
		for _, a := range s.Replay().Requests {
			times = append(times, a.At)
		}
		if got := fmt.Sprint(times); got != c.want || !strings.Contains(strings.Join(s.Replay().Notes, "\n"), c.notes) {
			t.Errorf("%q: %s, %q", c.speedup, got, s.Replay().Notes)
		}
	}
	// A short one is not slowed down.
	s, err := readLog(t, "duration: 10s\nload: {trace: {file: log.csv}}", logOf(0, 1))
	if err != nil || s.Load.Trace.Speedup != 1 {
		t.Errorf("speedup %v, %v", s.Load.Trace.Speedup, err)
	}
}

// What is set after a log was read is what holds: another duration cuts it
// elsewhere, another scenario has no log.
func TestReplayFollowsSettings(t *testing.T) {
	s, err := readLog(t, "duration: 1s\nload: {trace: {file: log.csv, key: key, speedup: 1}}", logOf(0, 1, 2, 3))
	if err != nil || len(s.Replay().Requests) != 2 {
		t.Fatalf("%v, %+v", err, s.Replay())
	}
	c := s.Clone()
	set := func(path, value string) {
		t.Helper()
		if err := errors.Join(c.Set(path, value), c.Resolve()); err != nil {
			t.Fatal(err)
		}
	}
	if set("duration", "3s"); len(c.Replay().Requests) != 4 {
		t.Errorf("in 3s: %+v", c.Replay())
	}
	if set("load.trace.per_client", "true"); c.Keys != 2 {
		t.Errorf("%d keys of 2 clients", c.Keys)
	}
	if len(s.Replay().Requests) != 2 {
		t.Error("the original has changed")
	}
	if set("load.trace", "null"); c.Replay() != nil || c.Load.Offered != 2 {
		t.Errorf("%+v, offered %v", c.Replay(), c.Load.Offered)
	}
}

// A log goes with nothing that it decides itself.
func TestReplayMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"load: {offered: 2, trace: {file: log.csv}}", "only patience and retry go with it"},
		{"load: {arrivals: even, trace: {file: log.csv}}", "only patience and retry go with it"},
		{"load: {cost: 2, trace: {file: log.csv}}", "only patience and retry go with it"},
		{"load: {retry: {times: 0}, trace: {file: log.csv}}", "retry.times 0"},
		{"load: {trace: {file: log.csv, format: word}}", "load.trace: "},
		{"load: {trace: {file: log.csv, speedup: -1}}", "speedup -1 is not from 1e-06 to 1e+12"},
		{"load: {trace: {file: log.csv, speedup: .nan}}", "speedup NaN"},
		{"load: {trace: {file: log.csv, speedup: 1e-300}}", "speedup 1e-300"},
		{"load: {trace: {file: log.csv, key: host}}", "log.csv: "},
		{"load: {trace: {file: none.csv}}", "none.csv"},
		{"load: {trace: {file: log.csv, per_client: true, key: none}}", "log.csv: "},
		{"duration: -1s\nload: {trace: {file: log.csv}}", "duration -1s"},
		{"balance: {by: own}\nload: {trace: {file: log.csv}}", "own makes its own load: no clients, no trace"},
		{"faults: [{at: 1s, kind: crash, process: 7}]\nload: {trace: {file: log.csv, upstream: upstream}}", "process 7 is none of 0 to 2"},
		{"processes: 2\nbalance: {weights: [1, 2, 3]}\nload: {trace: {file: plain.csv}}", "weights: 3 for 2 processes"},
	} {
		dir := files(t, map[string]string{"log.csv": logOf(0, 1, 2), "plain.csv": "time\n2026-01-01T00:00:00Z\n2026-01-01T00:00:01Z\n"})
		s, err := scenario.Parse([]byte(c.text), scenario.Folder(dir))
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, c.text, s.Resolve(), c.want)
	}
	for name, log := range map[string]string{"empty": "", "binary": "\x00\x01\xff", "nothing in it": "time,key\n"} {
		_, err := readLog(t, "load: {trace: {file: log.csv}}", log)
		wantError(t, name, err, "load.trace: log.csv: ")
	}
	// Clients that nobody tells apart have no limits of their own.
	_, err := readLog(t, "load: {trace: {file: log.csv, per_client: true}}", "time\n2026-01-01T00:00:00Z\n2026-01-01T00:00:01Z\n")
	wantError(t, "per_client", err, "per_client: the log tells no clients")
	if s := mustRead(t, "name: a"); s.Replay() != nil {
		t.Error("a log from nowhere")
	}
	_, err = read("load: {trace: {file: " + filepath.Join(t.TempDir(), "none") + "}}")
	wantError(t, "an absolute name", err, "no such file")
}
