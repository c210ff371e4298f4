package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// fleet is many limiters in one program, each for what would be a process of
// its own: they share nothing but the ledgers in the store.
type fleet struct {
	schedule *schedule
	limiters []*hybrid.Limiter
	drivers  []*driver
}

// newFleet makes a limiter for each process of the schedule, on a store of its own.
func newFleet(s *schedule, c hybrid.Config, open func() hybrid.Store) (*fleet, error) {
	f := &fleet{schedule: s}
	for _, arrivals := range s.procs {
		l, err := hybrid.New(open(), c)
		if err != nil {
			return nil, err
		}
		f.limiters = append(f.limiters, l)
		f.drivers = append(f.drivers, newDriver(l, s.keys, arrivals))
	}
	return f, nil
}

// run fires the schedule in real time, until its end or that of ctx, and
// returns how long that took.
func (f *fleet) run(ctx context.Context) time.Duration {
	start := time.Now()
	var running sync.WaitGroup
	for _, d := range f.drivers {
		running.Go(func() { d.run(ctx, start) })
	}
	running.Wait()
	return time.Since(start)
}

// count returns how many requests were fired and admitted so far.
func (f *fleet) count() (fired, admitted int) {
	for _, d := range f.drivers {
		n, m := d.count()
		fired += n
		admitted += m
	}
	return fired, admitted
}

// traffic is what the limiters cost and by whom they decided.
type traffic struct {
	calls, failed uint64 // of scripts in Redis
	outage        uint64 // requests that the outage policy decided
}

func (f *fleet) traffic() (t traffic) {
	for _, l := range f.limiters {
		s := l.Stats()
		t.calls += s.Exchanges
		t.failed += s.Failed
		t.outage += s.Outage.Admitted + s.Outage.Denied
	}
	return t
}

// closeTime is how long limiters may take to hand their leases back. What they
// do not hand back runs out by itself.
const closeTime = 2 * time.Second

// close ends all limiters at the same time.
func (f *fleet) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	errs := make(chan error, len(f.limiters))
	for _, l := range f.limiters {
		go func() { errs <- l.Close(ctx) }()
	}
	var first error
	for range f.limiters {
		if err := <-errs; err != nil && first == nil {
			first = fmt.Errorf("handing leases back: %w", err)
		}
	}
	return first
}
