package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/local/gauge"
)

// A Load says which keys are asked for, by how many goroutines, and how long.
// The loop is closed: each goroutine asks again as soon as it has an answer,
// unless Rate is set.
type Load struct {
	ID         string // of loads that goals are about
	Name       string
	Keys       int
	Pick       Pick
	Goroutines int
	Limit      Limit
	Generous   bool // the limit is never reached
	Delayed    bool // through the proxy

	Rate int // decisions per second, all goroutines together; 0 is as fast as they go

	// New says that the limiter is: it has seen no key, and nor has Redis. Each decision of
	// the first Long is timed, and that is all.
	New bool

	Touches int // of each key before all else; 0 means one

	Warm   time.Duration // after each key has been asked for once
	Settle time.Duration // instead, for those who lease: until they have learnt who asks for what
	Long   time.Duration // without looking at the clock
	Time   time.Duration // every decision timed
}

// warm is how long a subject is asked before it is measured.
func (l Load) warm(s Subject) time.Duration {
	if s.Leases && l.Settle > 0 {
		return l.Settle
	}
	return l.Warm
}

// Pick says how keys are drawn.
type Pick int

const (
	Uniform Pick = iota // a single key is hot
	Zipf                // with exponent 1.1
	Cold                // each key once
)

const sequence = 1 << 15 // picks of each goroutine, then again

// A crowd is a Load's keys and who asks for which. It is made once, and all
// subjects get the same.
type crowd struct {
	load  Load
	names []string
	picks [][]uint32
	done  <-chan struct{} // ends everything early
}

func newCrowd(l Load) *crowd {
	c := &crowd{load: l, names: make([]string, l.Keys), picks: make([][]uint32, l.Goroutines)}
	for i := range c.names {
		c.names[i] = fmt.Sprintf("tenant:%06d", i)
	}
	for g := range c.picks {
		random := rand.New(rand.NewPCG(1, uint64(g)))
		zipf := rand.NewZipf(random, 1.1, 1, uint64(l.Keys-1))
		picks := make([]uint32, sequence)
		for i := range picks {
			switch l.Pick {
			case Uniform:
				picks[i] = uint32(random.IntN(l.Keys))
			case Zipf:
				picks[i] = uint32(zipf.Uint64())
			}
		}
		if l.Pick == Cold {
			picks = picks[:0]
			for k := g; k < l.Keys; k += l.Goroutines {
				picks = append(picks, uint32(k))
			}
		}
		c.picks[g] = picks
	}
	return c
}

// known is how many keys have been asked for, if none was touched.
func (c *crowd) known(tallies []tally) (n int) {
	seen := make([]bool, len(c.names))
	for g, picks := range c.picks {
		for _, k := range picks[:min(int(tallies[g].decisions), len(picks))] {
			if !seen[k] {
				seen[k] = true
				n++
			}
		}
	}
	return n
}

// A tally is what a goroutine has counted, alone in its cache lines.
type tally struct {
	_                           [128]byte
	decisions, admitted, errors int64
	at                          int // in its picks
	latency                     *gauge.Histogram
	_                           [128]byte
}

func (t *tally) count(ok bool, err error) {
	t.decisions++
	if err != nil {
		t.errors++
	} else if ok {
		t.admitted++
	}
}

// touchers are enough goroutines to make round trips cheap.
const touchers = 64

// newTallies returns one for each goroutine, and for each of touch's.
func (c *crowd) newTallies() []tally { return make([]tally, max(c.load.Goroutines, touchers)) }

// touch asks for each key once or more often, but no longer than most.
func (c *crowd) touch(l Limiter, tallies []tally, most time.Duration) {
	goroutines, touches := touchers, 1
	if c.load.Touches > 0 {
		// As it will go on: a crowd before would be taken for more demand than
		// there is, and leases would be adapted while the row is measured.
		goroutines, touches = c.load.Goroutines, c.load.Touches
	}
	c.each(goroutines, most, func(g int, stop *atomic.Bool) {
		for range touches {
			for k := g; k < len(c.names) && !stop.Load(); k += goroutines {
				tallies[g].count(l.Allow(c.names[k]))
			}
		}
	})
}

// ask lets all goroutines ask for a time, timed or not, and returns how long it
// really was. It ends early when there are no cold keys left.
func (c *crowd) ask(l Limiter, tallies []tally, long time.Duration, timed bool) time.Duration {
	return c.each(c.load.Goroutines, long, func(g int, stop *atomic.Bool) {
		t := &tallies[g]
		if timed {
			t.latency = new(gauge.Histogram)
		}
		pace := newPace(c.load, g)
		for picks := c.picks[g]; !stop.Load(); t.at++ {
			if t.at == len(picks) {
				if c.load.Pick == Cold {
					return
				}
				t.at = 0
			}
			key := c.names[picks[t.at]]
			pace.wait()
			if !timed {
				t.count(l.Allow(key))
				continue
			}
			start := time.Now()
			ok, err := l.Allow(key)
			if d := time.Since(start); err == nil {
				t.latency.Add(d)
			}
			t.count(ok, err)
		}
	})
}

// each runs work in goroutines until the time is over.
func (c *crowd) each(
	goroutines int, long time.Duration, work func(g int, stop *atomic.Bool),
) time.Duration {
	var stop atomic.Bool
	var wg sync.WaitGroup
	start := time.Now()
	for g := range goroutines {
		wg.Go(func() { work(g, &stop) })
	}
	ended := make(chan struct{})
	go func() {
		wg.Wait()
		close(ended)
	}()
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.done:
	case <-ended:
	}
	stop.Store(true)
	<-ended
	return time.Since(start)
}

// A pace spaces one goroutine's requests in an open loop. One that comes late
// is followed by the next ones at once: the rate is kept.
type pace struct {
	next  time.Time
	every time.Duration // 0 does not wait
}

func newPace(l Load, g int) pace {
	if l.Rate == 0 {
		return pace{}
	}
	every := time.Duration(l.Goroutines) * time.Second / time.Duration(l.Rate)
	return pace{time.Now().Add(every * time.Duration(g) / time.Duration(l.Goroutines)), every}
}

func (p *pace) wait() {
	if p.every == 0 {
		return
	}
	if d := time.Until(p.next); d > 0 {
		time.Sleep(d)
	}
	p.next = p.next.Add(p.every)
}
