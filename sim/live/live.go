package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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

	// Trips are those round trips which nothing but the machine and the network ended, and
	// Delays by how much requests were late. Both are in the order of time.
	Trips  []Lapse `json:"-"`
	Delays []Lapse `json:"-"`

	// gathered is how long exchanges waited for others, after the request that they are for.
	gathered []time.Duration

	fired []shot // in the order in which they were; nil if requests depend on answers

	// Began is when the run did by the clock of Redis, since 1970-01-01 0:00 by UTC: quotas
	// go by that.
	Began time.Duration `json:"-"`

	// Lost is how many requests were fired, or were to be, whose answers died
	// with a crashed process of the operating system: they count nowhere.
	Lost int `json:"lost"`
}

// A Lapse is a time that began at a time of the run.
type Lapse struct{ At, Took time.Duration }

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
	extra.charge(p, &r)
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
	began   time.Duration // since 1970, by the clock of Redis; or up to unsure earlier
	unsure  time.Duration
	lost    int
}

// charge notes what the run itself did wrong.
func (x *Extra) charge(p *plan, r *recording) {
	x.RoundTrips, x.Trips, x.Lost = r.traffic.RoundTrips, r.traffic.Trips, r.lost
	x.Began, x.gathered = r.began, r.traffic.Gathered
	slices.SortFunc(r.shots, func(a, b shot) int { return cmp.Compare(a.Fired, b.Fired) })
	if !p.answering {
		x.fired = r.shots
	}
	var late []time.Duration
	for i := range r.shots {
		if s := &r.shots[i]; s.Verdict != unrouted {
			late = append(late, s.Fired-s.At)
			x.Delays = append(x.Delays, Lapse{s.At, s.Fired - s.At})
		}
	}
	slices.Sort(x.gathered)
	for _, list := range [][]Lapse{x.Trips, x.Delays} {
		slices.SortFunc(list, func(a, b Lapse) int { return cmp.Compare(a.At, b.At) })
	}
	if len(late) > 0 {
		slices.Sort(late)
		x.LateP99 = late[(len(late)-1)*99/100].Seconds()
		x.LateMax = late[len(late)-1].Seconds()
	}
}

// turnAway records the requests that no process was there for.
func (r *recording) turnAway(p *plan) {
	for _, q := range p.unrouted {
		if q.At < r.end {
			r.shots = append(r.shots, shot{q, answer{Verdict: unrouted, Fired: q.At, Returned: q.At}})
		}
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
	var unread error
	if p.scenario.HasQuotas() {
		others.Go(func() { unread = r.readClock(context.WithoutCancel(ctx), space, start) })
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
	return errors.Join(unflushed, unread)
}

// readings are how often the clock of Redis is read: one trip of some is short.
const readings = 8

// readClock finds when the run began by the clock of Redis. Redis read it between the question and
// the answer, which bounds the beginning on both sides; so does each reading.
func (r *recording) readClock(ctx context.Context, space ledgers, start time.Time) error {
	latest, earliest := time.Duration(math.MaxInt64), time.Duration(math.MinInt64)
	for range readings {
		asked := time.Since(start)
		now, err := space.clock(ctx)
		if err != nil {
			return err
		}
		latest, earliest = min(latest, now-asked), max(earliest, now-time.Since(start))
	}
	r.began, r.unsure = latest, max(latest-earliest, 0)
	return nil
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
