//go:build linux

package load

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// An admission is one token, between two readings of the client's clock.
type admission struct{ before, after time.Duration }

// A gap is a time in which a store was away, and what windows that touch it may have besides.
type gap struct {
	from, to time.Duration
	more     float64
}

// excess is how many tokens the worst window has beyond burst + rate * (T + late), and where it
// ends. A window has the admissions that are in it with both their readings.
func excess(
	list []admission, burst, rate float64, late time.Duration, gaps ...gap,
) (worst float64, at time.Duration) {
	starts := slices.Clone(list)
	slices.SortFunc(starts, func(a, b admission) int { return cmp.Compare(a.before, b.before) })
	ends := slices.Clone(list)
	slices.SortFunc(ends, func(a, b admission) int { return cmp.Compare(a.after, b.after) })
	count := make([]float64, len(starts)) // of windows that begin at each start
	worst = -burst
	for _, e := range ends {
		for i, s := range starts {
			if s.before > e.before {
				break
			}
			count[i]++
			allowed := burst + rate*(e.after-s.before+late).Seconds()
			for _, g := range gaps {
				if s.before < g.to && e.after > g.from {
					allowed += g.more
				}
			}
			if x := count[i] - allowed; x > worst {
				worst, at = x, e.after
			}
		}
	}
	return worst, at
}

// most is how many tokens the fullest window of a calendar has, of those that are in it with both
// their readings. offset is the calendar's time at which the client's clock was zero.
func most(list []admission, window, offset time.Duration) (n int) {
	count := map[time.Duration]int{}
	for _, a := range list {
		if w := (a.before + offset) / window; w == (a.after+offset)/window {
			count[w]++
			n = max(n, count[w])
		}
	}
	return n
}

func admissions(at time.Duration, n int) []admission {
	return slices.Repeat([]admission{{at, at + time.Millisecond}}, n)
}

// TestJudge: the judges find what is too much, and nothing where a limit was kept.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		list []admission
		want float64
	}{
		{"a burst", admissions(time.Second, 60), 0},
		{"two bursts", append(admissions(time.Second, 60), admissions(2*time.Second, 60)...), 50},
		{"in an outage", append(admissions(time.Second, 60), admissions(5*time.Second, 60)...), 0},
	} {
		worst, _ := excess(c.list, 50, 10, time.Second, gap{4 * time.Second, 6 * time.Second, 60})
		if d := worst - c.want; d > 0.2 || d < -0.2 {
			t.Errorf("%s: %.2f, not %.2f", c.name, worst, c.want)
		}
	}
	list := append(admissions(1500*time.Millisecond, 7), admissions(2499*time.Millisecond, 9)...)
	list = append(list, admissions(2600*time.Millisecond, 4)...)
	if n := most(list, time.Second, 500*time.Millisecond); n != 7 {
		t.Errorf("the fullest window has %d, not 7", n)
	}
}
