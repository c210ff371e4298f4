package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
)

// Replay is the part of a log that is played, and what there is in it.
type Replay struct {
	Requests  int64
	Clients   int      // 0 to below Clients are in it
	Upstreams int      // as well; 0 if the log names none
	Notes     []string // what was found and done, for people
	Warnings  []string // those of them that may make figures wrong

	log     *accesslog.Log
	speedup float64
	end     time.Duration // of the run
	tokens  float64
	largest int64         // of a request, in tokens
	last    time.Duration // request
}

// An Arrival is a request of a log.
type Arrival = accesslog.Request

// shortestLog is the time that a log counts for at least, where a limit is chosen.
const shortestLog = 10 * time.Millisecond

const leastSpeedup, mostSpeedup = 1e-6, 1e12

// spreadSeed decides how requests are spread within a second, where a log's
// times are whole seconds, and over the time that a count stands for. It is the
// same in all replications: the log is what happened.
const spreadSeed = 1

// A logFile is a log that was read. Clones of a scenario share it: what is tried
// with a log reads it once.
type logFile struct {
	mu  sync.Mutex
	log *accesslog.Log
	as  asked // it was read

	read, size atomic.Int64 // bytes
}

// LogRead is how many bytes of the log have been read, and how many there are: 0 where that
// is not known, as of a pipe. It may be called while Resolve reads.
func (s *Scenario) LogRead() (read, size int64) {
	if s.file == nil {
		return 0, 0
	}
	return s.file.read.Load(), s.file.size.Load()
}

// counting counts what is read of a log.
type counting struct {
	io.Reader
	read *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// asked is what decides what is read of a log.
type asked struct {
	file string
	accesslog.Options
}

// Replay is the log to replay, nil if there is none.
func (s *Scenario) Replay() *Replay { return s.replay }

// Arrivals returns what goes through the requests, from the first. Several may
// be used at the same time.
func (r *Replay) Arrivals() *Arrivals { return &Arrivals{r.log.Requests(), r} }

// Arrivals are the requests of a log in order, in the time of the run.
type Arrivals struct {
	*accesslog.Cursor
	replay *Replay
}

// Next sets a to the next request; it returns false when there are no more
// until the end of the run, or after an error.
func (a *Arrivals) Next(q *Arrival) bool {
	if !a.Cursor.Next(q) {
		return false
	}
	if a.replay.speedup != 1 {
		q.At = time.Duration(min(float64(q.At)/a.replay.speedup, math.MaxInt64/2))
	}
	return q.At <= a.replay.end
}

// Start is when the first request came, by UTC.
func (r *Replay) Start() time.Time { return r.log.Start }

// openTrace reads the log, if it was not read before, and sets the duration where
// none is given: the log's own time at its speed, and as long as the last request
// may wait for a verdict, in whole seconds.
func (s *Scenario) openTrace() error {
	t := s.Load.Trace
	s.replay = nil
	if t == nil {
		return nil
	}
	if t.File == "" {
		return errors.New("no log is named (load.trace.file, -trace)")
	}
	setDefault(&t.Format, accesslog.Auto.String())
	setDefault(&t.Speedup, 1)
	if err := within("speedup", t.Speedup, leastSpeedup, mostSpeedup); err != nil {
		return err
	}
	log, err := s.readLog()
	if err != nil {
		return err
	}
	if s.Duration == 0 {
		wait := max(cmp.Or(s.Redis.Timeout, defaultTimeout), s.Load.Patience)
		seconds := math.Ceil(log.Span.Seconds()/t.Speedup + wait.Seconds())
		if seconds > longest.Seconds() {
			return fmt.Errorf("the log takes %.0fh at speedup %v; at most %.0fh are played: give a "+
				"duration, or a speedup", seconds/3600, t.Speedup, longest.Hours())
		}
		s.Duration = time.Duration(seconds) * time.Second
	}
	s.replay = &Replay{log: log, speedup: t.Speedup}
	return nil
}

func (s *Scenario) readLog() (*accesslog.Log, error) {
	t := s.Load.Trace
	format, err := accesslog.ParseFormat(t.Format)
	if err != nil {
		return nil, err
	}
	c := asked{t.File, accesslog.Options{
		Format: format, TimeCol: t.Time, TimeUnit: t.Unit, TimeLayout: t.Layout, KeyCol: t.Key, CostCol: t.Cost,
		CountCol: t.Count, UpstreamCol: t.Upstream, Seed: spreadSeed,
	}}
	if t.Count != "" {
		c.Until = time.Duration(min(float64(s.Duration)*t.Speedup, math.MaxInt64/2))
	}
	if s.file == nil { // not from Parse
		s.file = &logFile{}
	}
	s.file.mu.Lock()
	defer s.file.mu.Unlock()
	if s.file.log != nil && s.file.as == c {
		return s.file.log, nil
	}
	f, err := s.openFile(t.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s.file.read.Store(0)
	s.file.size.Store(sizeOf(f))
	log, err := accesslog.Read(counting{f, &s.file.read}, c.Options)
	if err == nil {
		err = mostlyGood(log)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.File, err)
	}
	s.file.log, s.file.as = log, c
	return log, nil
}

// sizeOf is the size of a file, 0 of what has none.
func sizeOf(f io.Reader) int64 {
	if f, ok := f.(fs.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return 0
}

// mostlyGood returns an error for a log of which more than half cannot be read:
// the rest is not what happened.
func mostlyGood(l *accesslog.Log) error {
	if 2*l.Bad <= l.Lines {
		return nil
	}
	text := fmt.Sprintf("%d of %d lines cannot be read, as %s: %s. The first of them:", l.Bad, l.Lines,
		l.Format, l.Format.About())
	for _, b := range l.BadSamples {
		text += fmt.Sprintf("\n  line %d: %v: %s", b.Number, b.Err, b.Text)
	}
	return fmt.Errorf("%s", text)
}

// resolveTrace settles what depends on the log: the processes, the keys, and the
// limit where none is given.
func (s *Scenario) resolveTrace() error {
	r, t := s.replay, s.Load.Trace
	if r == nil {
		return nil
	}
	r.end = s.Duration
	early, err := r.survey(s.Warmup)
	if err != nil {
		return fmt.Errorf("%s: %w", t.File, err)
	}
	if r.Upstreams > maxProcesses {
		return fmt.Errorf("the log names %d upstreams; at most %d processes", r.Upstreams, maxProcesses)
	}
	processes, keys := s.Processes, s.Keys.Number
	if r.Upstreams > 0 {
		s.Processes = r.Upstreams
	}
	s.Keys.Number = 1
	if t.PerClient {
		switch {
		case r.Clients == 1 && r.log.Keys[0] == "":
			return fmt.Errorf("per_client: the log tells no clients; name the column that does "+
				"(load.trace.key, -key-col): %s", cmp.Or(strings.Join(r.log.Columns, ", "), "this format has none"))
		case r.log.Crowded:
			return fmt.Errorf("per_client: the log has more than %d clients", len(r.log.Keys))
		}
		s.Keys.Number = r.Clients
	}
	r.tell(early, s.Warmup)
	if processes != 0 && processes != s.Processes {
		r.warn("processes %d does not count: the log names %s, which are the processes", processes,
			counted(r.Upstreams, "upstream"))
	}
	if b := &s.Balance; r.Upstreams > 0 && (b.Weights != nil || b.Skew != 0) {
		r.warn("neither weights nor skew count: the log names the upstream of each request")
	}
	if keys > 1 && keys != s.Keys.Number {
		r.warn("keys %d does not count: the log's requests have one key, or with per_client (-per-client) "+
			"as many as clients", keys)
	}
	if s.Limit.IsZero() {
		return s.halfRate()
	}
	return nil
}

// survey counts what is played, and what of it comes in the warm-up.
func (r *Replay) survey(warmup time.Duration) (early int64, err error) {
	all := r.Arrivals()
	for q := (Arrival{}); all.Next(&q); {
		r.Requests++
		r.tokens += float64(q.Cost)
		r.largest = max(r.largest, q.Cost)
		r.Clients, r.Upstreams = max(r.Clients, int(q.Key)+1), max(r.Upstreams, int(q.Upstream)+1)
		r.last = q.At
		if q.At < warmup {
			early++
		}
	}
	return early, all.Err()
}

// tell notes for people what the log is and what was done to it.
func (r *Replay) tell(early int64, warmup time.Duration) {
	l := r.log
	from := " from " + l.Start.Format("2006-01-02 15:04:05 MST")
	if l.Relative {
		from = ""
	}
	mean := ""
	if l.Span > 0 {
		mean = ", " + FormatRate(Round(float64(l.Len())/l.Span.Seconds(), 3)) + " in the mean"
	}
	r.note("%s in %s%s%s; %d bad lines of %d", counted(l.Len(), "request"),
		wholeSeconds(l.Span), from, mean, l.Bad, l.Lines)
	if l.Bad > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s of %d could not be read", counted(l.Bad, "line"),
			l.Lines))
	}
	for _, b := range l.BadSamples {
		r.note("  %s", strings.TrimPrefix(b.Error(), "accesslog: "))
	}
	r.tellTimes()
	if r.Clients == 1 && l.Keys[0] == "" && l.Columns != nil {
		r.note("no client is known; if a column is it, say so (load.trace.key, -key-col): %s",
			strings.Join(l.Columns, ", "))
	}
	if n := int64(l.Len()) - r.Requests + l.Beyond; n > 0 {
		r.warn("left out: %s after the duration of %v", counted(n, "request"), r.end)
	}
	if early > 0 {
		r.note("not measured: %s in the warm-up of %v", counted(early, "request"), warmup)
	}
}

// tellTimes notes how the lines were counted, and in which times they are played.
func (r *Replay) tellTimes() {
	l := r.log
	if l.TimeCol != "" {
		r.note("times are in %s, found by its values", l.TimeCol)
	}
	if l.Times != "" {
		r.note("%s", l.Times)
	}
	if l.Ragged > 0 {
		r.warn("%s with another number of columns than the header: counted from the left",
			counted(l.Ragged, "line"))
	}
	if l.Headless {
		r.warn("no header: columns are called 1 to %d", len(l.Columns))
	}
	if l.Cost != "" {
		r.note("a request takes %s: %.4g tokens in the mean, %d at most; found by name and numbers, "+
			"-cost-col %s is a token each", l.Cost, r.tokens/float64(max(r.Requests, 1)), r.largest, accesslog.NoCost)
	}
	if l.Costless > 0 {
		r.warn("a token each for %s without a number in %s; the first is line %d: %v",
			counted(l.Costless, "line"), l.Cost, l.CostlessLine.Number, l.CostlessLine.Err)
	}
	if l.Uncosted != "" {
		r.warn("each request takes one token; if %q is how many, say so (load.trace.cost, -cost-col)", l.Uncosted)
	}
	if l.Uncounted != "" {
		r.warn("each line counts as one request; if %q is how many it stands for, say so "+
			"(load.trace.count, -count-col)", l.Uncounted)
	}
	if l.Inversions > 0 {
		r.note("%s out of order: sorted", counted(l.Inversions, "line"))
	}
	if l.Spread > 0 {
		unit := map[time.Duration]string{time.Second: "seconds", time.Minute: "minutes"}[l.Spread]
		r.note("times are whole %s: requests are spread within them at random, by a fixed seed", unit)
	}
	if l.Step > 0 {
		r.note("a line counts the requests of %v: they are spread over it at random, by a fixed seed",
			l.Step)
	}
	if r.speedup == 1 {
		r.note("played in its own time")
	} else {
		times := strconv.FormatFloat(r.speedup, 'f', -1, 64)
		r.note("played %s times as fast: only the requests are; limit, round trips and the policy's "+
			"times stay, as if traffic were %[1]s times as heavy", times)
	}
}

// wholeSeconds writes a time without the parts of a second, if it has any whole.
func wholeSeconds(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	return d.String()
}

// counted writes 1 line, 2 lines.
func counted[T int | int64](n T, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (r *Replay) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// warn notes what may make figures wrong.
func (r *Replay) warn(format string, args ...any) {
	r.note(format, args...)
	r.Warnings = append(r.Warnings, r.Notes[len(r.Notes)-1])
}

// halfRate sets a limit that is worth looking at: half of what a key is asked
// for in the mean, as if it had been written as it is printed.
func (s *Scenario) halfRate() error {
	r := s.replay
	text := FormatRate(r.tokens / max(r.last, shortestLog).Seconds() / float64(s.Keys.Number) / 2)
	if err := s.Limit.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("a limit of half the log's rate: %w", err)
	}
	r.note("chosen: limit %s, half of what a key is asked for in the mean", text)
	return nil
}
