package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// besideRow is a row of ration: its flags, and what they came to.
var besideRow = regexp.MustCompile("(?m)^(\\|.*\\| ration, `([^`]*)` \\|).*$")

// flagOf is a flag, or a value, perhaps in quotes.
var flagOf = regexp.MustCompile(`"[^"]*"|\S+`)

// TestBesidePage plays the rows of ration in docs/beside-others.md again.
//
//	go test ./sim -run TestBesidePage -long
//	go test ./sim -run TestBesidePage -update
//
// The second one writes them anew. TestBeside in bench/ holds the rows of slidingwindow.
func TestBesidePage(t *testing.T) {
	if !*simtest.Update {
		longform.Only(t, "takes some seconds")
	}
	const name = "../docs/beside-others.md"
	old, err := os.ReadFile(name)
	simtest.OK(t, err)
	command := regexp.MustCompile(`(?m)^    go run \./sim (.*) FLAGS$`).FindSubmatch(old)
	if command == nil {
		t.Fatalf("%s does not tell its command", name)
	}
	rows := 0
	text := besideRow.ReplaceAllStringFunc(string(old), func(line string) string {
		rows++
		found := besideRow.FindStringSubmatch(line)
		printed := found[1] + playRow(t, string(command[1])+" "+found[2])
		if printed != line && !*simtest.Update {
			t.Errorf("%s has\n%s\nnot what its command prints:\n%s", name, line, printed)
		}
		return printed
	})
	if rows < 9 {
		t.Errorf("%d rows of ration on the page", rows)
	}
	if *simtest.Update && text != string(old) {
		simtest.OK(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

func playRow(t *testing.T, command string) string {
	t.Helper()
	args := flagOf.FindAllString(command, -1)
	for i, arg := range args {
		args[i] = strings.Trim(arg, `"`)
	}
	stdout := must(t, "", append(args, "-json")...)
	var printed struct {
		Variants []struct {
			Summary map[string]struct{ Mean float64 }
		}
	}
	if err := json.Unmarshal([]byte(stdout), &printed); err != nil || len(printed.Variants) != 1 {
		t.Fatalf("%s: %d variants, %v", command, len(printed.Variants), err)
	}
	var cells strings.Builder
	for _, name := range []string{"utilisation", "excess", "calls_per_request", "latency_p99_seconds"} {
		mean, ok := printed.Variants[0].Summary[name]
		if !ok {
			t.Fatalf("%s prints no %s", command, name)
		}
		fmt.Fprintf(&cells, " %s |", figureOf(name).text(mean.Mean))
	}
	return cells.String()
}
