package hunt

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/remote/redistest/mutated"
)

// A mutation takes a rule out of the protocol, or lets it admit too much.
type mutation struct {
	rule           string
	file, old, new string // in package lease; old stands there once
	seed, scene    int    // where it shows
	figure         string // that gets surely worse, by the name that Against has
	more           bool   // is worse
	excess         bool   // instead: more is admitted than is promised
}

// Rows go with the protocol: after a change of it, put the same rule in its new
// words here, and find a scene with `sim hunt -against`.
var mutations = []mutation{
	{rule: "what was lent and did not arrive comes back", file: "bucket.go",
		old: "unused := r.add + r.accrued(a.at)", new: "unused := 0 * r.accrued(a.at)",
		seed: 1, scene: 106, figure: "utilisation"},
	{rule: "what came does not come back", file: "bucket.go",
		old: "unused = max(unused-q.Got, 0)", new: "unused = max(unused-0*q.Got, 0)",
		seed: 1, scene: 33, excess: true},
	{rule: "nothing is added while a request is unanswered", file: "ask.go",
		old: "\th.running = false\n", new: "",
		seed: 1, scene: 106, excess: true},
	{rule: "silence is information", file: "agenda.go",
		old: "silence = 10", new: "silence = 1e9",
		seed: 1, scene: 23, figure: "utilisation"},
	{rule: "a part of the pool is kept for those without a slice", file: "bucket.go",
		old: "a.scarce = float64(p.Reserve *", new: "a.scarce = float64(0 *",
		seed: 1, scene: 17, figure: "calls", more: true},
	{rule: "a bucket holds no more than its Burst", file: "ledger.go",
		old: "\tif l.pool > room {\n", new: "\tif room++; l.pool > room {\n",
		seed: 1, scene: 33, excess: true},
}

// TestMutationsStand: each mutation finds its rule's text. A change that gives a rule other words is
// noticed without -long.
func TestMutationsStand(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) { mutated.Once(t, filepath.Join("../../lease", m.file), m.old) })
	}
}

// TestMutations judges the judge: sim is built with a rule of package lease taken
// out, hunts where the rule matters, and must find that it is missing.
func TestMutations(t *testing.T) {
	longform.Only(t, "builds sim once for each rule, half a minute")
	sound := filepath.Join(t.TempDir(), "sim")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", sound,
		"../../sim").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) {
			unsound := m.build(t)
			if m.excess {
				out, code := m.hunt(t, unsound)
				if code != 1 || !strings.HasPrefix(out, "EXCESS: ") {
					t.Errorf("exit code %d, want 1 and an EXCESS:\n%s", code, out)
				}
				if out, code := m.hunt(t, sound); code != 0 || strings.Contains(out, "EXCESS") {
					t.Errorf("found without it, too: exit code %d\n%s", code, out)
				}
				return
			}
			before, after := m.report(t, sound), m.report(t, unsound)
			changes, err := after.Against(before)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				worse := c.Less
				if m.more {
					worse = c.More
				}
				if c.Name == m.figure {
					t.Logf("%s: %.4f became %.4f", c.Name, c.Before, c.After)
					if worse != 1 {
						t.Errorf("seed %d, scene %d: %s is not surely worse without the rule",
							m.seed, m.scene, c.Name)
					}
					return
				}
			}
			t.Errorf("%q is no figure", m.figure)
		})
	}
}

// hunt hunts the scene with a built sim, and returns what it prints.
func (m *mutation) hunt(t *testing.T, sim string, more ...string) (out string, code int) {
	t.Helper()
	args := []string{"hunt", "-class", "wide", "-seed", fmt.Sprint(m.seed), "-first", fmt.Sprint(m.scene),
		"-scenes", "1", "-worst", "0", "-rivals=false"}
	text, err := exec.CommandContext(t.Context(), sim, append(args, more...)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(text), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(text), 0
}

// report is what a built sim prints of the scene.
func (m *mutation) report(t *testing.T, sim string) *Report {
	t.Helper()
	text, code := m.hunt(t, sim, "-json")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	r, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// build builds sim without the rule.
func (m *mutation) build(t *testing.T) (sim string) {
	t.Helper()
	sim = filepath.Join(t.TempDir(), "sim")
	file := filepath.Join("../../lease", m.file)
	text, at := mutated.Once(t, file, m.old)
	text = text[:at] + m.new + text[at+len(m.old):]
	mutated.Build(t, map[string]string{file: text}, "build", "-o", sim, "../../sim")
	return sim
}
