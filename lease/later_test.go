package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestComesBackLater: while nobody is in need, the holder of a slice stays away for three
// times MaxRefresh, less its exchange.
func TestComesBackLater(t *testing.T) {
	for _, c := range []struct {
		name    string
		others  float64 // demand of others, of 1000/s
		taken   float64 // from the pool
		shifted bool    // others have just come
		want    time.Duration
	}{
		{"nobody is in need", 600, 0, false, 670 * ms}, // its own coming is a little unrest
		{"three quarters are wanted", 720, 0, false, 250 * ms},
		{"an eighth of the pool is gone", 600, 130, false, 250 * ms},
		{"demand has shifted", 600, 0, true, 250 * ms},
	} {
		var l lease.Ledger
		at := time.Second
		others := func(seq uint64) {
			l.Exchange(at, ask("b", seq, func(q *lease.Request) {
				q.Seen, q.Demand, q.Policy.Mode = seq-1, c.others, lease.PerRequest
			}))
		}
		others(1)
		if !c.shifted {
			for seq := range uint64(60) {
				at += 200 * ms
				others(seq + 2)
			}
		}
		if c.taken > 0 {
			l.Exchange(at, ask("c", 1, func(q *lease.Request) {
				q.Take, q.Min, q.Policy.Mode, q.Policy.MaxHold = c.taken, 1, lease.PerRequest, q.Policy.MaxRefresh
			}))
		}
		r := l.Exchange(at, ask("a", 1, func(q *lease.Request) { q.Demand, q.Lag = 40, 40*ms }))
		if r.Shape != lease.Slice || (r.Refresh-c.want).Abs() > 30*ms && !(c.shifted && r.Refresh < c.want) {
			t.Errorf("%s: %v, back after %v, not %v", c.name, r.Shape, r.Refresh, c.want)
		}
		if lives := 17 * 250 * ms / 4; r.Expires > lives+ms {
			t.Errorf("%s: the lease lives for %v, beyond the calendar's ticks", c.name, r.Expires)
		}
	}
}

// TestFewRequestsAreNoUnrest: demand of processes with few requests comes and goes by
// chance. Refreshes stay as long as they are.
func TestFewRequestsAreNoUnrest(t *testing.T) {
	for _, c := range []struct {
		demand float64
		unrest bool
	}{{15, false}, {20, true}} {
		var l lease.Ledger
		for seq := range uint64(10) {
			for i := range 5 {
				l.Exchange(time.Second+time.Duration(seq)*50*ms, ask(fmt.Sprint("p", i), seq+1, func(q *lease.Request) {
					q.Seen, q.Demand, q.Limit.Rate = seq, c.demand*float64(seq%2), 100
				}))
			}
		}
		if unrest := l.View().Unrest; (unrest > 0.1) != c.unrest {
			t.Errorf("demand of %v/s comes and goes: unrest is %v", c.demand, unrest)
		}
	}
}
