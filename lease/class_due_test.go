package lease_test

import (
	"math"
	"testing"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// due is the part of the Rate of each class where all want all of it: floors, then the rest by weight,
// and without any weight to the highest.
func due(classes []lease.Class) (parts []float64) {
	rest, weights := 1.0, 0.0
	for _, c := range classes {
		rest -= c.Floor
		weights += c.Weight
	}
	for i, c := range classes {
		switch {
		case weights > 0:
			parts = append(parts, c.Floor+rest*c.Weight/weights)
		case i == 0:
			parts = append(parts, c.Floor+rest)
		default:
			parts = append(parts, c.Floor)
		}
	}
	return parts
}

// TestClassesHaveTheirDue: callers of two classes wait for a token each at all times. Whatever the
// limit, their number, and whether they are in one process or two, each class has what floors and
// weights say.
func TestClassesHaveTheirDue(t *testing.T) {
	cells, worst := 0, 0.0
	for _, limit := range []lease.Limit{
		{Rate: 5, Burst: 1}, {Rate: 5, Burst: 5}, {Rate: 10, Burst: 2}, {Rate: 100, Burst: 10},
	} {
		for _, classes := range [][]lease.Class{
			floored,
			{{Name: "high", Floor: 0.2}, {Name: "low", Floor: 0.1, Weight: 1}},
			{{Name: "high", Weight: 1}, {Name: "low", Floor: 0.3, Weight: 1}},
			{{Name: "high", Weight: 3}, {Name: "low", Weight: 1}},
			{{Name: "high"}, {Name: "low", Floor: 0.3}},
		} {
			for _, callers := range []int{1, 5, 20} {
				for _, processes := range []int{1, 2} {
					c := crowd{limit: limit, classes: classes, even: true, groups: []group{
						{process: 0, class: 0, n: 1, callers: callers}, {process: processes - 1, class: 1, n: 1, callers: callers},
					}}
					const seconds = 60
					_, got, calls := c.run(t, seconds, 1)
					all, off := limit.Rate*seconds, 0.0
					for i, part := range due(classes) {
						off = max(off, math.Abs(got[i]/all-part))
					}
					cells++
					worst = max(worst, off)
					t.Logf("%v, %.1f, %d callers, %d processes: %.3f and %.3f, off %.3f, %.2f calls a token", limit,
						due(classes), callers, processes, got[0]/all, got[1]/all, off, float64(calls)/all)
				}
			}
		}
	}
	t.Logf("%d cells, worst %.3f", cells, worst)
	_ = longform.Of(1, 2)
}
