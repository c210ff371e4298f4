package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestWholeMicroseconds: a ledger counts time in whole µs. So what it admits in a window may be
// above Burst + Rate*T by less than Rate * 1 µs, however long it lasts, and no smaller bound holds.
func TestWholeMicroseconds(t *testing.T) {
	const rate, burst, us = 1e6, 1000, time.Microsecond
	for _, lasts := range []time.Duration{1, us + 1, 100*us + 1} {
		most := 0.0
		for begins := time.Hour; begins < time.Hour+us; begins++ {
			var l lease.Ledger
			taken := 0.0
			for i, now := range []time.Duration{begins, begins + lasts} {
				q := wants("a", uint64(i+1), burst, 0)
				q.Limit, q.Min = lease.Limit{Rate: rate, Burst: burst}, 1
				q.Policy = lease.Policy{Mode: lease.PerRequest}
				taken += l.Exchange(now, q).Taken
			}
			most = max(most, taken-burst-rate*lasts.Seconds())
		}
		if most >= rate*us.Seconds() || most < 0.99*rate*us.Seconds() {
			t.Errorf("in %v up to %v more than Burst + Rate*T, the bound is %v", lasts, most,
				rate*us.Seconds())
		}
	}
}
