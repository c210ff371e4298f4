package live

import (
	"context"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A member is a Limiter of the fleet: one domain in one process.
type member struct {
	hybrid.Published
	at    time.Time // when it published
	known bool      // the rates are: it has published twice
	rates rates
}

// rates are by second.
type rates struct{ exchanges, admitted, denied float64 }

// A fleet is what all processes have published.
type fleet struct {
	members map[string]member // by ID
	at      time.Time         // of the last answer; zero: there was none
	failing bool
}

// readFleet reads what the fleet has published. It is one call to the store.
func (l *Live) readFleet(ctx context.Context) {
	l.ask(ctx, &l.fleet.failing, "the fleet", func(ctx context.Context) error {
		all, err := hybrid.Fleet(ctx, l.store)
		if err != nil && len(all) == 0 {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.fleet.add(time.Now(), all)
		return err
	})
}

// add takes an answer. Members that are not in it are gone.
func (f *fleet) add(now time.Time, all []hybrid.Published) {
	members := make(map[string]member, len(all))
	for _, p := range all {
		members[p.ID] = f.members[p.ID].next(p, now.Add(-p.Age))
	}
	f.members, f.at = members, now
}

// next is what a member is after it was read again.
func (m member) next(p hybrid.Published, at time.Time) member {
	seconds := at.Sub(m.at).Seconds()
	now, was := p.Stats, m.Stats
	next := member{Published: p, at: at, known: m.known, rates: m.rates}
	switch {
	case m.at.IsZero():
	case seconds < 0.5:
		next.at = m.at // the same that it told before: the time of a journey is no time between
	default:
		next.known = true
		next.rates = rates{
			exchanges: perSecond(now.Exchanges, was.Exchanges, seconds),
			admitted:  perSecond(admittedBy(now), admittedBy(was), seconds),
			denied:    perSecond(deniedBy(now), deniedBy(was), seconds),
		}
	}
	return next
}

func admittedBy(s hybrid.Stats) uint64 {
	return s.Lease.Admitted + s.Ledger.Admitted + s.Outage.Admitted
}

func deniedBy(s hybrid.Stats) uint64 { return s.Lease.Denied + s.Ledger.Denied + s.Outage.Denied }

func perSecond(now, was uint64, seconds float64) float64 {
	if now < was {
		return 0
	}
	return float64(now-was) / seconds
}

// A fleetView is the fleet of one domain.
type fleetView struct {
	Processes, Unknown, Late, Slow int
	Exchanges, Admitted, Denied    float64
	P50, P99                       time.Duration // the longest of all processes
	Members                        []memberView
	More                           int
	Read                           bool // there was an answer
	Age                            time.Duration
}

// A memberView is a row of the table of processes.
type memberView struct {
	Name, ID                    string
	Here                        bool // this process
	Age                         time.Duration
	Known                       bool
	Exchanges, Admitted, Denied float64
	P50, P99                    time.Duration
	Problem                     string
}

const (
	mostMembers = 20

	// lateAfter is when a process is missed. It publishes each 5 s.
	lateAfter = 10 * time.Second
)

// view sums up the processes with a namespace. self is the ID of this one, which stands first.
func (f *fleet) view(now time.Time, namespace, self string) fleetView {
	v := fleetView{Read: !f.at.IsZero(), Age: now.Sub(f.at)}
	for _, m := range f.members {
		if m.Stats.Namespace != namespace {
			continue
		}
		row := memberView{
			Name: shortened(m.Name, 80), ID: shortened(m.ID, 20), Here: m.ID == self,
			Age: now.Sub(m.at), Known: m.known,
			Exchanges: m.rates.exchanges, Admitted: m.rates.admitted, Denied: m.rates.denied,
			P50: m.Stats.RoundTripP50, P99: m.Stats.RoundTripP99,
		}
		v.add(row, m)
	}
	sortMembers(v.Members)
	if len(v.Members) > mostMembers {
		v.More = len(v.Members) - mostMembers
		v.Members = v.Members[:mostMembers]
	}
	return v
}

func (v *fleetView) add(row memberView, m member) {
	v.Processes++
	if !m.known {
		v.Unknown++
	}
	v.Exchanges += row.Exchanges
	v.Admitted += row.Admitted
	v.Denied += row.Denied
	v.P50, v.P99 = max(v.P50, row.P50), max(v.P99, row.P99)
	switch {
	case row.Age > lateAfter:
		v.Late++
		row.Problem = "late"
	case m.Stats.Slow, m.Stats.Away:
		v.Slow++
		row.Problem = "store slow"
	}
	v.Members = append(v.Members, row)
}
