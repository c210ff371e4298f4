// Package pagetest builds and runs the programs that README.md and docs/ show, for tests that
// these do what the page says, and finds the programs that tests need.
package pagetest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/mutated"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// Fragment returns what a page shows from the text begin on, which it says once, to the end of
// that block. The text itself is part of it.
func Fragment(t testing.TB, page, begin string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, fragment, found := strings.Cut(string(text), "\n"+begin)
	fragment, again, ended := strings.Cut(fragment, "\n```\n")
	if !found || !ended || strings.Contains(again, "\n"+begin) {
		t.Fatalf("%s does not show once what begins with %q", page, begin)
	}
	return begin + fragment + "\n"
}

// Run builds a program and runs it in a folder until the test ends. The keys of place are strings
// that the program says once each, such as its addresses. When the program starts, it is given the
// values of place in their stead.
func Run(t testing.TB, folder, program string, place map[string]string) {
	t.Helper()
	var given []string
	for i, from := range slices.Sorted(maps.Keys(place)) {
		quoted := strconv.Quote(from)
		if strings.Count(program, quoted) != 1 {
			t.Fatalf("the program does not say %s once", quoted)
		}
		program = strings.Replace(program, quoted, fmt.Sprintf("given[%d]", i), 1)
		given = append(given, place[from])
	}
	const arguments = "package main\n\nimport \"os\"\n\nvar given = os.Args[1:]\n"
	cmd := exec.Command(Build(t, program, arguments), given...)
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	ended, err := tether.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
}

// Build builds a program of these files, and returns its path. The files of all tests are in the
// same folder: so go links a program again only if something in the program has changed.
func Build(t testing.TB, files ...string) (program string) {
	t.Helper()
	const folder = "shown" // not on disk
	texts := map[string]string{}
	for i, text := range files {
		texts[fmt.Sprintf("%s/%d.go", folder, i)] = text
	}
	program = filepath.Join(t.TempDir(), "program")
	mutated.Build(t, texts, "build", "-o", program, "./"+folder)
	return program
}

// Installed returns the path of the first of these programs that is on the PATH. Where none is it
// skips the test, or fails it where the environment says CI.
func Installed(t testing.TB, programs ...string) string {
	t.Helper()
	for _, name := range programs {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	reason := "not installed: " + strings.Join(programs, ", or ")
	if os.Getenv("CI") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}
