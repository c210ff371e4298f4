//go:build linux || darwin

package changes

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// life is how long a lease of a lowered limit may go on: 4.25 MaxRefresh of 250 ms. No key is
	// calm here, so that none is longer. See docs/guarantees.md.
	life = 4250 * time.Millisecond / 4

	// seen is within which a process has a change in force.
	seen = time.Second

	// step is that of the curve of the highest rate.
	step = 10 * time.Millisecond

	// On a machine that keeps processes from running for a larger part of the time than that,
	// nothing can be said of how soon they do something.
	mostBusy = 0.1

	rounding = 1e-6 // tokens; see docs/guarantees.md
)

// A version of the rules: the limit of each key, and when it was changed to.
type version struct {
	called, answered time.Duration
	rates            []int
}

// A history is all that happened.
type history struct {
	bursts    []float64 // the largest of each key
	versions  []version // the first has number 1
	processes [][]record
}

// An envelope is how many tokens the highest rate in force gives from the beginning to each step.
type envelope struct {
	from time.Duration
	sum  []float64
}

// envelope of a key, until a time.
func (h *history) envelope(key int, to time.Duration) envelope {
	e := envelope{from: h.versions[0].called, sum: []float64{0}}
	gone := make([]time.Duration, len(h.versions)) // when no process has a lease of a version
	for i := range gone {
		gone[i] = to
		if i+1 < len(gone) {
			gone[i] = h.force(h.versions[i+1]) + life
		}
	}
	for t := e.from; t < to; t += step {
		rate := 0
		for i, v := range h.versions {
			if v.called < t+step && t <= gone[i] {
				rate = max(rate, v.rates[key])
			}
		}
		e.sum = append(e.sum, e.sum[len(e.sum)-1]+float64(rate)*step.Seconds())
	}
	return e
}

// force is until when all processes must have a version in force: each when it has run for seen
// since the answer. While it does not run, a process cannot hear of a change.
func (h *history) force(v version) time.Duration {
	last := v.answered + seen
	for _, p := range h.processes {
		at := v.answered + seen
		for _, r := range p { // in the order of their times, as far as they are stalls
			if r.kind == stalled && r.before < at {
				at += max(0, r.after-max(r.before, v.answered))
			}
		}
		last = max(last, at)
	}
	return last
}

// until is the tokens until a time.
func (e envelope) until(t time.Duration) float64 {
	i := int((t - e.from) / step)
	if i >= len(e.sum)-1 {
		return e.sum[len(e.sum)-1]
	}
	part := float64(t-e.from-time.Duration(i)*step) / float64(step)
	return e.sum[i] + part*(e.sum[i+1]-e.sum[i])
}

// excess is how many tokens the worst window of a key has beyond its envelope, and where it ends.
// A window has the admissions that are in it with both their readings.
func (h *history) excess(key int) (worst float64, at time.Duration, tokens int) {
	var list []record
	for _, p := range h.processes {
		for _, r := range p {
			if r.kind == admitted && int(r.key) == key {
				list = append(list, r)
			}
		}
	}
	if len(list) == 0 {
		return 0, 0, 0
	}
	slices.SortFunc(list, func(a, b record) int { return cmp.Compare(a.before, b.before) })
	starts := make([]time.Duration, len(list))
	for i, r := range list {
		starts[i] = r.before
	}
	slices.SortFunc(list, func(a, b record) int { return cmp.Compare(a.after, b.after) })
	e := h.envelope(key, list[len(list)-1].after)
	count := make([]float64, len(list)) // of a window, and what was given until its start
	for i, s := range starts {
		count[i] = e.until(s)
	}
	worst = -h.bursts[key]
	for _, r := range list {
		most := 0.0
		n, _ := slices.BinarySearch(starts, r.before+1)
		for i := range count[:n] {
			count[i]++
			most = max(most, count[i])
		}
		if x := most - e.until(r.after) - h.bursts[key]; x > worst {
			worst, at = x, r.after
		}
	}
	return worst, at, len(list)
}

// busy is the part of the time for which the machine kept processes from running.
func (h *history) busy() float64 {
	var stalls, all time.Duration
	for _, p := range h.processes {
		for _, r := range p {
			if r.kind == stalled {
				stalls += r.after - r.before
			}
		}
		if len(p) > 0 {
			all += p[len(p)-1].after - p[0].before
		}
	}
	return float64(stalls) / max(float64(all), 1)
}

// late is how long after the answer of the last change a process had it in force, and how long it
// admitted or denied by another limit, without the times in which it did not run.
func (h *history) late(p []record) (force, use time.Duration, err error) {
	last := h.versions[len(h.versions)-1]
	number, has := uint32(len(h.versions)), false
	stalls := func(to time.Duration) (sum time.Duration) {
		for _, r := range p {
			if r.kind == stalled {
				sum += max(0, min(r.after, to)-max(r.before, last.answered))
			}
		}
		return sum
	}
	for _, r := range p {
		switch {
		case r.kind == changed && r.n == number && !has:
			has, force = true, max(0, r.after-last.answered-stalls(r.after))
		case r.kind == changed && has:
			return 0, 0, fmt.Errorf("version %d came after the last one", r.n)
		case r.kind <= denied && r.before > last.answered && int(r.n) != last.rates[r.key]:
			use = max(use, r.before-last.answered-stalls(r.before))
		}
	}
	if !has {
		return 0, 0, fmt.Errorf("the last rules, version %d, were never in force", number)
	}
	return force, use, nil
}
