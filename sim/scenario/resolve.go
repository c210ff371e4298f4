package scenario

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// oneOf returns an error unless the value is one of those wanted.
func oneOf(field, value string, wanted ...string) error {
	return wrong(!slices.Contains(wanted, value), "%s %s is not %s", field, value, strings.Join(wanted, ", "))
}

// within returns an error unless low <= value <= high; NaN is not.
func within[T int | int64 | float64 | time.Duration](field string, value, low, high T) error {
	return wrong(!(value >= low && value <= high), "%s %v is not from %s to %s", field, value,
		brief(low), brief(high))
}

// brief writes a bound as people do: 1000h, not 1000h0m0s.
func brief(bound any) string {
	text := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(fmt.Sprint(bound))
	if text == "0s" {
		return "0"
	}
	return text
}

// wrong returns an error if something is so.
func wrong(is bool, format string, args ...any) error {
	if is {
		return fmt.Errorf(format, args...)
	}
	return nil
}

const (
	// longest is the longest run and the longest time in it. It keeps the sums
	// and products of times far from the largest Duration.
	longest = 1000 * time.Hour

	// Below a gap of 10 ns, times in nanoseconds would change the load; so many
	// requests take hours to play, at ten million a second.
	maxRate, maxRequests = 1e8, 1e11

	defaultTimeout = 250 * time.Millisecond // of an exchange

	maxFlashes = 1000
	maxPeriods = 1_000_000 // of what comes and goes, in one run; a tenth of it for a day, which has many steps
	maxTrips   = 1_000_000
	maxWeight  = 1e12
)

// Resolve fills in defaults and reads the files that are named. It returns an
// error that names the field and its value where something is wrong.
func (s *Scenario) Resolve() error {
	for _, step := range []struct {
		field   string
		resolve func() error
	}{
		{"load.trace", s.openTrace}, {"", s.resolveTime}, {"load.trace", s.resolveTrace}, {"", s.resolve}, {"load", s.resolveLoad}, {"balance", s.resolveBalance},
		{"redis", s.resolveRedis}, {"policy", s.resolvePolicy}, {"classes", s.resolveClasses}, {"", s.resolveFaults}, {"load", s.resolveSize},
	} {
		if err := step.resolve(); err != nil {
			return s.wrap(step.field, err)
		}
	}
	return nil
}

func (s *Scenario) wrap(field string, err error) error {
	if field != "" {
		err = fmt.Errorf("%s: %w", field, err)
	}
	if s.Name != "" {
		err = fmt.Errorf("%.80q: %w", s.Name, err)
	}
	return fmt.Errorf("scenario: %w", err)
}

// resolveTime comes first: what a log is cut to depends on it.
func (s *Scenario) resolveTime() error {
	setDefault(&s.Duration, 30*time.Second)
	return cmp.Or(within("duration", s.Duration, time.Millisecond, longest),
		wrong(s.Warmup < 0 || s.Warmup >= s.Duration,
			"warmup %v is not from 0 to less than the duration %v", s.Warmup, s.Duration))
}

func (s *Scenario) resolve() error {
	setDefault(&s.Processes, 10)
	setDefault(&s.Outage, local.Share.String())
	_, err := s.OutagePolicy()
	return cmp.Or(s.resolveKeys(), within("processes", s.Processes, 1, maxProcesses),
		within("eager", float64(s.Eager), 0, float64(lease.MaxBurst)), err)
}

// OutagePolicy is Outage by its type.
func (s *Scenario) OutagePolicy() (local.Outage, error) {
	return named("outage", s.Outage, local.Share, local.Deny, local.Allow)
}

// named finds the value that has this name; the empty one is the first's.
func named[T fmt.Stringer](field, name string, values ...T) (T, error) {
	if name == "" {
		return values[0], nil
	}
	var names []string
	for _, v := range values {
		if v.String() == name {
			return v, nil
		}
		names = append(names, v.String())
	}
	return values[0], oneOf(field, name, names...)
}

func (s *Scenario) resolveLoad() error {
	l := &s.Load
	if err := s.resolveHold(); err != nil {
		return err
	}
	if l.Trace != nil {
		return l.traceOnly()
	}
	if l.Clients == nil && l.Offered == 0 && l.Rate.IsZero() {
		l.Offered = 2
	}
	if l.Cost == 0 && len(l.Costs) == 0 {
		l.Cost = 1
	}
	setDefault(&l.Arrivals, "poisson")
	if l.Arrivals == "gamma" {
		setDefault(&l.CV, 2)
	}
	if err := cmp.Or(l.check(), l.resolveShape()); err != nil {
		return err
	}
	if d := l.Diurnal; d != nil {
		return s.periods("diurnal.period", d.Period, maxPeriods/10)
	}
	return nil
}

// check returns an error that names the field and its value unless arrivals and costs are within
// their ranges.
func (l *Load) check() error {
	sources := 0
	for _, given := range []bool{l.Offered != 0, !l.Rate.IsZero(), l.Clients != nil} {
		if given {
			sources++
		}
	}
	err := cmp.Or(
		wrong(sources > 1, "offered, rate and clients: one of them"),
		wrong(!(l.Offered >= 0 && l.Offered <= 1e6), "offered %v is not above 0 and at most 1e6", l.Offered),
		spread("", "arrivals", l.Arrivals, l.CV, "poisson"),
		wrong(l.Cost != 0 && len(l.Costs) > 0, "cost and costs: one of them"))
	costs := l.Costs
	if len(costs) == 0 {
		costs = []int64{l.Cost}
	}
	for _, c := range costs {
		err = cmp.Or(err, wrong(c < 1 || c > lease.MaxBurst, "cost %d is not from 1 to 2^32", c))
	}
	return err
}

// spread returns an error unless a distribution is even, gamma with a coefficient of variation in
// its range, or the usual one.
func spread(above, field, kind string, cv float64, usual string) error {
	gamma := kind == "gamma"
	return cmp.Or(oneOf(above+field, kind, usual, "even", "gamma"),
		wrong(cv != 0 && !gamma, "%scv is for gamma %s, not for %s", above, field, kind),
		wrong(gamma && !(cv >= 0.1 && cv <= 20), "%scv %v is not from 0.1 to 20", above, cv))
}

// periods returns an error if the run has too many of what comes and goes.
func (s *Scenario) periods(field string, length, most time.Duration) error {
	n := s.Duration / max(length, 1)
	return wrong(n > most, "%s %v passes %d times in %v; at most %d", field, length, n, s.Duration, most)
}

func (l *Load) resolveShape() error {
	err := wrong(len(l.Flash) > maxFlashes, "flash: %d of them; at most %d", len(l.Flash), maxFlashes)
	if d := l.Diurnal; d != nil {
		err = cmp.Or(within("diurnal.period", d.Period, 10*time.Millisecond, longest),
			within("diurnal.low", d.Low, 0, 1), err)
	}
	for _, f := range l.Flash {
		err = cmp.Or(err, wrong(f.At < 0 || f.For <= 0 || f.At > longest || f.For > longest,
			"flash at %v for %v: want times from 0 and above 0 to 1000h", f.At, f.For),
			within("flash.times", f.Times, 0, 1e6))
	}
	if c := l.Clients; c != nil {
		err = cmp.Or(err, within("clients.count", c.Count, 1, 1_000_000),
			within("clients.think", c.Think, time.Microsecond, longest),
			wrong(l.Diurnal != nil || l.Flash != nil, "clients think: diurnal and flash are for an open load"))
	}
	return cmp.Or(err, l.resolveRetry())
}

func (l *Load) resolveRetry() error {
	err := within("patience", l.Patience, 0, longest)
	if r := l.Retry; r != nil {
		err = cmp.Or(err, within("retry.times", r.Times, 1, 100), within("retry.after", r.After, 0, longest))
	}
	return err
}

// resolveSize returns an error for a load that would take for ever to play.
func (s *Scenario) resolveSize() error {
	l := &s.Load
	if l.Trace != nil {
		return nil
	}
	mean := s.RequestRate()
	if c := l.Clients; c != nil {
		mean = float64(c.Count) / c.Think.Seconds()
	}
	peak := mean
	for _, f := range l.Flash {
		times := 1.0
		for _, other := range l.Flash { // those in force when this one begins
			if f.At >= other.At && f.At < other.At+other.For {
				times *= other.Times
			}
		}
		peak = max(peak, mean*times)
	}
	if o := s.Balance.OnOff; o != nil {
		peak *= float64(o.Period) / float64(o.On)
	}
	n := mean * s.Duration.Seconds()
	return cmp.Or(wrong(peak > maxRate, "%.4g requests/s are more than %.4g", peak, maxRate),
		wrong(n > maxRequests, "%.4g requests/s for %v are %.4g requests; at most %.4g", mean, s.Duration,
			n, maxRequests))
}

// RequestRate is the mean number of requests per second that an open load offers.
func (s *Scenario) RequestRate() float64 {
	l := &s.Load
	switch {
	case s.replay != nil:
		return float64(s.replay.Requests) / s.Duration.Seconds()
	case !l.Rate.IsZero():
		return l.Rate.PerSecond
	}
	if s.Keys.Each != nil {
		return l.Offered * s.Capacity() / s.MeanCost()
	}
	return l.Offered * Mean(s.LimitOf()) * float64(s.Keys.Number) / s.MeanCost()
}

// MeanCost is what a request takes in the mean, in tokens, or a job in slot-seconds.
func (s *Scenario) MeanCost() float64 {
	if h := s.Load.Hold; h != nil {
		return h.Mean.Seconds()
	}
	if s.replay != nil {
		return s.replay.tokens / float64(s.replay.Requests)
	}
	sum, n := float64(s.Load.Cost), 1
	for _, c := range s.Load.Costs {
		sum += float64(c)
		n = len(s.Load.Costs)
	}
	return sum / float64(n)
}

// LargestCost is what a request takes at most, in tokens.
func (s *Scenario) LargestCost() int64 {
	largest := s.Load.Cost
	if s.replay != nil {
		largest = s.replay.largest
	}
	for _, c := range s.Load.Costs {
		largest = max(largest, c)
	}
	return largest
}

// traceOnly returns an error if anything is set that a log decides.
func (l *Load) traceOnly() error {
	decided := l.Offered != 0 || !l.Rate.IsZero() || l.Arrivals != "" || l.CV != 0 || l.Cost != 0 ||
		len(l.Costs) > 0 || l.Diurnal != nil || l.Flash != nil || l.Clients != nil
	return cmp.Or(wrong(decided, "a trace says when requests come and what they cost: "+
		"only patience, hold and retry go with it"), l.resolveRetry())
}

func (s *Scenario) resolveBalance() error {
	b := &s.Balance
	setDefault(&b.By, "random")
	if b.By == "sticky" {
		setDefault(&b.Clients, 1000)
	}
	if b.By == "least-outstanding" && s.Load.Hold == nil {
		setDefault(&b.Service, 5*time.Millisecond)
	}
	weighted := b.By == "random" || b.By == "own"
	logged := s.replay != nil && s.replay.Upstreams > 0 // the log says who serves
	err := cmp.Or(
		wrong(!slices.Contains(balances, b.By), "by %s is not %s", b.By,
			"random, round-robin, least-outstanding, sticky or own"),
		wrong(!weighted && (b.Weights != nil || b.Skew != 0 || b.Moves != 0),
			"weights, skew and moves are for random and own, not for %s", b.By),
		wrong(b.Weights != nil && b.Skew != 0, "weights and skew: one of them"),
		wrong(b.Weights != nil && len(b.Weights) != s.Processes && !logged,
			"weights: %d for %d processes", len(b.Weights), s.Processes),
		wrong(b.OnOff != nil && b.By != "own", "on_off is for own, not for %s", b.By),
		wrong(b.By == "own" && (s.Load.Clients != nil || s.Load.Trace != nil),
			"own makes its own load: no clients, no trace"),
		wrong(b.Clients < 0 || b.Clients > 1_000_000 || b.Clients != 0 && b.By != "sticky",
			"clients %d is not from 1 to 1000000, for sticky", b.Clients),
		wrong(b.Service != 0 && s.Load.Hold != nil,
			"service %v does not go with limit %s: jobs have their load.hold", b.Service, s.Limit),
		wrong(b.Service < 0 || b.Service > longest || b.Service != 0 && b.By != "least-outstanding",
			"service %v is not from 0 to 1000h, for least-outstanding", b.Service))
	if b.Moves != 0 {
		err = cmp.Or(err, within("moves", b.Moves, time.Millisecond, longest),
			s.periods("moves", b.Moves, maxPeriods))
	}
	if b.OnOff != nil {
		err = cmp.Or(err, b.OnOff.check(s))
	}
	return cmp.Or(err, b.checkWeights())
}

var balances = []string{"random", "round-robin", "least-outstanding", "sticky", "own"}

// check returns an error unless what comes and goes does so in times that s can have.
func (o *OnOff) check(s *Scenario) error {
	return cmp.Or(wrong(o.On < time.Millisecond || o.Period < o.On || o.Period > longest,
		"on_off: on %v of the period %v are not from 1ms to 1000h, the period being the longer one",
		o.On, o.Period), s.periods("on_off.period", o.Period, maxPeriods))
}

// checkWeights returns an error unless processes and clients have weights of which not all are 0.
func (b *Balance) checkWeights() error {
	sum, err := 0.0, error(nil)
	for _, w := range b.Weights {
		err = cmp.Or(err, within("weights", w, 0, maxWeight))
		sum += w
	}
	return cmp.Or(err, wrong(b.Weights != nil && sum == 0, "weights are all 0"),
		within("client_skew", b.ClientSkew, 0, 100), within("skew", b.Skew, 0, 100))
}

func (s *Scenario) resolveRedis() error {
	r := &s.Redis
	setDefault(&r.Timeout, defaultTimeout)
	if r.Latencies != "" {
		if r.Latency != 0 || r.P99 != 0 || r.Jitter != 0 {
			return fmt.Errorf("latencies are read from a file: no latency, p99 or jitter beside them")
		}
		if err := s.readTrips(); err != nil {
			return err
		}
	} else if len(r.trips) == 0 {
		setDefault(&r.Latency, time.Millisecond)
	}
	return cmp.Or(within("latency", r.Latency, 0, time.Minute),
		wrong(r.P99 != 0 && (r.P99 < r.Latency || r.P99 > time.Hour),
			"p99 %v is not from the latency %v to 1h", r.P99, r.Latency),
		wrong(r.P99 != 0 && r.Jitter != 0, "p99 and jitter: one of them"),
		within("apart", r.Apart, 0, time.Minute),
		within("timeout", r.Timeout, time.Millisecond, time.Minute),
		within("jitter", r.Jitter, 0, 1), within("lost", r.Lost, 0, 1), within("repeated", r.Repeated, 0, 1))
}

// Farther is how much longer round trips of a process are than those of the first one.
func (s *Scenario) Farther(process int) time.Duration {
	last := max(s.Processes-1, 1)
	return s.Redis.Apart * time.Duration(min(process, last)) / time.Duration(last)
}

// Trips are the round trips that were read from the file Latencies.
func (r *Redis) Trips() []time.Duration { return r.trips }

// openFile opens a file that the scenario names.
func (s *Scenario) openFile(name string) (io.ReadCloser, error) {
	if !filepath.IsAbs(name) && s.open != nil {
		return s.open(name)
	}
	return openFile(name)
}

// openFile opens a file that ends: not a device nor a directory. (A pipe may be a log.)
func openFile(name string) (io.ReadCloser, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil {
		what := ""
		switch {
		case info.IsDir():
			what = "directory"
		case info.Mode()&os.ModeCharDevice != 0:
			what = "device"
		}
		if what != "" {
			_ = f.Close() // only looked at
			return nil, fmt.Errorf("%s is a %s, not a file", name, what)
		}
	}
	return f, nil
}

func (s *Scenario) readTrips() error {
	r, name := &s.Redis, s.Redis.Latencies
	f, err := s.openFile(name)
	if err != nil {
		return fmt.Errorf("latencies: %w", err)
	}
	defer f.Close()
	r.trips = nil
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		d, err := time.ParseDuration(text)
		if seconds, plain := strconv.ParseFloat(text, 64); plain == nil {
			if err = within("seconds", seconds, 0, 60); err == nil {
				d = time.Duration(seconds * 1e9)
			}
		}
		if err != nil || d < 0 || d > time.Minute {
			return fmt.Errorf("latencies: %s:%d: %.40q is not a duration from 0 to 1m", name, n, text)
		}
		if len(r.trips) == maxTrips {
			return fmt.Errorf("latencies: %s has more than %d", name, maxTrips)
		}
		r.trips = append(r.trips, d)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("latencies: %s: %w", name, err)
	}
	return wrong(len(r.trips) == 0, "latencies: %s has none", name)
}

// Lease is the policy by its type, with no defaults filled in.
func (p *Policy) Lease() (lease.Policy, error) {
	mode, unknown := named("mode", p.Mode, lease.Auto, lease.Batches, lease.Shares, lease.PerRequest)
	fairness, neither := named("fairness", p.Fairness, lease.Proportional, lease.MaxMin)
	if err := cmp.Or(unknown, neither); err != nil {
		return lease.Policy{}, err
	}
	l := lease.Policy{
		Mode: mode, Fairness: fairness, Batch: p.Batch, MinRefresh: p.MinRefresh, MaxRefresh: p.MaxRefresh,
		MaxHold: p.MaxHold, Headroom: p.Headroom, BurstShare: p.BurstShare, Smallest: p.Smallest, Reserve: p.Reserve,
	}
	return l, l.Validate()
}

// PolicyOf is the Policy that p is.
func PolicyOf(p lease.Policy) Policy {
	p = p.Resolved()
	return Policy{
		Mode: p.Mode.String(), Fairness: p.Fairness.String(), Batch: p.Batch, MinRefresh: p.MinRefresh, MaxRefresh: p.MaxRefresh,
		MaxHold: p.MaxHold, Headroom: p.Headroom, BurstShare: p.BurstShare, Smallest: p.Smallest, Reserve: p.Reserve,
	}
}

func (s *Scenario) resolvePolicy() error {
	l, err := s.Policy.Lease()
	if err != nil {
		return err
	}
	if s.Limit.Kind.Jobs() { // of which each process has an equal part, whatever is set
		l.Fairness = lease.MaxMin
	}
	s.Policy = PolicyOf(l)
	return nil
}
