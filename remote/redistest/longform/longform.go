// Package longform has the flag of tests that search, flood or play real time for long.
//
//	go test ./lease -long
//
// Histories drawn at random have a number and a first seed of their own, in either form:
//
//	go test ./lease -run TestInvariants -histories 300000 -first 1000000
//
// Without it a test plays a short form, or is skipped. The short forms of a package fail without
// each of its rules. .ci/run plays both forms.
//
// Simulations have small heaps and plenty of garbage. Collecting at each 4 MB took a sixth to a
// third of their time. So tests that import the package collect seldom, unless the variable GOGC is
// set (ADR 94).
package longform

import (
	"cmp"
	"flag"
	"iter"
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

var (
	flagged   = flag.Bool("long", false, "play the long forms of tests, as .ci/run does")
	histories = flag.Int("histories", 0, "how many each test plays that plays them, if not its form")
	first     = flag.Uint64("first", 0, "the seed of the first")
)

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

// Histories is how many histories a test plays: what -histories says, or else the size of its form.
func Histories(short, full int) int { return cmp.Or(*histories, Of(short, full)) }

// Seeds are those of as many histories.
func Seeds(n int) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for i := range uint64(n) {
			if !yield(*first + i) {
				return
			}
		}
	}
}

// Only skips a test that has no short form. The reason says what takes long.
func Only(t testing.TB, reason string) {
	t.Helper()
	if !Set() {
		t.Skip(reason + ": run it with -long, as CI does")
	}
}

// None skips a test that has no long form while long forms are played: go test ./... plays it, and
// nothing else of it would be seen. It is for tests that take half a second or more.
func None(t testing.TB) {
	t.Helper()
	if Set() {
		t.Skip("has no long form: it is played without -long")
	}
}
