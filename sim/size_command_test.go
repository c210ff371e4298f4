package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
	"github.com/seed13b07268/ration/sim/size"
)

// little is a deployment that is played at once.
const little = "size -procs 4 -keys 200 -rate 20/s -key-skew 1 -limit 10/s -replications 2 "

func TestSizeMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"steady":                         `"steady" is no flag: a deployment is told by flags`,
		"-fast":                          "flag provided but not defined: -fast",
		"-trace a.log":                   "flag provided but not defined: -trace",
		"-keys 0":                        "size: keys 0 is not from 1 to 100000000",
		"-keys 100000001":                "size: keys 100000001 is not from",
		"-keys many":                     `invalid value "many" for flag -keys`,
		"-key-skew -1":                   "size: key skew -1 is not from 0 to 10",
		"-key-skew NaN":                  "size: key skew NaN is not from 0 to 10",
		"-procs 0":                       `invalid value "0" for flag -procs: processes 0 is not in its range`,
		"-procs -3":                      "scenario: \"size\": processes -3 is not from 1",
		"-procs 5001":                    "size: processes 5001 is not from 1 to 5000",
		"-rate many":                     `invalid value "many" for flag -rate`,
		"-rate -5/s":                     "-rate",
		"-rate 5/s -rate-per-key 1/s":    "-rate and -rate-per-key: one of them",
		"-rate 1000000/s -keys 1 -limit": "flag needs an argument: -limit",
		"-rate 30000000/s":               "at most 2e+06",
		"-limit 100/day":                 "size: limit 100/day is not a token bucket such as 100/s",
		"-latency -1ms":                  "latency -1ms is not from 0 to 1m",
		"-latency 2m":                    "latency 2m0s is not from 0 to 1m",
		"-batch 0":                       "batch 0",
		"-exchange 0s":                   "size: exchange 0s is not from 1µs to 1s",
		"-replications 0":                "size: replications 0 is not from 1 to 1000",
		"-set load.offered=3":            "-set load.offered: a deployment has no load.offered",
		"-set load.trace.file=a":         "a deployment has no load.trace.file",
		"-set faults=[]":                 "a deployment has no faults",
		"-set policy.size=3":             `"policy.size" is no field`,
	} {
		refused(t, want, little+args)
	}
	must(t, little+"-set load.costs=[1]")
	must(t, little+"-set load.cost=3")
}

// `sim size` prints what was asked, what it needs, and what each class of keys has of it.
func TestSizeText(t *testing.T) {
	simtest.Long(t)
	text := prints(t, little,
		"fleet     4 processes, requests random\n", "keys      10/s, burst 10, each of 200 keys\n",
		"load      20/s, over keys Zipf 1, poisson\n", "Redis     1ms away, timeout 250ms\n",
		"mean of 2", "95 % interval", "\n  Redis calls / s ", "\n  Redis CPU ", "\n  Redis masters ",
		"\n  Redis memory ", "\n  keys in a process ", "cores, at 31 µs a call", "\n  1 ",
		"\n  2 to 10 ", "\n  11 to 100 ", "\n  101 to 200 ", "in each replication")
	simtest.Lacks(t, "little", text, "NaN", "Inf", "WARNING", "INTERRUPTED")
	prints(t, "size -keys 200 -rate-per-key 1/m -replications 1 -exchange 62µs",
		"each of 200 keys\n", "3.33/s, the same of each key", "at 62 µs a call", "\n  1 to 200 ")
	// One key that wants more than a core, and keys that do not fit in a process.
	prints(t, "size -keys 1 -procs 100 -rate 2000/s -limit 1000/s -mode per-request -replications 1 -exchange 1ms",
		"WARNING: One key takes 195.97 % of a core")
	prints(t, "size -keys 100000000 -procs 1 -rate 1000000/s -mode per-request -replications 1",
		"Config.MaxKeys must be more than its default of 1,000,000")
}

// The JSON has the question and all figures, and they fit each other.
func TestSizeJSON(t *testing.T) {
	var d struct {
		Schema, Keys int
		Command      string
		Seed         uint64
		Rate         float64 `json:"requests_per_second"`
		Scenario     map[string]any
		size.Answer
	}
	simtest.OK(t, json.Unmarshal([]byte(must(t, little+"-json -seed 7 -batch 30")), &d))
	if d.Schema != schema || d.Command != "size" || d.Seed != 7 || d.Keys != 200 || d.Rate != 20 ||
		d.Scenario["policy"].(map[string]any)["batch"] != 30.0 {
		t.Errorf("%+v", d)
	}
	if len(d.Classes) != 4 || d.Replications != 2 || d.Calls.N != 2 {
		t.Fatalf("%+v", d.Answer)
	}
	calls, keys, requests := d.Census, 0, 0.0
	for _, c := range d.Classes {
		calls, keys, requests = calls+c.Calls.Mean, keys+c.Keys, requests+c.Class.Rate
	}
	close := func(a, b float64) bool { return a > 0 && a/b > 0.9999 && a/b < 1.0001 }
	if keys != 200 || !close(calls, d.Calls.Mean) || !close(requests, 20) ||
		!close(d.CPU.Mean, calls*31e-6) || d.Masters.Mean != 1 || !(d.Memory.Mean > 1000) {
		t.Errorf("%d keys with %v requests/s and %v calls/s: %+v", keys, requests, calls, d.Answer)
	}
}

// An interrupt ends with code 130 and what is known of whole replications.
func TestSizeInterrupt(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	old := runtime.GOMAXPROCS(1) // the hook is for one worker
	defer runtime.GOMAXPROCS(old)
	line := strings.Replace(little, "-replications 2", "-replications 1000", 1)
	code, stdout, stderr := sim(interruptAfter(t, 100), line)
	if code != 130 || stderr != "sim size: interrupted\n" ||
		!strings.Contains(stdout, "INTERRUPTED") || strings.Contains(stdout, "mean of 1000") {
		t.Errorf("exit code %d: %s\n%s", code, stderr, stdout)
	}
	if code, stdout, _ := sim(interruptAfter(t, 3), line); code != 130 || stdout != "" {
		t.Errorf("before the first replication: exit code %d, %q", code, stdout)
	}
}

func TestVolume(t *testing.T) {
	for want, x := range map[string]float64{
		"0 B": 0, "999 B": 999, "1 KB": 999.6, "1.23 KB": 1234, "12.3 MB": 12.34e6, "5 TB": 5e12,
		"5e+03 TB": 5e15,
	} {
		if got := volume(x); got != want {
			t.Error(fmt.Sprint(x), got, want)
		}
	}
}
