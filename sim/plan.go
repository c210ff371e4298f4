package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/sim/accesslog"
)

// plan is what a run will be: what was asked for, with everything chosen that
// was left open.
type plan struct {
	schedule *schedule
	limit    hybrid.Limit
	speedup  float64 // of the log; 1 for a synthetic load
	source   string  // what the requests are
	notes    []string
}

const (
	syntheticRate     = 1000 // tokens/s, and their burst
	syntheticDuration = 5 * time.Second
	replayDuration    = 10 * time.Second
	clientsNeeded     = "tells no clients; name the CSV column that does with -key-col"
)

// plan reads the log, if there is one, and settles what is open.
func (f *fleetFlags) plan() (*plan, error) {
	rng := rand.New(rand.NewPCG(f.seed, 1))
	to := spread(f.procs, f.skew, rng)
	if f.sticky {
		to = sticky(f.procs)
	}
	if f.trace == "" {
		return f.planSynthetic(to, rng)
	}
	return f.planReplay(to)
}

func (f *fleetFlags) planSynthetic(to route, rng *rand.Rand) (*plan, error) {
	p := &plan{limit: f.limit, speedup: 1}
	if p.limit.Rate == 0 {
		p.limit = hybrid.PerSecond(syntheticRate)
	}
	if err := f.setBurst(p); err != nil {
		return nil, err
	}
	load := poisson{rate: f.offered * p.limit.Rate * float64(f.keys), keys: f.keys, keySkew: 1, duration: f.duration}
	if load.duration == 0 {
		load.duration = syntheticDuration
	}
	var err error
	if p.schedule, err = load.schedule(f.procs, to, rng); err != nil {
		return nil, usageError{err}
	}
	p.source = fmt.Sprintf("synthetic, Poisson, %.4g x the limit, for %v", f.offered, load.duration)
	return p, nil
}

func (f *fleetFlags) planReplay(to route) (*plan, error) {
	if f.columns.KeyCol != "" && !f.perClient && !f.sticky {
		return nil, usageError{fmt.Errorf("-key-col %s: clients count with -key client or -sticky only", f.columns.KeyCol)}
	}
	options := f.columns
	options.Seed = f.seed
	log, err := accesslog.ReadFile(f.trace, options)
	if err != nil {
		return nil, fmt.Errorf("-trace: %w", err)
	}
	clients := countClients(log)
	for name, used := range map[string]bool{"sticky": f.sticky, "key client": f.perClient} {
		if used && clients == 1 && log.Requests[0].Key == "" {
			return nil, usageError{fmt.Errorf("-%s: %s %s", name, f.trace, clientsNeeded)}
		}
	}
	span := log.Requests[len(log.Requests)-1].At.Sub(log.Requests[0].At)
	p := &plan{limit: f.limit, speedup: f.speedup}
	p.source = fmt.Sprintf("%s, %s requests in %v", f.trace, thousands(len(log.Requests)), span.Round(time.Second))
	if clients > 1 {
		p.source += fmt.Sprintf(" by %s clients", thousands(clients))
	}
	p.note("%s", logNote(log))
	for _, bad := range log.BadSamples {
		p.note("  %v", bad)
	}
	play := replay{log: log, speedup: f.speedup, end: f.duration, perClient: f.perClient}
	if f.speedup == 0 {
		play.end = 0
		play.speedup = autoSpeedup(span, f.duration)
		p.speedup = play.speedup
		p.note("chosen: -speedup %s", strconv.FormatFloat(p.speedup, 'f', -1, 64))
	}
	if p.schedule, err = play.schedule(f.procs, to); err != nil {
		return nil, fmt.Errorf("-trace %s: %w", f.trace, err)
	}
	chosen := p.limit.Rate == 0
	if chosen {
		p.limit = halfRate(p.schedule)
	}
	if err := f.setBurst(p); err != nil {
		return nil, err
	}
	if chosen {
		p.note("chosen: -limit %s -burst %d, half the mean rate of a key", formatRate(p.limit.Rate), p.limit.Burst)
	}
	if p.speedup != 1 {
		p.note("In the log's own time the limit is %s.", formatRate(p.limit.Rate/p.speedup))
	}
	return p, nil
}

func (p *plan) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// setBurst applies -burst and checks the limit as a whole.
func (f *fleetFlags) setBurst(p *plan) error {
	if f.burst != 0 {
		p.limit.Burst = f.burst
	}
	if err := p.limit.Validate(); err != nil {
		return usageError{fmt.Errorf("-limit %s -burst %d: %w", formatRate(p.limit.Rate), p.limit.Burst, err)}
	}
	return nil
}

// autoSpeedup makes a log of this span last for a duration, 0 for the default,
// but plays no log slower than it was.
func autoSpeedup(span, duration time.Duration) float64 {
	if duration == 0 {
		duration = replayDuration
	}
	return max(1, round(span.Seconds()/duration.Seconds(), 3))
}

// halfRate is a limit that is worth measuring: half of what a key is asked for
// in the mean, with a burst of one second that the largest request fits into.
func halfRate(s *schedule) hybrid.Limit {
	seconds := max(s.last().Seconds(), 1)
	rate := round(s.tokens()/seconds/float64(len(s.keys))/2, 3)
	burst := max(int64(math.Ceil(rate)), int64(s.largest()))
	return hybrid.Limit{Rate: rate, Burst: burst}
}

func countClients(log *accesslog.Log) int {
	seen := map[string]bool{}
	for _, q := range log.Requests {
		seen[q.Key] = true
	}
	return len(seen)
}

// logNote says what had to be done to a log to replay it.
func logNote(log *accesslog.Log) string {
	parts := []string{fmt.Sprintf("%s bad lines of %s", thousands(log.Bad), thousands(log.Lines))}
	if log.Inversions > 0 {
		parts = append(parts, fmt.Sprintf("%s out of order, sorted", thousands(log.Inversions)))
	}
	if log.Spread {
		parts = append(parts, "times are whole seconds, spread within them")
	}
	return "log: " + strings.Join(parts, "; ")
}

// thousands writes 1234567 as 1,234,567.
func thousands[T ~int | ~int64 | ~uint64](n T) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
