package main

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/seed13b07268/ration/local/gauge"
)

// A Sample is one round of one subject under one load.
type Sample struct {
	Rate     float64 // decisions per second, errors not counted
	Admitted float64 // part of the decisions
	// Errors are part of the requests: no answer, or one without Redis, or a denial under a
	// generous limit.
	Errors         float64
	Used           float64 // tokens admitted since the limiter was opened, part of Burst + Rate*T
	P50, P99, P999 float64 // µs, of a pass of its own in which each decision is timed
	Calls          float64 // calls to Redis per decision
	PerKey         float64 // the same, for each key that a new limiter was asked for
	ServerCPU      float64 // µs per decision
	ClientCPU      float64 // µs per decision, the load's own loop included
	Allocs, Bytes  float64 // per decision
}

// A bench has what measurements need.
type bench struct {
	server *Server
	proxy  *proxyProcess
	crowds map[string]*crowd
	done   <-chan struct{} // closed when the user wants to stop
}

// addr is where subjects of this load find Redis.
func (b *bench) addr(l Load) string {
	if l.Delayed {
		return b.proxy.Addr
	}
	return b.server.Addr
}

func (b *bench) crowd(l Load) *crowd {
	key := fmt.Sprint(l.Keys, l.Pick, l.Goroutines, l.Rate)
	if b.crowds[key] == nil {
		b.crowds[key] = newCrowd(l)
	}
	c := *b.crowds[key]
	c.load, c.done = l, b.done
	return &c
}

// reading is all counters at one moment.
type reading struct {
	at     time.Time
	server Counters
	client time.Duration
	heap   runtime.MemStats
}

func (b *bench) read() (reading, error) {
	var r reading
	var err error
	if r.server, err = b.server.Counters(); err != nil {
		return r, err
	}
	runtime.ReadMemStats(&r.heap)
	var usage syscall.Rusage
	if err = syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return r, fmt.Errorf("getrusage: %w", err)
	}
	r.client = time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	r.at = time.Now()
	return r, nil
}

// measure makes one round. It returns why the subject is refused, if it is;
// errors are those of the measurement itself.
func (b *bench) measure(s Subject, l Load) (sample Sample, refused string, err error) {
	if err := b.server.Flush(); err != nil {
		return sample, "", err
	}
	runtime.GC() // the heap of the one before is not this one's
	before, err := b.read()
	if err != nil {
		return sample, "", err
	}
	limiter, err := s.Open(Env{Addr: b.addr(l), Limit: l.Limit, Conns: l.Goroutines})
	if err != nil {
		return sample, fmt.Sprintf("does not open: %v", err), nil
	}
	defer limiter.Close()
	c := b.crowd(l)
	tallies := c.newTallies()
	warmUp(limiter, s, l, c, tallies)
	r, err := b.play(limiter, l, c, tallies)
	if err != nil {
		return sample, "", err
	}
	last, err := b.read()
	if err != nil {
		return sample, "", err
	}
	all := sum(tallies)
	trial := Trial{
		Decisions: all.decisions, Admitted: all.admitted, Errors: all.errors, Keys: l.Keys,
		Calls: s.calls(last.server.since(before.server)), Elapsed: last.at.Sub(before.at),
	}
	if limiter.Astray != nil {
		trial.Astray = limiter.Astray()
	}
	if why := refuse(s, l, trial); why != "" {
		return sample, why, nil
	}
	if r.decided() <= 0 {
		return sample, "no decision", nil
	}
	sample = r.sample(s, l, trial)
	sample.Used = float64(all.admitted) / (float64(l.Keys) * bucketBound(l.Limit, trial.Elapsed))
	if l.New {
		sample.PerKey = r.calls(s) / float64(c.known(tallies))
	}
	return sample, "", nil
}

// warmUp has the limiter asked until what is measured is warm.
func warmUp(limiter Limiter, s Subject, l Load, c *crowd, tallies []tally) {
	if l.Pick == Cold || l.New {
		for range 20 { // a connection is not cold, only the keys
			_, _ = limiter.Allow("warm")
		}
	} else {
		c.touch(limiter, tallies, 10*time.Second)
	}
	if warm := l.warm(s); warm > 0 {
		c.ask(limiter, tallies, warm, false)
	}
}

// A played is what was asked, and what was read before and after that.
type played struct {
	from, to   tally
	start, end reading
	elapsed    time.Duration
	latency    *gauge.Histogram
}

// play has the limiter asked, and asked again with each decision timed.
func (b *bench) play(limiter Limiter, l Load, c *crowd, tallies []tally) (r played, err error) {
	r.from = sum(tallies)
	if r.start, err = b.read(); err != nil {
		return r, err
	}
	r.elapsed = c.ask(limiter, tallies, l.Long, l.New)
	if r.end, err = b.read(); err != nil {
		return r, err
	}
	r.to = sum(tallies)
	if !l.New {
		c.ask(limiter, tallies, l.Time, true)
	}
	r.latency = new(gauge.Histogram)
	for i := range tallies {
		if h := tallies[i].latency; h != nil {
			r.latency.Merge(h)
		}
	}
	return r, nil
}

func (r *played) asked() float64 { return float64(r.to.decisions - r.from.decisions) }

func (r *played) decided() float64 { return r.asked() - float64(r.to.errors-r.from.errors) }

func (r *played) calls(s Subject) float64 {
	return float64(s.calls(r.end.server.since(r.start.server)))
}

// sample is what was measured for each decision.
func (r *played) sample(s Subject, l Load, trial Trial) Sample {
	asked, decided, admitted := r.asked(), r.decided(), float64(r.to.admitted-r.from.admitted)
	wrong := asked - decided + float64(trial.Astray)*asked/float64(trial.Decisions)
	if l.Generous {
		wrong += decided - admitted
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return Sample{
		Rate:      decided / r.elapsed.Seconds(),
		Admitted:  admitted / decided,
		Errors:    wrong / asked,
		P50:       micros(r.latency.Quantile(0.5)),
		P99:       micros(r.latency.Quantile(0.99)),
		P999:      micros(r.latency.Quantile(0.999)),
		Calls:     r.calls(s) / decided,
		ServerCPU: micros(r.end.server.CPU-r.start.server.CPU) / decided,
		ClientCPU: micros(r.end.client-r.start.client) / decided,
		Allocs:    float64(r.end.heap.Mallocs-r.start.heap.Mallocs) / decided,
		Bytes:     float64(r.end.heap.TotalAlloc-r.start.heap.TotalAlloc) / decided,
	}
}

func sum(tallies []tally) (all tally) {
	for i := range tallies {
		t := &tallies[i]
		all.decisions += t.decisions
		all.admitted += t.admitted
		all.errors += t.errors
	}
	return all
}
