package workload

import (
	"slices"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// A balancer sends requests to processes that are up.
type balancer struct {
	by      string
	count   int // of processes at the start
	moves   time.Duration
	weights []float64 // of all processes; those at the start add up to 1
	random  *Random
	classes *classes // of requests, nil if there are none

	up    []int         // processes, in order
	turn  int           // of round-robin
	busy  []int         // requests in each process, for least-outstanding
	chain []choice      // of all classes, or of each
	until time.Duration // they are right until then
}

func newBalancer(s *scenario.Scenario, processes int, seed uint64, replication int) balancer {
	b := balancer{
		by: s.Balance.By, count: s.Processes, moves: s.Balance.Moves,
		random: NewRandom(seed, replication, -1, Routes), busy: make([]int, processes),
		classes: newClasses(s),
	}
	b.weights = Zipf(s.Processes, s.Balance.Skew)
	if s.Balance.Weights != nil && len(s.Balance.Weights) == s.Processes {
		b.weights = slices.Clone(s.Balance.Weights)
		sum := 0.0
		for _, w := range b.weights {
			sum += w
		}
		for i := range b.weights {
			b.weights[i] /= sum
		}
	}
	for len(b.weights) < processes { // those that join are average ones
		b.weights = append(b.weights, 1/float64(s.Processes))
	}
	return b
}

// SetUp says whether a process takes requests.
func (b *balancer) SetUp(process int, up bool) {
	i, found := slices.BinarySearch(b.up, process)
	switch {
	case up && !found:
		b.up = slices.Insert(b.up, i, process)
	case !up && found:
		b.up = slices.Delete(b.up, i, i+1)
	}
	b.until = 0
}

// Busy adds to the requests that a process works on.
func (b *balancer) Busy(process, n int) { b.busy[process] += n }

// Route returns the process that a request goes to, or false if there is none.
func (b *balancer) Route(q *Request) (process int, ok bool) {
	if q.Process >= 0 {
		_, ok = slices.BinarySearch(b.up, q.Process)
		return q.Process, ok
	}
	if len(b.up) == 0 {
		return 0, false
	}
	switch b.by {
	case "round-robin":
		b.turn++
		return b.up[b.turn%len(b.up)], true
	case "sticky":
		return b.up[mix(uint64(q.Client))%uint64(len(b.up))], true
	case "least-outstanding":
		return b.idlest(), true
	}
	if q.At >= b.until {
		b.weigh(q.At)
	}
	return b.up[b.chain[min(int(q.Class), len(b.chain)-1)].draw(b.random)], true
}

// idlest is a process with the fewest requests, any of them.
func (b *balancer) idlest() int {
	best, ties := b.up[0], 0
	for _, p := range b.up {
		switch {
		case b.busy[p] < b.busy[best]:
			best, ties = p, 1
		case b.busy[p] == b.busy[best]:
			if ties++; b.random.Below(ties) == 0 {
				best = p
			}
		}
	}
	return best
}

// rank is the place of a process among the weights.
func (b *balancer) rank(process int, now time.Duration) int {
	if b.moves > 0 && process < b.count {
		return (process + int(now/b.moves)) % b.count
	}
	return process
}

// weigh prepares the draw among those that are up.
func (b *balancer) weigh(now time.Duration) {
	b.until = 1 << 62
	if b.moves > 0 {
		b.until = (now/b.moves + 1) * b.moves
	}
	b.chain = make([]choice, b.classes.each())
	for class := range b.chain {
		weights := make([]float64, len(b.up))
		sum := 0.0
		for i, p := range b.up {
			weights[i] = b.weights[b.classes.rank(b.rank(p, now), class)]
			sum += weights[i]
		}
		if sum == 0 { // only those that get nothing are left
			for i := range weights {
				weights[i] = 1
			}
		}
		b.chain[class].set(weights)
	}
}
