package live

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestRoundTicks: they are multiples of 1, 2 or 5, from 0 to the highest value or above.
func TestRoundTicks(t *testing.T) {
	for _, c := range []struct {
		high float64
		want string
	}{
		{0, "[0 0.2 0.4 0.6 0.8 1]"}, {1, "[0 0.2 0.4 0.6 0.8 1]"}, {0.3, "[0 0.1 0.2 0.3]"},
		{7, "[0 2 4 6 8]"}, {10, "[0 2 4 6 8 10]"}, {12.5, "[0 5 10 15]"},
		{1234, "[0 500 1000 1500]"}, {math.NaN(), "[0 0.2 0.4 0.6 0.8 1]"},
		{math.Inf(1), "[0 0.2 0.4 0.6 0.8 1]"},
	} {
		if got := fmt.Sprint(roundTicks(c.high)); got != c.want {
			t.Errorf("%v: %s, not %s", c.high, got, c.want)
		}
	}
	for x := 1e-9; x < 1e12; x *= 1.07 {
		ticks := roundTicks(x)
		if n, last := len(ticks), ticks[len(ticks)-1]; n < 3 || n > 6 || last < x*(1-1e-9) || last > 2*x {
			t.Errorf("%v: %v", x, ticks)
		}
	}
}

// TestPath: gaps are no lines, and a value alone is a dot.
func TestPath(t *testing.T) {
	nan := math.NaN()
	got := path([]float64{nan, 5, nan, 10, 0, nan, nan, 2.5, 20, 5}, 10)
	want := "M150 500h0M350 0L450 1000M750 750L850 0L950 500"
	if got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got := path(nil, 1); got != "" {
		t.Error(got)
	}
}

func TestNumbers(t *testing.T) {
	for want, v := range map[string]float64{
		"0": 0, "–": math.NaN(), "0.05": 0.05, "12.3": 12.345, "999": 999.4, "1k": 999.6,
		"1.23k": 1234, "1M": 999_999, "0.0005": 5e-4, "0.0001": 1e-4, "1e+15": 1e15, "100": 100,
	} {
		if got := number(v); got != want {
			t.Errorf("%v: %s, not %s", v, got, want)
		}
	}
	for want, d := range map[string]time.Duration{
		"0 s": -1, "850 µs": 850 * time.Microsecond, "1.2 ms": 1234 * time.Microsecond,
		"3 s": 3 * time.Second, "1.5 min": 90 * time.Second, "25 h": 25 * time.Hour,
	} {
		if got := brief(d); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
	for want, v := range map[string]float64{
		"0/s": 0, "–/s": math.NaN(), "0.1/s": 0.1, "1.23k/s": 1234, "5/minute": 5.0 / 60,
		"3/hour": 3.0 / 3600, "2/day": 2.0 / 86_400, "0.05/day": 0.05 / 86_400,
	} {
		if got := rate(v); got != want {
			t.Errorf("%v: %s, not %s", v, got, want)
		}
	}
}

// TestTable: each row is the mean of its part of the time, the newest first.
func TestTable(t *testing.T) {
	values := make([]float64, recentSlots)
	for i := range values {
		values[i] = float64(i / 10)
	}
	values[149] = math.NaN()
	values[0], values[1] = math.NaN(), 2
	got := table([]line{{Values: values}}, recent)
	if len(got) != 15 || fmt.Sprint(got[0], got[1], got[14]) !=
		"[−20 s 14] [−40 s 13] [−300 s 0.222]" {
		t.Errorf("%v", got)
	}
	if got := table([]line{{Values: make([]float64, 360)}}, day); len(got) != 24 ||
		got[23][0] != "−24 h" {
		t.Errorf("%v", got)
	}
}
