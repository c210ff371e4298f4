package main

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
)

// schedule says who asks for what and when. It is made before the run, so that
// the same flags give the same requests, and nothing but firing them is left
// to do while time runs.
type schedule struct {
	keys  []string
	procs [][]arrival // of each process, in order of time
}

// arrival is a request to come.
type arrival struct {
	at   time.Duration // from the start of the run
	key  int           // index into schedule.keys
	cost int           // tokens, at least 1
}

// maxRequests bounds the memory of a run, of which each request and its answer
// take some 50 bytes.
const maxRequests = 20_000_000

func (s *schedule) requests() (n int) {
	for _, p := range s.procs {
		n += len(p)
	}
	return n
}

// tokens is the sum of all costs.
func (s *schedule) tokens() (n float64) {
	for _, p := range s.procs {
		for _, a := range p {
			n += float64(a.cost)
		}
	}
	return n
}

// last is when the last request comes.
func (s *schedule) last() (last time.Duration) {
	for _, p := range s.procs {
		if len(p) > 0 {
			last = max(last, p[len(p)-1].at)
		}
	}
	return last
}

// largest is the highest cost.
func (s *schedule) largest() (most int) {
	for _, p := range s.procs {
		for _, a := range p {
			most = max(most, a.cost)
		}
	}
	return most
}

// route chooses the process that a client's request goes to.
type route func(client string) int

// spread sends requests at random, by Zipf weights of the processes.
func spread(procs int, skew float64, rng *rand.Rand) route {
	z := newZipf(procs, skew)
	return func(string) int { return z.draw(rng) }
}

// sticky sends a client always to the same process.
func sticky(procs int) route {
	return func(client string) int {
		h := fnv.New64a()
		_, _ = h.Write([]byte(client))
		return int(h.Sum64() % uint64(procs))
	}
}

// poisson is a synthetic load.
type poisson struct {
	rate     float64 // requests/s, over all keys
	keys     int
	keySkew  float64 // Zipf exponent of the keys' popularity
	duration time.Duration
}

func (p poisson) schedule(procs int, to route, rng *rand.Rand) (*schedule, error) {
	if n := p.rate * p.duration.Seconds(); n > maxRequests {
		return nil, fmt.Errorf("%.0f requests/s for %v are more than the %d requests that fit into memory", p.rate, p.duration, maxRequests)
	}
	s := &schedule{procs: make([][]arrival, procs)}
	for i := range p.keys {
		s.keys = append(s.keys, fmt.Sprintf("key-%d", i))
	}
	z := newZipf(p.keys, p.keySkew)
	for at := 0.0; ; {
		at += rng.ExpFloat64() / p.rate
		if at >= p.duration.Seconds() {
			return s, nil
		}
		key := z.draw(rng)
		proc := to(s.keys[key])
		s.procs[proc] = append(s.procs[proc], arrival{time.Duration(at * 1e9), key, 1})
	}
}

// replay plays a log faster, and not beyond a time on the wall clock.
type replay struct {
	log       *accesslog.Log
	speedup   float64
	end       time.Duration // 0: to its end
	perClient bool          // a key for each client, else one for all
}

// fixedKey is the key of a replay that has only one.
const fixedKey = "fleet"

func (r replay) schedule(procs int, to route) (*schedule, error) {
	s := &schedule{procs: make([][]arrival, procs)}
	index := map[string]int{}
	first := r.log.Requests[0].At
	for i, q := range r.log.Requests {
		at := time.Duration(float64(q.At.Sub(first)) / r.speedup)
		if r.end > 0 && at > r.end {
			break
		}
		if i == maxRequests {
			return nil, fmt.Errorf("the log has %d requests; %d fit into memory", len(r.log.Requests), maxRequests)
		}
		name := fixedKey
		if r.perClient {
			name = q.Key
		}
		key, ok := index[name]
		if !ok {
			key = len(s.keys)
			index[name] = key
			s.keys = append(s.keys, name)
		}
		proc := to(q.Key)
		s.procs[proc] = append(s.procs[proc], arrival{at, key, q.Cost})
	}
	return s, nil
}
