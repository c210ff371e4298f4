package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// FleetKey is a key of the store that is not a user's: all processes exchange for it.
const FleetKey = "\x00fleet"

// A census is how a process knows how many share the limits: all of them exchange
// now and then for one key, of which they take nothing, and its ledger tells how many they
// are. The ledger of any other key knows only those that have lately used that.
const (
	censusFirst    = time.Second        // after the start; then twice as long after it each time,
	censusInterval = 10 * time.Second   // and at last so often
	censusMemory   = 3 * censusInterval // so long a process counts that has gone, or not been heard
)

// newCensus returns the entry of a Dispatch for the census, which is in no Table. It goes by the
// name of the process: that may have several Dispatches.
func newCensus(now time.Duration, c *DispatchConfig) *Entry {
	limit := lease.Limit{Rate: lease.MaxRate, Burst: lease.MaxBurst}
	policy := lease.Policy{Mode: lease.PerRequest, MaxRefresh: censusMemory}
	h := lease.NewHolder(c.Fleet.name.id, limit, &policy, uint64(c.Random(1<<62)))
	e := NewEntry(now, FleetKey, h, limit, NewCommon(c.Timeout, 0))
	e.extra = &extra{name: c.Fleet.name}
	return e
}

// Count takes the census, if it is time for that and no other Dispatch of the Fleet does, and
// returns when it is next.
func (d *Dispatch) Count(now time.Duration) (next time.Duration) {
	if d.fleet.counts(now, d.random) {
		d.ask(now)
	}
	return time.Duration(d.fleet.count.Load())
}

// ask exchanges for the census now, or, while the store is away, with the next probe.
func (d *Dispatch) ask(now time.Duration) {
	if d.Away() {
		d.Unanswered(now, d.census)
	} else if d.census.probe(now) && !d.post(now, d.census, false) {
		d.putOff(now, []*Entry{d.census})
	}
}
