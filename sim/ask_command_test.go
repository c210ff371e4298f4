package main

import (
	"testing"

	"github.com/seed13b07268/ration/sim/simtest"
)

const asked = " -limit 500/s -procs 4 -duration 7s -warmup 500ms -replications 3"

// Each question is answered by one command, without a file.
func TestQuestions(t *testing.T) {
	simtest.Long(t)
	for line, want := range map[string][]string{
		"crash":             {"A crash of a process, back after 1s, costs ", " calls of Redis/s", "crash at 2.666s", "\na crash: tokens admitted ", "\n  no crash "},
		"deploy -for 100ms": {"A deployment with each process away for 100ms ", "deploy at 2.666s every 1s", "\na deployment: ", "\n  no deployment "},
		"outage -for 1s":    {"An outage of 1s ", " with deny and admits ", "\nshare: ", "\ndeny: tokens admitted -", "\nallow: tokens admitted +", "\n  no outage "},
		"far -latency 80ms": {"A store that is 80ms away ", " at most in place of 0.\n", "Redis     80ms away, timeout 250ms", "\n80ms: ", "decision, p99 +", "\n  1ms "},
	} {
		prints(t, line+asked, want...)
	}
	simtest.Lacks(t, "one policy", prints(t, "outage -outage deny -for 1s"+asked, "\ndeny: "), "share:")
	for line, want := range map[string]string{
		"outage -duration 10s -for 1h": "-for 1h0m0s: it is over after 1h0m4.444s, and the run after 10s",
		"far":                          "-latency is not given", "crash -replications 1": "want 2 to 10000",
		"far -latency 80": `for flag -latency: want a duration`,
	} {
		refused(t, want, line)
	}
}

// A deployment is played until all processes have started again.
func TestDeploymentIsPlayedToItsEnd(t *testing.T) {
	simtest.Long(t)
	prints(t, "deploy -procs 12 -limit 100/s -replications 2", "time      32.333s,")
	prints(t, "outage -procs 12 -limit 100/s -for 1m -outage deny -replications 2", "time      1m18.333s,")
}

// Who has written how long is played is told where that is too short for the question.
func TestLengthenedScenarioIsTold(t *testing.T) {
	simtest.Long(t)
	file := simtest.File(t, "mine.yaml", "processes: 2\nlimit: 50/s\nduration: 9s\n")
	const note = "\nNote: played for 18s in place of 9s: it is over after 13s, and 5s more show what follows.\n"
	prints(t, "outage -for 10s -outage deny -replications 2 "+file, note, "time      18s,")
	simtest.Lacks(t, "nothing is lengthened", must(t, "outage -for 1s -outage deny -replications 2 "+file), "Note: ")
}
