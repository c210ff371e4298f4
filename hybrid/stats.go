package hybrid

import (
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// Stats is what a Limiter has done since New, and how it is now. No field names keys but
// MostDenied, which has ten at most.
type Stats struct {
	Namespace string // Config.Namespace

	// ID is that of the Limiter in Published. Ledgers know it by holders whose ids are this, a
	// dash and more (lease.HolderView).
	ID string `json:"-"`

	Keys    int // in memory now
	Waiters int // callers that wait now: for the store, in Wait, or for LimitFor; not in Close

	// Requests and their tokens, by who decided and how. A request that ends with an
	// error is in none of them. A reservation is in them without its tokens, as it may
	// not need them, unless the outage policy or an Unlimited key has admitted it.
	Lease, Ledger, Outage Verdicts

	// Settled is the tokens of reservations that have ended: what Settle said, up to what
	// was reserved, and all of it where the lease had ended. Charged is those of Charge, and
	// of Settle above what was reserved. So what is used of all limits together is the
	// AdmittedTokens, Settled and Charged.
	Settled, Charged uint64

	// Exchanges is the number of script calls in the store that have ended, and the
	// sum of the next four.
	Exchanges uint64
	Answered  uint64 // in time
	Refused   uint64 // the key's state is unreadable, or of another version
	Failed    uint64 // an error: nobody knows whether the script ran
	Late      uint64 // no answer within Config.Timeout, which is as good as failed

	// Quantiles of the round trips that brought answers, of the last one to two
	// minutes, up to 3 % too high; 0 if there were none. A round trip carries up to 256
	// exchanges.
	RoundTripP50, RoundTripP99 time.Duration

	// RoundTrips are those that brought answers, since New. It is not published.
	RoundTrips RoundTrips `json:"-"`

	// Processes is how many share the limits, by which Share divides them: what the store has
	// told in the last one to two minutes, else Config.Processes, else 0.
	Processes int

	Away    bool          // the store does not answer now
	Slow    bool          // it does, but a quarter of exchanges or more have no answer in time
	AwayFor time.Duration // in all since New

	// Panics is how often the Store, LimitFor, the Logger or Config.Record.To has panicked on a
	// goroutine of the Limiter, which goes on. LostLines is how many log lines the Logger was not
	// given, as it had not returned from others.
	Panics, LostLines uint64

	// LostRecords is how many decisions Config.Record.To was not given, as they came too fast or it
	// had not returned from others, and those of which its Write has failed or panicked.
	LostRecords uint64

	// MostDenied is the ten keys with the most denied requests in the last one to two
	// minutes, the most denied one first. It is not published: names may be secret.
	MostDenied []DeniedKey `json:"-"`

	// DeniedKeys is how many keys had denied requests in that time: 128 if there were so many or
	// more.
	DeniedKeys int `json:"-"`
}

// RoundTrips counts round trips by how long they took. Those of several Limiters can be added up,
// which quantiles cannot.
type RoundTrips struct {
	Count uint64        // of all
	Sum   time.Duration // of all
	// AtMost is how many took no longer than 100 µs, 200 µs, 400 µs and so on, up to 1.6384 s.
	AtMost map[time.Duration]uint64
}

// tripBounds are those of RoundTrips.AtMost: 100 µs, doubled.
var tripBounds = func() (bounds [15]time.Duration) {
	for i := range bounds {
		bounds[i] = 100 * time.Microsecond << i
	}
	return bounds
}()

// Verdicts counts requests, and the tokens that they were for.
type Verdicts struct{ Admitted, Denied, AdmittedTokens, DeniedTokens uint64 }

// DeniedKey is a key and about how many requests for it were denied: at most Denied, and
// at least Denied - Error. Error is 0 while no more than 128 keys are denied, and never
// above a 128th of all denials. A key with more denials than that is not missed.
type DeniedKey struct {
	Key           string // its first 256 bytes
	Denied, Error uint64
}

// mostDenied is how many keys Stats names.
const mostDenied = 10

// Stats returns what the Limiter has done so far. It looks at each key in memory, under
// its lock for about 0.1 µs each: call it every few seconds and not for each request. It
// does not wait for the store.
func (l *Limiter) Stats() Stats {
	now := l.now()
	keys, c := l.table.Count(now)
	s := Stats{
		Namespace: l.config.Namespace, ID: l.id, Keys: keys, Waiters: int(l.waiters.Load()),
		Processes: l.driver.dispatch.Processes(),
		Away:      l.driver.dispatch.Away(), Slow: l.driver.dispatch.Slow(),
		Lease: Verdicts(c.Lease), Ledger: Verdicts(c.Ledger), Outage: Verdicts(c.Outage),
		Settled: c.Settled, Charged: c.Charged,
	}
	l.driver.record.tell(now, &s)
	s.Panics, s.LostLines = l.driver.book.Counts()
	panics, lost := l.recorder.counts()
	s.Panics += l.panics.Load() + panics
	s.LostRecords = lost
	denied := l.table.MostDenied(now, local.DeniedKeys)
	s.DeniedKeys = len(denied)
	for _, r := range denied[:min(mostDenied, len(denied))] {
		s.MostDenied = append(s.MostDenied, DeniedKey{Key: r.Name, Denied: r.Count, Error: r.Error})
	}
	return s
}

// warnNear says, once, that the store is too far away for a limit.
func (d *driver) warnNear(calls []*lease.Call) {
	c, median := d.record.near(calls)
	if c == nil {
		return
	}
	limit := c.Request.Limit
	least := math.Ceil(burstTrips * limit.Rate * median.Seconds())
	d.warn(
		"limit's burst is small for the round trip, requests will wait for the store",
		keyField(c.Key), zap.Stringer("limit", limit),
		zap.Duration("round trip", median), zap.Float64("burst at least", least))
}
