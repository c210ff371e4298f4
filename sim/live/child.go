package live

import (
	"context"
	"encoding/gob"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Play is what a child does: it takes its orders from in and reports to out,
// its standard input and output, until its life is over, in is closed, or ctx
// ends. It hands its leases back, whichever comes first. A Ctrl-C, which a
// terminal tells all processes, is for its parent to act on.
func Play(ctx context.Context, in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGPIPE) // leases are handed back also when nobody reads reports
	var o order
	orders := gob.NewDecoder(in)
	if err := orders.Decode(&o); err != nil {
		return fmt.Errorf("live: orders: %w", err)
	}
	news := gob.NewEncoder(out)
	if err := news.Encode(dispatch{Ready: true}); err != nil {
		return fmt.Errorf("live: report: %w", err)
	}
	var s starting
	if err := orders.Decode(&s); err != nil {
		return nil // called off
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // it says nothing more
		cancel()
	}()
	last := dispatch{Done: true}
	// As a time with a reading of the monotonic clock: from here on only that counts.
	start := time.Now().Add(time.Until(s.At))
	if err := o.play(ctx, start, news, &last); err != nil {
		last.Err = err.Error()
	}
	return news.Encode(last)
}

// play lives the life that was ordered. What is left to report is in last.
func (o *order) play(ctx context.Context, start time.Time, news *gob.Encoder, last *dispatch) error {
	space, err := joinKeyspace(o.Address, o.Prefix, o.Setting.Timeout)
	if err != nil || !sleepUntil(ctx, start, o.Life.From-ahead) {
		return err
	}
	p, err := newProcess(&o.Setting, &o.Life, o.Setting.names(), space, start)
	if err != nil {
		return err
	}
	r := reporter{process: p}
	r.driver = newDriver(o.Life.Requests, p.take, r.ended)

	done := make(chan struct{})
	var unread error
	var reporting sync.WaitGroup
	reporting.Go(func() {
		tick := time.NewTicker(flushEvery)
		defer tick.Stop()
		for unread == nil {
			select {
			case <-tick.C:
				unread = news.Encode(r.report())
			case <-done:
				return
			}
		}
	})
	p.play(ctx, r.driver)
	close(done)
	reporting.Wait()
	d := r.report()
	last.Answers, last.Traffic = d.Answers, d.Traffic
	return unread
}

// A reporter gathers what there is to report.
type reporter struct {
	process *process
	driver  *driver

	mu    sync.Mutex
	fresh []int // requests that have their answer since the last report
}

func (r *reporter) ended(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fresh = append(r.fresh, i)
}

func (r *reporter) report() (d dispatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.fresh {
		d.Answers = append(d.Answers, numbered{i, r.driver.answers[i]})
	}
	r.fresh = r.fresh[:0]
	d.Traffic = r.process.link.drain()
	return d
}
