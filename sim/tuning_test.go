package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

var console = regexp.MustCompile("(?s)```console\n(.*?)```\n")

// TestTuningPage plays every command of docs/tuning.md again: its tables are what
// the commands print.
//
//	go test ./sim -run TestTuningPage -long
//	go test ./sim -run TestTuningPage -update
//
// The second one writes them anew, but for blocks with a line "...", which stands for lines that
// are left out: the others must be as printed.
func TestTuningPage(t *testing.T) {
	if !*simtest.Update {
		longform.Only(t, "takes half a minute")
	}
	t.Chdir("..") // where the page is read
	const name = "docs/tuning.md"
	old, err := os.ReadFile(name)
	simtest.OK(t, err)
	commands := 0
	text := console.ReplaceAllStringFunc(string(old), func(block string) string {
		var out strings.Builder
		for line := range strings.Lines(block) {
			command, ok := strings.CutPrefix(line, "$ go run ./sim ")
			if !ok {
				continue
			}
			commands++
			stdout := must(t, command)
			if strings.Contains(block, cut) {
				holdParts(t, block, "```console\n"+line+stdout+"```\n")
				return block
			}
			fmt.Fprintf(&out, "%s%s", line, stdout)
		}
		return "```console\n" + out.String() + "```\n"
	})
	if commands < 8 {
		t.Errorf("%d commands on the page", commands)
	}
	if text == string(old) {
		return
	}
	if !*simtest.Update {
		t.Errorf("%s is not what its commands print; -update writes it anew", name)
		return
	}
	simtest.OK(t, os.WriteFile(name, []byte(text), 0o644))
}

// cut stands on the page for lines that it leaves out.
const cut = "...\n"

// holdParts fails unless the parts of a block between its cuts are in what its command prints, in
// their order.
func holdParts(t *testing.T, block, printed string) {
	t.Helper()
	rest := printed
	for part := range strings.SplitSeq(block, cut) {
		_, after, ok := strings.Cut(rest, part)
		if !ok {
			t.Errorf("docs/tuning.md has %q, and its command prints %q", part, rest)
			return
		}
		rest = after
	}
}
