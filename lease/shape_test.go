package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestSmallBatch: what is a slice, a batch or nothing, with contention and without. A batch lasts
// as long as a slice.
func TestSmallBatch(t *testing.T) {
	two := &lease.ByClass{Classes: threeClasses[:2]}
	for _, c := range []struct {
		name           string
		others, demand float64
		smallest       int64
		classes        *lease.ByClass
		shape          lease.Shape
	}{
		{"a slice", 80, 10, 4, nil, lease.Slice},
		{"a batch", 80, 5, 4, nil, lease.Batch},
		{"a request of two classes", 80, 5, 4, two, lease.None},
		{"a part of a large request", 80, 10, 40, nil, lease.None},
		{"a slice under contention", 180, 40, 4, nil, lease.Slice},
		{"a batch under contention", 180, 20, 4, nil, lease.Batch},
	} {
		var l lease.Ledger
		at := time.Duration(0)
		for seq := range uint64(30) { // then there is no unrest any more
			at = time.Duration(seq) * 200 * ms
			l.Exchange(at, ask("b", seq+1, func(q *lease.Request) {
				q.Limit.Rate, q.Limit.Burst, q.Demand, q.Policy.Mode = 100, 50, c.others, lease.PerRequest
				q.Take, q.Min = 50, 1
			}))
		}
		var r lease.Reply
		for seq := range uint64(2) {
			r = l.Exchange(at+ms, ask("a", seq+1, func(q *lease.Request) {
				q.Limit.Rate, q.Limit.Burst, q.Demand, q.Policy.Smallest = 100, 50, c.demand, c.smallest
				if q.ByClass = c.classes; q.ByClass != nil {
					q.ByClass.Demand[0] = c.demand
				}
			}))
		}
		if r.Shape != c.shape || r.Shape == lease.Batch && (r.Refresh < 500*ms || r.Refresh > 750*ms) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestTooShortForASlice: where demand moves, leases are short, and of a small part a slice adds
// less than a token in that time. A batch takes its place, but not where others are denied, or may
// be.
func TestTooShortForASlice(t *testing.T) {
	for _, c := range []struct {
		denied, take float64
		shape        lease.Shape
	}{{0, 0, lease.Batch}, {1, 0, lease.None}, {0, 30, lease.None}} {
		var l lease.Ledger
		var r lease.Reply
		for i, holder := range []string{"b", "a", "a"} {
			r = l.Exchange(time.Duration(i)*ms, ask(holder, uint64(i+1), func(q *lease.Request) {
				q.Limit.Rate, q.Limit.Burst = 100, 50
				q.Demand, q.Policy.Mode, q.Denied, q.Take = 90, lease.PerRequest, c.denied, c.take
				if holder == "a" {
					q.Demand, q.Policy.Mode, q.Take = 6, lease.Auto, 0
				}
			}))
		}
		if r.Shape != c.shape {
			t.Errorf("%v tokens denied, %v taken: %+v", c.denied, c.take, r)
		}
	}
}
