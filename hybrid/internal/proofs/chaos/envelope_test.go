//go:build linux || darwin

package chaos

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// An admission took n tokens at some time of its span.
type admission struct {
	span
	n float64
}

// An allowance is for extra tokens in windows that end after from and start
// before to.
type allowance struct {
	span
	extra float64
}

// excesses returns, for each admission in the order in which they ended, how far
// the worst window that ends with it exceeds Burst + Rate*T and its allowances;
// below 0 if it does not. A window contains an admission if it contains all of
// its span: then nothing is blamed for when it might have happened.
//
// It holds, for each possible start of a window, the tokens in it until now, in
// a tree: O(n log n) for all windows.
func excesses(limit lease.Limit, list []admission, allowances []allowance) []float64 {
	list = inOrder(list)
	allowances = slices.Clone(allowances)
	slices.SortFunc(allowances, func(a, b allowance) int { return cmp.Compare(a.from, b.from) })
	starts := make([]time.Duration, len(list))
	for i, a := range list {
		starts[i] = a.from
	}
	slices.Sort(starts)
	refill := func(t time.Duration) float64 { return limit.Rate * (t - starts[0]).Seconds() }
	t := newTree(len(starts), func(i int) float64 { return refill(starts[i]) })
	through := func(at time.Duration) int { // how many windows start until then
		i, _ := slices.BinarySearch(starts, at+1)
		return i
	}
	worst := make([]float64, len(list))
	for i, a := range list {
		for ; len(allowances) > 0 && allowances[0].from <= a.to; allowances = allowances[1:] {
			t.add(through(allowances[0].to), -allowances[0].extra)
		}
		n := through(a.from)
		t.add(n, a.n)
		worst[i] = t.most(n) - refill(a.to) - float64(limit.Burst)
	}
	return worst
}

// inOrder returns admissions in the order in which they ended.
func inOrder(list []admission) []admission {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b admission) int { return cmp.Compare(a.to, b.to) })
	return list
}

// A tree holds numbers; it can add to the first n of them, and tell the largest
// of the first n. What was added to a whole branch stands at its root.
type tree struct {
	size       int
	top, added []float64 // of the branch, what was added above not counted
}

func newTree(n int, value func(int) float64) *tree {
	size := 1
	for size < n {
		size *= 2
	}
	t := &tree{size, make([]float64, 2*size), make([]float64, 2*size)}
	for i := range size {
		t.top[size+i] = math.Inf(-1)
		if i < n {
			t.top[size+i] = value(i)
		}
	}
	for i := size - 1; i > 0; i-- {
		t.top[i] = max(t.top[2*i], t.top[2*i+1])
	}
	return t
}

func (t *tree) add(n int, x float64) { t.addIn(1, t.size, n, x) }

// addIn adds x to the first n of the width numbers of branch i.
func (t *tree) addIn(i, width, n int, x float64) {
	switch half := width / 2; {
	case n <= 0:
		return
	case n >= width:
		t.added[i] += x
		t.top[i] += x
		return
	default:
		t.addIn(2*i, half, n, x)
		t.addIn(2*i+1, half, n-half, x)
	}
	t.top[i] = max(t.top[2*i], t.top[2*i+1]) + t.added[i]
}

func (t *tree) most(n int) float64 { return t.mostIn(1, t.size, n) }

func (t *tree) mostIn(i, width, n int) float64 {
	switch half := width / 2; {
	case n <= 0:
		return math.Inf(-1)
	case n >= width:
		return t.top[i]
	default:
		return max(t.mostIn(2*i, half, n), t.mostIn(2*i+1, half, n-half)) + t.added[i]
	}
}
