package main

import (
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A knob is a field of a policy that tune turns. Fairness is none: it says whom a scarce
// rate is for, and figures of two of them cannot be compared.
type knob struct {
	name  string
	field func(*lease.Policy) any // a pointer
	marks []float64               // ascending; durations are nanoseconds

	// least and most are between what spread looks at.
	least, most float64

	// strides are how many marks it is turned by, from coarse to fine.
	strides [levels]int
}

// levels are how coarsely knobs are turned.
const levels = 3

var (
	thrice = [levels]int{6, 2, 1} // by 2, 1.26 and 1.12 where marks are of twenty
	once   = [levels]int{2, 1, 1}
)

// knobs in the order in which they usually matter.
var knobs = []knob{
	{"MaxRefresh", func(p *lease.Policy) any { return &p.MaxRefresh }, twenty(1e6, 3.6e12), 5e7, 2e10, thrice},
	{"BurstShare", func(p *lease.Policy) any { return &p.BurstShare }, twentieths(), 0.1, 1, [levels]int{4, 2, 1}},
	{"Batch", func(p *lease.Policy) any { return &p.Batch }, twenty(1, 1e6), 10, 2000, thrice},
	{"Smallest", func(p *lease.Policy) any { return &p.Smallest }, []float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128}, 1, 8, once},
	{"Headroom", func(p *lease.Policy) any { return &p.Headroom }, []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1}, 0.01, 0.5, once},
	{"Reserve", func(p *lease.Policy) any { return &p.Reserve }, []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9}, 0.02, 0.5, once},
	{"MaxHold", func(p *lease.Policy) any { return &p.MaxHold }, twenty(1e6, 3.6e12), 1e9, 3e11, thrice},
	{"MinRefresh", func(p *lease.Policy) any { return &p.MinRefresh }, twenty(1e6, 3.6e12), 5e6, 1e8, thrice},
}

// twenty are the round numbers from low to high, about twenty in each power of ten.
func twenty(low, high float64) (marks []float64) {
	for power := 1.0; power <= high; power *= 10 {
		for _, m := range []float64{1, 1.1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8, 3.2, 3.6, 4, 4.5, 5, 5.6, 6.3, 7, 8, 9} {
			if v := math.Round(m * power); v >= low && v <= high && !slices.Contains(marks, v) {
				marks = append(marks, v)
			}
		}
	}
	return marks
}

func twentieths() (marks []float64) {
	for i := 1; i <= 20; i++ {
		marks = append(marks, float64(i)/20)
	}
	return marks
}

func (k *knob) get(p lease.Policy) float64 {
	switch field := k.field(&p).(type) {
	case *time.Duration:
		return float64(*field)
	case *int64:
		return float64(*field)
	case *float64:
		return *field
	}
	panic("sim: a knob of no known kind")
}

func (k *knob) set(p *lease.Policy, v float64) {
	switch field := k.field(p).(type) {
	case *time.Duration:
		*field = time.Duration(v)
	case *int64:
		*field = int64(v)
	case *float64:
		*field = v
	}
}

// turn returns p with the knob turned by so many marks, as far as there are any, and
// whether that is another policy. Times that must not be shorter follow one that grows,
// and the others one that shrinks.
func (k *knob) turn(p lease.Policy, by int) (lease.Policy, bool) {
	before, v := p, k.get(p)
	at, on := slices.BinarySearch(k.marks, v)
	if !on && by > 0 {
		at-- // the mark below
	}
	k.set(&p, k.marks[max(0, min(at+by, len(k.marks)-1))])
	if w := k.get(p); (w > v) != (by > 0) || w == v {
		return before, false // the last mark is behind
	}
	if by > 0 {
		p.MaxRefresh = max(p.MaxRefresh, p.MinRefresh)
		p.MaxHold = max(p.MaxHold, p.MaxRefresh)
	} else {
		p.MaxRefresh = min(p.MaxRefresh, p.MaxHold)
		p.MinRefresh = min(p.MinRefresh, p.MaxRefresh)
	}
	return p, true
}
