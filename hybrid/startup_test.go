package hybrid_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/remote/redistest/pagetest"
)

// TestStartup: a program that imports hybrid and remote initialises its packages in less than
// 3 ms and 512 KB. Packages that those two import are counted, too.
//
// The bytes are nearly the same in each run and on each machine. Most are copies of the scripts
// for their digests: 210 KB of 250. The clock also counts other programs' turns on the core, so
// one run of twenty within the bound is enough.
func TestStartup(t *testing.T) {
	longform.None(t)
	const mostBytes, mostClock, runs = 512 << 10, 3.0, 20
	program := pagetest.Build(t, `package main

import (
	_ "github.com/seed13b07268/ration/hybrid"
	_ "github.com/seed13b07268/ration/remote"
)

func main() {}
`)
	for run := 1; ; run++ {
		ms, size, trace := startup(t, program)
		if size > mostBytes {
			t.Fatalf("initialisation of packages takes %d bytes:\n%s", size, trace)
		}
		if ms < mostClock {
			t.Logf("run %d: %.2f ms, %d bytes", run, ms, size)
			return
		}
		if run == runs {
			t.Fatalf("initialisation of packages takes %.1f ms in run %d:\n%s", ms, run, trace)
		}
	}
}

// startup sums up what the initialisation of a program's packages costs.
func startup(t *testing.T, program string) (ms float64, size int, trace []byte) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	trace, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for lines := bufio.NewScanner(bytes.NewReader(trace)); lines.Scan(); {
		var name string
		var at, clock float64
		var bytes, allocs int
		_, err := fmt.Sscanf(lines.Text(), "init %s @%f ms, %f ms clock, %d bytes, %d allocs",
			&name, &at, &clock, &bytes, &allocs)
		if err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		ms, size = ms+clock, size+bytes
		if strings.Contains(name, "/ration/") {
			ours++
		}
	}
	if ours == 0 {
		t.Fatalf("no package of the module is in the trace:\n%s", trace)
	}
	return ms, size, trace
}
