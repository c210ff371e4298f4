package scenario

import (
	"bufio"
	"fmt"
	"io"
	"math"
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

func indexOf(words, word string) int { return strings.Index(" "+words, " "+word) }

func bad(field string, value any, want string) error {
	return fmt.Errorf("%s %v is not %s", field, value, want)
}

// within returns an error unless low <= value <= high; NaN is not.
func within[T float64 | time.Duration](field string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return bad(field, value, fmt.Sprintf("from %v to %v", low, high))
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
	if err := within("duration", s.Duration, time.Millisecond, longest); err != nil {
		return err
	}
	if s.Warmup < 0 || s.Warmup >= s.Duration {
		return bad("warmup", s.Warmup, fmt.Sprintf("from 0 to less than the duration %v", s.Duration))
	}
	return nil
}

func (s *Scenario) resolve() error {
	setDefault(&s.Processes, 10)
	setDefault(&s.Outage, local.Share.String())
	if err := s.resolveKeys(); err != nil {
		return err
	}
	if s.Processes < 1 || s.Processes > maxProcesses {
		return bad("processes", s.Processes, "from 1 to 10000")
	}
	if err := within("eager", float64(s.Eager), 0, float64(lease.MaxBurst)); err != nil {
		return err
	}
	_, err := s.OutagePolicy()
	return err
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
	return values[0], bad(field, name, strings.Join(names, ", "))
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
	if err := l.check(); err != nil {
		return err
	}
	if err := l.resolveShape(); err != nil {
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
	switch {
	case sources > 1:
		return fmt.Errorf("offered, rate and clients: one of them")
	case l.Offered < 0 || l.Offered > 1e6 || math.IsNaN(l.Offered):
		return bad("offered", l.Offered, "above 0 and at most 1e6")
	case !slices.Contains([]string{"poisson", "even", "gamma"}, l.Arrivals):
		return bad("arrivals", l.Arrivals, "poisson, even, gamma")
	case l.CV != 0 && l.Arrivals != "gamma":
		return fmt.Errorf("cv is for gamma arrivals, not for %s", l.Arrivals)
	case l.Arrivals == "gamma" && !(l.CV >= 0.1 && l.CV <= 20):
		return bad("cv", l.CV, "from 0.1 to 20")
	case l.Cost != 0 && len(l.Costs) > 0:
		return fmt.Errorf("cost and costs: one of them")
	}
	costs := l.Costs
	if len(costs) == 0 {
		costs = []int64{l.Cost}
	}
	for _, c := range costs {
		if c < 1 || c > lease.MaxBurst {
			return bad("cost", c, "from 1 to 2^32")
		}
	}
	return nil
}

// periods returns an error if the run has too many of what comes and goes.
func (s *Scenario) periods(field string, length, most time.Duration) error {
	if n := s.Duration / length; n > most {
		return fmt.Errorf("%s %v passes %d times in %v; at most %d", field, length, n, s.Duration, most)
	}
	return nil
}

func (l *Load) resolveShape() error {
	if d := l.Diurnal; d != nil {
		if err := within("diurnal.period", d.Period, 10*time.Millisecond, longest); err != nil {
			return err
		}
		if err := within("diurnal.low", d.Low, 0, 1); err != nil {
			return err
		}
	}
	if len(l.Flash) > maxFlashes {
		return fmt.Errorf("flash: %d of them; at most %d", len(l.Flash), maxFlashes)
	}
	for _, f := range l.Flash {
		if f.At < 0 || f.For <= 0 || f.At > longest || f.For > longest {
			return fmt.Errorf("flash at %v for %v: want times from 0 and above 0 to 1000h", f.At, f.For)
		}
		if err := within("flash.times", f.Times, 0, 1e6); err != nil {
			return err
		}
	}
	if c := l.Clients; c != nil {
		switch {
		case c.Count < 1 || c.Count > 1_000_000:
			return bad("clients.count", c.Count, "from 1 to 1000000")
		case c.Think < time.Microsecond || c.Think > longest:
			return bad("clients.think", c.Think, "from 1µs to 1000h")
		case l.Diurnal != nil || l.Flash != nil:
			return fmt.Errorf("clients think: diurnal and flash are for an open load")
		}
	}
	return l.resolveRetry()
}

func (l *Load) resolveRetry() error {
	if l.Patience < 0 || l.Patience > longest {
		return bad("patience", l.Patience, "from 0 to 1000h")
	}
	if r := l.Retry; r != nil {
		if r.Times < 1 || r.Times > 100 {
			return bad("retry.times", r.Times, "from 1 to 100")
		}
		if r.After < 0 || r.After > longest {
			return bad("retry.after", r.After, "from 0 to 1000h")
		}
	}
	return nil
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
	switch n := mean * s.Duration.Seconds(); {
	case peak > maxRate:
		return fmt.Errorf("%.4g requests/s are more than %.4g", peak, maxRate)
	case n > maxRequests:
		return fmt.Errorf("%.4g requests/s for %v are %.4g requests; at most %.4g", mean, s.Duration, n, maxRequests)
	}
	return nil
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
	if l.Offered != 0 || !l.Rate.IsZero() || l.Arrivals != "" || l.CV != 0 || l.Cost != 0 ||
		len(l.Costs) > 0 || l.Diurnal != nil || l.Flash != nil || l.Clients != nil {
		return fmt.Errorf("a trace says when requests come and what they cost: " +
			"only patience, hold and retry go with it")
	}
	return l.resolveRetry()
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
	switch {
	case !slices.Contains([]string{"random", "round-robin", "least-outstanding", "sticky", "own"}, b.By):
		return bad("by", b.By, "random, round-robin, least-outstanding, sticky or own")
	case !weighted && (b.Weights != nil || b.Skew != 0 || b.Moves != 0):
		return fmt.Errorf("weights, skew and moves are for random and own, not for %s", b.By)
	case b.Weights != nil && b.Skew != 0:
		return fmt.Errorf("weights and skew: one of them")
	case b.Weights != nil && len(b.Weights) != s.Processes && !logged:
		return fmt.Errorf("weights: %d for %d processes", len(b.Weights), s.Processes)
	case b.Moves != 0 && (b.Moves < time.Millisecond || b.Moves > longest):
		return bad("moves", b.Moves, "from 1ms to 1000h")
	case b.OnOff != nil && b.By != "own":
		return fmt.Errorf("on_off is for own, not for %s", b.By)
	case b.By == "own" && (s.Load.Clients != nil || s.Load.Trace != nil):
		return fmt.Errorf("own makes its own load: no clients, no trace")
	case b.Clients < 0 || b.Clients > 1_000_000 || b.Clients != 0 && b.By != "sticky":
		return bad("clients", b.Clients, "from 1 to 1000000, for sticky")
	case b.Service != 0 && s.Load.Hold != nil:
		return fmt.Errorf("service %v does not go with limit %s: jobs have their load.hold",
			b.Service, s.Limit)
	case b.Service < 0 || b.Service > longest || b.Service != 0 && b.By != "least-outstanding":
		return bad("service", b.Service, "from 0 to 1000h, for least-outstanding")
	}
	if b.Moves > 0 {
		if err := s.periods("moves", b.Moves, maxPeriods); err != nil {
			return err
		}
	}
	if b.OnOff != nil {
		if err := b.OnOff.check(s); err != nil {
			return err
		}
	}
	return b.checkWeights()
}

// check returns an error unless what comes and goes does so in times that s can have.
func (o *OnOff) check(s *Scenario) error {
	if o.On < time.Millisecond || o.Period < o.On || o.Period > longest {
		return fmt.Errorf("on_off: on %v of the period %v are not from 1ms to 1000h, "+
			"the period being the longer one", o.On, o.Period)
	}
	return s.periods("on_off.period", o.Period, maxPeriods)
}

// checkWeights returns an error unless processes and clients have weights of which not all are 0.
func (b *Balance) checkWeights() error {
	sum := 0.0
	for _, w := range b.Weights {
		if err := within("weights", w, 0, maxWeight); err != nil {
			return err
		}
		sum += w
	}
	if b.Weights != nil && sum == 0 {
		return fmt.Errorf("weights are all 0")
	}
	if err := within("client_skew", b.ClientSkew, 0, 100); err != nil {
		return err
	}
	return within("skew", b.Skew, 0, 100)
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
	switch {
	case r.Latency < 0 || r.Latency > time.Minute:
		return bad("latency", r.Latency, "from 0 to 1m")
	case r.P99 != 0 && (r.P99 < r.Latency || r.P99 > time.Hour):
		return bad("p99", r.P99, fmt.Sprintf("from the latency %v to 1h", r.Latency))
	case r.P99 != 0 && r.Jitter != 0:
		return fmt.Errorf("p99 and jitter: one of them")
	case r.Timeout < time.Millisecond || r.Timeout > time.Minute:
		return bad("timeout", r.Timeout, "from 1ms to 1m")
	}
	for _, part := range []struct {
		field string
		value float64
	}{{"jitter", r.Jitter}, {"lost", r.Lost}, {"repeated", r.Repeated}} {
		if err := within(part.field, part.value, 0, 1); err != nil {
			return err
		}
	}
	return nil
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
	if len(r.trips) == 0 {
		return fmt.Errorf("latencies: %s has none", name)
	}
	return nil
}

// Lease is the policy by its type, with no defaults filled in.
func (p *Policy) Lease() (lease.Policy, error) {
	mode, err := named("mode", p.Mode, lease.Auto, lease.Batches, lease.Shares, lease.PerRequest)
	if err != nil {
		return lease.Policy{}, err
	}
	fairness, err := named("fairness", p.Fairness, lease.Proportional, lease.MaxMin)
	if err != nil {
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
