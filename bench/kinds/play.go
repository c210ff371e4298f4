package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/local/gauge"
)

// keyPrefix begins the names of the keys that are measured, and a number ends them.
const (
	keyPrefix = "tenant:"
	digits    = 6
)

// play asks the fleet for so long. What is still under way then counts if it is a decision, and
// does not if it is a job that waits for a slot.
func (l load) play(ctx context.Context, fleet []*process, long time.Duration) *tally {
	names := make([]string, l.keys)
	for i := range names {
		names[i] = fmt.Sprintf("%s%0*d", keyPrefix, digits, i)
	}
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var stop atomic.Bool // a Context that many goroutines ask all the time is slow
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	var wg sync.WaitGroup
	var tallies []*tally
	for i, p := range fleet {
		for w := range max(l.workers, 1) {
			t := &tally{judged: !l.plenty}
			tallies = append(tallies, t)
			random := rand.New(rand.NewPCG(uint64(i), uint64(w)))
			job := func() {
				key := random.IntN(len(names))
				p.job(ctx, l, key, names[key], t)
			}
			if l.workers == 0 {
				job = l.arrivals(ctx, p, names, random, &wg, t)
			}
			wg.Go(func() {
				for !stop.Load() {
					job()
				}
			})
		}
	}
	wg.Wait()
	all := &tally{}
	for _, t := range tallies {
		all.add(t)
	}
	return all
}

// arrivals returns what waits for the next request of a process and lets it begin. One that
// comes late is followed by the next ones at once: the rate is kept.
func (l load) arrivals(
	ctx context.Context, p *process, names []string, random *rand.Rand, wg *sync.WaitGroup,
	t *tally,
) func() {
	next := time.Now()
	return func() {
		gap := random.ExpFloat64() * processes / l.rate
		next = next.Add(time.Duration(gap * float64(time.Second)))
		if wait := time.Until(next); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		key := random.IntN(len(names))
		wg.Go(func() { p.job(ctx, l, key, names[key], t) })
	}
}

// job is a request and, of slots, what is done with the slot.
func (p *process) job(ctx context.Context, l load, key int, name string, t *tally) {
	start := time.Now()
	ok, release, err := p.take(ctx, name)
	decision := since(key, start)
	if release == nil {
		if err == nil || ctx.Err() == nil { // the others waited for a slot until the end
			t.count(decision, decision, ok, err)
		}
		return
	}
	had := time.Now()
	if l.hold > 0 {
		select {
		case <-time.After(l.hold):
		case <-ctx.Done():
		}
	}
	use := since(key, had)
	t.count(decision, use, ok, release())
}

func since(key int, start time.Time) span {
	at := start.UnixNano()
	return span{key, at, at + int64(time.Since(start))}
}

// A tally is what goroutines of a process have counted.
type tally struct {
	_                         [128]byte // not in the cache line of another one
	mu                        sync.Mutex
	judged                    bool // requests and admissions are kept
	decided, admitted, errors int
	astray                    uint64
	latency                   gauge.Histogram
	requests, admissions      []span
}

// count counts a decision and, if there was a token or a slot, its use.
func (t *tally) count(decision, use span, ok bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.errors++
		return
	}
	t.decided++
	t.latency.Add(time.Duration(decision.to - decision.from))
	if ok {
		t.admitted++
	}
	if !t.judged {
		return
	}
	t.requests = append(t.requests, decision)
	if ok {
		t.admissions = append(t.admissions, use)
	}
}

func (t *tally) add(o *tally) {
	t.decided, t.admitted, t.errors = t.decided+o.decided, t.admitted+o.admitted, t.errors+o.errors
	t.latency.Merge(&o.latency)
	t.requests = append(t.requests, o.requests...)
	t.admissions = append(t.admissions, o.admissions...)
}

// mostAstray is the part of decisions that may end in errors, or without Redis.
const mostAstray = 0.01

// refuse says why the figures are not those of a limiter that asks Redis.
func (t *tally) refuse() string {
	if t.decided == 0 {
		return fmt.Sprintf("no decision, %d errors", t.errors)
	}
	if bad := float64(t.errors) + float64(t.astray); bad > mostAstray*float64(t.decided) {
		return fmt.Sprintf("%d decisions, %d errors, %d decisions without Redis", t.decided,
			t.errors, t.astray)
	}
	return ""
}
