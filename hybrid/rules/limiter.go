package rules

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/internal/foreign"
)

// Config configures a Limiter. The zero Config is a good one.
type Config struct {
	// Limiter is what the hybrid.Limiter of each domain is made of. Its Limit, LimitFor, Classes,
	// ClassesFor and Namespace must be empty: the rules have them. A domain's fairness and outage
	// go before its Policy.Fairness and Outage. MaxKeys holds for each domain. Its Logger or
	// SlogLogger is told of rules as well.
	Limiter hybrid.Config

	// Record says how the decisions of a domain are recorded. It is called when a domain begins, and
	// after a change of its fairness or outage, and must not block. Names of keys are those of
	// buckets, which Rules.Bucket reads. Default: Limiter.Record, for all domains together.
	Record func(domain string) hybrid.Recording

	// LoadTimeout bounds a Load of the Source, 10 ms to 10 min. Default: 10 s.
	LoadTimeout time.Duration

	// Empty says that the source may have no documents, in New and later: then every request is
	// NotConfigured, and so allowed. By default that is a mistake. It is for programs whose rules
	// are written while they run. A Load that fails, and a Book that has lost its rules, are
	// errors in any case.
	Empty bool
}

const defaultLoadTimeout = 10 * time.Second

// A Limiter limits requests by the rules of a Source. Its methods are safe for concurrent use.
type Limiter struct {
	store  hybrid.Store
	config Config
	state  atomic.Pointer[state]

	follower *follower
	shadows  chan shadow
	life     context.Context // ends at Close
	end      context.CancelFunc
	running  sync.WaitGroup // goroutines that follow the source, and that count for shadows
	retiring sync.WaitGroup // Limiters of domains that have another one now, or are gone
	book     foreign.Book   // log lines

	closed atomic.Bool
	ended  chan struct{} // all that Close does is done
	ending error
}

// New returns a Limiter after the first Load of the source. It waits for that, at most
// Config.LoadTimeout and a second. It returns an error if the Load fails, if a document has a
// mistake, or if there is none (but see Config.Empty): a program without rules would let everything
// through. From then on the last good rules are in force, whatever the source does. Close the
// Limiter when it is no longer needed.
func New(store hybrid.Store, source Source, config Config) (*Limiter, error) {
	config, err := config.resolve()
	switch {
	case err != nil:
		return nil, err
	case store == nil:
		return nil, errors.New("rules: store is nil")
	case source == nil:
		return nil, errors.New("rules: source is nil")
	}
	l := &Limiter{
		store: store, config: config,
		shadows: make(chan shadow, mostShadows), ended: make(chan struct{}),
	}
	l.life, l.end = context.WithCancel(context.Background())
	l.state.Store(&state{rules: &Rules{}})
	l.follower = &follower{source: source, timeout: config.LoadTimeout, limiter: l}
	if err := l.follower.first(l.life); err != nil {
		l.end()
		return nil, err
	}
	l.running.Go(func() { l.follower.follow(l.life) })
	for range shadowWorkers {
		l.running.Go(l.countShadows)
	}
	return l, nil
}

// resolve returns c with defaults, or an error that names a field and its value.
func (c Config) resolve() (Config, error) {
	if c.LoadTimeout == 0 {
		c.LoadTimeout = defaultLoadTimeout
	}
	if c.LoadTimeout < 10*time.Millisecond || c.LoadTimeout > 10*time.Minute {
		return c, fmt.Errorf("rules: Config.LoadTimeout %v is not from 10ms to 10m", c.LoadTimeout)
	}
	h := c.Limiter
	switch {
	case h.Limit != hybrid.Limit{}:
		return c, fmt.Errorf("rules: Config.Limiter.Limit %v is set: rules have the limits", h.Limit)
	case len(h.Classes) > 0 || h.ClassesFor != nil:
		return c, errors.New("rules: Config.Limiter.Classes or ClassesFor is set: rules have the classes")
	case h.LimitFor != nil:
		return c, errors.New("rules: Config.Limiter.LimitFor is set: rules have the limits")
	case c.Record != nil && h.Record.To != nil:
		return c, errors.New("rules: Config.Limiter.Record is set beside Record")
	case h.Namespace != "":
		return c, fmt.Errorf("rules: Config.Limiter.Namespace %.80q is set: a domain has its own",
			h.Namespace)
	}
	return c, nil
}

// Rules returns the rules in force.
func (l *Limiter) Rules() *Rules { return l.state.Load().rules }

// Close hands all leases back, until ctx ends, and stops the Limiter's goroutines. Requests that
// wait, and all later ones, get hybrid.ErrClosed. A second Close waits for the first, until its
// own ctx ends. Where ctx ends first, the rest goes on without it: rules that are being read are
// read to their end. Close does not wait for a Source that hangs: what that returns has no effect.
func (l *Limiter) Close(ctx context.Context) error {
	if !l.closed.Swap(true) {
		l.end()
		go l.handBack(ctx)
	}
	select {
	case <-l.ended:
		return l.ending
	case <-ctx.Done():
		return fmt.Errorf("rules: close: %w", ctx.Err())
	}
}

// handBack hands all leases back, until ctx ends, when nothing else goes on.
func (l *Limiter) handBack(ctx context.Context) {
	l.running.Wait()
	var all sync.WaitGroup
	var mu sync.Mutex
	for _, d := range l.state.Load().domains {
		all.Go(func() {
			err := d.limiter.Close(ctx)
			mu.Lock()
			defer mu.Unlock()
			l.ending = errors.Join(l.ending, err)
		})
	}
	all.Wait()
	l.retiring.Wait()
	if err := l.book.Close(ctx); err != nil {
		l.ending = errors.Join(l.ending, fmt.Errorf("rules: close: %w", err))
	}
	close(l.ended)
}
