package workload

import (
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// classes are those of the requests, and where each of them comes to.
type classes struct {
	list  []scenario.Class
	apart bool
	count int // of processes at the start
}

func newClasses(s *scenario.Scenario) *classes {
	if len(s.Classes) == 0 {
		return nil
	}
	return &classes{list: s.Classes, apart: s.Balance.Apart, count: s.Processes}
}

// each is how many draws of a process there are: one for each class if they are apart.
func (c *classes) each() int {
	if c == nil || !c.apart {
		return 1
	}
	return len(c.list)
}

// rank is the place among the weights of processes that a class has for the one in this place.
func (c *classes) rank(rank, class int) int {
	if c == nil || !c.apart || rank >= c.count {
		return rank
	}
	return (rank + class*c.count/len(c.list)) % c.count
}

// weight is that of the process with this rank, in the mean of all classes.
func (c *classes) weight(weights []float64, rank int) (sum float64) {
	if c.each() == 1 {
		return weights[rank]
	}
	for i := range c.list {
		sum += c.part(weights, rank, i)
	}
	return sum
}

// part is what the class has of that weight.
func (c *classes) part(weights []float64, rank, class int) float64 {
	return float64(c.list[class].Share * weights[c.rank(rank, class)])
}

// classify draws the class of a request, and reports whether requests of the class come now.
func (w *Workload) classify(r *Random, q *Request) (on bool) {
	c := w.classes
	part := func(class int) float64 { return c.list[class].Share }
	if c.apart && q.Process >= 0 && w.replay == nil {
		rank := w.rank(q.Process, q.At)
		part = func(class int) float64 { return c.part(w.weights, rank, class) }
	}
	sum, last := 0.0, 0
	for i := range c.list {
		sum += part(i)
	}
	left := float64(r.Uniform() * sum)
	for i := range c.list {
		if p := part(i); p > 0 {
			if last = i; left < p {
				break
			}
			left -= p
		}
	}
	q.Class = uint8(last)
	o := c.list[last].OnOff
	if o == nil {
		return true
	}
	on, _ = phase(o, q.At, last, len(c.list))
	return on
}

// phase reports whether number i of n that come and go is on, and for how long it still is what it
// is.
func phase(o *scenario.OnOff, at time.Duration, i, n int) (on bool, lasts time.Duration) {
	if !o.Together {
		at += time.Duration(float64(o.Period) * float64(i%n) / float64(n))
	}
	if within := at % o.Period; within < o.On {
		return true, o.On - within
	} else {
		return false, o.Period - within
	}
}
