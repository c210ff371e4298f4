// Package longform has the flag of tests that search, flood or play real time for long.
//
//	go test ./lease -long
//
// Without it a test plays a short form, or is skipped. The short forms of a package fail without
// each of its rules. .ci/run plays both forms.
//
// Simulations have small heaps and plenty of garbage. Collecting at each 4 MB took a sixth to a
// third of their time. So tests that import the package collect seldom, unless the variable GOGC is
// set (ADR 146).
package longform

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
		debug.SetMemoryLimit(1 << 30) // a test with a large heap collects as by default, or more often
	}
}

var flagged = flag.Bool("long", false, "play the long forms of tests, as .ci/run does")

// Set reports whether long forms are played. A test asks, since flags are parsed by then.
func Set() bool {
	if !flag.Parsed() {
		panic("longform: nobody knows before flags are parsed")
	}
	return *flagged
}

// Of returns short, or full if long forms are played.
func Of[T any](short, full T) T {
	if Set() {
		return full
	}
	return short
}

// Only skips a test that has no short form. The reason says what takes long.
func Only(t testing.TB, reason string) {
	t.Helper()
	if !Set() {
		t.Skip(reason + ": run it with -long, as CI does")
	}
}
