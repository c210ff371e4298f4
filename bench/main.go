// Command bench compares ration with what a user would pick instead, in one run
// on one machine.
//
//	go run .                  all tables as markdown, in about 20 minutes
//	go run . -quick           a glimpse, in less than 1 minute
//	go run . -json            the raw figures (-json=FILE: beside the tables)
//	go run . -o RESULTS.md    the page that the repository keeps
//	go run . -from FILE       the tables of raw figures
//	go run . -only 'hot key, 64' -subjects 'ration|control'
//
// It starts a redis-server on loopback, or the server that RATION_SERVER names, and needs
// nothing else. It is a module of its own, so that its peers are no dependencies of the
// library.
//
// # What it measures
//
// How fast limiters decide, warm and new, how long a decision takes, what it costs Redis and
// the process, and what a key takes in memory. Every figure is the median of
// rounds in which all subjects take turns, with its spread; ratios are to a
// control in the same round. A subject that did not really ask Redis, or let
// more through than its limit, is named with the reason in place of figures.
//
// # What it does not measure
//
// Other kinds of limit than the token bucket: `go run ./kinds` does. Exactness
// and fairness over many processes: `go run ./sim` at the root does. A real
// network: the delay is constant, and nothing is lost. Redis Cluster. Machines
// on which the load, Redis and the limiter do not share the cores.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/zeromicro/go-zero/core/logx"
)

func main() {
	if target := os.Getenv(proxyVariable); target != "" {
		if err := runProxy(target); err != nil {
			fmt.Fprintln(os.Stderr, "bench: proxy:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errInterrupted says that the tables are not complete.
var errInterrupted = errors.New("interrupted: the tables are not complete")

func command(ctx context.Context, args []string, stdout io.Writer, stderr *os.File) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	quick := flags.Bool("quick", false, "few subjects and short rounds, less than 1 minute")
	rounds := flags.Int("rounds", 0, "`rounds` of each measurement (default 5, with -quick 2)")
	only := flags.String("only", "", "measure the tables whose name matches this `regexp`; "+
		"local, cost and memory are names, too")
	subjects := flags.String("subjects", "",
		"measure the subjects whose name matches this `regexp`")
	addr := flags.String("redis", "",
		"measure with the Redis at this `address`, which must be empty, instead of starting one")
	page := flags.String("o", "", "write the page to this `file` instead of standard output")
	from := flags.String("from", "", "measure nothing, print what -json has written to this `file`")
	var raw optional
	flags.Var(&raw, "json",
		"write raw figures, to standard output instead of tables, or to a file with -json=`FILE`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	plan, err := planned(*quick, *rounds, *only, *subjects)
	if err != nil {
		return err
	}
	if *from != "" {
		report, err := load(*from)
		if err != nil {
			return err
		}
		return output(report, stdout, *page, raw)
	}
	logx.Disable() // go-zero prints statistics by itself
	b, err := newBench(ctx, *addr)
	if err != nil {
		return err
	}
	defer b.close()
	report, err := b.run(ctx, plan, newProgress(stderr, plan.expected()))
	if err != nil {
		return err
	}
	err = output(report, stdout, *page, raw)
	if err == nil && report.Interrupted {
		return errInterrupted
	}
	return err
}

// planned is the plan that flags ask for.
func planned(quick bool, rounds int, only, subjects string) (Plan, error) {
	onlyExpr, err := regexp.Compile(only)
	if err != nil {
		return Plan{}, fmt.Errorf("-only: %w", err)
	}
	subjectsExpr, err := regexp.Compile(subjects)
	if err != nil {
		return Plan{}, fmt.Errorf("-subjects: %w", err)
	}
	if rounds == 0 {
		rounds = 5
		if quick {
			rounds = 2
		}
	}
	if rounds < 1 {
		return Plan{}, fmt.Errorf("-rounds %d is not at least 1", rounds)
	}
	return newPlan(quick, rounds, onlyExpr, subjectsExpr), nil
}

func output(r Report, stdout io.Writer, page string, raw optional) error {
	if raw.set {
		if err := toFile(raw.value, stdout, func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "\t")
			return e.Encode(r)
		}); err != nil {
			return err
		}
		if raw.value == "" && page == "" {
			return nil
		}
	}
	return toFile(page, stdout, r.Write)
}

func load(name string) (r Report, err error) {
	text, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	return r, err
}

// toFile writes to the file of this name, or to standard output if it is empty.
func toFile(name string, stdout io.Writer, write func(io.Writer) error) error {
	if name == "" {
		return write(stdout)
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// optional is a flag that may stand alone or have a value.
type optional struct {
	set   bool
	value string
}

func (o *optional) String() string   { return o.value }
func (o *optional) IsBoolFlag() bool { return true }

func (o *optional) Set(value string) error {
	o.set = true
	if value != "true" {
		o.value = value
	}
	return nil
}

func newBench(ctx context.Context, addr string) (*bench, error) {
	b := &bench{crowds: map[string]*crowd{}, done: ctx.Done()}
	var err error
	if addr != "" {
		b.server, err = attach(addr)
	} else {
		b.server, err = startServer()
	}
	if err != nil {
		return nil, err
	}
	if b.proxy, err = startProxy(b.server.Addr); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	if b.proxy != nil {
		b.proxy.Stop()
	}
	b.server.Stop()
}
