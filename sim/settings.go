package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/scenarios"
)

// settings are the scenario that a command line names, with what it changes.
type settings struct {
	set   *flag.FlagSet
	about string

	assignments  []assignment
	seed         uint64
	replications int
	least        int      // replications that a command may have
	out          *outputs // of commands that print a document, else nil
	log          bool     // what stands without a flag is a log, and no scenario

	// written is the scenario before Resolve: what is changed after it may have
	// other defaults beside it.
	written *scenario.Scenario
}

// assignment sets a field of the scenario.
type assignment struct{ flag, path, value string }

// shortcuts are flags for fields that are set often.
var shortcuts = []struct{ name, path, usage string }{
	{"procs", "processes", "`N` processes"},
	{"limit", "limit", "limit of each key, `NUMBER/TIME`: 100/s, 10/m, 100/500ms"},
	{"burst", "burst", "tokens that a key's bucket holds, `N`"},
	{"keys", "keys", "number of keys, `N`"},
	{"classes", "classes", "classes of requests, the highest first, `LIST`: " +
		"[{name: a, floor: 0.5, share: 0.3}, {name: b, weight: 1, share: 0.7}]"},
	{"offered", "load.offered", "load as a multiple `X` of the limit"},
	{"patience", "load.patience", "how long `D` callers wait for tokens, as in Wait with a deadline"},
	{"skew", "balance.skew", "Zipf exponent `S` of the load over processes, 0 is even"},
	{"duration", "duration", "simulated time `D`"},
	{"warmup", "warmup", "time `D` at the beginning that is not measured"},
	{"latency", "redis.latency", "round trip `D` to Redis"},
	{"apart", "redis.apart", "how much longer `D` the last process's round trips are than the first one's"},
	{"timeout", "redis.timeout", "how long `D` an exchange with Redis may take"},
	{"outage", "outage", "what decides while Redis is away: `P` share, deny or allow"},
	{"eager", "eager", "admit `N` tokens of a key before Redis has answered"},
	{"mode", "policy.mode", "leases as `M`: auto, batches, shares, per-request"},
	{"fairness", "policy.fairness", "divide a scarce rate `F`: proportional, max-min"},
	{"batch", "policy.batch", "lease size: about `N` requests are decided between two calls"},
	{"min-refresh", "policy.min_refresh", "shortest time `D` between two calls for a key"},
	{"max-refresh", "policy.max_refresh", "longest time `D` between two calls for a key"},
	{"max-hold", "policy.max_hold",
		"how long `D` a batch of a calm key may be held; max-refresh lends none"},
	{"trace", "load.trace.file", "replay a log `FILE` instead of the scenario's load"},
	{"format", "load.trace.format", "how the log is written, `F`: auto, clf, csv, json, envoy, alb, w3c, text"},
	{"time-col", "load.trace.time", "the log's column `NAME` of the time"},
	{"time-unit", "load.trace.time_unit",
		"what times that are numbers count, `U`: s, ms, us, ns; found if not given"},
	{"time-layout", "load.trace.time_layout",
		"how the log's dates are written, `L` as in Go: \"1/2/2006 15:04:05\""},
	{"key-col", "load.trace.key", "the log's column `NAME` of the client"},
	{"cost-col", "load.trace.cost",
		"the log's column `NAME`, or a sum NAME+NAME, of the tokens that a request takes; found if not given, " +
			"none is one each"},
	{"count-col", "load.trace.count",
		"the log's column `NAME` of how many requests a line stands for"},
	{"upstream-col", "load.trace.upstream", "the log's column `NAME` of the process that served"},
	{"per-client", "load.trace.per_client", "each client of the log has a limit of its own"},
	{"speedup", "load.trace.speedup",
		"as if the log had `X` times the traffic: its times are divided, and nothing else"},
}

// newFlags returns flags that say nothing by themselves: who parses them reports.
func newFlags(name string) *flag.FlagSet {
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}
	return set
}

// parseFlags reads a command line of flags alone, and says why if there is anything else. For -h it
// prints help and returns flag.ErrHelp; every other error is a usageError.
func parseFlags(
	set *flag.FlagSet, about string, args []string, stdout io.Writer, why string,
) error {
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, about, "\nFlags:\n")
		set.VisitAll(func(x *flag.Flag) { printFlag(stdout, x) })
		return err
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("%q is no flag: %s", set.Arg(0), why)
	}
	if err != nil {
		return usageError{err}
	}
	return nil
}

// inRange returns an error that names the flag and its value unless low <= value <= high.
func inRange[T int | uint64 | float64](flag string, value, low, high T) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("invalid value \"%v\" for flag -%s: want %v to %v", value, flag, low, high)
}

// newSettings returns the flags that all commands share, but for those named; a command adds
// its own.
func newSettings(name, about string, without ...string) *settings {
	s := &settings{set: newFlags(name), about: about}
	for _, f := range shortcuts {
		if slices.Contains(without, f.name) {
			continue
		}
		assign := func(value string) error {
			if value == "" {
				return errors.New("want a value")
			}
			s.assignments = append(s.assignments, assignment{"-" + f.name, f.path, value})
			return nil
		}
		if f.path == "load.trace.per_client" { // a word behind it is the scenario
			s.set.BoolFunc(f.name, f.usage, assign)
		} else {
			s.set.Func(f.name, f.usage, assign)
		}
	}
	s.set.Func("set", "any other field of a scenario, `PATH=VALUE` such as load.arrivals=even or "+
		"policy.burst_share=0.8; again for more", func(value string) error {
		a, err := parseAssignment(value)
		a.flag = "-set " + a.path
		s.assignments = append(s.assignments, a)
		return err
	})
	s.set.Uint64Var(&s.seed, "seed", 1, "`N` that decides all that is random")
	return s
}

// newPlayed returns the flags of a command that plays at least so many replications, and prints a
// document.
func newPlayed(name, about string, least int) *settings {
	s := newSettings(name, about)
	s.out = newOutputs(s.set)
	s.replicationsFlag(10, least)
	return s
}

func (s *settings) replicationsFlag(usual, least int) {
	s.least = least
	s.set.IntVar(&s.replications, "replications", usual,
		"play `N` times, with different random numbers")
}

// check returns an error that names a flag of any command and its value if it cannot be.
func (s *settings) check() error {
	err := inRange("replications", s.replications, s.least, 10_000)
	if s.out != nil {
		err = errors.Join(s.out.check(), err)
	}
	return err
}

func parseAssignment(s string) (assignment, error) {
	path, value, ok := strings.Cut(s, "=")
	if !ok || path == "" || value == "" {
		return assignment{}, errors.New("want PATH=VALUE")
	}
	return assignment{path: path, value: value}, nil
}

// parse reads the command line. For -h it prints help to stdout and returns
// flag.ErrHelp, and errInterrupted if ctx ends while a log is read; every other
// error is a usageError. How far a log is read is shown on stderr.
func (s *settings) parse(
	ctx context.Context, args []string, stdout, stderr io.Writer,
) (*scenario.Scenario, error) {
	var names []string
	for { // the scenario may stand before flags, too
		err := s.set.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			s.help(stdout)
			return nil, err
		}
		if err != nil {
			return nil, usageError{err}
		}
		if s.set.NArg() == 0 {
			break
		}
		names, args = append(names, s.set.Arg(0)), s.set.Args()[1:]
		switch {
		case len(names) > 1:
			return nil, usageError{fmt.Errorf("two %ss, %q and %q: want one", s.opens(), names[0], names[1])}
		case names[0] == "":
			return nil, usageError{fmt.Errorf("the %s \"\" has no name", s.opens())}
		}
	}
	name := strings.Join(names, "")
	if s.log {
		if name == "" {
			return nil, usageError{errors.New("no log: want a FILE")}
		}
		s.assignments = append(s.assignments, assignment{"FILE", "load.trace.file", name})
		name = ""
	}
	if err := s.check(); err != nil {
		return nil, usageError{err}
	}
	c, err := s.open(name)
	if err == nil {
		s.written = c.Clone()
		err = resolve(ctx, c, stderr)
	}
	if err != nil {
		return nil, mistake(err)
	}
	return c, nil
}

// opens is what a command line names.
func (s *settings) opens() string {
	if s.log {
		return "log"
	}
	return "scenario"
}

// mistake is the error of settings that cannot be played, unless an interrupt ended
// the look at them.
func mistake(err error) error {
	if errors.Is(err, errInterrupted) {
		return err
	}
	return usageError{err}
}

// resolve reads the log that the scenario names, too. A log may be large, or a
// pipe that nobody writes to: after an interrupt nobody waits for it, and it ends
// with the program.
func resolve(ctx context.Context, c *scenario.Scenario, stderr io.Writer) error {
	defer showLine(stderr, func(elapsed time.Duration) string {
		return readingText(c, elapsed)
	})()
	done := make(chan error, 1)
	go func() { done <- c.Resolve() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errInterrupted
	}
}

// readingText says how far a log is read.
func readingText(c *scenario.Scenario, elapsed time.Duration) string {
	read, size := c.LogRead()
	switch {
	case size == 0: // a pipe, or no log yet
		return fmt.Sprintf("reading: %s MB", thousands(read>>20))
	case read >= size:
		return "sorting requests"
	}
	return barText("reading", float64(read)/float64(size), elapsed)
}

// open reads the scenario that is named, steady if none is, and applies what
// the command line sets, unresolved.
func (s *settings) open(name string) (*scenario.Scenario, error) {
	if err := s.quarrel(); err != nil {
		return nil, err
	}
	trace := s.sets("load.trace") || s.sets("load.trace.file")
	var c *scenario.Scenario
	var err error
	switch {
	case name == "" && trace:
		c, err = scenario.Parse([]byte("name: trace"), scenario.Folder("."))
	case name == "":
		c, err = scenarios.Open("steady")
	default:
		c, err = openNamed(name)
	}
	if err != nil {
		return nil, err
	}
	base := c.Clone()
	if trace { // played to its end, and all of it counts, unless the command line says otherwise
		c.Duration, c.Warmup = 0, 0
	}
	for _, a := range s.assignments {
		if err := a.apply(c); err != nil {
			return nil, a.mistake(err)
		}
	}
	if s.sets("duration") && !s.sets("warmup") {
		c.Warmup = min(c.Warmup, sixth(c.Duration))
	}
	if len(s.assignments) > 0 {
		c.Inherited = inherited(base, c)
	}
	return c, nil
}

// inherited lists what a scenario has of the one that it was made of, in words of the command
// line.
func inherited(base, c *scenario.Scenario) string {
	var list []string
	has := c.Written()
	for _, field := range base.Written() {
		if path := field[0]; path != "name" && path != "about" && slices.Contains(has, field) {
			list = append(list, strings.Join(field[:], " "))
		}
	}
	return strings.Join(list, ", ")
}

// sets reports whether the command line sets a field.
func (s *settings) sets(path string) bool {
	return slices.ContainsFunc(s.assignments, func(a assignment) bool { return a.path == path })
}

// quarrel returns an error if the command line sets two fields of which a scenario
// has one. (One that the scenario has gives way.)
func (s *settings) quarrel() error {
	for i, a := range s.assignments {
		for _, b := range s.assignments[:i] {
			if scenario.Excludes(a.path, b.path) {
				return fmt.Errorf("%s and %s: one of them", b.flag, a.flag)
			}
		}
	}
	return nil
}

// sixth is the warm-up for a duration, in a unit that people read.
func sixth(d time.Duration) time.Duration {
	unit := time.Millisecond
	if d >= time.Minute {
		unit = time.Second
	}
	return (d / 6).Truncate(unit)
}

// apply sets the field. A file that the command line names is not beside the
// scenario.
func (a assignment) apply(c *scenario.Scenario) error {
	if a.path == "load.trace.file" || a.path == "redis.latencies" {
		name, err := filepath.Abs(strings.Trim(a.value, `"'`))
		if err != nil {
			return err
		}
		a.value = name
	}
	return c.Set(a.path, a.value)
}

// mistake is the error of apply, in words of the command line.
func (a assignment) mistake(err error) error {
	return fmt.Errorf("invalid value %q for flag %s: %w", a.value, a.flag, cmp.Or(errors.Unwrap(err), err))
}

// openNamed opens a scenario of the library by its name, or a file.
func openNamed(name string) (*scenario.Scenario, error) {
	if c, err := scenarios.Open(name); err == nil {
		return c, nil
	}
	if _, err := os.Stat(name); err != nil && !strings.ContainsAny(name, "./\\") {
		return nil, fmt.Errorf("scenario %q is neither in the library (go run ./sim scenarios) nor a "+
			"file", name)
	}
	c, err := scenario.ReadFile(name)
	var unread *fs.PathError
	ext := filepath.Ext(name)
	if err != nil && !errors.As(err, &unread) && ext != ".yaml" && ext != ".yml" {
		return nil, fmt.Errorf("%w (a log is played by -trace %s)", err, name)
	}
	return c, err
}

// help prints the command's own flags first, then those of the scenario.
func (s *settings) help(w io.Writer) {
	fmt.Fprint(w, s.about)
	shared := []string{"set"}
	for _, f := range shortcuts {
		shared = append(shared, f.name)
	}
	group := func(title string, belongs func(name string) bool) {
		fmt.Fprintf(w, "\n%s:\n", title)
		s.set.VisitAll(func(f *flag.Flag) {
			if belongs(f.Name) {
				printFlag(w, f)
			}
		})
	}
	group("Flags", func(name string) bool { return !slices.Contains(shared, name) })
	group("What they change in the scenario", func(name string) bool {
		return slices.Contains(shared, name)
	})
	if s.log {
		return
	}
	fmt.Fprint(w, "\nThe scenario is a name of `go run ./sim scenarios` or a YAML file; steady if "+
		"there is none, or the log alone with -trace.\n")
}

func printFlag(w io.Writer, f *flag.Flag) {
	value, usage := flag.UnquoteUsage(f)
	if d := f.DefValue; d != "" && d != "0" && d != "0s" && d != "false" {
		usage += fmt.Sprintf(" (default %s)", d)
	}
	fmt.Fprintf(w, "  %-20s %s\n", strings.TrimSpace("-"+f.Name+" "+value), usage)
}
