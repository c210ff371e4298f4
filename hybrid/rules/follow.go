package rules

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

const (
	// calmest is how long a Wait goes on before the source is loaded again in any case.
	calmest = 30 * time.Second

	// leastPause is the time between two Loads, so that a Wait that returns at once is no loop.
	leastPause = 100 * time.Millisecond

	// mostPause is that after errors. It doubles from leastPause.
	mostPause = time.Second

	// grace is how long a call may take to notice that its context has ended.
	grace = time.Second
)

// A follower keeps the rules of a Limiter those of its source. It survives whatever the source
// does.
type follower struct {
	source  Source
	timeout time.Duration
	limiter *Limiter
	loaded  bool        // once at least
	seen    []Document  // by the last Load
	seenErr error       // of putting them into force
	tag     string      // of them
	again   bool        // the last call has failed: load without a Wait
	doubt   bool        // the last Wait has failed
	under   chan answer // a call that has not returned in time

	mu     sync.Mutex
	status SourceStats
}

// An answer is what a call of the source has returned.
type answer struct {
	docs []Document
	tag  string
	err  error
}

// first is the first Load.
func (f *follower) first(ctx context.Context) error {
	err := f.load(ctx)
	f.told(err)
	return err
}

// follow loads each time that the source may have changed, until ctx ends.
func (f *follower) follow(ctx context.Context) {
	pause := leastPause
	for ctx.Err() == nil {
		start := time.Now()
		err := f.wait(ctx)
		if err == nil {
			rest(ctx, leastPause-time.Since(start))
			err = f.load(ctx)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.told(err)
		} else if !f.doubt {
			f.told(nil)
			pause = leastPause
		}
		if f.again {
			rest(ctx, pause)
			pause = min(2*pause, mostPause)
		}
	}
}

// wait waits for a change. After an error of the source it does not. A Wait that has failed is
// tried for a moment, to see whether the source is well again.
func (f *follower) wait(ctx context.Context) error {
	if f.again {
		return nil
	}
	longest := calmest
	if f.doubt {
		longest = mostPause
	}
	a := f.call(ctx, longest, func(ctx context.Context) (a answer) {
		a.err = f.source.Wait(ctx, f.tag)
		if ctx.Err() != nil {
			a.err = nil // nothing has changed for long; to load does no harm
		}
		return a
	})
	f.again, f.doubt = a.err != nil, a.err != nil
	if a.err != nil {
		return fmt.Errorf("rules: wait for a change: %w", a.err)
	}
	return nil
}

// load puts into force what the source has.
func (f *follower) load(ctx context.Context) error {
	a := f.call(ctx, f.timeout, func(ctx context.Context) (a answer) {
		a.docs, a.tag, a.err = f.source.Load(ctx)
		return a
	})
	if f.again = a.err != nil; f.again {
		return fmt.Errorf("rules: load: %w", a.err)
	}
	f.tag = a.tag
	if f.loaded && same(f.seen, a.docs) {
		f.inForce(false)
		return f.seenErr
	}
	f.loaded, f.seen, f.seenErr = true, a.docs, f.limiter.apply(a.docs)
	f.inForce(true)
	return f.seenErr
}

// inForce notes that what the source has is in force, if it is.
func (f *follower) inForce(change bool) {
	if f.seenErr != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status.Checked = time.Now()
	if change {
		f.status.Changes++
	}
}

// same reports whether documents are the same ones.
func same(a, b []Document) bool {
	return slices.EqualFunc(a, b, Document.equal)
}

var errHangs = errors.New("the source has not returned in time")

// call makes one call of the source, and returns when that has, or soon after its time is up. A
// call that goes on then is waited for before the next one.
func (f *follower) call(
	ctx context.Context, timeout time.Duration, call func(context.Context) answer,
) answer {
	if f.under != nil {
		select {
		case <-f.under:
			f.under = nil
		default:
			return answer{err: errHangs}
		}
	}
	done := make(chan answer, 1)
	bounded, cancel := context.WithTimeout(ctx, timeout)
	go func() {
		defer cancel()
		a := answer{err: errors.New("the source has ended the goroutine")}
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: fmt.Errorf("the source has panicked: %v\n%s", p, debug.Stack())}
			}
			done <- a
		}()
		a = call(bounded)
	}()
	timer := time.NewTimer(timeout + grace)
	defer timer.Stop()
	select {
	case a := <-done:
		return a
	case <-timer.C:
	case <-ctx.Done():
	}
	f.under = done
	return answer{err: errHangs}
}

// told notes and logs what became of an attempt: once when it fails, and once when it is well
// again.
func (f *follower) told(err error) {
	now := time.Now()
	f.mu.Lock()
	was := f.status
	f.status.Err = err
	switch {
	case err == nil:
		f.status.StaleSince = time.Time{}
	case was.Err == nil:
		f.status.StaleSince = now
	}
	f.mu.Unlock()
	switch {
	case err != nil && was.Err == nil && was.Changes > 0:
		f.limiter.warn("rules cannot be loaded, the last good ones stay", "error", err)
	case err == nil && was.Err != nil:
		f.limiter.warn("rules are loaded again", "stale", now.Sub(was.StaleSince))
	}
}

// rest waits for a time, or until ctx ends.
func rest(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
