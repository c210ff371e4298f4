package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestComesBackLater: while demand does not move, the holder of a slice stays away for three times
// MaxRefresh, less its exchange, or while all use a Burst, or until it has used a batch.
func TestComesBackLater(t *testing.T) {
	for _, c := range []struct {
		name    string
		burst   int64
		demand  float64
		others  float64 // demand of another holder, of 1000/s
		shifted bool    // it has just come
		want    time.Duration
	}{
		{"a Burst lasts", 1000, 10, 900, false, 1099 * ms},
		{"a batch", 1000, 200, 900, false, 550 * ms},
		{"a Burst is soon used", 400, 100, 600, false, 710 * ms},
		{"demand has shifted", 1000, 10, 900, true, 600 * ms},
	} {
		var l lease.Ledger
		at := time.Second
		seq := uint64(0)
		exchange := func() (r lease.Reply) {
			seq++
			l.Exchange(at, ask("b", seq, func(q *lease.Request) {
				q.Seen, q.Demand, q.Policy.Mode = seq-1, c.others, lease.PerRequest
				q.Take, q.Min, q.Limit.Burst = 1000, 1, c.burst
			}))
			return l.Exchange(at, ask("a", seq, func(q *lease.Request) {
				q.Seen, q.Demand, q.Lag, q.Limit.Burst = seq-1, c.demand, 40*ms, c.burst
			}))
		}
		r := exchange()
		for !c.shifted && seq < 60 {
			at += 200 * ms
			r = exchange()
		}
		if r.Shape != lease.Slice || (r.Refresh-c.want).Abs() > 30*ms && !(c.shifted && r.Refresh < c.want) {
			t.Errorf("%s: %v, back after %v, not %v", c.name, r.Shape, r.Refresh, c.want)
		}
		if lives := 17 * 250 * ms / 4; c.want <= 710*ms && r.Expires > lives+ms {
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
	}{{5, false}, {6, true}} {
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
