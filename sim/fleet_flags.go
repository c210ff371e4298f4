package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/accesslog"
)

// fleetFlags are what the command line says. A zero Limit, burst, speedup or
// duration is to be chosen, see plan.
type fleetFlags struct {
	procs  int
	skew   float64
	sticky bool
	seed   uint64

	limit    hybrid.Limit
	burst    int64
	timeout  time.Duration
	policy   hybrid.Policy
	duration time.Duration

	offered float64
	keys    int

	trace     string
	columns   accesslog.Options
	speedup   float64
	perClient bool

	redis         string
	json, verbose bool
}

const fleetHelp = `Usage: go run ./sim fleet [flags]

Runs limiters in real time, each as a process would have it, with connections of
its own, and prints what they admitted, what it cost, and how fair it was.

Without -redis they share a Redis inside this program. It needs no server, but
its Lua is slow and takes its CPU time from the fleet: figures about Redis calls
hold, for latency and high rates use a real one.
`

// flagGroups orders the help; TestHelpNamesAllFlags.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"The fleet", []string{"procs", "skew", "sticky", "limit", "burst", "redis", "duration", "seed"}},
	{"A synthetic load (without -trace)", []string{"offered", "keys"}},
	{"A real access log: Common or Combined Log Format, or CSV with a header; also gzipped",
		[]string{"trace", "speedup", "key", "time-col", "key-col", "cost-col"}},
	{"The policy", []string{"mode", "fairness", "batch", "min-refresh", "max-refresh", "timeout"}},
	{"Output", []string{"json", "v"}},
}

const fleetExamples = `
Examples:
  go run ./sim fleet -procs 50 -limit 5000/s -offered 3
  go run ./sim fleet -trace access.log.gz -key client -sticky
  go run ./sim fleet -trace llm.csv -cost-col ContextTokens+GeneratedTokens -redis localhost:6379
`

// parseFleetFlags reads the command line of fleet. For -h it prints help to
// stdout and returns flag.ErrHelp; every other error is a usageError.
func parseFleetFlags(args []string, stdout io.Writer) (*fleetFlags, error) {
	f := &fleetFlags{}
	set := f.flagSet()
	err := set.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		printHelp(stdout, set)
		return nil, err
	case err == nil && set.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", set.Arg(0))
	case err == nil:
		given := map[string]bool{}
		set.Visit(func(f *flag.Flag) { given[f.Name] = true })
		err = f.check(given)
	}
	if err != nil {
		return nil, usageError{err}
	}
	return f, nil
}

func (f *fleetFlags) flagSet() *flag.FlagSet {
	set := flag.NewFlagSet("fleet", flag.ContinueOnError)
	set.SetOutput(io.Discard) // parseFleetFlags reports
	set.Usage = func() {}

	set.IntVar(&f.procs, "procs", 10, "processes, `N` from 1 to 10000")
	set.Float64Var(&f.skew, "skew", 1, "spread requests over processes at random, by Zipf's law with exponent `S` >= 0; 0 is evenly")
	set.BoolVar(&f.sticky, "sticky", false, "instead, send each client (of a synthetic load: key) always to the same process")
	set.Func("limit", "limit of each key, `NUMBER/TIME`: 100/s, 2.5/s, 10/m, 5000/h, 100/500ms. It counts in time on the wall clock, after -speedup (default 1000/s; with -trace half the mean rate of a key)", func(s string) (err error) {
		f.limit, err = parseLimit(s)
		return err
	})
	set.Int64Var(&f.burst, "burst", 0, "tokens that a key's bucket holds, `N` (default the NUMBER of -limit, rounded up)")
	set.StringVar(&f.redis, "redis", "", "real Redis at `ADDR`, host:port or redis://user:password@host:port/db. Its keys get a random prefix and are deleted at the end; nothing else is touched")
	set.DurationVar(&f.duration, "duration", 0, "length of the run, `D` (default 5s; with -trace 10s). With -speedup, where to cut the log off")
	set.Uint64Var(&f.seed, "seed", 1, "`N` that decides all that is random; the same one gives the same requests")

	set.Float64Var(&f.offered, "offered", 2, "requests offered, as a multiple `X` of the limit, mean over all keys")
	set.IntVar(&f.keys, "keys", 1, "number of keys, `N`, as popular as Zipf's law with exponent 1 has them")

	set.StringVar(&f.trace, "trace", "", "`FILE` to replay. Lines in any order; those that cannot be read are counted")
	set.Func("speedup", "replay the log `X` times as fast; 0 or auto: so that it takes -duration, but not slower than it was (default auto)", func(s string) (err error) {
		f.speedup = 0
		if s != "auto" {
			f.speedup, err = strconv.ParseFloat(s, 64)
		}
		if err != nil || !(f.speedup >= 0) || f.speedup > 1e12 {
			return errors.New("want a number from 0 to 1e12, or auto")
		}
		return nil
	})
	set.Func("key", "what is limited: fixed, one key for the whole log, or client, a key for each: `fixed|client` (default fixed)", func(s string) error {
		f.perClient = s == "client"
		return oneOf(s, "fixed", "client")
	})
	set.StringVar(&f.columns.TimeCol, "time-col", "", "CSV column `NAME` of the time (default timestamp, time, date or the like)")
	set.StringVar(&f.columns.KeyCol, "key-col", "", "CSV column `NAME` of the client (default none); for -key client and -sticky")
	set.StringVar(&f.columns.CostCol, "cost-col", "", "CSV column `NAME`, or a sum NAME+NAME, of the tokens that a request takes (default: each takes 1)")

	f.policyFlag(set, "mode", "leases as `M`: auto, batches, shares, per-request (default auto)", func(p *hybrid.Policy, s string) error {
		return parseName(&p.Mode, s, lease.Auto, lease.Batches, lease.Shares, lease.PerRequest)
	})
	f.policyFlag(set, "fairness", "divide a scarce rate `F`: proportional, max-min (default proportional)", func(p *hybrid.Policy, s string) error {
		return parseName(&p.Fairness, s, lease.Proportional, lease.MaxMin)
	})
	defaults := hybrid.Policy{}.Resolved()
	f.policyFlag(set, "batch", fmt.Sprintf("lease size: about `N` tokens are used between two calls (default %d)", defaults.Batch), func(p *hybrid.Policy, s string) (err error) {
		p.Batch, err = strconv.ParseInt(s, 10, 64)
		return err
	})
	f.policyFlag(set, "min-refresh", fmt.Sprintf("shortest time `D` between two calls for a key (default %v)", defaults.MinRefresh), func(p *hybrid.Policy, s string) (err error) {
		p.MinRefresh, err = time.ParseDuration(s)
		return err
	})
	f.policyFlag(set, "max-refresh", fmt.Sprintf("longest time `D` between two calls for a key (default %v)", defaults.MaxRefresh), func(p *hybrid.Policy, s string) (err error) {
		p.MaxRefresh, err = time.ParseDuration(s)
		return err
	})
	set.DurationVar(&f.timeout, "timeout", 250*time.Millisecond, "how long `D` an exchange with Redis may take, 1ms to 1m")

	set.BoolVar(&f.json, "json", false, "print the figures as one JSON object")
	set.BoolVar(&f.verbose, "v", false, "let the limiters log to standard error")
	return set
}

// policyFlag adds a flag for one field of the policy and checks it alone, so
// that the error names the flag.
func (f *fleetFlags) policyFlag(set *flag.FlagSet, name, usage string, parse func(*hybrid.Policy, string) error) {
	set.Func(name, usage, func(s string) error {
		var alone hybrid.Policy
		if err := parse(&alone, s); err != nil {
			return err
		}
		if err := alone.Validate(); err != nil {
			return err
		}
		return parse(&f.policy, s)
	})
}

// parseName sets dst to the value that has the name s.
func parseName[T fmt.Stringer](dst *T, s string, values ...T) error {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.String()
		if s == names[i] {
			*dst = v
		}
	}
	return oneOf(s, names...)
}

func oneOf(s string, names ...string) error {
	for _, name := range names {
		if s == name {
			return nil
		}
	}
	return fmt.Errorf("want %s", strings.Join(names, ", "))
}

// check looks at ranges, and at flags that do not go together.
func (f *fleetFlags) check(given map[string]bool) error {
	bad := func(name string, value any, want string) error {
		return fmt.Errorf("invalid value %q for flag -%s: want %s", fmt.Sprint(value), name, want)
	}
	synthetic, fromLog := flagGroups[1].flags, flagGroups[2].flags
	switch {
	case f.procs < 1 || f.procs > 10_000:
		return bad("procs", f.procs, "1 to 10000")
	case !(f.skew >= 0) || math.IsInf(f.skew, 0):
		return bad("skew", f.skew, "a number from 0")
	case f.sticky && given["skew"]:
		return errors.New("-sticky and -skew do not go together: a client's process is fixed")
	case f.burst < 0 || given["burst"] && f.burst == 0:
		return bad("burst", f.burst, "1 or more")
	case f.duration < 0 || given["duration"] && f.duration == 0:
		return bad("duration", f.duration, "more than 0")
	case !(f.offered > 0) || math.IsInf(f.offered, 0):
		return bad("offered", f.offered, "a number above 0")
	case f.keys < 1 || f.keys > 1_000_000:
		return bad("keys", f.keys, "1 to 1000000")
	case f.timeout < time.Millisecond || f.timeout > time.Minute:
		return bad("timeout", f.timeout, "1ms to 1m")
	case f.trace == "" && given["trace"]:
		return bad("trace", f.trace, "a file")
	}
	if f.trace == "" {
		for _, name := range fromLog {
			if given[name] {
				return fmt.Errorf("-%s needs a log: -trace FILE", name)
			}
		}
	} else {
		for _, name := range synthetic {
			if given[name] {
				return fmt.Errorf("-%s is for a synthetic load and does not go with -trace", name)
			}
		}
	}
	return f.policy.Validate() // -min-refresh against -max-refresh
}

// printHelp writes the flags in groups, where flag.PrintDefaults has the alphabet.
func printHelp(w io.Writer, set *flag.FlagSet) {
	fmt.Fprint(w, fleetHelp)
	for _, g := range flagGroups {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, name := range g.flags {
			value, usage := flag.UnquoteUsage(set.Lookup(name))
			if d := set.Lookup(name).DefValue; d != "" && d != "0" && d != "0s" && d != "false" {
				usage += fmt.Sprintf(" (default %s)", d)
			}
			head := strings.TrimSpace("-" + name + " " + value)
			for i, line := range wrap(usage, 76) {
				if i > 0 {
					head = ""
				}
				fmt.Fprintf(w, "  %-18s %s\n", head, line)
			}
		}
	}
	fmt.Fprint(w, fleetExamples)
}

// wrap breaks text into lines of at most width bytes, if its words allow.
func wrap(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
