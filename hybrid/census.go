package hybrid

import (
	"math/rand/v2"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// FleetKey is a key of the store that is not a user's: all processes exchange for it,
// see Share.
const FleetKey = "\x00fleet"

// A census is how a process knows how many share the limits: all of them exchange
// now and then for one key, of which they take nothing, and its ledger tells how many they
// are. The ledger of any other key knows only those that have lately used that.
const (
	censusFirst    = time.Second        // after New; then twice as long after New each time,
	censusInterval = 10 * time.Second   // and at last so often
	censusMemory   = 3 * censusInterval // so long a process counts that has gone, or not been heard
)

// newCensus returns the entry of the census, which is not in the table.
func newCensus(l *Limiter, holder string) *local.Entry {
	limit := lease.Limit{Rate: lease.MaxRate, Burst: lease.MaxBurst}
	policy := lease.Policy{Mode: lease.PerRequest, MaxRefresh: censusMemory}
	h := lease.NewHolder(holder+"-0", limit, policy, rand.Uint64())
	return local.NewEntry(l.now(), FleetKey, h, limit, policy, l.config.Timeout)
}

// ask exchanges for the census now.
func (s *shell) ask(now time.Duration) {
	s.census.Probe(now)
	s.drive(s.census)
}

// count takes the census, if it is time for that, and returns when it is next.
func (s *shell) count(now, next time.Duration) time.Duration {
	if now < next {
		return next
	}
	s.ask(now)
	interval := min(now, censusInterval)
	return now + interval - time.Duration(rand.Int64N(int64(interval/8)))
}
