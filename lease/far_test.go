package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestFarAndAlone: a process that is alone gets a lease though its store is far away. The
// first time it gets no more than its part of the whole rate, which flows through in a few
// exchanges. When it comes back it gets what its way needs.
func TestFarAndAlone(t *testing.T) {
	limit := lease.Limit{Rate: 100_000, Burst: 100_000}
	for _, lag := range []time.Duration{300 * ms, 400 * ms, 500 * ms} {
		l := new(lease.Ledger)
		now := time.Hour
		for seq := uint64(1); seq <= 2; seq++ {
			r := l.Exchange(now, ask("a", seq, func(q *lease.Request) {
				q.Limit, q.Demand, q.Lag, q.Seen = limit, 20_000, lag, seq-1
				q.Take, q.Min, q.Unit = 20_000*lag.Seconds(), 1, 1
			}))
			if leased := r.Shape.Refills(); leased != (seq == 2) {
				t.Errorf("%v away, exchange %d: %+v", lag, seq, r)
			}
			now += lag
		}
	}
}
