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
	Missing                        int // processes that are not in the sums
	Exchanges                      float64
	Members                        []memberView
	More                           int
	Silent                         []silentView
	Read                           bool // there was an answer
	Age                            time.Duration
}

// A silentView is a service that reports no more, and has not said that it would end.
type silentView struct {
	Name string
	For  time.Duration
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
	key                         string // its whole ID
	URL, Page                   string // of its own chart; none if it is not in the sums
	Shown                       bool   // that chart is
}

const (
	mostMembers = 20

	// lateAfter is when a process is missed. It publishes each 5 s.
	lateAfter = 10 * time.Second
)

// view sums up the processes with a namespace. self is the ID of this one, which stands first, and
// counted are those of others whose counts were heard lately.
func (f *fleet) view(now time.Time, namespace, self string, counted map[string]bool) fleetView {
	v := fleetView{Read: !f.at.IsZero(), Age: now.Sub(f.at)}
	for _, m := range f.members {
		if m.Stats.Namespace != namespace {
			continue
		}
		row := memberView{
			Name: shortened(m.Name, 80), ID: shortened(m.ID, 20), Here: m.ID == self, key: m.ID,
			Age: now.Sub(m.at), Known: m.known,
			Exchanges: m.rates.exchanges, Admitted: m.rates.admitted, Denied: m.rates.denied,
			P50: m.Stats.RoundTripP50, P99: m.Stats.RoundTripP99,
		}
		if !row.Here && !counted[m.ID] {
			v.Missing++
			row.Problem = "not in the sums"
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

// fleetOf is the fleet of a domain, whose Limiter here has stats.
func (l *Live) fleetOf(now time.Time, stats hybrid.Stats) fleetView {
	v := l.fleet.view(now, stats.Namespace, stats.ID, l.sums.counted(now))
	for _, one := range l.silence.missed(now) {
		v.Silent = append(v.Silent, silentView{one.name, now.Sub(one.heard)})
	}
	return v
}

func (v *fleetView) add(row memberView, m member) {
	v.Processes++
	if !m.known {
		v.Unknown++
	}
	v.Exchanges += row.Exchanges
	switch {
	case row.Age > lateAfter:
		v.Late++
		row.Problem = join(row.Problem, "late")
	case m.Stats.Slow, m.Stats.Away:
		v.Slow++
		row.Problem = join(row.Problem, "store slow")
	}
	v.Members = append(v.Members, row)
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ", " + b
}

// Counted is how many processes are in the sums, at least this one.
func (v fleetView) Counted() int { return max(1, v.Processes-v.Missing) }

// nameOf is what a process is called.
func (f *fleet) nameOf(id string) string {
	if name := f.members[id].Name; name != "" {
		return shortened(name, 80)
	}
	return "process " + shortened(id, 20)
}
