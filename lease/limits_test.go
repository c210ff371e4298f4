package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestBatchesComeBack: when a limit is lowered, what holders have in batches above it
// comes back with their next exchanges. No more is out than the limit, though all of
// them go on to ask.
func TestBatchesComeBack(t *testing.T) {
	var l lease.Ledger
	limit, now := lease.Limit{Rate: 1000, Burst: 5000}, time.Hour
	held := map[int]float64{}
	keep := map[int]float64{}
	round := func(seq uint64) {
		for i := range 48 {
			now += ms
			back := max(held[i]-keep[i], 0)
			r := l.Exchange(now, ask(fmt.Sprint("h", i), seq, func(q *lease.Request) {
				q.Limit, q.Policy.Mode, q.Demand = limit, lease.Batches, 100
				q.Give, q.Held = back, held[i]-back
			}))
			held[i] += r.Add - back
			keep[i] = r.Keep
		}
	}
	round(1)
	limit.Burst = 100
	for seq := range uint64(3) {
		round(seq + 2)
	}
	out := 0.0
	for _, h := range held {
		out += h
	}
	if v := l.View(); out > 100 || v.Pool+v.Bursts > 100 {
		t.Errorf("%v tokens are out, the ledger counts %v of %v", out, v.Bursts, v.Limit)
	}
}
