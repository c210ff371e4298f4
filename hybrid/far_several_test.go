package hybrid_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestSeveralFarAway: what a first exchange brings is there for several keys, however long the
// exchange takes.
func TestSeveralFarAway(t *testing.T) {
	for _, limit := range []hybrid.Limit{
		hybrid.PerHour(10), hybrid.Quota(10, time.Hour), hybrid.Sliding(10, time.Hour),
	} {
		for _, rtt := range []time.Duration{20, 35, 50, 100, 150, 200, 240} {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, remoteLine(rtt*time.Millisecond), hybrid.Config{Limit: limit})
				for i := range 3 {
					one, other := fmt.Sprint("one", i), fmt.Sprint("other", i)
					d, err := l.ReserveAll(t.Context(), hybrid.Ask{Key: one, N: 6}, hybrid.Ask{Key: other, N: 6})
					if err != nil || !d.Allowed {
						t.Errorf("%v, %v away: 6 of 10 are not reserved: %+v, %v", limit, rtt*time.Millisecond, d, err)
					}
				}
			})
		}
	}
}
