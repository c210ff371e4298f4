package hunt

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/yardstick.txt anew")

// yardstick are numbers of scenes: each kind of load, waiting callers, several keys,
// costs, and each trouble are among them, and all of them are cheap.
var yardstick = []int{28, 33, 58, 81, 84, 106, 125, 150}

// TestYardstick: a call for each request is what everything is held against, so it
// must not move by itself. A protocol that made it worse would look better.
//
//	go test ./sim/hunt -run TestYardstick -update
//
// writes the file anew.
func TestYardstick(t *testing.T) {
	if testing.Short() {
		t.Skip("plays one goroutine: left out with -short")
	}
	const (
		golden = "testdata/yardstick.txt"
		seed   = 1
	)
	var lines strings.Builder
	seen := map[string]bool{}
	for _, number := range yardstick {
		s, err := Draw(seed, number, Wide, Buckets)
		if err != nil {
			t.Fatal(err)
		}
		figures, err := play(t.Context(), s, eachName, each, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		f := figures[0]
		seen[Kinds[s.Kind()]], seen[Troubles[s.Trouble()]] = true, true
		fmt.Fprintf(&lines, "%-10s %-15s %-11s %-13s admitted %v, calls per request %v\n", s.Name,
			Kinds[s.Kind()], Manners[s.Manner()], Troubles[s.Trouble()], f.Admitted, f.Calls)
	}
	for _, name := range slices.Concat(Kinds, Troubles) {
		if !seen[name] {
			t.Errorf("no scene has %s: choose others", name)
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(lines.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := lines.String(); got != string(want) {
		t.Errorf("what `sim hunt` compares with has changed: a call for each request, or "+
			"the scenes. If that is meant, give the reason in CHANGELOG.md, and -update.\n"+
			"got:\n%swant:\n%s", got, want)
	}
}
