// Package live shows what the rules of a domain have done over the last minutes and hours, as
// fragments of HTML with charts. docs/service-live.md says what each figure means.
//
// # Promise
//
// Memory is bounded, however many rules, keys and processes there are: at most 52 MB for the
// history of rules, 18 MB for that of Jain's index, 4 MB for the fleet, and of 1024 reports of
// other services what 4 KiB of text have. At most 50 keys are inspected each 10 s, and those that
// somebody looks at. Nothing that a rule or a key is called becomes markup.
//
// It does not promise that history outlives the process. Counts by rule are those of all services
// that tell each other theirs; the most limited keys are those of this process.
//
// It asks nobody for permission: whoever mounts the Handler does.
package live

import (
	"context"
	_ "embed" // live.css
	"log/slog"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/register"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// CSS is the style sheet of the fragments. It uses the custom properties --ink, --quiet, --line,
// --paper, --accent, --good and --bad of the page around them, if that has them. Tables that may be
// wider than their place have its class scroll, too: it shows that there is more.
//
//go:embed live.css
var CSS []byte

// A Store is what the Limiter's processes share. hybrid.Memory is one, and Remote makes one of
// Redis. Its methods return in bounded time.
type Store interface {
	hybrid.Publisher

	// Inspect returns what the ledger of a key knows, or a View without a Limit if there is none.
	Inspect(ctx context.Context, key string) (lease.View, error)
}

// Remote is Redis as a Store.
func Remote(s *remote.Store) Store { return redisStore{s} }

type redisStore struct{ *remote.Store }

func (s redisStore) Inspect(ctx context.Context, key string) (lease.View, error) {
	v, err := s.Store.Inspect(ctx, key)
	return v.View, err
}

// Counters keep what services tell, as remote.Store does. Their methods return in bounded time.
type Counters interface {
	// PublishAll keeps texts of at most 4 KiB under their ids for a life of up to 5 min, in place
	// of what was there, in one round trip.
	PublishAll(ctx context.Context, texts map[string][]byte, life time.Duration) error

	// Published calls each for all that is kept, in one round trip.
	Published(ctx context.Context, each func(id string, age time.Duration, text []byte)) error
}

// Config configures a Live.
type Config struct {
	// Counters is where services that share the Store tell each other what they have counted, each
	// in its own namespace of the same Redis. Default: nowhere, there is only this one.
	Counters Counters

	// Name is what others call this service when they miss it. Default: none, and nobody does.
	Name string

	// Register keeps over restarts when rules were asked for. Default: none.
	Register Register

	// Log is told when the store begins or ceases to answer. Default: slog.Default.
	Log *slog.Logger
}

// A Live keeps what has happened. It is safe for concurrent use.
type Live struct {
	limiter *rules.Limiter
	store   Store
	memory  bool // store is the memory of this process
	log     *slog.Logger
	looks   looks

	mu       sync.Mutex
	history  history
	stats    rules.Stats // of the last sample
	fleet    fleet
	fairness fairness
	counters Counters // what services count
	sums     sums
	silence  silence
	asking   asking
	called   string    // Config.Name
	began    time.Time // when ticks began
}

// New returns a Live that has seen nothing yet: Run samples.
func New(l *rules.Limiter, s Store, c Config) *Live {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	_, memory := s.(*hybrid.Memory)
	now := time.Now()
	return &Live{
		limiter: l, store: s, memory: memory, log: c.Log,
		looks:    looks{room: make(chan struct{}, mostLooks), seen: map[string]look{}},
		history:  history{domains: map[string]*domain{}},
		fleet:    fleet{members: map[string]member{}},
		fairness: fairness{domains: map[string]*indexes{}},
		counters: c.Counters, sums: newSums(),
		silence: silence{services: map[string]service{}, read: now, since: now},
		asking: asking{
			register: c.Register, rules: map[register.ID]register.Rule{},
			ours: map[register.ID]bool{}, unsaved: map[register.ID]bool{},
		},
		called: c.Name, began: now,
	}
}

const (
	// patience is how long one call to the store is waited for.
	patience = 2 * time.Second

	sampleEvery = 2 * time.Second
	fleetEvery  = 5 * time.Second
	jainEvery   = 10 * time.Second
)

// Run samples until ctx ends. It is called once. It returns when the calls to the store that are
// under way have.
func (l *Live) Run(ctx context.Context) {
	start := time.Now()
	var all sync.WaitGroup
	defer all.Wait()
	l.mu.Lock()
	l.began = start
	l.mu.Unlock()
	l.sample(0)
	all.Go(func() {
		l.note(ctx)
		each(ctx, noteEvery, func() { l.note(ctx) })
	})
	all.Go(func() { each(ctx, fleetEvery, func() { l.readFleet(ctx) }) })
	if l.counters != nil {
		all.Go(func() {
			for timer := time.NewTimer(0); ; timer.Reset(l.pause()) {
				select {
				case <-timer.C:
					l.exchange(ctx)
				case <-ctx.Done():
					timer.Stop()
					l.farewell(ctx)
					return
				}
			}
		})
	}
	due := make(chan int64, 1)
	defer close(due)
	all.Go(func() {
		for tick := range due {
			l.inspect(ctx, tick)
		}
	})
	inspected := int64(0)
	each(ctx, sampleEvery, func() {
		// An inspection follows a sample, so that it is of the slot that this has begun.
		if tick := l.sample(time.Since(start)); tick/tickJain != inspected {
			select {
			case due <- tick:
				inspected = tick / tickJain
			default: // the one before goes on
			}
		}
	})
}

// each calls f now and then until ctx ends.
func each(ctx context.Context, every time.Duration, f func()) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// statsLocked are those of a domain, of the last sample.
func (l *Live) statsLocked(domain string) rules.DomainStats {
	for _, s := range l.stats.Domains {
		if s.Domain == domain {
			return s
		}
	}
	return rules.DomainStats{}
}

// sample takes the Limiter's Stats at a time after the first sample, and returns its tick.
func (l *Live) sample(at time.Duration) int64 {
	s := l.limiter.Stats()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stats = s
	l.history.add(at, s.Domains)
	l.fairness.advance(l.history.tick)
	return l.history.tick
}

// ask calls f with a context that ends soon, and tells the log where its failures begin and end.
func (l *Live) ask(ctx context.Context, failing *bool, what string, f func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f(ctx)
	switch {
	case ctx.Err() == context.Canceled:
		return
	case err != nil && !*failing:
		l.log.Warn("live: "+what+" is not known", "error", err)
	case err == nil && *failing:
		l.log.Info("live: " + what + " is known again")
	}
	*failing = err != nil
}
