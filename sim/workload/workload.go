// Package workload makes the requests of a scenario: when they come, what they
// ask for, and which process they are sent to.
//
// Everything random comes from streams with a purpose, see Random: the same
// scenario, seed and replication give the same requests, whatever becomes of
// them. (Closed loads and least-outstanding balancing answer to what becomes of
// them, from the first difference on.)
package workload

import (
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// A Request is one call of a client.
type Request struct {
	At      time.Duration
	Process int // that it comes to, or -1: Route decides
	Client  int
	Key     int
	Cost    int64
	Hold    time.Duration // how long a job has its slots; 0 for tokens, which are spent
	Class   uint8         // its place among the classes, 0 if there are none

	// More are the keys of the other limits, where each request meets several.
	More [scenario.MaxEach - 1]int32
}

// Worth is what is admitted with it: tokens, or slot-seconds.
func (q *Request) Worth() float64 {
	if q.Hold > 0 {
		return float64(float64(q.Cost) * q.Hold.Seconds())
	}
	return float64(q.Cost)
}

// A Workload yields the requests of one replication. It is not safe for
// concurrent use.
type Workload struct {
	scenario  *scenario.Scenario
	processes int // at most, with those that join
	streams   []stream
	clients   []client
	balancer

	limits   []scenario.Limited
	keys     []choice            // of each limit
	visitors choice              // clients, for sticky
	replay   *scenario.Arrivals  // of a log; nil if there is none
	given    func(*Request) bool // those of Of; nil if there are none
}

// A client of a closed load.
type client struct{ think, marks, classes *Random }

// New returns the Workload of a scenario, which must be resolved.
func New(s *scenario.Scenario, seed uint64, replication int) *Workload {
	w := &Workload{scenario: s, processes: s.Processes + s.Joins(), limits: s.Limits()}
	w.balancer = newBalancer(s, w.processes, seed, replication)
	w.keys = make([]choice, len(w.limits))
	for i, l := range w.limits {
		w.keys[i].set(Zipf(l.Number, l.Skew))
	}
	if weights := s.Weights; weights != nil {
		w.keys[0].set(weights)
	}
	if n := s.Balance.Clients; n > 0 {
		w.visitors.set(Zipf(n, s.Balance.ClientSkew))
	}
	switch l := &s.Load; {
	case s.Replay() != nil:
		w.replay, w.streams = s.Replay().Arrivals(), make([]stream, 1)
		w.streams[0].marks = NewRandom(seed, replication, -1, Marks)
		w.streams[0].classes = NewRandom(seed, replication, -1, Classes)
	case l.Clients != nil:
		for i := range l.Clients.Count {
			of := func(p Purpose) *Random { return NewRandom(seed, replication, i, p) }
			w.clients = append(w.clients, client{of(Think), of(Marks), of(Classes)})
		}
	case s.Balance.By == "own":
		for i := range w.processes {
			w.streams = append(w.streams, newStream(w, seed, replication, i))
		}
	default:
		w.streams = append(w.streams, newStream(w, seed, replication, -1))
	}
	return w
}

// Of is New with other requests, which must not depend on answers: next sets each of them in
// the order of time, and returns false when there are no more.
func Of(
	s *scenario.Scenario, seed uint64, replication int, next func(*Request) bool,
) *Workload {
	w := New(s, seed, replication)
	w.given, w.streams = next, make([]stream, 1)
	return w
}

// Processes is how many there are at most, with those that join.
func (w *Workload) Processes() int { return w.processes }

// Streams is how many independent streams of requests there are, for Next. A
// closed load has none.
func (w *Workload) Streams() int { return len(w.streams) }

// Clients is how many there are of a closed load.
func (w *Workload) Clients() int { return len(w.clients) }

// Next sets q to the next request of a stream; it returns false when there are
// no more until the scenario's end.
func (w *Workload) Next(stream int, q *Request) bool {
	switch {
	case w.given != nil:
		return w.given(q)
	case w.replay != nil:
		return w.replayNext(q)
	}
	s := &w.streams[stream]
	for s.advance() {
		w.mark(s.marks, q)
		q.At, q.Process = s.at, s.process
		if w.classes == nil || w.classify(s.classes, q) {
			return true
		}
	}
	return false
}

// replayNext is the next request of the log.
func (w *Workload) replayNext(q *Request) bool {
	var a scenario.Arrival
	if !w.replay.Next(&a) {
		return false
	}
	*q = Request{At: a.At, Process: int(a.Upstream), Client: int(a.Key), Cost: a.Cost}
	if w.scenario.Load.Trace.PerClient {
		q.Key = q.Client
	}
	w.hold(w.streams[0].marks, q)
	if w.classes != nil {
		w.classify(w.streams[0].classes, q)
	}
	return true
}

// Err is why a log could not be read to its end, which Next takes for its end.
func (w *Workload) Err() error {
	if w.replay == nil {
		return nil
	}
	return w.replay.Err()
}

// Think is the next request of a client of a closed load that has got its last
// answer now.
func (w *Workload) Think(now time.Duration, client int) Request {
	c := &w.clients[client]
	var q Request
	w.mark(c.marks, &q)
	q.At = now + time.Duration(c.think.Exponential()*float64(w.scenario.Load.Clients.Think))
	q.Process, q.Client = -1, client
	if w.classes != nil {
		w.classify(c.classes, &q)
	}
	return q
}

// mark draws what a request asks for.
func (w *Workload) mark(r *Random, q *Request) {
	for i := range w.keys {
		key := w.limits[i].First
		if len(w.keys[i]) > 1 {
			key += w.keys[i].draw(r)
		}
		if i == 0 {
			q.Key = key
		} else {
			q.More[i-1] = int32(key)
		}
	}
	if len(w.visitors) > 1 {
		q.Client = w.visitors.draw(r)
	}
	q.Cost = w.scenario.Load.Cost
	if costs := w.scenario.Load.Costs; costs != nil {
		q.Cost = costs[r.Below(len(costs))]
	}
	w.hold(r, q)
}

// hold draws how long a job lasts.
func (w *Workload) hold(r *Random, q *Request) {
	h := w.scenario.Load.Hold
	if h == nil {
		return
	}
	times := 1.0
	switch h.Times {
	case "exponential":
		times = r.Exponential()
	case "gamma":
		times = r.Gamma(h.CV)
	}
	q.Hold = max(time.Duration(times*float64(h.Mean)), time.Microsecond)
}

// A stream makes the times of requests: gaps with mean 1 pass at the load's
// rate, which is constant in pieces.
type stream struct {
	scenario    *scenario.Scenario
	gaps, marks *Random
	classes     *Random
	process     int
	count       int       // of processes
	weights     []float64 // of the processes, for own
	kinds       *classes  // of requests
	mean        float64   // requests/s of the whole load

	at    time.Duration
	rate  float64 // requests/s
	until time.Duration
}

func newStream(w *Workload, seed uint64, replication, process int) stream {
	return stream{
		scenario: w.scenario, process: process, count: w.scenario.Processes, weights: w.weights, kinds: w.classes, mean: w.scenario.RequestRate(),
		gaps: NewRandom(seed, replication, process, Arrivals), marks: NewRandom(seed, replication, process, Marks),
		classes: NewRandom(seed, replication, process, Classes),
	}
}

// advance moves at to the next request, and reports whether that is before the end.
func (s *stream) advance() bool {
	left := s.gap()
	for s.at < s.scenario.Duration {
		if s.at >= s.until {
			s.piece()
		}
		if s.rate > 0 {
			if d := time.Duration(float64(left/s.rate*1e9) + 0.5); d >= 0 && d <= s.until-s.at {
				s.at += d
				return s.at < s.scenario.Duration
			}
			left -= float64(s.rate * (s.until - s.at).Seconds())
		}
		s.at = s.until
	}
	return false
}

func (s *stream) gap() float64 {
	switch l := &s.scenario.Load; l.Arrivals {
	case "even":
		return 1
	case "gamma":
		return s.gaps.Gamma(l.CV)
	}
	return s.gaps.Exponential()
}

// piece sets the rate at s.at, and how long it stays.
func (s *stream) piece() {
	s.rate, s.until = s.mean, s.scenario.Duration
	l, b := &s.scenario.Load, &s.scenario.Balance
	for _, f := range l.Flash {
		if s.at >= f.At && s.at < f.At+f.For {
			s.rate *= f.Times
		}
		for _, edge := range []time.Duration{f.At, f.At + f.For} {
			if edge > s.at {
				s.until = min(s.until, edge)
			}
		}
	}
	if d := l.Diurnal; d != nil {
		const steps = 48 // of a period: as smooth as half an hour of a day
		step := d.Period / steps
		n := s.at / step
		middle := (float64(n%steps) + 0.5) / steps
		s.rate *= 1 + float64((1-d.Low)*portable(math.Sin(2*math.Pi*middle)))
		s.until = min(s.until, (n+1)*step)
	}
	if s.process < 0 {
		return
	}
	rank := s.process
	if b.Moves > 0 && rank < s.count {
		n := s.at / b.Moves
		rank = (rank + int(n)) % s.count
		s.until = min(s.until, (n+1)*b.Moves)
	}
	s.rate *= s.kinds.weight(s.weights, rank)
	if o := b.OnOff; o != nil {
		on, lasts := phase(o, s.at, s.process, s.count)
		s.until = min(s.until, s.at+lasts)
		if on {
			s.rate *= float64(o.Period) / float64(o.On)
		} else {
			s.rate = 0
		}
	}
}

// Shifts are the moments at which the load moves among processes, for the
// measure of how long it takes to settle, without those of faults.
func Shifts(s *scenario.Scenario) (at []time.Duration) {
	if m := s.Balance.Moves; m > 0 {
		for t := m; t < s.Duration; t += m {
			at = append(at, t)
		}
	}
	for _, f := range s.Load.Flash {
		at = append(at, f.At, f.At+f.For)
	}
	slices.Sort(at)
	return at
}
