// Kinds compares ration's other kinds of limit with a script for each request: quotas with a
// fixed window, sliding windows with a sorted set and with two counters, slots with a semaphore,
// several limits for a request with three buckets in one script.
//
//	go run ./kinds                    all tables as markdown, in 2 to 4 minutes
//	go run ./kinds -only slots        one kind
//
// It starts a redis-server on loopback, or the server that RATION_SERVER names. The fleet is
// eight limiters of one program, each with connections of its own; what they are asked goes to
// all of them alike. What is admitted is judged by when each decision began and ended, and held
// against one central limit that is fed the same requests.
//
// A round is repeated if the machine stalled, by how late a sleep of 5 ms ended. The calmer one
// counts. Stalls are in the tables: where they are long, times are the machine's.
//
// The peers' scripts are the well-known algorithms at their shortest. So they are fast: a peer
// that does more for its users needs more for it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// errInterrupted says that the tables are not complete.
var errInterrupted = errors.New("interrupted: the tables are not complete")

type options struct {
	short bool
	only  string
	args  []string
}

func main() {
	var o options
	flag.BoolVar(&o.short, "short", false, "little of everything, to see that it works")
	flag.StringVar(&o.only, "only", "", "measure one `kind`: "+strings.Join(kindNames(), ", "))
	flag.Parse()
	o.args = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o, os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kinds:", err)
		os.Exit(1)
	}
}

// run measures and prints. When ctx ends it prints what is complete.
func run(ctx context.Context, o options, stdout, stderr io.Writer) error {
	if len(o.args) > 0 {
		return fmt.Errorf("unexpected argument %q", o.args[0])
	}
	var chosen []kind
	for _, k := range kinds(o.short) {
		if o.only == "" || o.only == k.name {
			chosen = append(chosen, k)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("-only %q is none of %s", o.only, strings.Join(kindNames(), ", "))
	}
	p := progress{w: stderr, start: time.Now()}
	for _, k := range chosen {
		p.all += k.expected()
	}
	s, err := startServer()
	if err != nil {
		return err
	}
	defer s.stop()
	if err := printMachine(ctx, stdout, s); err != nil {
		return err
	}
	for _, k := range chosen {
		rows, err := k.measure(ctx, s, &p)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		if len(rows) > 0 {
			if err := printKind(stdout, k, rows); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return errInterrupted
		}
	}
	fmt.Fprintf(stderr, "%.0f s\n", time.Since(p.start).Seconds())
	return nil
}

// progress tells which step has begun, and how long the rest takes.
type progress struct {
	w         io.Writer
	start     time.Time
	all, done time.Duration // expected
}

func (p *progress) step(name string, expected time.Duration) {
	fmt.Fprintf(p.w, "%4.0f s  %s, about %.0f s left\n", time.Since(p.start).Seconds(), name,
		(p.all - p.done).Seconds())
	p.done += expected
}
