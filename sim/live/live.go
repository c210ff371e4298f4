package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
)

// Options are what a run needs beside the scenario.
type Options struct {
	// Redis is where the ledgers are, host:port or a redis:// URL. Empty: a
	// Redis in this program.
	Redis string

	// Separate is the command that starts a process, which must call Play: each
	// life of a process is a process of the operating system then. Empty: all
	// are in this program.
	Separate []string

	Seed        uint64
	Replication int

	Progress *Progress // nil: nobody looks
}

// Progress is how far a run is. It may be read at any time.
type Progress struct{ Fired, Admitted atomic.Int64 }

func (p *Progress) add(v verdict) {
	p.Fired.Add(1)
	if v == admitted {
		p.Admitted.Add(1)
	}
}

// Extra is what a run measures that a simulation has no need to.
type Extra struct {
	Redis    string `json:"redis"` // host:port, or Embedded
	Separate bool   `json:"separate"`

	// Late is by how much requests were fired after their time, seconds.
	LateP99 float64 `json:"late_p99_seconds"`
	LateMax float64 `json:"late_max_seconds"`

	// RoundTrips carried Result.Calls; exchanges of several keys share them.
	RoundTrips int64 `json:"round_trips"`

	// Census is how many of Result.Calls told a process how many processes there are. They come
	// by the clock, whatever the load is. The engine leaves them out, so that Predict adds them.
	Census int64 `json:"census"`

	// Trips are how long those round trips took which nothing but the machine
	// and the network ended, in their order.
	Trips []time.Duration `json:"-"`

	// Began is when the run did by the clock of Redis, since 1970-01-01 0:00 by UTC: quotas
	// go by that.
	Began time.Duration `json:"-"`

	// Lost is how many requests were fired, or were to be, whose answers died
	// with a crashed process of the operating system: they count nowhere.
	Lost int `json:"lost"`
}

var (
	// ErrAddress is wrapped by errors about Options.Redis.
	ErrAddress = errors.New("want host:port or redis://user:password@host:port/db")
	// ErrUnsupported is wrapped where a scenario cannot be played in real time,
	// or not by separate processes.
	ErrUnsupported = errors.New("cannot be played live")
)

// Run plays a scenario, which must be resolved, in real time. When ctx ends it
// fires no more and returns what was measured until then, and the error of ctx.
// Whatever happens, it hands leases back, deletes its keys and ends the
// processes that it has started.
func Run(ctx context.Context, s *scenario.Scenario, o Options) (*engine.Result, Extra, error) {
	extra := Extra{Separate: len(o.Separate) > 0}
	p, err := newPlan(s, o.Seed, o.Replication)
	if err == nil && extra.Separate {
		err = p.separable()
	}
	if err != nil {
		return nil, extra, fmt.Errorf("live: %w", err)
	}
	if o.Progress == nil {
		o.Progress = new(Progress)
	}
	space, err := openKeyspace(ctx, o.Redis, p.setting.Timeout)
	if err != nil {
		return nil, extra, fmt.Errorf("live: %w", err)
	}
	extra.Redis = space.name()

	var r recording
	if extra.Separate {
		r, err = playSeparate(ctx, p, space, o)
	} else {
		r, err = playHere(ctx, p, space, o.Progress)
	}
	err = errors.Join(err, space.close(p.keys))
	extra.charge(&r)
	if err == nil {
		err = ctx.Err()
	} else {
		err = fmt.Errorf("live: %w", err)
	}
	return judge(p, &r), extra, err
}

// recording is all that is known of a run when it is over.
type recording struct {
	shots   []shot
	traffic traffic
	pools   []float64     // of the keys, when the warm-up ended; none if nobody has looked
	end     time.Duration // the scenario's duration, or when the run was interrupted
	began   time.Duration // since 1970, by the clock of Redis
	lost    int
}

// charge notes what the run itself did wrong.
func (x *Extra) charge(r *recording) {
	x.RoundTrips, x.Trips, x.Lost = r.traffic.RoundTrips, r.traffic.Trips, r.lost
	x.Census = r.traffic.Census
	x.Began = r.began
	var late []time.Duration
	for i := range r.shots {
		if s := &r.shots[i]; s.Verdict != unrouted {
			late = append(late, s.Fired-s.At)
		}
	}
	if len(late) > 0 {
		slices.Sort(late)
		x.LateP99 = late[(len(late)-1)*99/100].Seconds()
		x.LateMax = late[len(late)-1].Seconds()
	}
}

// ledgers are where those of a run are: a keyspace.
type ledgers interface {
	open() (store hybrid.Store, hangUp func())
	pool(ctx context.Context, key string) (float64, error)
	clock(ctx context.Context) (sinceEpoch time.Duration, err error)
	delete(keys []string) error
}

// beside lets run play a run, and does what happens to Redis meanwhile. It notes
// when the run ended.
func (r *recording) beside(ctx context.Context, p *plan, space ledgers, start time.Time, run func(context.Context)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var others sync.WaitGroup
	var unflushed error
	if p.scenario.HasQuotas() {
		now, err := space.clock(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		r.began = now - time.Since(start)
	}
	others.Go(func() {
		for _, at := range p.flushes {
			if unflushed != nil || !sleepUntil(ctx, start, at) {
				return
			}
			unflushed = space.delete(p.keys)
		}
	})
	others.Go(func() {
		if w := p.setting.Warmup; w > 0 && sleepUntil(ctx, start, w) {
			r.pools, _ = look(ctx, space, p.keys) // without them judge takes what could have been saved
		}
	})
	run(ctx)
	r.end = min(max(time.Since(start), 0), p.setting.Duration)
	cancel()
	others.Wait()
	return unflushed
}

// sleepUntil sleeps until at, counted from start, and reports whether ctx has
// not ended.
func sleepUntil(ctx context.Context, start time.Time, at time.Duration) bool {
	wait := at - time.Since(start)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
