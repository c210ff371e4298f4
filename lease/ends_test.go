package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestReturns: a holder that comes back under its old id counts its requests from 1
// again. It is refused while its lease lives, and not any more when that has ended,
// though nobody else has asked and its record is still there.
func TestReturns(t *testing.T) {
	for _, demand := range []float64{0, 5, 500} {
		var l lease.Ledger
		var r lease.Reply
		now := time.Hour
		for seq := range uint64(9) {
			now += 100 * ms
			r = l.Exchange(now, ask("a", seq+1, demanding(demand)))
		}
		again := ask("a", 1, func(q *lease.Request) { q.Take, q.Min, q.Demand = 1, 1, demand })
		if got := l.Exchange(now+r.Expires-1000, again); !got.Stale {
			t.Errorf("demand %v: its lease lives, and it gets %+v", demand, got)
		}
		got := l.Exchange(now+r.Expires, again)
		if got.Stale || got.Taken != 1 || got.Holders != 1 {
			t.Errorf("demand %v: its lease has ended, and it gets %+v", demand, got)
		}
		v := l.View()
		if err := divided(v); err != nil {
			t.Error(err)
		}
		if v.Pool+v.Bursts > float64(v.Limit.Burst) {
			t.Errorf("demand %v: %v in the pool and %v lent", demand, v.Pool, v.Bursts)
		}
		n := 0
		for _, count := range v.Ends {
			n += count
		}
		if n != 1 {
			t.Errorf("demand %v: the calendar counts %d leases: %v", demand, n, v.Ends)
		}
	}
}
