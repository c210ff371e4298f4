package ideal

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func quotaOf(n int64, window, offset time.Duration) lease.Limit {
	return lease.Limit{Kind: lease.KindQuota, Burst: n, Window: window, Offset: offset}
}

// Windows by the calendar: years that leap, months of each length, weeks from Monday, and
// local time on both sides of UTC.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		window, offset   time.Duration
		at, starts, ends string
	}{
		{90 * time.Second, 0, "1970-01-01T00:01:31Z", "1970-01-01T00:01:30Z", "1970-01-01T00:03:00Z"},
		{lease.Day, 0, "2026-11-22T23:59:59Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z"},
		{lease.Day, 5*time.Hour + 30*time.Minute, "2026-11-22T18:30:00Z", "2026-11-22T18:30:00Z",
			"2026-11-23T18:30:00Z"},
		{lease.Day, -3 * time.Hour, "1970-01-01T00:00:00Z", "1969-12-31T03:00:00Z",
			"1970-01-01T03:00:00Z"},
		{lease.Week, 0, "1970-01-01T00:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z"},
		{lease.Week, -14 * time.Hour, "2026-11-23T13:00:00Z", "2026-11-16T14:00:00Z",
			"2026-11-23T14:00:00Z"},
		{lease.Month, 0, "2024-02-29T23:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{lease.Month, 0, "2100-02-28T23:00:00Z", "2100-02-01T00:00:00Z", "2100-03-01T00:00:00Z"},
		{lease.Month, 2 * time.Hour, "2026-12-31T22:00:00Z", "2026-12-31T22:00:00Z",
			"2027-01-31T22:00:00Z"},
		{lease.Month, -time.Hour, "1970-01-01T00:00:00Z", "1969-12-01T01:00:00Z", "1970-01-01T01:00:00Z"},
	} {
		at := func(text string) time.Duration {
			when, err := time.Parse(time.RFC3339, text)
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(when.UnixNano())
		}
		starts, ends := Window(quotaOf(1, c.window, c.offset), at(c.at))
		if starts != at(c.starts) || ends != at(c.ends) {
			t.Errorf("%v ahead by %v at %s: from %v to %v", c.window, c.offset, c.at,
				time.Unix(0, int64(starts)).UTC(), time.Unix(0, int64(ends)).UTC())
		}
	}
}

func TestQuotaSteps(t *testing.T) {
	q, g := Of(8*time.Second, quotaOf(3, 10*time.Second, 0), 0)
	for i, step := range []struct {
		at     time.Duration
		n      float64
		want   bool
		excess float64
	}{
		{8 * time.Second, 2, true, -1},
		{8 * time.Second, 2, false, 0}, // one left, and a denial takes nothing
		{9999 * time.Millisecond, 1, true, 0},
		{9999 * time.Millisecond, 1, false, 0},
		{10 * time.Second, 4, false, 0}, // never more than the quota
		{10 * time.Second, 3, true, 0},
		{35 * time.Second, 1, true, -2},
	} {
		got := q.Take(step.at, step.n, 0)
		if got != step.want {
			t.Errorf("step %d: take %v at %v: %v, want %v", i, step.n, step.at, got, step.want)
		}
		if !got {
			continue
		}
		if x := g.Pour(step.at, step.at, step.n, 0); x != step.excess {
			t.Errorf("step %d: excess %v, want %v", i, x, step.excess)
		}
	}
	if x := g.Copy().Pour(36*time.Second, 36*time.Second, 7, 0); x != 5 {
		t.Errorf("a copy says %v, want 5", x)
	}
	if x := g.Pour(36*time.Second, 36*time.Second, 1, 0); x != -1 {
		t.Errorf("after its copy was used the gauge says %v, want -1", x)
	}
	q.SetLimit(37*time.Second, quotaOf(5, 10*time.Second, 0))
	g.SetLimit(37*time.Second, quotaOf(5, 10*time.Second, 0))
	if left, lost := q.Tokens(37*time.Second), q.Spilt(37*time.Second); left != 4 || lost != 3 {
		t.Errorf("after a change %v are left and %v were lost, want 4 and 3: the window from 20 s", left,
			lost)
	}
	if x := g.Pour(37*time.Second, 37*time.Second, 4, 0); x != 1 {
		t.Errorf("excess over the raised quota is %v, want 1", x)
	}
}

// What was admitted at an unknown time counts in the window in which it fits.
func TestQuotaGauge(t *testing.T) {
	const s = time.Second
	_, g := Of(0, quotaOf(3, 10*s, 0), 0)
	for i, step := range []struct {
		from, at  time.Duration
		n, excess float64
	}{
		{8 * s, 9 * s, 2, -1},
		{9 * s, 11 * s, 1, -3},  // fits before
		{9 * s, 11 * s, 2, -1},  // does not any more
		{10 * s, 12 * s, 2, 1},  // is surely in the second window
		{19 * s, 20 * s, 1, -2}, // there is no room before
		{9 * s, 21 * s, 9, -2},  // may lie in any of three
		{39 * s, 40 * s, 4, -2}, // three fit before, where nobody asked
	} {
		if x := g.Pour(step.from, step.at, step.n, 0); x != step.excess {
			t.Errorf("step %d: excess %v, want %v", i, x, step.excess)
		}
	}
}

// Callers who wait take tokens of the windows to come, in order.
func TestQuotaPatience(t *testing.T) {
	q, _ := Of(0, quotaOf(3, 10*time.Second, 0), 5*time.Second)
	for i, step := range []struct {
		at   time.Duration
		n    float64
		want bool
	}{
		{time.Second, 3, true},
		{4 * time.Second, 1, false},
		{5 * time.Second, 2, true},
		{6 * time.Second, 2, false},
		{7 * time.Second, 1, true},
		{10 * time.Second, 1, false}, // all of this window was waited for
		{15 * time.Second, 1, true},
	} {
		if got := q.Take(step.at, step.n, 0); got != step.want {
			t.Errorf("step %d: take %v at %v: %v, want %v", i, step.n, step.at, got, step.want)
		}
	}
	if q.Level(16*time.Second, 9, nil); q.Tokens(16*time.Second) != 3 {
		t.Errorf("%v tokens fit, want 3", q.Tokens(16*time.Second))
	}
}
