package workload

import (
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// A RoundTrip is how long the way to Redis and back takes, as scenario.Redis describes it.
type RoundTrip struct {
	Latency, P99 time.Duration
	Jitter       float64
	Trips        []time.Duration
}

// RoundTripOf returns that of a resolved scenario.
func RoundTripOf(r *scenario.Redis) RoundTrip {
	return RoundTrip{r.Latency, r.P99, r.Jitter, r.Trips()}
}

// Draw draws one.
func (t *RoundTrip) Draw(random *Random) time.Duration {
	latency := float64(t.Latency)
	switch {
	case len(t.Trips) > 0:
		return t.Trips[random.Below(len(t.Trips))]
	case t.P99 > 0:
		return time.Duration(min(random.Lognormal(latency, float64(t.P99)), 1e15))
	case t.Jitter > 0: // the way there and the way back each have their part of it
		both := random.Exponential() + random.Exponential()
		return time.Duration(latency * (1 - t.Jitter + float64(t.Jitter*both/2)))
	}
	return t.Latency
}
