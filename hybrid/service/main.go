// Service is a program that limits requests for everybody who does not write Go: rate limits by
// rules that are data, over gRPC as Envoy asks, with a page to edit them.
//
// docs/service.md says how to start and configure it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends, or something that it cannot go on without fails. It returns when all
// that it has started has ended.
func run(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	return runWith(ctx, args, env, out, (*service).parts)
}

// runWith is run, with what else is served over HTTP.
func runWith(
	ctx context.Context, args []string, env func(string) string, out io.Writer,
	with func(*service, context.Context, io.Writer) (parts, error),
) (err error) {
	c, err := configure(args, env)
	if errors.Is(err, flag.ErrHelp) {
		return usage(out)
	}
	if err != nil {
		return err
	}
	log := logger(c, out)
	for _, w := range c.warnings {
		log.Warn("a variable of envoyproxy/ratelimit: " + w)
	}
	if c.resetAdmin {
		return resetAdmin(ctx, c, out)
	}
	s, err := open(ctx, c, log)
	if err != nil {
		return err
	}
	defer func() { err = s.ended(errors.Join(err, s.close())) }()
	p, err := with(s, ctx, out)
	if err != nil {
		return errors.Join(err, s.limiter.Close(ctx))
	}
	return s.serve(ctx, p)
}

// ended tells that nothing of the service runs any more. Without this line it was killed.
func (s *service) ended(err error) error {
	if err != nil {
		s.log.Error("ended", "served", time.Since(s.opened), "error", err)
		return err
	}
	s.log.Info("ended", "served", time.Since(s.opened))
	return nil
}

// logger writes text on a terminal, and JSON for programs.
func logger(c config, out io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{
		Level: c.logLevel,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Value.Kind() == slog.KindDuration { // JSON would have a number without its unit
				a.Value = slog.StringValue(a.Value.Duration().String())
			}
			return a
		},
	}
	format := c.logFormat
	if format == "auto" {
		format = "json"
		if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			format = "text"
		}
	}
	if format == "text" {
		return slog.New(slog.NewTextHandler(out, options))
	}
	return slog.New(slog.NewJSONHandler(out, options))
}
