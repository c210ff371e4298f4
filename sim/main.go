// Command sim chooses a lease size from evidence: it simulates fleets of
// processes that share a limit, with the code that they run in production, and
// says what a policy costs in calls of Redis, in fairness and in unused tokens.
//
//	go run ./sim                   the scenario steady; no server is needed
//	go run ./sim run -h            what it can be told
//	go run ./sim tune              which policy is best for a scenario
//
// It prints figures to standard output, progress and errors to standard error.
// It exits with 0, 1 after an error, 2 if the command line is wrong, and 130
// if it was interrupted; what was measured by then is printed all the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// command is one thing that the program does.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

// commands in the order of the help; the first one is the default.
var commands = []command{
	{"run", "play a scenario in virtual time and print what it measures", runCommand},
	{"compare", "play it with two policies, on the same requests and faults, and print the differences", compareCommand},
	{"sweep", "play it with each of several values of one setting", sweepCommand},
	{"tune", "play it with many policies and recommend one", tuneCommand},
	{"size", "say how large a Redis so many processes, keys and requests need", sizeCommand},
	questions[0].command(),
	questions[1].command(),
	questions[2].command(),
	questions[3].command(),
	{"whatif", "say what another limit would have done to recorded traffic, and suggest the smallest", whatIfCommand},
	{"hunt", "draw scenes at random and show those that the default policy loses", huntCommand},
	{"live", "play it in real time, on a real or an embedded Redis, and print the prediction beside it", liveCommand},
	{"scenarios", "list the scenarios that come with sim, or print one", scenariosCommand},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // from then on, a second Ctrl-C kills
	os.Exit(dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// usageError is a mistake on the command line.
type usageError struct{ error }

var errInterrupted = errors.New("interrupted")

// printer remembers the first error of a writer, so that what prints need not
// look after each line.
type printer struct {
	io.Writer
	err error
}

func (p *printer) Write(b []byte) (int, error) {
	n, err := p.Writer.Write(b)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// dispatch runs the command that args name and returns the exit code.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &printer{Writer: stdout}
	code := start(ctx, args, out, stderr)
	if out.err != nil && code == 0 {
		fmt.Fprintf(stderr, "sim: output: %v\n", out.err)
		return 1
	}
	return code
}

func start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := commands[0]
	if len(args) > 0 {
		switch args[0] {
		case "-h", "-help", "--help", "help":
			usage(stdout)
			return 0
		}
		var err error
		if c, err = find(args[0]); err != nil {
			fmt.Fprintln(stderr, "sim:", err)
			return 2
		}
		args = args[1:]
	}
	err := c.run(ctx, args, stdout, stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(stderr, "sim %s: %v\n", c.name, err)
	var mistake usageError
	switch {
	case errors.Is(err, errInterrupted):
		return 130
	case errors.As(err, &mistake):
		fmt.Fprintf(stderr, "Help: go run ./sim %s -h\n", c.name)
		return 2
	}
	return 1
}

func find(name string) (command, error) {
	for _, c := range commands {
		if c.name == name {
			return c, nil
		}
	}
	if name[:min(1, len(name))] == "-" {
		return command{}, fmt.Errorf("flag %s stands before a command: go run ./sim %s %s", name, commands[0].name, name)
	}
	return command{}, fmt.Errorf("unknown command %q; help: go run ./sim -h", name)
}

func usage(w io.Writer) {
	fmt.Fprint(w, "sim chooses a lease size from evidence: it plays fleets of processes that share a limit.\n\nUsage: go run ./sim [command] [flags] [scenario]\n\nCommands:\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprintf(w, "\nWithout a command: %s. Flags of a command: go run ./sim %[1]s -h\n", commands[0].name)
}
