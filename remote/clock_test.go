package remote_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestServerClockSteps: the clock of the Redis host steps, those of the processes
// do not. Back, it mints nothing: the ledger stands still for a second at most, and
// goes on. Forward, the bucket gets what would have flowed, and after a large step the
// ledger takes all leases for ended: no more than if its state were lost (I6).
func TestServerClockSteps(t *testing.T) {
	const hour = time.Hour
	server := redistest.Start(t)
	for _, limit := range []lease.Limit{
		{Rate: 1000, Burst: 500}, // is divided
		{Rate: 5, Burst: 5},      // each request asks
	} {
		for _, steps := range [][]time.Duration{
			{-time.Millisecond}, {-time.Second}, {-hour}, {10 * time.Millisecond}, {time.Second},
			{hour},
			{hour, -hour}, {-hour, hour}, {time.Second, -time.Second, time.Second, -time.Second},
		} {
			t.Run(fmt.Sprint(limit, steps), func(t *testing.T) {
				server.Client().FlushAll(t.Context())
				f := newFleet(t, client(t, patient(server.Addr)), limit, lease.Policy{}.Resolved())
				f.offered = 2 * limit.Rate
				f.run(3 * time.Second)
				allowed := 0.0
				for _, step := range steps {
					if f.skew += step; step > 0 {
						allowed += min(limit.Rate*step.Seconds(), f.mostLost())
					}
					f.run(time.Second)
				}
				served := f.run(5*time.Second) / (5 * limit.Rate)
				t.Logf("worst excess %.0f of at most %.0f tokens, then %.2f of the rate is served",
					f.worst, allowed, served)
				if served < 0.9 {
					t.Errorf("only %.2f of the rate is served", served)
				}
				if f.worst > allowed || f.failed > 0 {
					t.Errorf("%v excess, more than %v; %d failed", f.worst, allowed, f.failed)
				}
			})
		}
	}
}
