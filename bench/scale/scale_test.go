package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest"
)

// TestAll: little of everything, its tables and its figure, and the same
// figure again from what was kept.
func TestAll(t *testing.T) {
	redistest.Program(t) // or skip
	dir := t.TempDir()
	first, again := filepath.Join(dir, "first.svg"), filepath.Join(dir, "again.svg")
	raw := filepath.Join(dir, "raw.json")
	var out, repeated bytes.Buffer
	if err := run(options{short: true, svg: first, raw: raw}, &out); err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{"| keys |", "| holders |", "| GOMAXPROCS |", "| added |"} {
		if !strings.Contains(out.String(), head) {
			t.Errorf("no table %s", head)
		}
	}
	if strings.Contains(out.String(), "NaN") {
		t.Errorf("not a number:\n%s", &out)
	}
	if err := run(options{from: raw, svg: again}, &repeated); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(first)
	b, _ := os.ReadFile(again)
	if out.String() != repeated.String() || len(a) < 1000 || !bytes.Equal(a, b) {
		t.Errorf("drawn again it is another figure, of %d and %d bytes:\n%s%s", len(a), len(b), &out, &repeated)
	}
	for _, o := range []options{
		{short: true, cluster: true}, {short: true, fleet: true}, {short: true, lines: true},
		{short: true, cold: true},
	} {
		out.Reset()
		if err := run(o, &out); err != nil || strings.Contains(out.String(), "NaN") {
			t.Errorf("%+v: %v\n%s", o, err, &out)
		}
	}
}

func TestCollisions(t *testing.T) {
	for _, c := range []struct {
		running, lanes int
		want           float64
	}{{1, 16, 0}, {2, 16, 1. / 16}, {2, 2, 0.5}, {64, 128, 0.39}} {
		if got := collisions(c.running, c.lanes); math.Abs(got-c.want) > 0.002 {
			t.Errorf("%d goroutines in %d lanes: %v, want %v", c.running, c.lanes, got, c.want)
		}
	}
}
