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
func within(field string, value, low, high float64) error {
	if value >= low && value <= high {
		return nil
	}
	return bad(field, value, fmt.Sprintf("from %v to %v", low, high))
}

// Resolve fills in defaults and reads the file of latencies. It returns an
// error that names the field and its value where something is wrong.
func (s *Scenario) Resolve() error {
	for _, step := range []struct {
		field   string
		resolve func() error
	}{
		{"load.trace", s.resolveTrace}, {"", s.resolve}, {"load", s.resolveLoad}, {"balance", s.resolveBalance},
		{"redis", s.resolveRedis}, {"policy", func() error { return s.Policy.resolve() }},
	} {
		if err := step.resolve(); err != nil {
			return s.wrap(step.field, err)
		}
	}
	for i := range s.Faults {
		if err := s.Faults[i].resolve(); err != nil {
			return s.wrap(fmt.Sprintf("faults[%d]", i), err)
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

func (s *Scenario) resolve() error {
	setDefault(&s.Processes, 10)
	setDefault(&s.Limit, Rate{1000, 1000})
	setDefault(&s.Burst, s.Limit.number)
	setDefault(&s.Keys, 1)
	setDefault(&s.Duration, 30*time.Second)
	setDefault(&s.Outage, local.Share.String())
	if err := s.LimitOf().Validate(); err != nil {
		return err
	}
	switch {
	case s.Processes < 1 || s.Processes > maxProcesses:
		return bad("processes", s.Processes, "from 1 to 10000")
	case s.Keys < 1 || s.Keys > 1_000_000:
		return bad("keys", s.Keys, "from 1 to 1000000")
	case s.Duration < time.Millisecond || s.Duration > 1000*time.Hour:
		return bad("duration", s.Duration, "from 1ms to 1000h")
	case s.Warmup < 0 || s.Warmup >= s.Duration:
		return bad("warmup", s.Warmup, fmt.Sprintf("from 0 to less than the duration %v", s.Duration))
	}
	if _, err := s.OutagePolicy(); err != nil {
		return err
	}
	return within("key_skew", s.KeySkew, 0, 100)
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
	for _, c := range append([]int64{max(l.Cost, 1)}, l.Costs...) {
		if c < 1 || c > lease.MaxBurst || l.Cost < 0 {
			return bad("cost", min(c, l.Cost), "from 1 to 2^32")
		}
	}
	return l.resolveShape()
}

func (l *Load) resolveShape() error {
	if d := l.Diurnal; d != nil {
		if d.Period < 10*time.Millisecond {
			return bad("diurnal.period", d.Period, "10ms or above")
		}
		if err := within("diurnal.low", d.Low, 0, 1); err != nil {
			return err
		}
	}
	for _, f := range l.Flash {
		if f.At < 0 || f.For <= 0 {
			return fmt.Errorf("flash at %v for %v: want times above 0", f.At, f.For)
		}
		if err := within("flash.times", f.Times, 0, 1e6); err != nil {
			return err
		}
	}
	if c := l.Clients; c != nil {
		switch {
		case c.Count < 1 || c.Count > 1_000_000:
			return bad("clients.count", c.Count, "from 1 to 1000000")
		case c.Think < time.Microsecond:
			return bad("clients.think", c.Think, "1µs or above")
		case l.Diurnal != nil || l.Flash != nil:
			return fmt.Errorf("clients think: diurnal and flash are for an open load")
		}
	}
	return l.resolveRetry()
}

func (l *Load) resolveRetry() error {
	if r := l.Retry; r != nil {
		if r.Times < 1 || r.Times > 100 {
			return bad("retry.times", r.Times, "from 1 to 100")
		}
		if r.After < 0 {
			return bad("retry.after", r.After, "0 or above")
		}
	}
	return nil
}

// traceOnly returns an error if anything is set that a log decides.
func (l *Load) traceOnly() error {
	if l.Offered != 0 || !l.Rate.IsZero() || l.Arrivals != "" || l.CV != 0 || l.Cost != 0 ||
		len(l.Costs) > 0 || l.Diurnal != nil || l.Flash != nil || l.Clients != nil {
		return fmt.Errorf("a trace says when requests come and what they cost: only retry goes with it")
	}
	return l.resolveRetry()
}

func (s *Scenario) resolveBalance() error {
	b := &s.Balance
	setDefault(&b.By, "random")
	if b.By == "sticky" {
		setDefault(&b.Clients, 1000)
	}
	if b.By == "least-outstanding" {
		setDefault(&b.Service, 5*time.Millisecond)
	}
	weighted := b.By == "random" || b.By == "own"
	switch {
	case !slices.Contains([]string{"random", "round-robin", "least-outstanding", "sticky", "own"}, b.By):
		return bad("by", b.By, "random, round-robin, least-outstanding, sticky or own")
	case !weighted && (b.Weights != nil || b.Skew != 0 || b.Moves != 0):
		return fmt.Errorf("weights, skew and moves are for random and own, not for %s", b.By)
	case b.Weights != nil && b.Skew != 0:
		return fmt.Errorf("weights and skew: one of them")
	case b.Weights != nil && len(b.Weights) != s.Processes && s.Load.Trace == nil:
		return fmt.Errorf("weights: %d for %d processes", len(b.Weights), s.Processes)
	case b.Moves < 0:
		return bad("moves", b.Moves, "0 or above")
	case b.OnOff != nil && b.By != "own":
		return fmt.Errorf("on_off is for own, not for %s", b.By)
	case b.OnOff != nil && (b.OnOff.On <= 0 || b.OnOff.Period < b.OnOff.On):
		return fmt.Errorf("on_off: on %v is not above 0 and at most the period %v", b.OnOff.On, b.OnOff.Period)
	case b.By == "own" && (s.Load.Clients != nil || s.Load.Trace != nil):
		return fmt.Errorf("own makes its own load: no clients, no trace")
	case b.Clients < 0 || b.Clients > 1_000_000 || b.Clients != 0 && b.By != "sticky":
		return bad("clients", b.Clients, "from 1 to 1000000, for sticky")
	case b.Service < 0 || b.Service != 0 && b.By != "least-outstanding":
		return bad("service", b.Service, "0 or above, for least-outstanding")
	}
	sum := 0.0
	for _, w := range b.Weights {
		if !(w >= 0) || math.IsInf(w, 0) {
			return bad("weights", w, "0 or above")
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
	setDefault(&r.Timeout, 250*time.Millisecond)
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
	case r.P99 != 0 && r.P99 < r.Latency:
		return bad("p99", r.P99, fmt.Sprintf("at least the latency %v", r.Latency))
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

// Trips are the round trips that were read from the file Latencies, or set.
func (r *Redis) Trips() []time.Duration { return r.trips }

// SetTrips gives the round trips to draw from, instead of all other settings.
func (r *Redis) SetTrips(trips []time.Duration) {
	r.Latency, r.P99, r.Jitter, r.Latencies, r.trips = 0, 0, 0, "", trips
}

// openFile opens a file that the scenario names.
func (s *Scenario) openFile(name string) (io.ReadCloser, error) {
	if filepath.IsAbs(name) {
		return os.Open(name)
	}
	return s.open(name)
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
			d, err = time.Duration(min(max(seconds, -1), 1e9)*1e9), nil
		}
		if err != nil || d < 0 || d > time.Minute {
			return fmt.Errorf("latencies: %s:%d: %.40q is not a duration from 0 to 1m", name, n, text)
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
		Headroom: p.Headroom, BurstShare: p.BurstShare, Smallest: p.Smallest, Reserve: p.Reserve,
	}
	return l, l.Validate()
}

// PolicyOf is the Policy that p is.
func PolicyOf(p lease.Policy) Policy {
	p = p.Resolved()
	return Policy{
		Mode: p.Mode.String(), Fairness: p.Fairness.String(), Batch: p.Batch, MinRefresh: p.MinRefresh, MaxRefresh: p.MaxRefresh,
		Headroom: p.Headroom, BurstShare: p.BurstShare, Smallest: p.Smallest, Reserve: p.Reserve,
	}
}

func (p *Policy) resolve() error {
	l, err := p.Lease()
	if err == nil {
		*p = PolicyOf(l)
	}
	return err
}
