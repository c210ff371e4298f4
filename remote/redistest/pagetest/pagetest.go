// Package pagetest builds and runs the programs that README.md and docs/ show, for tests that
// these do what the page says, and finds the programs that tests need.
package pagetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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

// Run builds a program and runs it in a folder until the test ends. The texts of Go in place,
// each of which the program says once, are replaced: its addresses, as a rule.
func Run(t testing.TB, folder, program string, place map[string]string) {
	t.Helper()
	for from, to := range place {
		from, to = strconv.Quote(from), strconv.Quote(to)
		if strings.Count(program, from) != 1 {
			t.Fatalf("the program does not say %s once", from)
		}
		program = strings.Replace(program, from, to, 1)
	}
	dir := t.TempDir()
	source, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary)
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
