package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/seed13b07268/ration/lease"
)

// A choice is what a candidate decides.
type choice struct {
	policy lease.Policy
	outage string
}

// A knob is a part of a choice that tune turns. Fairness is none: it says whom a scarce
// rate is for, and figures of two of them cannot be compared.
type knob struct {
	name  string
	field func(*choice) any // a pointer
	marks []float64         // ascending; durations are nanoseconds

	// least and most are between what the search begins with. Turns go on beyond them.
	least, most float64

	// strides are how many marks it is turned by, from coarse to fine.
	strides [levels]int
}

// levels are how coarsely knobs are turned.
const levels = 3

var (
	thrice   = [levels]int{6, 2, 1} // by 2, 1.26 and 1.12 where marks are of twenty
	once     = [levels]int{2, 1, 1}
	outages  = []string{"share", "deny", "allow"}
	ofOutage = knob{"Outage", func(c *choice) any { return &c.outage },
		[]float64{0, 1, 2}, 0, 2, once}
)

// knobs in the order in which they usually matter.
var knobs = []knob{
	{"MaxRefresh", func(c *choice) any { return &c.policy.MaxRefresh },
		twenty(1e6, 3.6e12), 5e7, 2e10, thrice},
	{"BurstShare", func(c *choice) any { return &c.policy.BurstShare },
		twentieths(), 0.1, 1, [levels]int{4, 2, 1}},
	{"Batch", func(c *choice) any { return &c.policy.Batch },
		twenty(1, 1e6), 10, 2000, thrice},
	{"Smallest", func(c *choice) any { return &c.policy.Smallest },
		[]float64{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128}, 1, 8, once},
	{"Headroom", func(c *choice) any { return &c.policy.Headroom },
		[]float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1}, 0.01, 0.5, once},
	{"Reserve", func(c *choice) any { return &c.policy.Reserve },
		[]float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9}, 0.02, 0.5, once},
	{"MaxHold", func(c *choice) any { return &c.policy.MaxHold },
		twenty(1e6, 3.6e12), 1e9, 3e11, thrice},
	{"MinRefresh", func(c *choice) any { return &c.policy.MinRefresh },
		twenty(1e6, 3.6e12), 5e6, 1e8, thrice},
	{"Mode", func(c *choice) any { return &c.policy.Mode },
		[]float64{float64(lease.Auto), float64(lease.Shares)}, 0, 0, once},
}

// twenty are the round numbers from low to high, about twenty in each power of ten.
func twenty(low, high float64) (marks []float64) {
	round := []float64{1, 1.1, 1.2, 1.4, 1.6, 1.8, 2, 2.2, 2.5, 2.8,
		3.2, 3.6, 4, 4.5, 5, 5.6, 6.3, 7, 8, 9}
	for power := 1.0; power <= high; power *= 10 {
		for _, m := range round {
			v := math.Round(m * power)
			if v >= low && v <= high && !slices.Contains(marks, v) {
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

func (k *knob) get(c choice) float64 {
	switch v := reflect.ValueOf(k.field(&c)).Elem(); {
	case v.CanFloat():
		return v.Float()
	case v.CanInt():
		return float64(v.Int())
	case v.Kind() == reflect.String:
		return float64(slices.Index(outages, v.String()))
	default:
		panic("knob " + k.name + " is no number, and no outage policy")
	}
}

// text is what a choice has of it, as people write it.
func (k *knob) text(c choice) string {
	return fmt.Sprint(reflect.ValueOf(k.field(&c)).Elem())
}

func (k *knob) set(c *choice, x float64) {
	switch v := reflect.ValueOf(k.field(c)).Elem(); {
	case v.CanFloat():
		v.SetFloat(x)
	case v.CanInt():
		v.SetInt(int64(x))
	default:
		v.SetString(outages[int(x)])
	}
}

// turn returns c with the knob turned by so many marks, as far as there are any, and
// whether that is another choice.
func (k *knob) turn(c choice, by int) (choice, bool) {
	before, v := c, k.get(c)
	at, on := slices.BinarySearch(k.marks, v)
	if !on && by > 0 {
		at-- // the mark below
	}
	k.set(&c, k.marks[max(0, min(at+by, len(k.marks)-1))])
	if w := k.get(c); (w > v) != (by > 0) || w == v {
		return before, false // the last mark is behind
	}
	c.mend(by > 0)
	return c, true
}

// turns are c with the knob turned by each stride, to either side.
func (k *knob) turns(c choice) (all []choice) {
	for _, stride := range k.strides {
		for _, by := range []int{stride, -stride} {
			if x, ok := k.turn(c, by); ok {
				all = append(all, x)
			}
		}
	}
	return all
}

// back returns c with the knob as in another choice.
func (k *knob) back(c, to choice) choice {
	grows := k.get(to) > k.get(c)
	k.set(&c, k.get(to))
	c.mend(grows)
	return c
}

// mend lets times that must not be shorter follow one that has grown, or those that must
// not be longer follow one that has shrunk.
func (c *choice) mend(grown bool) {
	if p := &c.policy; grown {
		p.MaxRefresh = max(p.MaxRefresh, p.MinRefresh)
		p.MaxHold = max(p.MaxHold, p.MaxRefresh)
	} else {
		p.MaxRefresh = min(p.MaxRefresh, p.MaxHold)
		p.MinRefresh = min(p.MinRefresh, p.MaxRefresh)
	}
}

// spread are n choices with knobs anywhere between least and most: a sequence of
// Halton's, which leaves no large hole.
func spread(own choice, knobs []knob, n int) (all []choice) {
	bases := []int{2, 3, 5, 7, 11, 13, 17, 19, 23, 29}
	for i := range n {
		c := own
		for j, k := range knobs {
			low, _ := slices.BinarySearch(k.marks, k.least)
			high, _ := slices.BinarySearch(k.marks, k.most)
			k.set(&c, k.marks[low+int(halton(i+1, bases[j])*float64(high-low+1))])
		}
		c.policy.MinRefresh = min(c.policy.MinRefresh, c.policy.MaxRefresh)
		c.policy.MaxHold = max(c.policy.MaxHold, c.policy.MaxRefresh)
		all = append(all, c)
	}
	return all
}

// halton is the n-th number of the sequence of a base, 0 to 1.
func halton(n, base int) (x float64) {
	for part := 1 / float64(base); n > 0; n, part = n/base, part/float64(base) {
		x += part * float64(n%base)
	}
	return x
}
