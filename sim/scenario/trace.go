package scenario

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
)

// Replay is a log that was read, as requests from the start of the run on.
type Replay struct {
	Requests  []Arrival
	Clients   []string // by Arrival.Client
	Upstreams []string // by Arrival.Upstream; none if the log names none
	Notes     []string // what had to be done to it, for people

	columns  Trace // what it was read with
	duration time.Duration
}

// Arrival is a request of a log.
type Arrival struct {
	At               time.Duration
	Client, Upstream int32
	Cost             int64
}

// spreadSeed decides how requests are spread within a second, where a log's
// times are whole seconds. It is the same in all replications: the log is what
// happened.
const spreadSeed = 1

// Replay is the log to replay, nil if there is none.
func (s *Scenario) Replay() *Replay { return s.replay }

// resolveTrace reads the log and settles what depends on it: its speed, the
// processes, the keys, and the limit where none is given.
func (s *Scenario) resolveTrace() error {
	t := s.Load.Trace
	if t == nil {
		s.replay = nil
		return nil
	}
	if t.File == "" {
		return bad("file", `""`, "a file")
	}
	setDefault(&t.Format, accesslog.Auto.String())
	if t.Speedup != 0 {
		if err := within("speedup", t.Speedup, 1e-6, 1e12); err != nil {
			return err
		}
	}
	if s.replay == nil || s.replay.columns != *t || s.replay.duration != s.Duration {
		if err := s.openTrace(); err != nil {
			return err
		}
	}
	if len(s.replay.Upstreams) > 0 {
		s.Processes = len(s.replay.Upstreams)
	}
	s.Keys = 1
	if t.PerClient {
		s.Keys = len(s.replay.Clients)
	}
	if s.Limit.IsZero() {
		return s.halfRate()
	}
	return nil
}

func (s *Scenario) openTrace() error {
	t := s.Load.Trace
	format, err := accesslog.ParseFormat(t.Format)
	if err != nil {
		return err
	}
	f, err := s.openFile(t.File)
	if err != nil {
		return err
	}
	defer f.Close()
	log, err := accesslog.Read(f, accesslog.Options{
		Format: format, TimeCol: t.Time, KeyCol: t.Key, CostCol: t.Cost, UpstreamCol: t.Upstream, Seed: spreadSeed,
	})
	if err != nil {
		return fmt.Errorf("%s: %w", t.File, err)
	}
	r := &Replay{}
	clients, upstreams := map[string]int32{}, map[string]int32{}
	number := func(names *[]string, known map[string]int32, name string) int32 {
		n, ok := known[name]
		if !ok {
			n = int32(len(*names))
			known[name] = n
			*names = append(*names, name)
		}
		return n
	}
	first := log.Requests[0].At
	span := log.Requests[len(log.Requests)-1].At.Sub(first)
	if t.Speedup == 0 {
		times := span.Seconds() / s.Duration.Seconds()
		t.Speedup = max(1, Round(times, 3))
		if t.Speedup < times { // or the last requests come after the end
			t.Speedup = Round(times*1.01, 3)
		}
	}
	for _, q := range log.Requests {
		at := float64(q.At.Sub(first)) / t.Speedup // may be more than a Duration holds
		if at > float64(s.Duration) {
			break
		}
		a := Arrival{At: time.Duration(at), Client: number(&r.Clients, clients, q.Key), Cost: int64(q.Cost), Upstream: -1}
		if q.Upstream != "" {
			a.Upstream = number(&r.Upstreams, upstreams, q.Upstream)
		}
		r.Requests = append(r.Requests, a)
	}
	if t.PerClient && len(r.Clients) == 1 && r.Clients[0] == "" {
		return fmt.Errorf("per_client: the log tells no clients; name the column that does with key")
	}
	if len(r.Upstreams) > maxProcesses {
		return fmt.Errorf("the log names %d upstreams; at most %d processes", len(r.Upstreams), maxProcesses)
	}
	r.note("%d requests in %v, played %s times as fast; %d bad lines of %d", len(log.Requests), span.Round(time.Second),
		strconv.FormatFloat(t.Speedup, 'f', -1, 64), log.Bad, log.Lines)
	for _, sample := range log.BadSamples {
		r.note("  %v", sample)
	}
	if log.Inversions > 0 {
		r.note("%d requests were out of order and are sorted", log.Inversions)
	}
	if log.Spread {
		r.note("times are whole seconds: requests are spread within them at random, by a fixed seed")
	}
	if n := len(log.Requests) - len(r.Requests); n > 0 {
		r.note("%d requests come after the end of the run and are left out", n)
	}
	r.columns, r.duration = *t, s.Duration
	s.replay = r
	return nil
}

func (r *Replay) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// halfRate sets a limit that is worth looking at: half of what a key is asked
// for in the mean, with a burst of one second that the largest request fits into.
func (s *Scenario) halfRate() error {
	tokens, largest := 0.0, int64(1)
	for _, a := range s.replay.Requests {
		tokens += float64(a.Cost)
		largest = max(largest, a.Cost)
	}
	seconds := max(s.replay.Requests[len(s.replay.Requests)-1].At.Seconds(), 1)
	rate := Round(tokens/seconds/float64(s.Keys)/2, 3)
	s.Limit = Rate{PerSecond: rate}
	setDefault(&s.Burst, max(int64(math.Ceil(rate)), largest))
	s.replay.note("chosen: limit %s, burst %d: half of what a key is asked for in the mean", FormatRate(rate), s.Burst)
	return nil
}
