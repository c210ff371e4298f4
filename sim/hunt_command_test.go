package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/hunt"
	"github.com/seed13b07268/ration/sim/simtest"
)

// few are three scenes of a few hundred requests each, and some scenes fall short. none is a scene
// of few that does not. After a change of the protocol, other scenes may fall short.
const (
	few  = " -class wide -seed 201 -first 92 -scenes 3 -rivals=false -worst 1 -effort 1 "
	none = " -class wide -seed 201 -first 92 -scenes 1 -rivals=false "
)

// foundInFew is what package hunt finds in them.
var foundInFew = sync.OnceValues(func() (*hunt.Report, error) {
	o := hunt.Options{Seed: 201, First: 92, Scenes: 3, Worst: 1, Effort: 1}
	return hunt.Run(context.Background(), o)
})

func inFew(t *testing.T) *hunt.Report {
	t.Helper()
	r, err := foundInFew()
	simtest.OK(t, err)
	if len(r.Shrunk) == 0 {
		t.Fatal("none of few falls short: choose other scenes for these tests")
	}
	return r
}

func TestHuntMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ args, want string }{
		{"steady", `"steady" is no flag: scenes are drawn, not named`},
		{"-fast", "flag provided but not defined: -fast"},
		{"-seed 1000000000000", "for flag -seed: want 0 to 999999999999"},
		{"-seed -1", "for flag -seed"},
		{"-first -1", `invalid value "-1" for flag -first: want 0 to 899999`},
		{"-first 900000", "for flag -first"},
		{"-json -against a.json", "-json and -against: one of them"},
		{"-scenes 0", `invalid value "0" for flag -scenes: want 1 to 100000`},
		{"-scenes 100001", "for flag -scenes"},
		{"-worst -1", "for flag -worst: want 0 to 100000"},
		{"-class far", `invalid value "far" for flag -class: want wide, near, both`},
		{"-effort -1", `invalid value "-1" for flag -effort: want 0 to 100000`},
		{"-limits logs",
			`invalid value "logs" for flag -limits: want buckets, quotas, pairs, sliding, slots`},
		{"-minutes -1", "for flag -minutes: want 0 to 100000"},
		{"-minutes NaN", "for flag -minutes"},
		{"-html " + dir, "is a folder"},
		{"-html " + filepath.Join(dir, "none", "a.html"), "-html: stat"},
	} {
		refused(t, c.want, "hunt "+c.args)
	}
}

// What cannot be read or written is said before the hunt, where it can be.
func TestHuntFiles(t *testing.T) {
	dir := t.TempDir()
	file := simtest.File(t, "nonsense", "nonsense")
	for _, c := range []struct{ args, want string }{
		{"-against " + filepath.Join(dir, "none.json"), "none.json: no such file"},
		{"-against " + file, "hunt: read report: "},
		{"-out " + filepath.Join(file, "worst"), "not a directory"},
		{"-minutes 1e-12", "no scene was begun within -minutes 1e-12"},
	} {
		code, stdout, stderr := sim(t.Context(), "hunt -scenes 100000 "+c.args)
		if code != 1 || stdout != "" || !strings.Contains(stderr, c.want) {
			t.Errorf("sim hunt %s: exit code %d, %q\n%swant %q",
				c.args, code, stdout, stderr, c.want)
		}
	}
}

// A hunt prints how many scenes fall short in what, and the worst ones. The same
// command line prints the same.
func TestHuntText(t *testing.T) {
	simtest.Long(t)
	dir := t.TempDir()
	page, scenes := filepath.Join(dir, "page.html"), filepath.Join(dir, "worst", "scenes")
	text := must(t, "hunt"+few+"-html", page, "-out", scenes)
	r := inFew(t)
	worst := r.Shrunk[0]
	want := []string{
		fmt.Sprintf("3 wide scenes of seed 201, each played 5 times; %d fall short. ", len(r.Ranked())),
		"Envelope: never exceeded.", "surely short in",
		"Median calls per request: " + four(r.MedianCalls()), "The worst scenes, made simpler as far as -effort allows:",
		"\n" + worst.Scene.Name + ": " + describe(r.Ranked()[0]), shortOf(r.Ranked()[0]),
		"\n  simpler: " + describe(worst), shortOf(worst),
		fmt.Sprintf("for sim run FILE -seed %d:\n\n", worst.Scene.Seed), huntYAML(worst),
	}
	for a, row := range huntRows(r) {
		n, _ := r.Short(hunt.Aspect(a))
		if row[1] != fmt.Sprint(n) || (row[2] == "-") != (n == 0) {
			t.Errorf("%s: %q of %d scenes", hunt.Aspects[a], row, n)
		}
		want = append(want, row[0])
	}
	simtest.Has(t, "few", text, want...)
	simtest.Lacks(t, "few", text, "NaN", "Inf", "INTERRUPTED")
	if longform.Set() {
		if again := must(t, "hunt"+few); again != text {
			t.Errorf("the second time:\n%s", again)
		}
	}
	simtest.Lacks(t, "none", must(t, "hunt"+none), "worst scenes")
	checkHuntOut(t, scenes, text, worst)
	checkHuntPage(t, page)
}

// Half of the scenes are near the limit, unless -class says otherwise: of two, the odd one.
func TestHuntClasses(t *testing.T) {
	simtest.Long(t)
	const two = "hunt -seed 201 -first 92 -scenes 2 -rivals=false -worst 0 "
	var classes, numbers []string
	for line := range strings.Lines(must(t, two+"-json")) {
		var scene struct {
			Class  string `json:"class"`
			Number int    `json:"scene"`
		}
		simtest.OK(t, json.Unmarshal([]byte(line), &scene))
		classes, numbers = append(classes, scene.Class), append(numbers, fmt.Sprint(scene.Number))
	}
	if fmt.Sprint(classes, numbers) != "[wide near] [92 93]" {
		t.Errorf("%v %v", classes, numbers)
	}
	prints(t, two, "2 scenes of seed 201", "are near. Envelope")
	prints(t, two+"-class near", "2 near scenes of seed 201")
}

// Only -fail makes an error of what falls short.
func TestHuntFail(t *testing.T) {
	longform.None(t)
	const (
		both  = " -class wide -seed 201 -first 92 -scenes 2 -rivals=false -worst 0 "
		found = " -class wide -seed 201 -first 93 -scenes 1 -rivals=false -worst 0 "
	)
	simtest.Long(t)
	code, stdout, stderr := sim(t.Context(), "hunt -fail"+both)
	const otherwise = "sim hunt: scenes fall short otherwise than -except says: "
	score := fmt.Sprintf("%.2f", math.Ceil(100*inFew(t).Ranked()[0].Score)/100)
	if code != 1 || stderr != otherwise+"93:"+score+"\n" || !strings.Contains(stdout, "2 wide scenes") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	must(t, "hunt -fail"+none)
	must(t, "hunt -fail -except 93:"+score+found)
	for except, want := range map[string]string{
		"93:1e-9" + found:  otherwise + "93:" + score + "\n",
		"92:1" + none:      otherwise + "92 does not any more\n",
		"93" + found:       `"93" is no scene with its score, as 7:1.50`,
		"93:1,x:1" + found: `"x:1" is no scene`,
		"-1:1" + found:     `"-1:1" is no scene`,
		"93:NaN" + found:   `"93:NaN" is no scene`,
	} {
		if code, _, stderr := sim(t.Context(), "hunt -fail -except "+except); code == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", except, code, stderr)
		}
	}
}

// What -out writes is a scenario that sim run plays as the hunt did, to the last bit.
func checkHuntOut(t *testing.T, dir, text string, worst *hunt.Judgement) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != worst.Scene.Name+".yaml" {
		t.Fatalf("%v, %v", files, err)
	}
	name := filepath.Join(dir, files[0].Name())
	yaml, err := os.ReadFile(name)
	if err != nil || !strings.HasSuffix(text, string(yaml)) {
		t.Errorf("the file is not what was printed: %v\n%s", err, yaml)
	}
	modes := map[string][]hunt.Figures{"auto": worst.Auto, "per-request": worst.Each}
	for mode, figures := range modes {
		line := fmt.Sprintf("run -json -replications %d -seed %d -mode %s",
			hunt.Replications, worst.Scene.Seed, mode)
		for i, r := range decode(t, must(t, line, name)).Variants[0].Results {
			f := figures[i]
			if r.TokensAdmitted != f.Admitted || r.CallsPerRequest != f.Calls || r.Tokens != f.Tokens {
				t.Errorf("%s, replication %d: sim run has %v tokens admitted, %v calls per request; "+
					"the hunt %v, %v", mode, i, r.TokensAdmitted, r.CallsPerRequest, f.Admitted, f.Calls)
			}
		}
	}
}

func checkHuntPage(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	simtest.OK(t, err)
	simtest.Has(t, "page", string(text), "<!DOCTYPE html>", "</html>", "Where ration loses",
		"go run ./sim hunt -class wide -seed 201 -first 92", inFew(t).Shrunk[0].Scene.Name, "hunt-201-94",
		"Utilisation lost against each dimension")
	for _, d := range dimensions {
		simtest.Has(t, "charts", string(text), d.name)
	}
}

// A report compared with itself differs in nothing. Compared with one of fewer calls for one scene,
// it differs in that figure.
func TestHuntAgainst(t *testing.T) {
	simtest.Long(t)
	scenes := longform.Of(strings.Replace(few, "-scenes 3", "-scenes 2", 1), few)
	first := must(t, "hunt"+scenes+"-worst 0 -json")
	name := simtest.File(t, "report.json", first)
	if longform.Set() { // else what follows changes in one figure, and in nothing else
		text := must(t, "hunt"+few+"-worst 0 -against", name)
		if !strings.Contains(text, "more in") ||
			strings.Contains(text, ": +") || strings.Contains(text, ": -") {
			t.Errorf("against itself:\n%s", text)
		}
	}

	r, err := hunt.Read(strings.NewReader(first))
	simtest.OK(t, err)
	for i := range r.Judgements[0].Auto {
		r.Judgements[0].Auto[i].Calls -= 0.5
	}
	simtest.OK(t, writeFile(name, r.Write))
	text := must(t, "hunt"+scenes+"-worst 0 -against", name)
	if !strings.Contains(text, "92: +0.500") || strings.Count(text, ": +")+strings.Count(text, ": -") > 1 {
		t.Errorf("scene 92 had fewer calls, and nothing else changed:\n%s", text)
	}
}

// A secondStage is a context that ends when a second one is derived from it: with
// a hunt, when all scenes are judged and the first one is to be shrunk. (Package
// context asks for AfterFunc when it derives one.)
type secondStage struct {
	context.Context
	end chan struct{}

	mu      sync.Mutex
	derived int
}

func (c *secondStage) Done() <-chan struct{} { return c.end }

func (c *secondStage) Err() error {
	select {
	case <-c.end:
		return context.Canceled
	default:
		return nil
	}
}

func (c *secondStage) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derived++; c.derived == 2 {
		close(c.end)
		go f()
	}
	return func() bool { return true }
}

// An interrupt ends the hunt with code 130 and with what is known by then.
func TestHuntInterrupt(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	ctx := &secondStage{Context: t.Context(), end: make(chan struct{})}
	code, stdout, stderr := sim(ctx, "hunt"+few+"-html", page)
	if code != 130 || stderr != "sim hunt: interrupted\n" {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if !strings.HasPrefix(stdout, "INTERRUPTED after 3 scenes.\n\n3 wide scenes of seed 201") ||
		!strings.Contains(stdout, inFew(t).Ranked()[0].Scene.Name) {
		t.Errorf("%s", stdout)
	}
	if info, err := os.Stat(page); err != nil || info.Size() == 0 {
		t.Errorf("page: %v", err)
	}

	// Nothing is known yet: nothing is printed, and no file is begun.
	over, cancel := context.WithCancel(t.Context())
	cancel()
	name := filepath.Join(dir, "none.html")
	if code, stdout, _ := sim(over, "hunt -html", name); code != 130 || stdout != "" {
		t.Errorf("exit code %d, %q", code, stdout)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a page of nothing: %v", err)
	}
}
