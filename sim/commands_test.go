package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/scenarios"
	"github.com/seed13b07268/ration/sim/simtest"
)

// sim runs a command line and returns what it prints.
func sim(ctx context.Context, line string, more ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = dispatch(ctx, append(strings.Fields(line), more...), &out, &err)
	return code, out.String(), err.String()
}

// must runs a command line that is right.
func must(t *testing.T, line string, more ...string) (stdout string) {
	t.Helper()
	code, stdout, stderr := sim(t.Context(), line, more...)
	if code != 0 || stderr != "" {
		t.Fatalf("sim %s %v: exit code %d: %s", line, more, code, stderr)
	}
	if strings.Contains(stdout, "\x1b") {
		t.Fatalf("sim %s %v: escape sequences for what is no terminal", line, more)
	}
	return stdout
}

// prints runs a command line that is right and prints all that is wanted.
func prints(t *testing.T, line string, want ...string) (stdout string) {
	t.Helper()
	stdout = must(t, line)
	simtest.Has(t, "sim "+line, stdout, want...)
	return stdout
}

// refused runs a command line with a mistake: it has exit code 2, no output, and an error that says
// what is wrong.
func refused(t *testing.T, want, line string, more ...string) {
	t.Helper()
	code, stdout, stderr := sim(t.Context(), line, more...)
	if code != 2 || stdout != "" || !strings.HasPrefix(stderr, "sim") || !strings.Contains(stderr, want) {
		t.Errorf("sim %s %q: exit code %d, %q\n%swant %q", line, more, code, stdout, stderr, want)
	}
}

// page runs a command line that is right, and returns the page that it writes.
func page(t *testing.T, line string, more ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	must(t, line+" -html "+name, more...)
	text, err := os.ReadFile(name)
	simtest.OK(t, err)
	return string(text)
}

// short makes a scenario take no time.
const short = " -duration 1s -warmup 300ms -replications 3 "

// The help of each command lists all its flags, and that of the program all
// commands.
func TestHelp(t *testing.T) {
	for _, line := range []string{"-h", "--help", "help"} {
		for _, c := range commands {
			prints(t, line, "\n  "+c.name+" ")
		}
	}
	var fields, sized []string // flags of a scenario, and those of a deployment among them
	for _, f := range shortcuts {
		if fields = append(fields, f.name); !slices.Contains(notSized(), f.name) {
			sized = append(sized, f.name)
		}
	}
	const deployment = "keys key-skew rate rate-per-key exchange json replications seed set"
	for _, c := range []struct {
		command, after, own string
		shared              []string
	}{
		{"run", "steady -duration 5s", "json html replications seed set", fields},
		{"compare", "steady -duration 5s", "json html replications seed set a b", fields},
		{"sweep", "steady -duration 5s", "json html replications seed set over", fields},
		{"tune", "steady -duration 5s",
			"json html replications seed set effort max-calls min-fairness min-util", fields},
		{"size", "-keys 5", deployment, sized},
		{"hunt", "-scenes 3", "seed first scenes minutes rivals worst out html json against fail limits " +
			"class effort", nil},
	} {
		text := must(t, c.command+" -h")
		if other := must(t, c.command+" "+c.after+" --help"); other != text {
			t.Errorf("%s: another help after %s", c.command, c.after)
		}
		for _, name := range append(strings.Fields(c.own), c.shared...) {
			if strings.Count(text, "\n  -"+name+" ") != 1 {
				t.Errorf("%s does not list -%s once:\n%s", c.command, name, text)
			}
		}
		if !strings.HasPrefix(text, "Usage: go run ./sim "+c.command) {
			t.Errorf("%s: help begins with %.40q", c.command, text)
		}
	}
	simtest.Lacks(t, "size", must(t, "size -h"), "\n  -trace ", "\n  -time-layout ", "\n  -duration ", "\n  -offered ", "\n  -html ",
		"scenarios`")
	if text := must(t, "scenarios -h"); !strings.HasPrefix(text, "Usage: go run ./sim scenarios") {
		t.Errorf("help of scenarios: %s", text)
	}
	// The paths of the flags are fields.
	for _, f := range shortcuts {
		if !scenario.IsField(f.path) {
			t.Errorf("-%s sets %s, which is no field", f.name, f.path)
		}
	}
}

func TestCommandLineMistakes(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return simtest.File(t, name, text) }
	counts := file("counts.csv", "step,tenant,requests\n1,a,5\n2,b,7\n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"walk"}, `unknown command "walk"`},
		{[]string{""}, `unknown command ""`},
		{[]string{"-duration", "5s"}, "flag -duration stands before a command: go run ./sim run -duration"},
		{[]string{"run", "-fast"}, "flag provided but not defined: -fast"},
		{[]string{"run", "-seed"}, "flag needs an argument: -seed"},
		{[]string{"run", "-seed", "-1"}, "invalid value \"-1\" for flag -seed"},
		{[]string{"run", "-replications", "0"}, "want 1 to 10000"},
		{[]string{"run", "-replications", "1000000"}, "want 1 to 10000"},
		{[]string{"run", "nowhere"}, `scenario "nowhere" is neither in the library`},
		{[]string{"run", "./nowhere.yaml"}, "no such file"},
		{[]string{"run", ""}, `the scenario "" has no name`},
		{[]string{"run", "steady", "zipf"}, `two scenarios, "steady" and "zipf"`},
		{[]string{"run", dir}, "is a directory"},
		{[]string{"run", file("bad.yaml", "name: a\nfoo: 1")}, "bad.yaml: scenario: line 2: field foo not found in type scenario.Scenario\n"},
		{[]string{"run", file("binary.yaml", "\x7fELF\x00\xff")}, "binary.yaml: scenario: "},
		{[]string{"run", "-limit", "many"}, `invalid value "many" for flag -limit: "many": want NUMBER/TIME`},
		{[]string{"run", "-limit", ""}, "-limit: want a value"},
		{[]string{"run", "-duration", "30"}, "a duration with its unit"},
		{[]string{"run", "-duration", "3s", "-warmup", "5s"}, "warmup 5s is not from 0 to less than the duration 3s"},
		{[]string{"run", "-procs", "99999999999999999999"}, "-procs"},
		{[]string{"run", "-procs", "0"}, `invalid value "0" for flag -procs: processes 0 is not in its range; leave it out for its default, 10`},
		{[]string{"run", "-procs", "many"}, `invalid value "many" for flag -procs: want a whole number`},
		{[]string{"run", "-latency", "80"}, `invalid value "80" for flag -latency: want a duration with its unit, such as 250ms`},
		{[]string{"run", "-keys", "0"}, `invalid value "0" for flag -keys: keys 0 is not in its range`},
		{[]string{"run", "-procs", "-3"}, "processes -3 is not from 1 to 10000"},
		{[]string{"run", "-offered", "NaN"}, "-offered"},
		{[]string{"run", "-offered", ".nan"}, "load: offered NaN"},
		{[]string{"tune", "-min-floors", "0.9"}, `invalid value "0.9" for flag -min-floors: the scenario has no`},
		{[]string{"tune", "-min-floors", "2", "classes"}, `invalid value "2" for flag -min-floors: want 0 to 1`},
		{[]string{"run", "-classes", "[{name: a, flor: 1}]"}, "for flag -classes: field flor not found"},
		{[]string{"run", "-set", "batch"}, "want PATH=VALUE"},
		{[]string{"run", "-set", "policy.size=3"}, `"policy.size" is no field`},
		{[]string{"run", "-set", "processes=3\nkeys: 4"}, "has several lines"},
		{[]string{"run", "-trace", filepath.Join(dir, "none.log")}, "none.log: no such file"},
		{[]string{"run", "-trace", dir}, "is a directory, not a file\n"},
		{[]string{"run", "-speedup", "10"}, "load.trace: no log is named (load.trace.file, -trace)"},
		{[]string{"run", "-per-client", counts}, "(a log is played by -trace " + counts + ")"},
		{[]string{"run", "-per-client", "-trace", counts}, "name the column that has it (load.trace.time, -time-col)"},
		{[]string{"run", "-duration", "-5s", "-trace", file("a.csv", "time,key\n1700000000,a\n")}, "duration -5s"},
		{[]string{"run", "-html", filepath.Join(dir, "none", "a.html")}, "-html: stat"},
		{[]string{"run", "-html", dir}, "is a folder"},
		{[]string{"run", "-html", filepath.Join(dir, "bad.yaml", "a.html")}, "-html: "},
		{[]string{"compare", "-replications", "1"}, "want 2 to 10000"},
		{[]string{"compare", "-a", "speed=3"}, `-a: scenario: "speed" is no field`},
		{[]string{"compare", "-a", "batch"}, `-a: "batch": want PATH=VALUE`},
		{[]string{"compare", "-b", "batch=many"}, "-b: scenario: policy.batch=many"},
		{[]string{"compare", "-b", "batch=-1"}, "-b: scenario: \"steady\": policy: lease: Policy.Batch -1"},
		{[]string{"compare", "-b", "batch=10,,"}, `-b: "": want PATH=VALUE`},
		{[]string{"sweep"}, "for flag -over"},
		{[]string{"sweep", "-over", "batch"}, "for flag -over"},
		{[]string{"sweep", "-over", "batch=10,-1"}, "-over: scenario"},
		{[]string{"sweep", "-over", "batch=10,20,10"}, "-over: batch=10 plays the same as 10\n"},
		{[]string{"tune", "-replications", "9"}, "want 10 to 10000"},
		{[]string{"tune", "-min-util", "1.5"}, "-min-util: want 0 to 1"},
		{[]string{"tune", "-min-fairness", "NaN"}, "-min-fairness: want 0 to 1"},
		{[]string{"tune", "-effort", "0"}, "-effort: want 0.01 to 1000"},
		{[]string{"tune", "-effort", "NaN"}, "-effort: want 0.01 to 1000"},
		{[]string{"tune", "-max-calls", "-1"}, "-max-calls: want 0 to"},
		{[]string{"scenarios", "nowhere"}, `"nowhere" is not one of them`},
		{[]string{"scenarios", "steady", "zipf"}, `unexpected argument "zipf"`},
	} {
		refused(t, c.want, "", c.args...)
	}
}

// `sim scenarios` lists them, and prints one as the beginning of another.
func TestScenarios(t *testing.T) {
	simtest.Long(t)
	list := must(t, "scenarios")
	if lines := strings.Count(list, "\n"); lines != len(scenarios.Names()) {
		t.Errorf("%d lines for %d scenarios", lines, len(scenarios.Names()))
	}
	for _, name := range scenarios.Names() {
		simtest.Has(t, "list", "\n"+list, "\n"+name+" ")
	}
	name := simtest.File(t, "mine.yaml", must(t, "scenarios crashes"))
	if mine, theirs := must(t, "run -json -replications 1 "+name), must(t, "run -json -replications 1 crashes"); mine != theirs {
		t.Error("a copy of a scenario plays differently")
	}
}

// `sim run` prints the headline figures, and what it played.
func TestRunText(t *testing.T) {
	text := prints(t, "run crashes"+short,
		"scenario  crashes: Two processes a second crash", "limit     1000/s, burst 1,000", "crash at 250ms every 500ms", "mean of 3", "95 % interval",
		"utilisation", "fairness", "worst process", "worst excess", "Redis calls / request", "for an admission", "for a denial", "ahead of need",
		"decision, p99", "longest starvation", "promised: at most 50.00.", "crashed", "fair share")
	simtest.Lacks(t, "crashes", text, "NaN", "Inf", "INTERRUPTED")
	// Flags and the scenario come in any order, and a log alone is a scenario.
	if other := must(t, "run -replications 3 -duration 1s crashes -warmup 300ms"); other != text {
		t.Error("another order of the command line, another output")
	}
	prints(t, "run -replications 1 -trace accesslog/testdata/combined.log", "chosen: limit")
	for _, line := range []string{"-offered 1e-300", "-set load.rate=1/h", "-procs 100"} {
		simtest.Lacks(t, line, must(t, "run"+short+line), "NaN", "Inf")
	}
	prints(t, "run -procs 100"+short, "The five processes with the smallest and the largest part")
}

// decoded is a document as other programs read it.
type decoded struct {
	Schema      int
	Command     string
	Seed        uint64
	Interrupted bool
	Variants    []struct {
		Label    string
		Scenario map[string]any
		Summary  map[string]measure.Interval
		Results  []engine.Result
	}
	Differences map[string]measure.Interval
	Tuning      *tuning
}

func decode(t *testing.T, text string) (d decoded) {
	t.Helper()
	simtest.OK(t, json.Unmarshal([]byte(text), &d))
	return d
}

// The JSON has everything that it takes to play it again, and all that came of
// it.
func TestRunJSON(t *testing.T) {
	d := decode(t, must(t, "run -json -seed 7 on-off -batch 30"+short))
	if d.Schema != schema || d.Command != "run" || d.Seed != 7 || d.Interrupted || len(d.Variants) != 1 {
		t.Fatalf("%+v", d)
	}
	v := d.Variants[0]
	if len(v.Results) != 3 || v.Results[2].Replication != 2 || v.Results[0].Requests == 0 || v.Summary["utilisation"].N != 3 {
		t.Errorf("results %+v", v.Results)
	}
	if v.Scenario["name"] != "on-off" || v.Scenario["policy"].(map[string]any)["batch"] != 30.0 || v.Scenario["policy"].(map[string]any)["reserve"] != 0.05 {
		t.Errorf("scenario %v", v.Scenario)
	}
	// The configuration in it is a scenario, which plays the same.
	text, err := json.Marshal(v.Scenario) // JSON is YAML
	simtest.OK(t, err)
	name := simtest.File(t, "again.yaml", string(text))
	again := decode(t, must(t, "run -json -seed 7 -replications 3 "+name))
	if !reflect.DeepEqual(again.Variants[0].Results, v.Results) {
		t.Error("the configuration in the JSON plays differently")
	}
}

// everywhere runs a command line on one core and on four: it prints the same bytes.
func everywhere(t *testing.T, line string) (stdout string) {
	t.Helper()
	old := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(old)
	stdout = must(t, line)
	runtime.GOMAXPROCS(4)
	if must(t, line) != stdout {
		t.Errorf("%s: other bytes on four cores", line)
	}
	return stdout
}

// The same command line prints the same bytes, on one core and on several, and others of another seed.
func TestSameBytes(t *testing.T) {
	for _, line := range []string{"run -json crashes", "compare -json lossy", "run clients", "sweep -over batch=10,100"} {
		everywhere(t, line+short)
	}
	for _, line := range []string{"run" + short, little} {
		if everywhere(t, line) == must(t, line+" -seed 2") {
			t.Errorf("%s: another seed, the same figures", line)
		}
	}
}

// A policy compared with itself differs in nothing; classic batches need far
// more calls, and are less fair, and both intervals say so.
func TestCompare(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	d := decode(t, must(t, "compare -json -b batch=100 -replications 4 -duration 3s -warmup 1s"))
	if len(d.Differences) != len(figures) {
		t.Errorf("%d differences of %d figures", len(d.Differences), len(figures))
	}
	for name, diff := range d.Differences {
		if diff != (measure.Interval{N: 4}) {
			t.Errorf("%s of a policy against itself: %+v", name, diff)
		}
	}
	simtest.Lacks(t, "itself", must(t, "compare -b batch=100"+short), "better", "worse")

	d = decode(t, must(t, "compare -json -replications 16 -duration 10s -warmup 2s"))
	a, b := d.Variants[0], d.Variants[1]
	if a.Label != "A" || b.Label != "B: mode=batches" || b.Scenario["policy"].(map[string]any)["mode"] != "batches" {
		t.Errorf("%s and %s", a.Label, b.Label)
	}
	if x := d.Differences["calls_per_request"]; x.Low < 0.2 {
		t.Errorf("calls: %+v", x)
	}
	if x := d.Differences["worst_share"]; x.High > 0 {
		t.Errorf("the worst process: %+v", x)
	}
	for i := range a.Results { // paired: the same requests
		if x, y := a.Results[i], b.Results[i]; x.Requests != y.Requests || x.Requests == 0 {
			t.Errorf("replication %d: %v and %v requests", i, x.Requests, y.Requests)
		}
	}
	prints(t, "compare -replications 4 -duration 3s -warmup 1s",
		"A; auto", "B: mode=batches; batches", "B - A", "worse", "promised: at most")
}

// What A and B set has the same effect as a flag: also on the defaults of what
// goes with it.
func TestChange(t *testing.T) {
	base, err := scenarios.Open("clumps")
	simtest.OK(t, err)
	for settings, want := range map[string]func(*scenario.Scenario) bool{
		"":                                func(s *scenario.Scenario) bool { return s.Load.Arrivals == "gamma" },
		"limit=500/s":                     func(s *scenario.Scenario) bool { return s.Burst == 500 },
		"min_refresh=500ms":               func(s *scenario.Scenario) bool { return s.Policy.MaxRefresh == 500*time.Millisecond },
		"load.costs=[1, 5], batch = 30":   nil,
		"load.costs=[1,5],batch=30":       func(s *scenario.Scenario) bool { return len(s.Load.Costs) == 2 && s.Policy.Batch == 30 },
		"load.offered=0,load.rate=70/s":   nil,
		"load.rate=70/s":                  func(s *scenario.Scenario) bool { return s.RequestRate() == 70 },
		"fairness=max-min,outage=deny":    func(s *scenario.Scenario) bool { return s.Policy.Fairness == "max-min" && s.Outage == "deny" },
		"load.retry={times: 3,after: 1s}": func(s *scenario.Scenario) bool { return s.Load.Retry.Times == 3 && s.Load.Retry.After == time.Second },
	} {
		s, err := change(t.Context(), base, settings, io.Discard)
		if want == nil {
			if err == nil {
				t.Errorf("%s: no error", settings)
			}
			continue
		}
		if err != nil || !want(s) {
			t.Errorf("%s: %v\n%v", settings, err, s)
		}
	}
	if _, err := change(t.Context(), base, "load.costs=[1", io.Discard); err == nil {
		t.Error("an open bracket")
	}
}

// With -html a page is written, too, which is complete.
func TestHTML(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	for _, line := range []string{"run", "compare", "sweep -over batch=10,100", "tune -replications 10 -effort 0.01 -duration 200ms -warmup 0s"} {
		if !strings.Contains(line, "tune") {
			line += short
		}
		text := strings.ToLower(page(t, line))
		simtest.Has(t, line, text, "</html>", "steady", "go run ./sim")
		if !strings.HasPrefix(text, "<!doctype html>") {
			t.Errorf("%s: %.100s", line, text)
		}
	}
}

// The command line that is noted can be typed again, whatever is in it.
func TestCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"go run ./sim run -batch 30 on-off":         {"-batch", "30", "on-off"},
		"go run ./sim run -set 'load.costs=[1]'":    {"-set", "load.costs=[1]"},
		`go run ./sim run -trace 'it'\''s #1.log'`:  {"-trace", "it's #1.log"},
		"go run ./sim run ''":                       {""},
		"go run ./sim run '~/a' '`b`' '{a}' 'a\tb'": {"~/a", "`b`", "{a}", "a\tb"},
	} {
		if got := commandLine("run", args); got != want {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

// Numbers are written in as many digits as people need.
func TestNumbers(t *testing.T) {
	for got, want := range map[string]string{
		thousands(1234567): "1,234,567", thousands(-1234567): "-1,234,567", thousands(999): "999", thousands(-999): "-999", thousands(0): "0",
		span(0): "0", span(0.00025): "250 µs", span(0.0123): "12.3 ms", span(3.456): "3.46 s",
		tokens(0.001): "none", tokens(-5): "none", tokens(12.345): "12.35", tokens(12345): "12,345",
		count(-3.2): "-3", count(2.5): "3", percent(0.12345): "12.35 %",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What a flag gives is a file of the working directory, not of the scenario's,
// and a text, not YAML.
func TestFilesOfTheCommandLine(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	simtest.OK(t, os.WriteFile("a: #1.csv", []byte("@time,key\n2026-01-01T00:00:00.5Z,a\n2026-01-01T00:00:01Z,b\n"), 0o644))
	simtest.OK(t, os.Mkdir("sub", 0o755))
	simtest.OK(t, os.WriteFile("sub/mine.yaml", []byte("limit: 5/s"), 0o644))
	args := []string{"-trace", "a: #1.csv", "-time-col", "@time", "-replications", "1", "sub/mine.yaml"}
	simtest.Has(t, "a log", must(t, "run", args...), "2 requests in", "scenario  mine")
	simtest.OK(t, os.WriteFile("trips", []byte("1ms\n2ms\n"), 0o644))
	prints(t, "run -set redis.latencies=trips -replications 1 sub/mine.yaml", "2 measured round trips")
	prints(t, "compare -a redis.latencies=trips -b redis.latency=1ms -replications 2 -duration 1s sub/mine.yaml",
		"A: redis.latencies=trips")
}
