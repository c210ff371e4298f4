package hunt

import (
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/scenario"
)

// Bounds of what is drawn in the class Near: a store in the same zone, region or part of the
// world, no faults, no closed loads and no flashes. What is not here is as in Wide.
const (
	maxNearProcesses           = 100       // log
	minNearRate, maxNearRate   = 5, 200    // requests/s of each process at the limit, log
	minNearBurst, maxNearBurst = 2, 40     // requests of each process that a Burst holds, log
	minNearTrip, maxNearTrip   = 0.2, 20   // ms, log
	minNearLoad, maxNearLoad   = 0.75, 1.2 // offered/limit
	maxNearSkew                = 1.5       // half of all scenes have none
	maxNearKeys                = 10        // log, alike; four of five scenes have one
	minTurn, maxTurn           = 0.2, 5    // s, the period of those that are on in turn, log
	mostOn                     = 0.5       // part of it that each is on, log; at least 1/processes
)

// near draws a scene of that class.
func (d dice) near(s *scenario.Scenario) {
	s.Processes = d.whole(minProcesses, maxNearProcesses)
	s.Keys.Number = 1
	if d.chance(0.2) {
		s.Keys.Number = d.whole(2, maxNearKeys)
	}
	rate := float64(s.Processes) * d.log(minNearRate, maxNearRate) / float64(s.Keys.Number)
	burst := float64(s.Processes) * d.log(minNearBurst, maxNearBurst)
	s.Burst = int64(burst) // in requests, which bounds what one of them costs
	cost := d.costs(s)
	s.SetLimit(lease.Limit{
		Rate: scenario.Round(rate*cost, 3), Burst: int64(scenario.Round(burst*cost, 3)),
	})
	d.redis(s, minNearTrip, maxNearTrip)
	s.Load.Offered = scenario.Round(d.between(minNearLoad, maxNearLoad), 3)
	if d.chance(0.5) {
		s.Balance.Skew = scenario.Round(d.between(0, maxNearSkew), 2)
	}
	if d.chance(0.1) {
		s.Load.Patience = d.duration(d.log(minPatience, maxPatience))
	}
	d.nearArrivals(s)
	d.durations(s, s.Load.Offered, cost)
}

// nearArrivals draws when requests come, and where: in a third of the scenes processes are on in
// turn, the next one before or when the last one has done.
func (d dice) nearArrivals(s *scenario.Scenario) {
	l, b := &s.Load, &s.Balance
	b.By = "own"
	if d.chance(1. / 3) {
		period := d.log(minTurn, maxTurn)
		on := d.log(1/float64(s.Processes), mostOn)
		b.OnOff = &scenario.OnOff{On: d.duration(max(period*on, 0.001)), Period: d.duration(period)}
		return
	}
	if d.chance(0.5) {
		b.By = "random"
	}
	if d.chance(0.4) {
		l.Arrivals, l.CV = "gamma", d.log(minCV, maxCV)
	}
}
