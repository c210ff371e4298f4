package main

import (
	"errors"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0"}, {1, "1"}, {0.5, "0.5"}, {12.345, "12.3"}, {123.45, "123"}, {999.6, "1000"}, {1234, "1234"},
		{12345, "12.3k"}, {999_499, "999k"}, {999_500, "1M"}, {12_345_678, "12.3M"}, {0.00123, "0.00123"}, {0.0000123, "1.2e-05"}, {-2.5, "-2.5"},
	} {
		if got := number(c.x); got != c.want {
			t.Errorf("%v is printed as %s, not %s", c.x, got, c.want)
		}
	}
	if got := (Spread{2, 1, 3}).String(); got != "2 [1-3]" {
		t.Errorf("spread %s", got)
	}
	if got := (Spread{2, 2, 2}).String(); got != "2" {
		t.Errorf("spread of one %s", got)
	}
}

// sampleReport is a run in which ration won everything but its allocations.
func sampleReport() Report {
	samples := func(rate, allocs float64) []Sample {
		return []Sample{{Rate: rate, Allocs: allocs, Calls: 0.0001}, {Rate: 1.1 * rate, Allocs: allocs, Calls: 0.0001}}
	}
	return Report{
		Rounds: 2, RoundTrip: Spread{1100, 1100, 1100},
		Local: []LocalResult{
			{Name: keyName, Samples: []LocalSample{{One: 20, Rate: 50e6, Same: 60e6, Apart: 60e6}}},
			{Name: rateName, Samples: []LocalSample{{One: 80}}},
		},
		Rows: []RowResult{{
			Load: Load{ID: hot64, Name: "hot key", Limit: generous, Generous: true}, Control: controlName,
			Results: []Result{
				{Name: ration.Name, Ours: true, Leases: true, Samples: samples(2000, 5)},
				{Name: controlName, Samples: samples(10, 7)},
				{Name: pipelinedName, Samples: samples(20, 2)},
				{Name: "cached", Leases: true, Samples: samples(1000, 9)},
				{Name: "go-zero", Refused: "never asked Redis"},
			},
		}},
	}
}

func TestPage(t *testing.T) {
	r := sampleReport()
	var page strings.Builder
	if err := r.Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"| go-zero | refused: never asked Redis |",
		"| ration | 2100 [2000-2200] | 200 |",
		"| hot key | allocations per decision | 5 | 2 | EVALSHA, AutoPipeline |",
		"| hot key, 64 goroutines: at least 100 x the best plain Redis limiter | 100 x | yes |",
		"| `Key.Allow`, one goroutine: at most 0.35 x `rate.Limiter.Allow` | 0.25 x | yes |",
		"| two goroutines, different keys: at least 1.7 x one goroutine's throughput | 1.2 x | no |",
		"| memory: at most 1 KiB per key in Redis with 8 holders |  | not measured |",
	} {
		if !strings.Contains(page.String(), line) {
			t.Errorf("the page has no line\n%s", line)
		}
	}
	if strings.Contains(page.String(), "Interrupted") {
		t.Error("the page says that it was interrupted")
	}
	for line := range strings.Lines(page.String()) {
		if strings.HasPrefix(line, "|") && !strings.HasSuffix(line, "|\n") {
			t.Errorf("a table's line does not end: %q", line)
		}
	}
	r.Interrupted = true
	page.Reset()
	if err := r.Write(&page); err != nil || !strings.Contains(page.String(), "**Interrupted") {
		t.Errorf("the page does not say that it was interrupted; error %v", err)
	}
}

func TestPageReportsWriteErrors(t *testing.T) {
	if err := sampleReport().Write(full{}); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
}

var errFull = errors.New("disk full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestCommandLine(t *testing.T) {
	got := commandLine([]string{"-only", "hot key, 64", "-o", "/home/me/RESULTS.md", "-json=/tmp/raw.json", "-quick"})
	if want := "go run . -only 'hot key, 64' -o RESULTS.md -json=raw.json -quick"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
