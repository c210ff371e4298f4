package main

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
)

// TestRun: the table of a moment on a real Redis. No design admits more than the envelope by what
// its clocks can tell.
func TestRun(t *testing.T) {
	redistest.Program(t) // or skip
	var out bytes.Buffer
	o := options{[]float64{0.5}, time.Second, 4 * time.Second}
	switch err := run(t.Context(), o, &out); {
	case errors.Is(err, errStalled):
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	for _, d := range designs {
		if !strings.Contains(out.String(), "| 0.5 | "+d.name+" | ") {
			t.Errorf("no row of %s:\n%s", d.name, &out)
		}
	}
}

// TestJudge: floors that are not kept, and tokens above the envelope, are seen.
func TestJudge(t *testing.T) {
	offered := tokens{{2000, 100, 0}, {2000, 800, 0}}
	admitted := tokens{{1000, 100, 0}, {900, 400, 0}}
	if worst, mean := lacks(offered, admitted); math.Abs(worst-0.05) > 1e-9 ||
		math.Abs(mean-0.075) > 1e-9 {
		t.Errorf("floors lack %v, %v in the mean", worst, mean)
	}
	if got := excess(make(admissions, burst+10)); got != 10 {
		t.Errorf("excess %v, not 10", got)
	}
	unsure := slices.Repeat(admissions{{done: 10 * time.Millisecond}}, burst+10)
	if got := excess(unsure); got != 0 {
		t.Errorf("excess %v, though 10 tokens flow while all are decided", got)
	}
	s := scene{load: 1, warm: time.Second, time: 4 * time.Second}
	if n := s.ideal(s.arrivals()).sum(0); n < 1100 || n > 1500 {
		t.Errorf("an ideal bucket admits %v of the first class in 4 s", n)
	}
	games := []game{{late: [][]time.Duration{{0, 0}}}, {late: [][]time.Duration{{stall, 0}}}}
	if calm := s.calm(games); calm[0] || calm[1] {
		t.Errorf("a stall is judged: %v", calm)
	}
}
