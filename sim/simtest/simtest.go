// Package simtest has what tests of the simulator share.
package simtest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/scenario"
)

// Update lets tests write their golden files, and the tables of pages, anew.
var Update = flag.Bool("update", false, "write golden files, or tables of docs, anew")

// Long leaves out with -short what plays much: the goroutines that it would show to the race
// detector are those of other tests.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("plays much: too long with -short")
	}
}

// OK ends the test at an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Scenario is a resolved one, of a text in YAML.
func Scenario(t testing.TB, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Of(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return s
}

// File writes a file into a folder of its own, and returns its name.
func File(t testing.TB, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	OK(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

// Golden fails unless a text is that of a file. what has changed if it is another one is for
// people; -update writes the file.
func Golden(t testing.TB, name, got, what string) {
	t.Helper()
	if *Update {
		OK(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	OK(t, err)
	if got != string(want) {
		t.Errorf("%s; if that is meant, -update.\ngot:\n%swant:\n%s", what, got, want)
	}
}

// Has fails for each text that is wanted, and is not in what was said.
func Has(t testing.TB, what, said string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(said, w) {
			t.Errorf("%s: no %q in\n%.5000s", what, w, said)
		}
	}
}

// Lacks fails for each text that is odd, and is in what was said.
func Lacks(t testing.TB, what, said string, odd ...string) {
	t.Helper()
	for _, x := range odd {
		if strings.Contains(said, x) {
			t.Errorf("%s: %q in\n%.5000s", what, x, said)
		}
	}
}

// Refused fails unless an error has each text that is wanted.
func Refused(t testing.TB, what string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
	} else {
		Has(t, what, err.Error(), want...)
	}
}
