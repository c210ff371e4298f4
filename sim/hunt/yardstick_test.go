package hunt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/simtest"
)

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
	simtest.Long(t)
	const seed = 1
	var lines strings.Builder
	seen := map[string]bool{}
	for _, number := range yardstick {
		s := draw(t, seed, number, Wide, Buckets)
		figures, err := play(t.Context(), s, eachName, each, 0, 1)
		simtest.OK(t, err)
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
	simtest.Golden(t, "testdata/yardstick.txt", lines.String(), "what `sim hunt` compares with has "+
		"changed, a call for each request, or the scenes: give the reason in CHANGELOG.md")
}
