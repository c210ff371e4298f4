package scenario_test

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
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
	simtest.OK(t, err)
	return s, s.Resolve()
}

// arrivals are the requests of a log as text, by time, client, process and cost.
func arrivals(t *testing.T, s *scenario.Scenario) (list []string) {
	t.Helper()
	all := s.Replay().Arrivals()
	for q := (scenario.Arrival{}); all.Next(&q); {
		list = append(list, fmt.Sprintf("%v %d %d %d", q.At, q.Key, q.Upstream, q.Cost))
	}
	simtest.OK(t, all.Err())
	return list
}

// wantNotes fails unless the notes about a log have all of these.
func wantNotes(t *testing.T, s *scenario.Scenario, want ...string) {
	t.Helper()
	simtest.Has(t, "notes", strings.Join(s.Replay().Notes, "\n"), want...)
}

// A log says when requests come, from whom, what they cost and who serves them.
// It is played in its own time, to the last verdict.
func TestReplay(t *testing.T) {
	s, err := readLog(t, "load: {trace: {file: log.csv, key: key, cost: cost, upstream: upstream, per_client: true}}", logOf(0, 1, 2, 4))
	simtest.OK(t, err)
	r := s.Replay()
	if got := strings.Join(arrivals(t, s), ", "); got != "0s 0 0 1, 1s 1 1 2, 2s 0 2 3, 4s 1 0 4" {
		t.Errorf("requests %s", got)
	}
	if r.Requests != 4 || r.Clients != 2 || r.Upstreams != 3 || s.Processes != 3 ||
		s.Keys.Number != 2 {
		t.Errorf("%+v, %d processes, %d keys", r, s.Processes, s.Keys.Number)
	}
	if s.Duration != 5*time.Second || s.Warmup != 0 || s.Load.Trace.Speedup != 1 {
		t.Errorf("duration %v, warm-up %v, speedup %v", s.Duration, s.Warmup, s.Load.Trace.Speedup)
	}
	// 10 tokens in 4 s of 2 keys, half of it: as if 37.5/m had been
	// written. The burst is ten requests of 2.5 tokens for each of 3 processes.
	if l := s.LimitOf(); l.Rate != 0.625 || l.Burst != 75 {
		t.Errorf("chosen: %v", l)
	}
	wantNotes(t, s, "4 requests in 4s from 2026-01-01 00:00:00 UTC, 1/s in the mean; 0 bad lines of 4", "played in its own time", "chosen: limit 37.5/m, half of what")

	s, err = readLog(t, "limit: 7/s\nprocesses: 5\nload: {trace: {file: log.csv}}", strings.ReplaceAll(logOf(0, 1), "upstream", "whatever"))
	if err != nil || s.Keys.Number != 1 || s.LimitOf().Rate != 7 || s.Processes != 5 ||
		s.Replay().Upstreams != 0 {
		t.Errorf("%v: %d keys, %v, %d processes", err, s.Keys.Number, s.LimitOf(), s.Processes)
	}
}

// A log takes as long as it took, whatever that is: only a duration that is
// written cuts it, and only a speedup that is written makes it faster.
func TestOwnTime(t *testing.T) {
	for _, c := range []struct {
		text, trace string
		want        string // arrivals
		duration    time.Duration
		notes       string
	}{
		{"", "", "0s, 24h0m0s", 86401 * time.Second, "played in its own time"},
		{"", ", speedup: 1", "0s, 24h0m0s", 86401 * time.Second, "played in its own time"},
		{"", ", speedup: 10", "0s, 2h24m0s", 8641 * time.Second, "played 10 times as fast: only the requests are; limit, round trips and the policy's times stay"},
		{"", ", speedup: 0.5", "0s, 48h0m0s", 172801 * time.Second, "played 0.5 times as fast"},
		{"duration: 10s", "", "0s", 10 * time.Second, "left out: 1 request after the duration of 10s"},
		{"duration: 86400s", "", "0s, 24h0m0s", 86400 * time.Second, "own time"},
		{"duration: 90000s\nwarmup: 1s", "", "0s, 24h0m0s", 90000 * time.Second, "not measured: 1 request in the warm-up of 1s"},
		{"redis: {timeout: 3s}", "", "0s, 24h0m0s", 86403 * time.Second, "own time"},
		{"", "}, patience: 5s, retry: {times: 1", "0s, 24h0m0s", 86405 * time.Second, "own time"},
	} {
		s, err := readLog(t, c.text+"\nload: {trace: {file: log.csv"+c.trace+"}}", logOf(0, 86400))
		if err != nil {
			t.Errorf("%q: %v", c.text+c.trace, err)
			continue
		}
		var times []string
		for _, a := range arrivals(t, s) {
			at, _, _ := strings.Cut(a, " ")
			times = append(times, at)
		}
		if got := strings.Join(times, ", "); got != c.want || s.Duration != c.duration {
			t.Errorf("%q: %s in %v, want %s in %v", c.text+c.trace, got, s.Duration, c.want, c.duration)
		}
		wantNotes(t, s, c.notes)
	}
	_, err := readLog(t, "load: {trace: {file: log.csv}}", logOf(0, 5e6))
	wantError(t, "two months", err, "the log takes 1389h at speedup 1; at most 1000h are played")
}

// What is set after a log was read is what holds: another duration cuts it
// elsewhere, another scenario has no log. The file is read once.
func TestReplayFollowsSettings(t *testing.T) {
	opened := 0
	dir := scenario.Folder(files(t, map[string]string{"log.csv": logOf(0, 1, 2, 3)}))
	s, err := scenario.Parse([]byte("duration: 1s\nload: {trace: {file: log.csv, key: key}}"), func(name string) (io.ReadCloser, error) {
		opened++
		return dir(name)
	})
	simtest.OK(t, err)
	c := s.Clone()
	if err := s.Resolve(); err != nil || s.Replay().Requests != 2 {
		t.Fatalf("%v, %+v", err, s.Replay())
	}
	set := func(path, value string) {
		t.Helper()
		simtest.OK(t, errors.Join(c.Set(path, value), c.Resolve()))
	}
	if set("duration", "3s"); c.Replay().Requests != 4 {
		t.Errorf("in 3s: %+v", c.Replay())
	}
	if set("load.trace.per_client", "true"); c.Keys.Number != 2 {
		t.Errorf("%d keys of 2 clients", c.Keys.Number)
	}
	if set("load.trace.speedup", "100"); c.Replay().Requests != 4 || s.Replay().Requests != 2 {
		t.Errorf("%+v; the original %+v", c.Replay(), s.Replay())
	}
	if opened != 1 {
		t.Errorf("the log was read %d times", opened)
	}
	if set("load.trace.cost", "cost"); opened != 2 || c.MeanCost() != 2.5 {
		t.Errorf("read %d times, mean cost %v", opened, c.MeanCost())
	}
	if set("load.trace", "null"); c.Replay() != nil || c.Load.Offered != 2 {
		t.Errorf("%+v, offered %v", c.Replay(), c.Load.Offered)
	}
}

// What was found out about a log is said: the unit of its times, lines of other
// lengths, counts.
func TestNotes(t *testing.T) {
	s, err := readLog(t, "load: {trace: {file: log.csv}}", "time,key\n1700000000123,a\n1700000001123,b,\n1700000002123,c\nnoon,c\n")
	simtest.OK(t, err)
	wantNotes(t, s, "3 requests in 2s", "1 bad lines of 4\n  line 5: time", "times are milliseconds since 1970, found from all of them",
		"1 line with another number of columns than the header")

	s, err = readLog(t, "load: {trace: {file: log.csv, count: n, time_unit: s}}", "time,n\n0,30\n60,10\n120,20\n")
	if err != nil || s.Replay().Requests != 60 {
		t.Fatalf("%v, %+v", err, s.Replay())
	}
	wantNotes(t, s, "60 requests in 2m58s, 20.3/m in the mean; 0 bad lines of 3", "a line counts the requests of 1m0s", "times are seconds since the log's own beginning, as was given")

	s, err = readLog(t, "load: {trace: {file: log.csv, time_unit: s}}", "time,requests\n0,30\n60,10\n")
	if err != nil || s.Replay().Requests != 2 {
		t.Fatalf("%v, %+v", err, s.Replay())
	}
	uncounted := `each line counts as one request; if "requests" is how many it stands for, say so (load.trace.count, -count-col)`
	if wantNotes(t, s, uncounted); strings.Join(s.Replay().Warnings, "\n") != uncounted {
		t.Errorf("warnings %q", s.Replay().Warnings)
	}

	for file, notes := range map[string][]string{
		"when,who\n2026-01-01T08:00:00Z,a\n": {"times are in when, found by its values"},
		"Jan  1 08:00:00,a\n":                {"no header: columns are called 1 to 2", "times have no year: as if it were 1972"},
	} {
		s, err = readLog(t, "load: {trace: {file: log.csv}}", file)
		simtest.OK(t, err)
		wantNotes(t, s, notes...)
	}
}

// A log of which most lines are bad is an error that shows them, and what was
// expected.
func TestMostlyBad(t *testing.T) {
	lines := "h - - [02/Mar/2024:08:00:02 +0000] \"GET / HTTP/1.0\" 200 -\n"
	log := strings.Repeat("Mar  2 08:00:02 web sshd[17]: session opened\n", 63) + lines
	_, err := readLog(t, "load: {trace: {file: log.csv}}", log)
	simtest.Refused(t, "mostly bad", err,
		"log.csv: 63 of 64 lines cannot be read, as clf: host ident user [02/Jan/2006:15:04:05 -0700]",
		"\n  line 1: time \"17\": want \"02/Jan/2006:15:04:05 -0700\": Mar  2 08:00:02 web sshd", "\n  line 5: ")
	if _, err := readLog(t, "load: {trace: {file: log.csv}}", "rubbish\n"+lines); err != nil {
		t.Errorf("half of it: %v", err)
	}
}

// Of settings that exclude each other the one that is set last holds.
func TestSetMakesRoom(t *testing.T) {
	for _, c := range []struct{ text, path, value, want string }{
		{"load: {rate: 100/s}", "load.offered", "3", "load: {offered: 3}"},
		{"load: {offered: 3}", "load.rate", "100/s", "load: {rate: 100/s}"},
		{"load: {clients: {count: 3, think: 1s}}", "load.rate", "100/s", "load: {rate: 100/s}"},
		{"load: {offered: 3}", "load.clients", "{count: 3, think: 1s}", "load: {clients: {count: 3, think: 1s}}"},
		{"load: {costs: [1, 2]}", "load.cost", "3", "load: {cost: 3}"},
		{"load: {cost: 3}", "load.costs", "[1, 2]", "load: {costs: [1, 2]}"},
		{"load: {offered: 3, arrivals: gamma, cv: 2, cost: 4, diurnal: {period: 1s, low: 0.5}, flash: [{at: 1s, for: 1s, times: 2}], patience: 1s}",
			"load.trace.file", "a.log", "load: {trace: {file: a.log}, patience: 1s}"},
	} {
		got, err := scenario.Parse([]byte(c.text), nil)
		simtest.OK(t, err)
		want, err := scenario.Parse([]byte(c.want), nil)
		simtest.OK(t, err)
		if err := got.Set(c.path, c.value); err != nil || got.Text() != want.Text() {
			t.Errorf("%s, %s=%s: %v\n%s", c.text, c.path, c.value, err, got.Text())
		}
	}
	for _, pair := range [][2]string{{"load.trace.file", "load.patience"}, {"load.trace.key", "load.trace.file"}, {"load.rate", "load.rate"}, {"limit", "burst"}, {"load.clients.count", "load.clients.think"}} {
		if scenario.Excludes(pair[0], pair[1]) || scenario.Excludes(pair[1], pair[0]) {
			t.Errorf("%s and %s go together", pair[0], pair[1])
		}
	}
}

// A log goes with nothing that it decides itself.
func TestReplayMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"load: {offered: 2, trace: {file: log.csv}}", "only patience, hold and retry go with it"},
		{"load: {arrivals: even, trace: {file: log.csv}}", "only patience, hold and retry go with it"},
		{"load: {cost: 2, trace: {file: log.csv}}", "only patience, hold and retry go with it"},
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
		simtest.OK(t, err)
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

// A key is called what the log calls the client, if each has a limit; never by what a
// terminal obeys.
func TestKeyName(t *testing.T) {
	log := "time,key\n2026-01-01T00:00:00.1Z,alice\n2026-01-01T00:00:01Z,\x1b[2Jb\n" +
		"2026-01-01T00:00:02Z,\n2026-01-01T00:00:03Z," + strings.Repeat("é", 100) + "\n"
	s, err := readLog(t, "load: {trace: {file: log.csv, key: key, per_client: true}}", log)
	simtest.OK(t, err)
	for i, want := range []string{"alice", `"\x1b[2Jb"`, `""`, strings.Repeat("é", 59) + "…", "key-4"} {
		if got := s.KeyName(i); got != want {
			t.Errorf("key %d is %s, want %s", i, got, want)
		}
	}
	s, err = readLog(t, "load: {trace: {file: log.csv, key: key}}", log)
	if err != nil || s.KeyName(0) != "key-0" {
		t.Errorf("%v, the one key is %s", err, s.KeyName(0))
	}
}
