package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// Quotas, sliding windows and several limits are played by every command: what they print tells
// of each limit by its name.
func TestKindsOfLimits(t *testing.T) {
	simtest.Long(t)
	const tiny = " -duration 100ms -warmup 20ms -effort 0.01"
	const short = " -duration 200ms -warmup 100ms -replications 2 "
	page := filepath.Join(t.TempDir(), "page.html")
	for _, c := range []struct {
		line string
		want []string
	}{
		{"run quota" + short, []string{"\nlimit     6000/minute\n", "promised: at most none",
			"  an ideal limit: "}},
		{"run sliding" + short, []string{"\nlimit     6000 in any minute\n",
			"promised: at most none", "  an ideal limit: "}},
		{"compare sliding -b mode=batches" + short, []string{"\nB: excess: none"}},
		{"run slots" + short, []string{"\nlimit     100 slots\n",
			"jobs of 50ms, exponential, waiting for up to 500ms", "promised: at most none"}},
		{"compare slots -b max_refresh=100ms" + short, []string{"\nB: excess: none"}},
		{"sweep -over load.hold.mean=10ms,20ms slots" + short, []string{"20ms"}},
		{"tune slots" + tiny, []string{"limit     100 slots", "no excess above what is promised"}},
		{"sweep -over mode=auto,per-request sliding" + short, []string{"per-request"}},
		{"tune sliding" + tiny, []string{"limit     6000 in any minute",
			"no excess above what is promised"}},
		{"run -limit 300/second steady" + short, []string{"\nlimit     300/second\n"}},
		{"run several" + short + "-html " + page, []string{
			"\nlimit     client: 20/s, burst 20, each of 200 keys\n", "\n  and     today: 40000/day\n",
			"denies",
			"\n  client, 20/s burst 20 ", "\n  all, 800/s burst 400 ", "\n  client-"}},
		{"compare quota -b mode=batches" + short, []string{"\nB: excess: none"}},
		{"compare several -b mode=per-request" + short,
			[]string{"\nA: limits: ", "\nB: limits: ", "\n  endpoint, 300/s burst 300 "}},
		{"sweep -over mode=auto,per-request several" + short, []string{"per-request"}},
		{"tune quota" + tiny, []string{"limit     6000/minute", "no excess above what is promised"}},
		{"tune several" + tiny, []string{"  and     all: 800/s, burst 400",
			"no excess above what is promised"}},
	} {
		several := strings.Contains(c.line, " several")
		if !strings.HasPrefix(c.line, "run") && !several && !longform.Set() {
			continue // done for several limits as well
		}
		prints(t, c.line, c.want...)
	}
	simtest.Has(t, "slots", must(t, "run steady"+short, "-limit", "50 slots"), "\nlimit     50 slots\n",
		"jobs of 100ms, exponential\n")
	text, err := os.ReadFile(page)
	simtest.OK(t, err)
	simtest.Has(t, "page", string(text), "client, 20/s burst 20", "an ideal one")
}
