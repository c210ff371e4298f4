//go:build linux || darwin

package changes

import (
	"testing"
	"time"
)

// admissions are so many at one time.
func admissions(at time.Duration, n int) (list []record) {
	for range n {
		list = append(list, record{before: at, after: at + time.Millisecond})
	}
	return list
}

// TestExcess: the judge finds a bucket that a change has refilled, one that goes on at a rate of
// long before, and nothing where the limit was kept.
func TestExcess(t *testing.T) {
	versions := []version{
		{0, 0, []int{100}}, {10 * time.Second, 10 * time.Second, []int{10}},
	}
	for _, c := range []struct {
		name string
		list [][]record
		want float64
	}{
		{"the burst at once", [][]record{admissions(time.Second, 50)}, 0},
		{"two processes, a burst each", [][]record{
			admissions(time.Second, 50), admissions(time.Second, 50)}, 50},
		{"a refill at the change", [][]record{
			admissions(9999*time.Millisecond, 50), admissions(10001*time.Millisecond, 50)}, 50},
		{"a refill in time", [][]record{
			admissions(8*time.Second, 50), admissions(8500*time.Millisecond, 50)}, 0},
		{"the old rate while it may be in use", [][]record{
			admissions(11*time.Second, 50), admissions(11500*time.Millisecond, 50)}, 0},
		{"the old rate for too long", [][]record{
			admissions(14*time.Second, 50), admissions(14500*time.Millisecond, 50)}, 45},
		{"the old rate by a process that did not run", [][]record{
			append([]record{{before: 10500 * time.Millisecond, after: 13 * time.Second,
				kind: stalled}}, admissions(14*time.Second, 50)...),
			admissions(14500*time.Millisecond, 50)}, 0},
		{"the old rate long after a process did not run", [][]record{
			append([]record{{before: 9 * time.Second, after: 10500 * time.Millisecond,
				kind: stalled}}, admissions(14*time.Second, 50)...),
			admissions(14500*time.Millisecond, 50)}, 45},
	} {
		h := &history{bursts: []float64{50}, versions: versions, processes: c.list}
		worst, at, tokens := h.excess(0)
		if max(worst, 0) < c.want-0.5 || max(worst, 0) > c.want+0.5 {
			t.Errorf("%s: %.1f tokens too many at %v of %d, not %.1f", c.name, worst, at, tokens, c.want)
		}
	}
}

// TestLate: the judge finds a process that has the last rules late or not at all, or other limits
// than theirs, and leaves out the times in which it did not run.
func TestLate(t *testing.T) {
	h := &history{versions: []version{{0, 0, []int{1}}, {0, 5 * time.Second, []int{2}}}}
	at := func(ms int) time.Duration { return 5*time.Second + time.Duration(ms)*time.Millisecond }
	for _, c := range []struct {
		name       string
		list       []record
		force, use time.Duration
		fails      bool
	}{
		{"never", []record{{kind: changed, n: 1}}, 0, 0, true},
		{"back", []record{{kind: changed, n: 2}, {kind: changed, n: 1}}, 0, 0, true},
		{"soon", []record{{after: at(-1), kind: changed, n: 2}}, 0, 0, false},
		{"late", []record{{after: at(1500), kind: changed, n: 2}}, 1500 * time.Millisecond, 0, false},
		{"not run", []record{
			{before: at(-500), after: at(1400), kind: stalled},
			{after: at(1500), kind: changed, n: 2}}, 100 * time.Millisecond, 0, false},
		{"another limit", []record{
			{after: at(1), kind: changed, n: 2}, {before: at(700), n: 1, kind: denied},
			{before: at(900), n: 2}, {before: at(999), kind: failed}},
			time.Millisecond, 700 * time.Millisecond, false},
	} {
		force, use, err := h.late(c.list)
		if force != c.force || use != c.use || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v, %v", c.name, force, use, err)
		}
	}
}
