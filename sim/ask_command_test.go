package main

import (
	"fmt"
	"strings"
	"testing"
)

const asked = " -limit 500/s -procs 4 -duration 3s -warmup 500ms -replications 3"

// Each question is answered by one command, without a file.
func TestQuestions(t *testing.T) {
	long(t)
	for line, want := range map[string][]string{
		"crash":             {"A crash of a process, back after 1s, costs ", " calls of Redis/s", "crash at 1.333s", "\na crash: tokens admitted ", "\n  no crash "},
		"deploy -for 100ms": {"A deployment with each process away for 100ms ", "deploy at 1.333s every 1s", "\na deployment: ", "\n  no deployment "},
		"outage -for 1s":    {"An outage of 1s ", " with deny and admits ", "\nshare: ", "\ndeny: tokens admitted -", "\nallow: tokens admitted +", "\n  no outage "},
		"far -latency 80ms": {"A store that is 80ms away ", " at most in place of 0.\n", "Redis     80ms away, timeout 250ms", "\n80ms: ", "decision, p99 +", "\n  1ms "},
	} {
		text := must(t, line+asked)
		for _, want := range want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", line, want, text)
			}
		}
	}
	if text := must(t, "outage -outage deny -for 1s"+asked); strings.Contains(text, "share:") ||
		!strings.Contains(text, "\ndeny: ") {
		t.Errorf("with one policy:\n%s", text)
	}
	for line, want := range map[string]string{
		"far": "-latency is not given", "crash -replications 1": "want 2 to 10000",
		"far -latency 80": `for flag -latency: want a duration`,
	} {
		if code, _, stderr := sim(t.Context(), line); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %s, want %s", line, code, stderr, want)
		}
	}
}

// A deployment is played until all processes have started again.
func TestDeploymentIsPlayedToItsEnd(t *testing.T) {
	long(t)
	text := must(t, "deploy -procs 12 -limit 100/s -duration 2s -warmup 500ms -replications 2")
	whole := must(t, "deploy -procs 12 -limit 100/s -warmup 500ms -replications 2")
	if !strings.Contains(text, "time      2s,") || !strings.Contains(whole, fmt.Sprintf("time      %s,", "29.333s")) {
		t.Errorf("%s\n%s", text, whole)
	}
}
