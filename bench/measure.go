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

	from := sum(tallies)
	start, err := b.read()
	if err != nil {
		return sample, "", err
	}
	elapsed := c.ask(limiter, tallies, l.Long, l.New)
	end, err := b.read()
	if err != nil {
		return sample, "", err
	}
	to := sum(tallies)
	if !l.New {
		c.ask(limiter, tallies, l.Time, true)
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
	asked := float64(to.decisions - from.decisions)
	decided := asked - float64(to.errors-from.errors)
	if decided <= 0 {
		return sample, "no decision", nil
	}
	wrong := asked - decided + float64(trial.Astray)*asked/float64(trial.Decisions)
	if l.Generous {
		wrong += decided - float64(to.admitted-from.admitted)
	}
	latency := new(gauge.Histogram)
	for i := range tallies {
		if h := tallies[i].latency; h != nil {
			latency.Merge(h)
		}
	}
	calls := float64(s.calls(end.server.since(start.server)))
	perKey := 0.0
	if l.New {
		perKey = calls / float64(c.known(tallies))
	}
	micros := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
	return Sample{
		Rate:      decided / elapsed.Seconds(),
		Admitted:  float64(to.admitted-from.admitted) / decided,
		Errors:    wrong / asked,
		P50:       micros(latency.Quantile(0.5)),
		P99:       micros(latency.Quantile(0.99)),
		P999:      micros(latency.Quantile(0.999)),
		Used:      float64(all.admitted) / (float64(l.Keys) * bucketBound(l.Limit, trial.Elapsed)),
		Calls:     calls / decided,
		PerKey:    perKey,
		ServerCPU: micros(end.server.CPU-start.server.CPU) / decided,
		ClientCPU: micros(end.client-start.client) / decided,
		Allocs:    float64(end.heap.Mallocs-start.heap.Mallocs) / decided,
		Bytes:     float64(end.heap.TotalAlloc-start.heap.TotalAlloc) / decided,
	}, "", nil
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
