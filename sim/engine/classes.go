package engine

import (
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// ClassWindow is the time in which a floor is honoured.
const ClassWindow = 2 * time.Second

// A ClassShare is what requests of one class were.
type ClassShare struct {
	Name     string  `json:"name"`
	Requests int64   `json:"requests"` // that came after the warm-up, and have their verdict
	Offered  float64 `json:"offered"`  // tokens, of all that have their verdict
	Admitted float64 `json:"admitted"` // the same

	// Fair is what floors and weights make of what the ideal limit admits in each window of
	// 100 ms: what is within floors first, then the rest by weight, then by rank. Of a quota, which
	// keeps floors and gives the rest to whoever comes first, it is what the ideal one admits.
	Fair float64 `json:"fair"`

	// Within is how many tokens are within the floor, as an ideal limit of the floor alone
	// admits them. Honoured is the part of them that was admitted, window of ClassWindow by
	// window; Lack is what is missing in the worst window, and MeanLack in the mean of all, as a
	// part of what the limit lets through in the mean.
	Within   float64 `json:"within_floor"`
	Honoured float64 `json:"honoured"`
	Lack     float64 `json:"lack"`
	MeanLack float64 `json:"mean_lack"`

	// Seconds to a decision.
	LatencyP50 float64 `json:"latency_p50_seconds"`
	LatencyP99 float64 `json:"latency_p99_seconds"`
}

// Part is how much of its fair share the class has: at most 1, and 1 of nothing.
func (c *ClassShare) Part() float64 {
	if c.Fair <= 0 {
		return 1
	}
	return min(c.Admitted/c.Fair, 1)
}

// Floors is what of the floors was honoured, of the class that fared worst: 1 without classes.
func (r *Result) Floors() float64 {
	least := 1.0
	for i := range r.Classes {
		least = min(least, r.Classes[i].Honoured)
	}
	return least
}

// byClass are tokens by class.
type byClass [lease.MaxClasses]float64

// keyClasses is what is counted of a key by class.
type keyClasses struct {
	floors [lease.MaxClasses]ideal.Ideal
	quota  *measure.Floored // nil for a bucket

	// in the window of fair shares under way; what is owed stays
	demand, owed, ideal byClass

	// in the window of floors under way
	within, admitted byClass
}

// classMeter measures by class.
type classMeter struct {
	classes []lease.Class
	largest int64 // cost
	shares  []classTally
	since   time.Duration // the window of floors under way began
	windows int
	fair    []float64 // scratch
}

// classTally counts for a ClassShare.
type classTally struct {
	ClassShare
	honoured, lack float64
	latency        gauge.Histogram
}

// newClassMeter returns nil where requests have no classes.
func newClassMeter(e *engine) *classMeter {
	if len(e.scenario.Classes) == 0 {
		return nil
	}
	m := &classMeter{classes: e.scenario.LeaseClasses(), largest: e.scenario.LargestCost()}
	m.clear(e)
	return m
}

// clear forgets what was counted so far.
func (m *classMeter) clear(e *engine) {
	m.shares, m.since, m.windows = make([]classTally, len(m.classes)), e.now, 0
	for _, k := range present(e.keys) {
		k.classes.within, k.classes.admitted = byClass{}, byClass{}
	}
}

// newKey lets a key have classes: what is counted of it, and the ideal limit of a quota.
func (m *classMeter) newKey(e *engine, of *key) {
	limit, k := of.limit, new(keyClasses)
	if of.classes = k; ideal.TraitsOf(limit).Calendar {
		k.quota = measure.NewFloored(e.now, m.classes, limit, e.patience)
		of.ideal = k.quota
	}
	for i, c := range m.classes {
		k.floors[i] = measure.Floor(e.now, c, limit, e.policy.Resolved().MaxRefresh, m.largest, e.patience)
	}
}

// idealOf is the ideal limit of the key, for the class of a request.
func (k *key) idealOf(q *request) ideal.Ideal {
	if k.classes != nil && k.classes.quota != nil {
		k.classes.quota.Class = q.Class
	}
	return k.ideal
}

// setLimit lets floors follow the limit of a key.
func (m *classMeter) setLimit(e *engine, k *keyClasses, limit lease.Limit) {
	for i, c := range m.classes {
		measure.SetFloor(k.floors[i], e.now, c, limit, e.policy.Resolved().MaxRefresh, m.largest)
	}
}

// takeFloor takes what is within the floor of a class, and reports whether the request is.
func (k *keyClasses) takeFloor(now time.Duration, q *request) bool {
	floor := k.floors[q.Class]
	return floor != nil && floor.Take(now, float64(q.Cost), 0)
}

// settle counts a request that has its verdict.
func (m *classMeter) settle(e *engine, q *request, k *keyClasses, admitted bool) {
	t, n := &m.shares[q.Class], float64(q.Cost)
	t.Offered += n
	if q.within {
		t.Within += n
		k.within[q.Class] += n
		k.owed[q.Class] += n
	}
	if admitted {
		t.Admitted += n
		k.admitted[q.Class] += n
	}
	if q.At >= e.meter.since { // as with all requests
		t.Requests++
		t.latency.Add(e.now - q.At)
	}
}

// share gives the processes of a key their fair shares of the window that ends: those of each
// class, in proportion to demand.
func (m *classMeter) share(k *key) {
	c := k.classes
	if c.quota != nil {
		m.fair = append(m.fair[:0], c.ideal[:len(m.classes)]...)
	} else {
		m.fair = measure.ByClass(m.fair[:0], m.classes, c.demand[:], c.owed[:], k.tallies.ideal)
	}
	for _, t := range k.touched {
		fair := 0.0
		for i, x := range m.fair {
			if c.demand[i] > 0 {
				fair += float64(x*t.byClass[i]) / c.demand[i]
			}
		}
		t.process.fair += fair
		t.process.long.fair += fair
		t.short, *t.byClass = 0, byClass{}
	}
	for i, x := range m.fair {
		m.shares[i].Fair += x
		c.owed[i] = max(c.owed[i]-x, 0)
	}
	c.demand, c.ideal = byClass{}, byClass{}
}

// tick ends a window of floors, if it is over.
func (m *classMeter) tick(e *engine) {
	lasted := e.now - m.since
	if lasted < ClassWindow {
		return
	}
	var rates float64
	var honoured, lack byClass
	for _, k := range present(e.keys) {
		c := k.classes
		rates += scenario.Mean(k.limit)
		for i := range m.classes {
			honoured[i] += min(c.within[i], c.admitted[i])
			lack[i] += max(c.within[i]-c.admitted[i], 0)
		}
		c.within, c.admitted = byClass{}, byClass{}
	}
	m.windows++
	m.since = e.now
	for i := range m.shares {
		t, part := &m.shares[i], 0.0
		if rates > 0 {
			part = lack[i] / float64(rates*lasted.Seconds())
		}
		t.honoured += honoured[i]
		t.lack += lack[i]
		t.Lack = max(t.Lack, part)
		t.MeanLack += part
	}
}

// result tells of each class.
func (m *classMeter) result() (list []ClassShare) {
	for i := range m.shares {
		t := &m.shares[i]
		t.Name, t.Honoured = m.classes[i].Name, 1
		if all := t.honoured + t.lack; all > 0 {
			t.Honoured = t.honoured / all
		}
		t.MeanLack /= float64(max(m.windows, 1))
		t.LatencyP50 = t.latency.Quantile(0.5).Seconds()
		t.LatencyP99 = t.latency.Quantile(0.99).Seconds()
		list = append(list, t.ClassShare)
	}
	return list
}
