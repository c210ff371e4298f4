// Package mutated builds programs with other text in some of their files, for tests that
// must notice that a rule is missing.
package mutated

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Once is where the old text stands in the file, which must have it once.
func Once(t testing.TB, file, old string) (text string, at int) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = string(content)
	if n := strings.Count(text, old); n != 1 {
		t.Fatalf("%q stands %d times in %s, want once", old, n, file)
	}
	return text, strings.Index(text, old)
}

// Build runs a command of go with its arguments. Files have the text that is given for their
// names, in place of what is on disk, if they are there at all.
func Build(t testing.TB, files map[string]string, command string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range files {
		original, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		replace[original] = filepath.Join(dir, fmt.Sprint(len(replace))+".go")
		if err := os.WriteFile(replace[original], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append([]string{command, "-overlay", overlay}, args...)
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
