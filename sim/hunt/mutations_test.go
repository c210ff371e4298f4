package hunt

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/remote/redistest/mutated"
	"github.com/seed13b07268/ration/sim/simtest"
)

// mutantName is the variable of the environment that says which rule is missing.
const mutantName = "HUNT_MUTANT"

// A mutation takes a rule out of the protocol, or lets it admit too much.
type mutation struct {
	rule           string
	file, old, new string // in package lease; old stands there once
	seed, scene    int    // where it shows: a scene of the class wide
	near           bool   // or near
	figure         string // that gets surely worse, by the name that Against has
	more           bool   // is worse
	excess         bool   // instead: more is admitted than is promised
}

// Rows go with the protocol: after a change of it, put the same rule in its new
// words here, and find a scene with `sim hunt -against`.
var mutations = []mutation{
	{rule: "what was lent and did not arrive comes back", file: "bucket.go",
		old: "unused, beyond := r.add+r.accrued(a.at), 0.0", new: "unused, beyond := 0*r.accrued(a.at), 0.0",
		seed: 1, scene: 26, near: true, figure: "utilisation"},
	{rule: "what came does not come back", file: "bucket.go",
		old: "max(unused-q.Got, 0), max(q.Got-unused, 0)", new: "max(unused-0*q.Got, 0), max(q.Got-unused, 0)",
		seed: 1, scene: 33, excess: true},
	{rule: "nothing is added while a request is unanswered", file: "ask.go",
		old: "\th.running = false\n", new: "",
		seed: 1, scene: 106, excess: true},
	{rule: "silence is information", file: "agenda.go",
		old: "silence = 10", new: "silence = 1e9",
		seed: 1, scene: 20, near: true, figure: "utilisation"},
	{rule: "a part of the pool is kept for those without a slice", file: "bucket.go",
		old: "a.scarce = float64(p.Reserve *", new: "a.scarce = float64(0 *",
		seed: 1, scene: 17, figure: "calls", more: true},
	{rule: "a bucket holds no more than its Burst", file: "ledger.go",
		old: "\tif l.pool < room {\n", new: "\tif room++; l.pool < room {\n",
		seed: 1, scene: 33, excess: true},
}

// TestMutationsStand: each mutation finds its rule's text. So a change of the text is noticed
// without -long.
func TestMutationsStand(t *testing.T) {
	for _, m := range mutations {
		t.Run(m.rule, func(t *testing.T) { mutated.Once(t, filepath.Join("../../lease", m.file), m.old) })
	}
}

// TestMutations judges the judge: sim without a rule of package lease hunts where the rule matters,
// and must find that the rule is missing.
func TestMutations(t *testing.T) {
	longform.Only(t, "builds sim, and hunts")
	var changes []mutated.Change
	for _, m := range mutations {
		changes = append(changes, mutated.Change{File: filepath.Join("../../lease", m.file), Old: m.old, New: m.new})
	}
	files, in := mutated.Together(t, mutantName, changes)
	sound := program{build(t, files), ""}
	reports := map[string]*Report{} // of sound, by the scene's arguments
	for i, m := range mutations {
		t.Run(m.rule, func(t *testing.T) {
			unsound := program{sound.sim, fmt.Sprint(i)}
			if !in[i] {
				unsound.sim = build(t, map[string]string{changes[i].File: changes[i].Apply(t)})
			}
			scene := fmt.Sprint(m.args())
			if reports[scene] == nil {
				reports[scene] = m.report(t, sound) // fails at an EXCESS
			}
			if m.excess {
				out, code := m.hunt(t, unsound)
				if code != 1 || !strings.HasPrefix(out, "EXCESS: ") {
					t.Errorf("exit code %d, want 1 and an EXCESS:\n%s", code, out)
				}
				return
			}
			changes, err := m.report(t, unsound).Against(reports[scene])
			simtest.OK(t, err)
			for _, c := range changes {
				worse := c.Less
				if m.more {
					worse = c.More
				}
				if c.Name == m.figure {
					t.Logf("%s: %.4f became %.4f", c.Name, c.Before, c.After)
					if worse != 1 {
						t.Errorf("%v: %s is not surely worse without the rule", m.args(), c.Name)
					}
					return
				}
			}
			t.Errorf("%q is no figure", m.figure)
		})
	}
}

// A program is sim, with all rules or without one.
type program struct{ sim, without string }

// args are those of sim for the scene.
func (m *mutation) args() []string {
	class := "wide"
	if m.near {
		class = "near"
	}
	return []string{"hunt", "-class", class, "-seed", fmt.Sprint(m.seed), "-first", fmt.Sprint(m.scene),
		"-scenes", "1", "-worst", "0", "-rivals=false"}
}

// hunt hunts the scene, and returns what sim prints.
func (m *mutation) hunt(t *testing.T, p program, more ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.sim, append(m.args(), more...)...)
	cmd.Env = append(os.Environ(), mutantName+"="+p.without)
	text, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return string(text), exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(text), 0
}

// report is what sim prints of the scene.
func (m *mutation) report(t *testing.T, p program) *Report {
	t.Helper()
	text, code := m.hunt(t, p, "-json")
	if code != 0 {
		t.Fatalf("exit code %d:\n%s", code, text)
	}
	r, err := Read(strings.NewReader(text))
	simtest.OK(t, err)
	return r
}

// build builds sim with other text in some files.
func build(t *testing.T, files map[string]string) (sim string) {
	t.Helper()
	sim = filepath.Join(t.TempDir(), "sim")
	mutated.Build(t, files, "build", "-o", sim, "../../sim")
	return sim
}
