package hybrid

import (
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
	"github.com/seed13b07268/ration/local/gauge"
)

// recordTerm is how often round trips are counted anew. Quantiles are of the last term and
// of the one that goes on: an operator asks how it is now.
const recordTerm = time.Minute

// A record is what Stats tells of the store.
type record struct {
	mu         sync.Mutex
	total      local.Outcomes
	young, old gauge.Histogram             // of round trips
	turns      time.Duration               // when the next term begins
	trips      uint64                      // since New
	sum        time.Duration               // of trips
	within     [len(tripBounds) + 1]uint64 // of trips, by the first bound that they keep; the last: none
	median     time.Duration               // as it was at a power of two of trips, 0 before the first few
	away       bool
	since      time.Duration // of away
	spent      time.Duration // away before
	warned     bool          // of a Burst that is small for the round trip
}

// fewTrips is from how many round trips on their median is believed: the first ones
// open connections.
const fewTrips = 16

// landed takes a round trip. One that nothing was answered in, in time, tells no time: the
// timeouts of an outage would be the median for a while (TestLateIsNoRoundTrip).
func (r *record) landed(now, took time.Duration, o local.Outcomes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total.Answered += o.Answered
	r.total.Refused += o.Refused
	r.total.Failed += o.Failed
	r.total.Late += o.Late
	if o.Answered+o.Refused == 0 {
		return
	}
	r.turnLocked(now)
	r.young.Add(took)
	first, _ := slices.BinarySearch(tripBounds[:], took)
	r.within[first]++
	r.sum += took
	if r.trips++; r.trips >= fewTrips && bits.OnesCount64(r.trips) == 1 {
		both := r.bothLocked()
		r.median = both.Quantile(0.5)
	}
}

func (r *record) turnLocked(now time.Duration) {
	if now < r.turns {
		return
	}
	r.young, r.old = r.old, r.young
	r.young.Reset()
	if now >= r.turns+recordTerm {
		r.old.Reset()
	}
	r.turns = now + recordTerm
}

func (r *record) bothLocked() gauge.Histogram {
	var both gauge.Histogram
	both.Merge(&r.young)
	both.Merge(&r.old)
	return both
}

// turned takes that the store went away, or came back. It asks which by now: of two notices
// the later one may come first.
func (r *record) turned(now time.Duration, away func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = max(now, r.since)
	if r.away {
		r.spent += now - r.since
	}
	r.away, r.since = away(), now
}

// tell fills in what Stats says of the store.
func (r *record) tell(now time.Duration, s *Stats) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.total
	s.Answered, s.Refused, s.Failed, s.Late = o.Answered, o.Refused, o.Failed, o.Late
	s.Exchanges = o.Answered + o.Refused + o.Failed + o.Late
	r.turnLocked(now)
	both := r.bothLocked()
	s.RoundTripP50, s.RoundTripP99 = both.Quantile(0.5), both.Quantile(0.99)
	s.RoundTrips = r.tripsLocked()
	if s.AwayFor = r.spent; r.away {
		s.AwayFor += max(now-r.since, 0)
	}
}

func (r *record) tripsLocked() RoundTrips {
	t := RoundTrips{Count: r.trips, Sum: r.sum, AtMost: map[time.Duration]uint64{}}
	var below uint64
	for i, bound := range tripBounds {
		below += r.within[i]
		t.AtMost[bound] = below
	}
	return t
}

// near reports, once, a limit among these calls whose Burst is used up in less than four
// round trips: its processes wait for the store instead of deciding.
func (r *record) near(calls []*lease.Call) (tight *lease.Call, median time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warned || r.median == 0 {
		return nil, 0
	}
	for _, c := range calls {
		limit := c.Request.Limit
		if c.Key == FleetKey || c.Request.Policy.Mode == lease.PerRequest {
			continue
		}
		if float64(limit.Burst) < burstTrips*limit.Rate*r.median.Seconds() {
			r.warned = true
			return c, r.median
		}
	}
	return nil, 0
}

// burstTrips is how many round trips of its Rate the Burst of a limit should hold.
const burstTrips = 4
