package lease_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// due is the part of the Rate of each class where all want all of it: floors, then the rest by
// weight, and without any weight to the highest.
func due(classes []lease.Class) (parts []float64) {
	rest, weights := 1.0, 0.0
	for _, c := range classes {
		rest -= c.Floor
		weights += c.Weight
	}
	for i, c := range classes {
		part := c.Floor
		if weights > 0 {
			part += rest * c.Weight / weights
		} else if i == 0 {
			part += rest
		}
		parts = append(parts, part)
	}
	return parts
}

// TestClassesHaveTheirDue: callers of two classes wait for a token each at all times, for a minute.
// Whatever the limit, their number, the network, and whether they are in one process or in two,
// each class has what floors and weights say, within a tenth of the Rate, and 0.96 of the Rate is
// used.
func TestClassesHaveTheirDue(t *testing.T) {
	const seconds, off, used = 60, 0.1, 0.96
	cells, worst, least := 0, 0.0, 1.0
	play := func(c crowd, seed uint64) {
		_, got, calls := c.run(t, seconds, seed)
		cells++
		sum, miss, all := 0.0, 0.0, c.limit.Rate*seconds
		for i, part := range due(c.classes) {
			sum += got[i] / all
			miss = max(miss, math.Abs(got[i]/all-part))
		}
		worst, least = max(worst, miss), min(least, sum)
		if miss > off || sum < used {
			t.Errorf("%v, even %v, %+v: %.3f and %.3f, not %.2f; %d calls", c.limit, c.even, c.groups,
				got[0]/all, got[1]/all, due(c.classes), calls)
		}
	}
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
				for last := range 2 {
					c := crowd{limit: limit, classes: classes, even: true, groups: []group{
						{process: 0, class: 0, n: 1, callers: callers}, {process: last, class: 1, n: 1, callers: callers},
					}}
					play(c, 1)
					c.even = false
					for seed := range uint64(longform.Of(1, 3)) {
						play(c, seed+1)
					}
				}
			}
		}
	}
	t.Logf("%d plays: a class is off by %.3f at most, %.3f is used at least", cells, worst, least)
}

// TestClassSavesForWhoAsks: what a class has saved for a large request is others', but for its
// part, when it asks for less.
func TestClassSavesForWhoAsks(t *testing.T) {
	l, now := new(lease.Ledger), time.Hour
	classes := []lease.Class{{Name: "high", Weight: 1}, {Name: "low", Weight: 1}}
	seqs := map[string]uint64{}
	take := func(id string, class int, least, most float64) float64 {
		seqs[id]++
		return l.Exchange(now, ask(id, seqs[id], func(q *lease.Request) {
			q.Limit, q.Policy.Mode = lease.Limit{Rate: 10, Burst: 10}, lease.PerRequest
			q.Demand, q.Seen, q.Min, q.Take, q.Unit = 100, seqs[id]-1, least, most, least
			q.ByClass = &lease.ByClass{Classes: classes, First: class}
			q.ByClass.Demand[class] = 100
		})).Taken
	}
	if n := take("low", 1, 1, 10); n != 10 {
		t.Fatalf("the first one has %v of 10", n)
	}
	for range 8 {
		for range 2 {
			now += 100 * time.Millisecond
			if n := take("high", 0, 10, 10); n > 0 {
				t.Fatalf("10 tokens at %v", now)
			}
		}
		take("low", 1, 1, 1)
	}
	if n := take("high", 0, 1, 1); n != 1 {
		t.Fatalf("of what it has saved it gets %v", n)
	}
	if n := take("low", 1, 1, 10); n < 2 {
		t.Errorf("beside what is saved for nobody the other class gets %v", n)
	}
}

// TestAheadOfOthers: an answer tells whether the class has had more of its due than another class
// that asks, and where one class asks, whether it gets something.
func TestAheadOfOthers(t *testing.T) {
	l, now := new(lease.Ledger), time.Hour
	var list []bool
	for seq, class := range []int{0, 0, 1, 1, 0, 1} {
		now += 10 * time.Millisecond
		r := l.Exchange(now, ask([]string{"a", "b"}[class], uint64(seq+1), func(q *lease.Request) {
			q.Limit, q.Policy.Mode = lease.Limit{Rate: 10, Burst: 1}, lease.PerRequest
			q.Demand, q.Take, q.Min, q.Unit = 100, 1, 1, 1
			q.ByClass = &lease.ByClass{Classes: floored, First: class}
			q.ByClass.Demand[class] = 100
		}))
		list = append(list, r.Ahead)
		if seq == 2 {
			now += 100 * time.Millisecond
		}
	}
	// The first one has a token, then nothing but a part of the next one: so has the other one,
	// which has the next token, and is ahead as long as it owes more.
	if want := []bool{true, false, true, true, false, true}; !slices.Equal(list, want) {
		t.Errorf("%v, not %v", list, want)
	}
}
