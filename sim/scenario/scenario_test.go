package scenario_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/scenarios"
	"github.com/seed13b07268/ration/sim/simtest"
)

var read, mustRead = scenario.Of, simtest.Scenario

// What nobody wrote has its documented default.
func TestDefaults(t *testing.T) {
	for _, text := range []string{"", "# nothing but a comment\n", "\n\n", "{}"} {
		s := mustRead(t, text)
		if s.Processes != 10 || s.LimitOf() != (lease.Limit{Rate: 1000, Burst: 1000}) ||
			s.Keys.Number != 1 ||
			s.Duration != 30*time.Second || s.Warmup != 0 || s.Outage != "share" {
			t.Errorf("%q: %s", text, s.Text())
		}
		if s.Load.Offered != 2 || s.Load.Arrivals != "poisson" || s.Load.Cost != 1 || s.Balance.By != "random" ||
			s.Redis.Latency != time.Millisecond || s.Redis.Timeout != 250*time.Millisecond {
			t.Errorf("%q: %s", text, s.Text())
		}
		if p, err := s.Policy.Lease(); err != nil || p != (lease.Policy{}).Resolved() {
			t.Errorf("%q: policy %+v, %v", text, p, err)
		}
	}
	s := mustRead(t, "limit: 5000/h\nload: {arrivals: gamma}\nbalance: {by: sticky}\nfaults: [{kind: join, at: 1s}, {kind: deploy, at: 2s}, {kind: limit, at: 3s, limit: 10/m}]")
	if few := mustRead(t, "limit: 5/s\nload: {costs: [1, 4]}"); few.Burst != 250 || few.Limits()[0].Chosen != "ten requests for each process" {
		t.Errorf("burst %d, chosen: %v", few.Burst, few.Limits()[0].Chosen)
	}
	if s.Burst != 5000 || s.Load.CV != 2 || s.Balance.Clients != 1000 {
		t.Errorf("burst %d, cv %v, clients %d", s.Burst, s.Load.CV, s.Balance.Clients)
	}
	if s.Faults[0].Count != 1 || s.Faults[1].Every != time.Second || s.Faults[2].LimitOf() != (lease.Limit{Rate: 10.0 / 60, Burst: 100}) {
		t.Errorf("faults %+v", s.Faults)
	}
	if s = mustRead(t, "balance: {by: least-outstanding}"); s.Balance.Service != 5*time.Millisecond {
		t.Errorf("service %v", s.Balance.Service)
	}
}

// The moments of a fault, and how many there are without listing them.
func TestTimes(t *testing.T) {
	for _, c := range []struct {
		fault scenario.Fault
		want  []time.Duration
	}{
		{scenario.Fault{At: 3 * time.Second}, []time.Duration{3 * time.Second}},
		{scenario.Fault{At: 10 * time.Second}, nil}, // at the end, nobody would notice
		{scenario.Fault{At: 4 * time.Second, Every: 3 * time.Second}, []time.Duration{4 * time.Second, 7 * time.Second}},
		{scenario.Fault{Every: 5 * time.Second}, []time.Duration{0, 5 * time.Second}},
		{scenario.Fault{At: 9 * time.Second, Every: time.Second}, []time.Duration{9 * time.Second}},
		{scenario.Fault{At: time.Second, Every: time.Second, Kind: "deploy"}, []time.Duration{time.Second}}, // Every is between its processes
	} {
		if got := c.fault.Times(10 * time.Second); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.fault, got, c.want)
		}
		joins := scenario.Scenario{Duration: 10 * time.Second, Faults: []scenario.Fault{c.fault}}
		joins.Faults[0].Count = 2
		if joins.Faults[0].Kind == "" {
			joins.Faults[0].Kind = "join"
			if got := joins.Joins(); got != 2*len(c.want) {
				t.Errorf("%+v: %d join, want %d", c.fault, got, 2*len(c.want))
			}
		}
	}
	for text, want := range map[string]int{"3": 3, "all": -1, "random": -1, "": -1} {
		f := scenario.Fault{Process: text}
		if n, all := f.Who(); n != want || all != (text == "all") {
			t.Errorf("process %q: %d, %v", text, n, all)
		}
	}
}

// Set changes one field and leaves all others.
func TestSet(t *testing.T) {
	base := "name: a\nload: {retry: {times: 3, after: 2s}, flash: [{at: 1s, for: 1s, times: 2}]}\nbalance: {by: own, on_off: {on: 1s, period: 4s}}"
	for _, c := range []struct{ base, path, value, want string }{
		{"", "processes", "7", "processes: 7"},
		{"", "limit", "100/500ms", "limit: 100/500ms"},
		{"", "load.offered", "0.5", "load: {offered: 0.5}"},
		{"", "load.retry.times", "5", "load: {retry: {times: 5}}"},
		{"", "load.clients.count", "5", "load: {clients: {count: 5, think: 0s}}"},
		{"", "load.clients", "{count: 5, think: 1s}", "load: {clients: {count: 5, think: 1s}}"},
		{"", "load.costs", "[1, 5]", "load: {costs: [1, 5]}"},
		{"load: {costs: [1, 2, 3]}", "load.costs", "[4]", "load: {costs: [4]}"}, // instead, not beside
		{"", "load.trace.file", "/x/a b#c: d.log", `load: {trace: {file: "/x/a b#c: d.log"}}`},
		{"load: {trace: {file: a.log, key: ip}}", "load.trace.time", "@timestamp", `load: {trace: {file: a.log, key: ip, time: "@timestamp"}}`},
		{"load: {trace: {file: a.log}}", "load.trace.per_client", "true", "load: {trace: {file: a.log, per_client: true}}"},
		{"", "name", "'quoted # text'", "name: 'quoted # text'"},
		{"", "name", "null", `name: "null"`},
		{"", "name", "1\\n", `name: '1\n'`},
		{base, "load.retry.times", "5", strings.Replace(base, "times: 3", "times: 5", 1)},
		{base, "balance.on_off.on", "2s", strings.Replace(base, "on: 1s", "on: 2s", 1)},
		{base, "load.flash", "[]", strings.Replace(base, "[{at: 1s, for: 1s, times: 2}]", "[]", 1)},
		{base, "faults", "[{kind: flush, at: 3s}]", base + "\nfaults: [{kind: flush, at: 3s}]"},
		{"policy: {batch: 5}", "policy.min_refresh", "50ms", "policy: {batch: 5, min_refresh: 50ms}"},
		{base, "load.retry", "null", strings.Replace(base, "retry: {times: 3, after: 2s}, ", "", 1)},
	} {
		s, err := scenario.Parse([]byte(c.base), nil)
		simtest.OK(t, err)
		if err := s.Set(c.path, c.value); err != nil {
			t.Errorf("%s=%s: %v", c.path, c.value, err)
			continue
		}
		want, err := scenario.Parse([]byte(c.want), nil)
		simtest.OK(t, err)
		if s.Text() != want.Text() {
			t.Errorf("%s=%s:\n%swant\n%s", c.path, c.value, s.Text(), want.Text())
		}
	}
}

// What Text writes is what Parse reads, to the last bit, resolved or not.
func TestRoundTrip(t *testing.T) {
	check := func(s *scenario.Scenario) {
		t.Helper()
		again, err := scenario.Parse([]byte(s.Text()), nil)
		if err != nil {
			t.Fatalf("%s\n%v", s.Text(), err)
		}
		if again.Text() != s.Text() || again.Limit.Rate != s.Limit.Rate ||
			again.Load.Offered != s.Load.Offered ||
			!reflect.DeepEqual(again.Load, s.Load) || !reflect.DeepEqual(again.Balance, s.Balance) || !reflect.DeepEqual(again.Faults, s.Faults) || again.Policy != s.Policy {
			t.Fatalf("%s\nis read as\n%s", s.Text(), again.Text())
		}
	}
	for _, name := range scenarios.Names() {
		s, err := scenarios.Open(name)
		simtest.OK(t, err)
		check(s)
		simtest.OK(t, s.Resolve())
		check(s)
	}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		duration := func() time.Duration { return time.Duration(r.Int64N(int64(time.Second))) + time.Millisecond }
		text := fmt.Sprintf("name: %q\nprocesses: %d\nlimit: %v/%v\nkeys: %d\nkey_skew: %v\nduration: %v\nload: {offered: %v, arrivals: gamma, cv: %v, costs: [%d, 1], diurnal: {period: %v, low: %v}, flash: [{at: %v, for: %v, times: %v}]}\n"+
			"balance: {by: own, skew: %v, on_off: {on: %v, period: 2s}}\nredis: {jitter: %v, latency: %v}\npolicy: {batch: %d, headroom: %v}\nfaults: [{at: %v, kind: limit, limit: %v/m}]",
			string([]rune{rune(r.IntN(0x200)), ':', ' ', rune(r.IntN(128))}), 1+r.IntN(100), 1+r.ExpFloat64()*100, duration(), 1+r.IntN(50), r.ExpFloat64(), 10*time.Second+duration(),
			0.1+r.Float64(), 0.1+r.Float64(), 1+r.IntN(50), 10*time.Millisecond+duration(), r.Float64(), duration(), duration(), r.Float64()*3,
			r.Float64(), duration(), r.Float64(), duration(), 1+r.IntN(1000), 0.01+0.9*r.Float64(), duration(), 1+r.ExpFloat64())
		s, err := scenario.Parse([]byte(strings.ToValidUTF8(text, "?")), nil)
		if err != nil {
			continue // a name that YAML does not allow
		}
		check(s)
		if err := s.Resolve(); err != nil {
			t.Fatalf("seed %d: %s\n%v", seed, text, err)
		}
		check(s)
		before := s.Text()
		if err := s.Resolve(); err != nil || s.Text() != before {
			t.Fatalf("seed %d: resolved twice, %v:\n%s\n%s", seed, err, before, s.Text())
		}
	}
}

// The burst that goes with a limit is the NUMBER of the limit as it was written:
// a copy has it, too.
func TestCloneKeepsBurst(t *testing.T) {
	for _, limit := range []string{"5000/h", "100/500ms", "1/1m30s", "3 / ms"} {
		s, err := scenario.Parse([]byte("limit: "+limit), nil)
		simtest.OK(t, err)
		c := s.Clone().Clone()
		simtest.OK(t, s.Resolve())
		if err := c.Resolve(); err != nil || c.LimitOf() != s.LimitOf() {
			t.Errorf("%s: %v, its copy %v, %v", limit, s.LimitOf(), c.LimitOf(), err)
		}
	}
}

// A copy shares nothing that can be changed.
func TestCloneIsIndependent(t *testing.T) {
	text := "name: a\nprocesses: 2\nload: {costs: [1, 2], retry: {times: 3}, diurnal: {period: 1s, low: 0}, flash: [{at: 1s, for: 1s, times: 2}]}\n" +
		"balance: {by: own, weights: [1, 2], on_off: {on: 1s, period: 2s}}\nfaults: [{at: 1s, kind: flush}]"
	s := mustRead(t, text)
	before := s.Text()
	c := s.Clone()
	c.Load.Costs[0], c.Load.Retry.Times, c.Load.Diurnal.Low, c.Load.Flash[0].Times = 9, 9, 0.9, 9
	c.Balance.Weights[0], c.Balance.OnOff.On, c.Faults[0].At, c.Name = 9, 9, 9, "b"
	if s.Text() != before {
		t.Errorf("changed:\n%s", s.Text())
	}
}

// In JSON the fields have the same names and words as in YAML.
func TestJSON(t *testing.T) {
	s := mustRead(t, "name: '2020-01-01'\nlimit: 100/500ms\nduration: 90s\nload: {offered: 0.1, retry: {times: 3}}\nbalance: {by: own, on_off: {on: 1s, period: 2s}}\npolicy: {mode: shares}")
	text, err := json.Marshal(s)
	simtest.OK(t, err)
	simtest.Has(t, "JSON", string(text), `"name":"2020-01-01"`, `"limit":"100/500ms"`, `"duration":"1m30s"`,
		`"offered":0.1`, `"times":3`, `"on_off":{"on":"1s","period":"2s"}`, `"mode":"shares"`,
		`"min_refresh":"20ms"`, `"burst":100`)
}

// files writes files into a new folder.
func files(t *testing.T, texts map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range texts {
		simtest.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return dir
}

// A scenario in a folder names files beside it; a file elsewhere has its
// absolute name.
func TestReadFile(t *testing.T) {
	dir := files(t, map[string]string{
		"mine.yaml":  "redis: {latencies: trips.txt}",
		"named.yaml": "name: other\nredis: {latencies: trips.txt}",
		"trips.txt":  "# measured\n1.5ms\n\n  0.002 \n0\n",
		"bad.yaml":   "name: bad\nfoo: 1",
		"big.yaml":   strings.Repeat("#", 1<<20+1),
	})
	want := []time.Duration{1500 * time.Microsecond, 2 * time.Millisecond, 0}
	for file, name := range map[string]string{"mine.yaml": "mine", "named.yaml": "other"} {
		s, err := scenario.ReadFile(filepath.Join(dir, file))
		if err == nil {
			err = s.Resolve()
		}
		if err != nil || s.Name != name || !reflect.DeepEqual(s.Redis.Trips(), want) {
			t.Errorf("%s: %v, %+v", file, err, s)
		}
	}
	s := mustRead(t, "redis: {latencies: "+filepath.Join(dir, "trips.txt")+"}")
	if !reflect.DeepEqual(s.Redis.Trips(), want) {
		t.Errorf("round trips %v, want %v", s.Redis.Trips(), want)
	}
	for name, want := range map[string]string{
		"bad.yaml": "bad.yaml: scenario: line 2: field foo", "none.yaml": "none.yaml: no such file", ".": "is a directory", "big.yaml": "is larger than 1048576 bytes",
	} {
		_, err := scenario.ReadFile(filepath.Join(dir, name))
		wantError(t, name, err, want)
	}
	if _, err := os.Stat("/dev/zero"); err == nil {
		_, err := scenario.ReadFile("/dev/zero")
		wantError(t, "/dev/zero", err, "is larger than")
		_, err = read("load: {trace: {file: /dev/zero}}")
		wantError(t, "/dev/zero", err, "/dev/zero is a device, not a file")
	}
}

// A file of round trips is read line by line, and says which one is bad.
func TestLatencies(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "latencies: f has none",
		"# none\n":                       "latencies: f has none",
		"1ms\n\nx\n":                     `f:3: "x" is not a duration from 0 to 1m`,
		"1ms\n-1ms":                      `f:2: "-1ms"`,
		"1ms\n61":                        `f:2: "61"`,
		"2m":                             `f:1: "2m"`,
		"nan":                            `f:1: "nan"`,
		"inf":                            `f:1: "inf"`,
		"-1":                             `f:1: "-1"`,
		strings.Repeat("1", 1<<17):       "latencies: f: ",
		strings.Repeat("1\n", 1_000_001): "latencies: f has more than 1000000",
	} {
		s, err := scenario.Parse([]byte("redis: {latencies: f}"), func(string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil })
		simtest.OK(t, err)
		wantError(t, fmt.Sprintf("%.20q", text), s.Resolve(), want)
	}
}

// FuzzParse: whatever is written, it is refused with an error or can be written
// and read again.
func FuzzParse(f *testing.F) {
	for _, name := range scenarios.Names() {
		text, err := scenarios.Text(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(text))
	}
	f.Add([]byte("name: !!binary /w==\nlimit: 3/7ms\nload: {offered: .nan, retry: {times: 1}}\nfaults: [{kind: join, count: 3, every: 1h, at: 1s}]"))
	f.Add([]byte("a: &a [*a]\nb: {<<: *a}"))
	none := func(name string) (io.ReadCloser, error) { return nil, os.ErrNotExist }
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Contains(string(text), "/") && strings.Contains(string(text), "file") {
			return // files of this machine are not part of it
		}
		s, err := scenario.Parse(text, none)
		if err != nil {
			return
		}
		s.Clone()
		if err := s.Resolve(); err != nil {
			return
		}
		again, err := scenario.Parse([]byte(s.Text()), none)
		if err == nil {
			err = again.Resolve()
		}
		if err != nil || again.Text() != s.Text() {
			t.Fatalf("%s\nis written as\n%s\nand read with %v", text, s.Text(), err)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Fatal(err)
		}
		s.Joins()
	})
}
