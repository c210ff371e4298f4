package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/zap"

	"github.com/seed13b07268/ration/hybrid"
)

// fleetCommand is `sim fleet`.
func fleetCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags, err := parseFleetFlags(args, stdout)
	if err != nil {
		return err
	}
	p, err := planUntil(ctx, flags, stderr)
	if err != nil {
		return err
	}
	config := hybrid.Config{Limit: p.limit, Policy: flags.policy, Timeout: flags.timeout}
	if flags.verbose {
		if config.Logger, err = zap.NewDevelopment(); err != nil {
			return err
		}
		stderr = io.Discard // the line of progress would run into the log
	} else {
		logging.Disable() // of go-redis: what matters comes back as an error
	}
	space, err := openKeyspace(ctx, flags.redis, flags.timeout)
	if ctx.Err() != nil {
		err = errInterrupted
	}
	if err != nil {
		return err
	}
	fleet, err := newFleet(p.schedule, config, space.open)
	if err != nil {
		return errors.Join(err, space.close(nil))
	}

	r := report{plan: p, flags: flags, redis: space.name()}
	if !flags.json {
		r.printSetting(stdout)
	}
	stop := showProgress(stderr, p.schedule.last(), fleet.count)
	elapsed := fleet.run(ctx)
	stop()
	traffic, trips := fleet.traffic(), space.trips.Load() // before leases are handed back
	unclean := errors.Join(fleet.close(), space.close(p.schedule.keys))

	r.figures = measure(fleet.drivers, len(p.schedule.keys), p.limit, flags.timeout)
	r.charge(traffic, trips)
	r.Seconds = elapsed.Seconds()
	print := r.printTable
	if flags.json {
		print = r.printJSON
	}
	if r.Interrupted = r.Requests < p.schedule.requests(); r.Interrupted {
		err = errInterrupted
	}
	return errors.Join(print(stdout), err, unclean)
}

// planUntil reads the log and makes the schedule, unless ctx ends first: a
// large log takes a while, and a pipe may never end. What is still reading then
// ends with the program.
func planUntil(ctx context.Context, flags *fleetFlags, stderr io.Writer) (*plan, error) {
	type result struct {
		plan *plan
		err  error
	}
	done := make(chan result, 1)
	go func() {
		p, err := flags.plan()
		done <- result{p, err}
	}()
	stop := showLine(stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("%5.1f s  reading %s", elapsed.Seconds(), flags.trace)
	})
	defer stop()
	select {
	case r := <-done:
		return r.plan, r.err
	case <-ctx.Done():
		return nil, errInterrupted
	}
}
