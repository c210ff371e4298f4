// Package scenario says what the simulator simulates: a fleet, its limit, its
// load, its Redis and what goes wrong, as a YAML file.
//
// Reading is strict: an unknown field, a value out of its range or two settings
// that do not go together are errors with the line or the field.
package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// A Scenario is one thing to simulate. A zero field means its documented
// default, which Resolve fills in.
type Scenario struct {
	Name  string `yaml:"name"`
	About string `yaml:"about,omitempty"` // one sentence for people

	// Processes is the number of processes at the start, 1 to 10,000. With a
	// log that names them, as many as it names. Default: 10.
	Processes int `yaml:"processes,omitempty"`

	// Limit is what each key may use, NUMBER/TIME: 1000/s, 10/m, 100/500ms.
	// Burst is what its bucket holds, in tokens. Defaults: 1000/s, and
	// the NUMBER, rounded up, or ten requests for each process if that is more.
	// A quota such as 10000/day, 100/minute or quota 100/90s has no Burst beside
	// it. A run begins at 0:00 of a Thursday, the 1st of January 1970, by UTC; an
	// offset such as UTC+00:10 moves the windows. A sliding window such as 100 in any minute, or
	// 100 in any 90s, has no Burst either, nor do slots, such as 100 slots.
	Limit Limit `yaml:"limit,omitempty"`
	Burst int64 `yaml:"burst,omitempty"`

	// Keys is the number of limited things, 1 to 1,000,000, as popular as
	// Zipf's law with exponent KeySkew >= 0 has them. Defaults: 1, and 0: all
	// alike. With a log, see Trace.
	//
	// Or Keys is a list, and each request has a key of each of its kinds and
	// takes its tokens of all of them, or none: see EachKey. Limit, Burst and
	// KeySkew are not for that.
	Keys    Keys    `yaml:"keys,omitempty"`
	KeySkew float64 `yaml:"key_skew,omitempty"`

	// Duration is the simulated time, and Warmup the part at its beginning that
	// is not measured (but for the worst excess, which always is). Defaults:
	// 30s, or with a log, until the last verdict on it; and 0.
	Duration time.Duration `yaml:"duration,omitempty"`
	Warmup   time.Duration `yaml:"warmup,omitempty"`

	// Classes of requests, the highest first, as hybrid.Config has them: up to 8, of one token
	// bucket. Default: none.
	Classes []Class `yaml:"classes,omitempty"`

	Load    Load    `yaml:"load,omitempty"`
	Balance Balance `yaml:"balance,omitempty"`
	Redis   Redis   `yaml:"redis,omitempty"`
	Faults  []Fault `yaml:"faults,omitempty"`
	Policy  Policy  `yaml:"policy,omitempty"`

	// Outage decides while Redis does not answer: share, deny or allow.
	// Default: share.
	Outage string `yaml:"outage,omitempty"`

	// Eager is how many tokens of a key that it does not hold a process admits before Redis has
	// answered, 0 to 2^32, as hybrid.Config has it. Requests for several keys and jobs ask all
	// the same. Default: 0.
	Eager int64 `yaml:"eager,omitempty"`

	begins    time.Duration     // see BeginAt
	weights   []float64         // see WeighKeys
	inherited string            // see Inherit
	chosen    map[string]string // see Limited.Chosen, by its name
	open      Opener
	file      *logFile
	replay    *Replay
}

// Load is who asks for how much.
type Load struct {
	// Offered is the mean load as a multiple of the limits of all keys
	// together, of the narrowest where there are several. Rate is the same in
	// requests/s: one of them. Default: 2 offered.
	Offered float64 `yaml:"offered,omitempty"`
	Rate    Rate    `yaml:"rate,omitempty"`

	// Arrivals are the gaps between requests: poisson, even, or gamma with a
	// coefficient of variation CV (above 1: clumps). Default: poisson.
	Arrivals string  `yaml:"arrivals,omitempty"`
	CV       float64 `yaml:"cv,omitempty"`

	// Cost is what each request takes, in tokens; Costs are several of them,
	// each as likely. Default: 1.
	Cost  int64   `yaml:"cost,omitempty"`
	Costs []int64 `yaml:"costs,omitempty"`

	// Diurnal lets the load swing like a day: a sine between Low and 2-Low
	// times the mean.
	Diurnal *Diurnal `yaml:"diurnal,omitempty"`

	// Flash multiplies the load for a while.
	Flash []Flash `yaml:"flash,omitempty"`

	// Clients make the load a closed one: each thinks, asks, and thinks again
	// when it has its answer. Instead of Offered and Rate.
	Clients *Clients `yaml:"clients,omitempty"`

	// Patience is how long a caller waits for its tokens or its slot, as with a deadline in
	// Limiter.Wait or Acquire. Default: not at all, as in Take.
	Patience time.Duration `yaml:"patience,omitempty"`

	// Hold is for how long each job has its slot, for a limit of slots and no other one.
	Hold *Hold `yaml:"hold,omitempty"`

	// Retry lets denied requests come back.
	Retry *Retry `yaml:"retry,omitempty"`

	// Trace replays a log instead of all the above but Patience, Hold and Retry.
	Trace *Trace `yaml:"trace,omitempty"`
}

// Diurnal is a load that swings.
type Diurnal struct {
	Period time.Duration `yaml:"period"`
	Low    float64       `yaml:"low"` // 0 to 1
}

// Flash is a load that is several times as large for a while.
type Flash struct {
	At    time.Duration `yaml:"at"`
	For   time.Duration `yaml:"for"`
	Times float64       `yaml:"times"`
}

// Clients are a closed load.
type Clients struct {
	Count int           `yaml:"count"`
	Think time.Duration `yaml:"think"` // mean, exponential
}

// Retry is what callers do who are denied.
type Retry struct {
	Times int `yaml:"times"` // at most, 1 to 100

	// After is how long they wait. Default: what the decision's RetryAfter
	// says, and up to a tenth more.
	After time.Duration `yaml:"after,omitempty"`
}

// Trace is a log to replay; see package accesslog for the formats and columns. It
// is replayed in its own time and to its end, unless Speedup and Duration say
// otherwise.
type Trace struct {
	File   string `yaml:"file"` // relative to the scenario's
	Format string `yaml:"format,omitempty"`
	Time   string `yaml:"time,omitempty"`
	// of times that are numbers: s, ms, us, ns; found if empty
	Unit     string `yaml:"time_unit,omitempty"`
	Key      string `yaml:"key,omitempty"`
	Cost     string `yaml:"cost,omitempty"`
	Count    string `yaml:"count,omitempty"` // of requests that a line stands for
	Upstream string `yaml:"upstream,omitempty"`

	// Speedup divides the times of requests, and nothing else: limit, round
	// trips, time-outs and the policy's times stay as they are. So it means
	// that many times the traffic in the same shape, not a shorter wait for
	// the same result (ADR 66). Default: 1.
	Speedup float64 `yaml:"speedup,omitempty"`

	// PerClient gives each client a key of its own; else all share one.
	PerClient bool `yaml:"per_client,omitempty"`
}

// Balance is how requests come to processes.
type Balance struct {
	// By is random (by weight), round-robin, least-outstanding, sticky (a
	// client always goes to the same process) or own (each process has
	// clients of its own, by weight, who are away when it is). A log that
	// names the process overrides it. Default: random.
	By string `yaml:"by,omitempty"`

	// Weights of the processes, or Skew: weights by Zipf's law with this
	// exponent, 0 or above. For random and own. Default: all alike.
	Weights []float64 `yaml:"weights,omitempty"`
	Skew    float64   `yaml:"skew,omitempty"`

	// Apart gives each class busy processes of its own: the weights begin at another process for
	// each. For random and own.
	Apart bool `yaml:"apart,omitempty"`

	// Moves is how often each weight moves on to the next process.
	Moves time.Duration `yaml:"moves,omitempty"`

	// OnOff lets the clients of each process come and go, for own. The load
	// while they are there is higher, so that the mean stays.
	OnOff *OnOff `yaml:"on_off,omitempty"`

	// Clients is how many there are, as busy as Zipf's law with exponent
	// ClientSkew has them, for sticky without a log. Default: 1000, alike.
	Clients    int     `yaml:"clients,omitempty"`
	ClientSkew float64 `yaml:"client_skew,omitempty"`

	// Service is how long a process works on an admitted request, mean of an
	// exponential distribution, for least-outstanding. Default: 5ms. Jobs have their Hold.
	Service time.Duration `yaml:"service,omitempty"`
}

// OnOff is a load that comes and goes.
type OnOff struct {
	On     time.Duration `yaml:"on"`
	Period time.Duration `yaml:"period"`

	// Together lets all processes be busy at the same time; else their phases
	// are spread evenly.
	Together bool `yaml:"together,omitempty"`
}

// Redis is the way there and back.
type Redis struct {
	// Latency is the round trip: exactly so long; with P99, lognormal with this
	// median and that 99th percentile; with Jitter, 0 to 1, this mean of which
	// the part Jitter is exponential. Default: 1ms.
	Latency time.Duration `yaml:"latency,omitempty"`
	P99     time.Duration `yaml:"p99,omitempty"`
	Jitter  float64       `yaml:"jitter,omitempty"`

	// Latencies is a file of round trips to draw from, a duration a line such
	// as 1.2ms, or a number of seconds. Instead of the above.
	Latencies string `yaml:"latencies,omitempty"`

	// Timeout is when an exchange is given up, 1 ms to 1 min. Default: 250ms.
	Timeout time.Duration `yaml:"timeout,omitempty"`

	// Lost is the part of messages that never arrive, each way, and Repeated
	// the part of requests that arrive twice.
	Lost     float64 `yaml:"lost,omitempty"`
	Repeated float64 `yaml:"repeated,omitempty"`

	trips []time.Duration // of Latencies
}

// Policy is lease.Policy, by the names of its fields.
type Policy struct {
	Mode       string        `yaml:"mode,omitempty"`
	Fairness   string        `yaml:"fairness,omitempty"`
	Batch      int64         `yaml:"batch,omitempty"`
	MinRefresh time.Duration `yaml:"min_refresh,omitempty"`
	MaxRefresh time.Duration `yaml:"max_refresh,omitempty"`
	MaxHold    time.Duration `yaml:"max_hold,omitempty"`
	Headroom   float64       `yaml:"headroom,omitempty"`
	BurstShare float64       `yaml:"burst_share,omitempty"`
	Smallest   int64         `yaml:"smallest,omitempty"`
	Reserve    float64       `yaml:"reserve,omitempty"`
}

// An Opener opens a file that a scenario names.
type Opener func(name string) (io.ReadCloser, error)

// Folder opens files whose names are relative to a folder.
func Folder(dir string) Opener {
	return func(name string) (io.ReadCloser, error) { return openFile(filepath.Join(dir, name)) }
}

// Parse reads one scenario as it is written: Resolve it before its use. Files
// with relative names are opened by open.
func Parse(text []byte, open Opener) (*Scenario, error) {
	s := &Scenario{open: open, file: &logFile{}}
	if blank(text) {
		return s, nil
	}
	if err := yaml.Load(text, s, yaml.WithKnownFields()); err != nil {
		return nil, fmt.Errorf("scenario: %w", plain(err))
	}
	if err := wroteZero(text, s); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return s, nil
}

// usual are the defaults of all fields that have some.
var usual = sync.OnceValue(func() *Scenario {
	s := &Scenario{}
	if err := s.Resolve(); err != nil {
		panic(fmt.Sprintf("scenario: the defaults are not sound: %v", err))
	}
	s.Load.Trace = &Trace{Speedup: 1}
	return s
})

// wroteZero returns an error that names the field that is written, and is 0, though its default
// is another one: it would mean the default.
func wroteZero(text []byte, s *Scenario) error {
	var written map[string]any
	if err := yaml.Load(text, &written); err != nil {
		return plain(err)
	}
	return zeroIn(written, reflect.ValueOf(*s), reflect.ValueOf(*usual()), "")
}

// zeroIn looks at the fields of a struct that are written.
func zeroIn(written map[string]any, read, usual reflect.Value, above string) error {
	for i := range read.NumField() {
		name, _, _ := strings.Cut(read.Type().Field(i).Tag.Get("yaml"), ",")
		value, x, usual := written[name], reflect.Indirect(read.Field(i)), reflect.Indirect(usual.Field(i))
		if name == "" || value == nil || !usual.IsValid() {
			continue
		}
		if inner, ok := value.(map[string]any); ok && x.Kind() == reflect.Struct {
			if err := zeroIn(inner, x, usual, above+name+": "); err != nil {
				return err
			}
		} else if (x.CanInt() || x.CanFloat()) && x.IsZero() && !usual.IsZero() {
			return fmt.Errorf("%s%s 0 is not in its range; leave it out for its default, %v", above, name, usual)
		}
	}
	return nil
}

// blank reports whether nothing is written: package yaml has no document then.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// Set sets one field, named by its path such as policy.batch, to a value in
// YAML; a text needs no quotes. What it is instead of, see Excludes, is taken out.
// Then Resolve again. After an error the scenario is as before.
func (s *Scenario) Set(path, value string) error {
	field, err := fieldType(path)
	if err != nil {
		return fmt.Errorf("scenario: %w", err)
	}
	if strings.ContainsAny(value, "\r\n") { // it could set other fields, too
		return fmt.Errorf("scenario: %s: %.40q has several lines", path, value)
	}
	if field.Kind() == reflect.String &&
		!strings.HasPrefix(value, `"`) && !strings.HasPrefix(value, "'") {
		value = quote(value)
	}
	text := ""
	names := strings.Split(path, ".")
	for i, name := range names {
		text += strings.Repeat(" ", i) + name + ":"
		if i < len(names)-1 {
			text += "\n"
		}
	}
	changed := s.Clone()
	changed.makeRoom(path)
	text += " " + value
	if err := yaml.Load([]byte(text), changed, yaml.WithKnownFields()); err != nil {
		return fmt.Errorf("scenario: %s=%s: %w", path, value, wanted(plain(err), field))
	}
	if err := wroteZero([]byte(text), changed); err != nil {
		return fmt.Errorf("scenario: %s=%s: %w", path, value, err)
	}
	if path == "limit" && !HasRate(changed.Limit.Limit) {
		changed.SetLimit(changed.Limit.Limit)
	}
	*s = *changed
	return nil
}

// instead are fields of the load of which a scenario has one, with all within.
var instead = [][]string{
	{"load.offered", "load.rate", "load.clients"},
	{"load.cost", "load.costs"},
}

// loads are the fields that a log decides.
var loads = []string{
	"load.offered", "load.rate", "load.clients", "load.cost", "load.costs", "load.arrivals", "load.cv", "load.diurnal", "load.flash",
}

// Excludes reports whether a scenario that has the field a does not have b.
func Excludes(a, b string) bool {
	a, b = loadField(a), loadField(b)
	for _, group := range instead {
		if a != b && slices.Contains(group, a) && slices.Contains(group, b) {
			return true
		}
	}
	return a == "load.trace" && slices.Contains(loads, b) ||
		b == "load.trace" && slices.Contains(loads, a)
}

// loadField is the field of the load that a path is in.
func loadField(path string) string {
	names := strings.SplitN(path, ".", 3)
	return strings.Join(names[:min(2, len(names))], ".")
}

// makeRoom takes out what the field with this path excludes. A log gives way to
// nothing: who has one and sets a rate has not seen it.
func (s *Scenario) makeRoom(path string) {
	l := &s.Load
	for field, take := range map[string]func(){
		"load.offered":  func() { l.Offered = 0 },
		"load.rate":     func() { l.Rate = Rate{} },
		"load.clients":  func() { l.Clients = nil },
		"load.cost":     func() { l.Cost = 0 },
		"load.costs":    func() { l.Costs = nil },
		"load.arrivals": func() { l.Arrivals = "" },
		"load.cv":       func() { l.CV = 0 },
		"load.diurnal":  func() { l.Diurnal = nil },
		"load.flash":    func() { l.Flash = nil },
	} {
		if Excludes(path, field) {
			take()
		}
	}
}

// quote writes a text so that YAML reads it again, whatever it begins with.
func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("scenario: a text cannot be written: %v", err))
	}
	return string(quoted)
}

// IsField reports whether a path is one that Set knows.
func IsField(path string) bool {
	_, err := fieldType(path)
	return err == nil
}

// fieldType is the type of the field with this path.
func fieldType(path string) (reflect.Type, error) {
	t := reflect.TypeFor[Scenario]()
	above := "a scenario"
	for name := range strings.SplitSeq(path, ".") {
		if t.Kind() == reflect.Slice {
			return nil, fmt.Errorf("%s is a list: set all of it, such as %[1]s=[...]", above)
		}
		found := t.Kind() == reflect.Struct && t != reflect.TypeFor[Rate]() &&
			t != reflect.TypeFor[Limit]() &&
			t != reflect.TypeFor[Keys]()
		if found {
			found = false
			for i := range t.NumField() {
				if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); tag == name && name != "" {
					t, above, found = t.Field(i).Type, name, true
					break
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("%.80q is no field: %s has no %.40q", path, above, name)
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return t, nil
}

var place = regexp.MustCompile(`^go-yaml load error in \w+ (\(.*?\) )?at (?:L\d+\.C\d+-)?(?:L(\d+)\.C\d+|<[^>]*>): `)

// plain makes an error of package yaml one line that begins with the place.
func plain(err error) error {
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(text, "yaml: construct errors: ")
	text = strings.TrimPrefix(text, "<unknown position>: ")
	text = place.ReplaceAllString(text, "line $2: $1")
	text = strings.TrimPrefix(text, "line : ")
	text = strings.ReplaceAll(text, "into time.Duration",
		"into a duration with its unit, such as 250ms")
	return errors.New(text)
}

var line = regexp.MustCompile(`^line \d+: `)

// wanted is the error of the value of a single field, which stands on no line.
func wanted(err error, field reflect.Type) error {
	text := line.ReplaceAllString(err.Error(), "")
	if strings.HasPrefix(text, "cannot construct") {
		switch kind := field.Kind(); {
		case field == reflect.TypeFor[time.Duration]():
			text = "want a duration with its unit, such as 250ms"
		case kind == reflect.Int || kind == reflect.Int64:
			text = "want a whole number"
		case kind == reflect.Float64:
			text = "want a number"
		case kind == reflect.Bool:
			text = "want true or false"
		}
	}
	return errors.New(text)
}

// Clone returns a copy that can be Set without changing s.
func (s *Scenario) Clone() *Scenario {
	c, err := Parse([]byte(s.Text()), s.open)
	if err != nil {
		panic(fmt.Sprintf("scenario: what was written cannot be read: %v", err))
	}
	c.begins, c.file, c.replay, c.Redis.trips = s.begins, s.file, s.replay, s.Redis.trips
	c.weights, c.inherited = s.weights, s.inherited
	return c
}

// MarshalJSON writes the fields by their YAML names and in the same words.
func (s *Scenario) MarshalJSON() ([]byte, error) {
	var fields map[string]any
	if err := yaml.Load([]byte(s.Text()), &fields); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	return json.Marshal(fields)
}

// ReadFile reads the named file, unresolved. A scenario without a name gets that
// of the file.
func ReadFile(name string) (*Scenario, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxText+1)) // a device may have no end
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxText)
	}
	if err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	s, err := Parse(text, Folder(filepath.Dir(name)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if base := filepath.Base(name); s.Name == "" {
		s.Name = strings.TrimSuffix(base, filepath.Ext(base))
	}
	return s, nil
}

const maxText = 1 << 20 // bytes

// Text is the scenario as YAML, which Parse reads again.
func (s *Scenario) Text() string {
	text, err := yaml.Dump(s, yaml.WithIndent(2))
	if err != nil {
		panic(fmt.Sprintf("scenario: a struct of plain fields cannot be written: %v", err))
	}
	return string(text)
}

// LimitOf is the limit of each key, the whole of it, by the clock of the run.
func (s *Scenario) LimitOf() lease.Limit {
	return s.onCalendar(s.Limit.whole(s.Burst))
}

// onCalendar is a limit by the clock of the run.
func (s *Scenario) onCalendar(l lease.Limit) lease.Limit {
	if ideal.TraitsOf(l).Calendar {
		l.Offset += s.begins
	}
	return l
}

// BeginAt lets the run begin at another time of the calendar: so long after 0:00 of
// 1970-01-01 by UTC. Quotas go by that.
func (s *Scenario) BeginAt(sinceEpoch time.Duration) { s.begins = sinceEpoch }

// Inherit notes which fields are those of another scenario, for people.
func (s *Scenario) Inherit(text string) { s.inherited = text }

// Inherited is the text of Inherit.
func (s *Scenario) Inherited() string { return s.inherited }

// Written are the fields with a value, by their paths and in order, as Set has them. A list is
// one of them.
func (s *Scenario) Written() (fields [][2]string) {
	var add func(n *yaml.Node, above string)
	add = func(n *yaml.Node, above string) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			path, value := above+n.Content[i].Value, n.Content[i+1]
			switch value.Kind {
			case yaml.MappingNode:
				add(value, path+".")
			case yaml.SequenceNode:
				fields = append(fields, [2]string{path, fmt.Sprintf("(%d)", len(value.Content))})
			default:
				fields = append(fields, [2]string{path, value.Value})
			}
		}
	}
	var document yaml.Node
	if err := yaml.Load([]byte(s.Text()), &document); err != nil {
		panic(fmt.Sprintf("scenario: what was written cannot be read: %v", err))
	}
	add(document.Content[0], "")
	return fields
}

// WeighKeys lets keys have parts of the load in proportion to these weights, one for each of
// Keys.Number, whatever KeySkew is. They are not written.
func (s *Scenario) WeighKeys(weights []float64) { s.weights = weights }

// Weights are those of WeighKeys, or nil.
func (s *Scenario) Weights() []float64 { return s.weights }

// KeyName is what people call a key, from its number: the client, where each client of a
// log has a limit of its own. It has no characters that a terminal obeys.
func (s *Scenario) KeyName(n int) string {
	const longest = 60 // letters
	if s.replay == nil || !s.Load.Trace.PerClient || n >= len(s.replay.log.Keys) {
		for _, l := range s.Limits() {
			if n -= l.First; n < l.Number {
				return fmt.Sprintf("%s-%d", l.Name, n)
			}
			n += l.First
		}
		return fmt.Sprintf("key-%d", n)
	}
	name := []rune(s.replay.log.Keys[n])
	if len(name) > longest {
		name = append(name[:longest-1], '…')
	}
	if slices.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) }) ||
		len(name) == 0 {
		return strconv.QuoteToGraphic(string(name))
	}
	return string(name)
}
