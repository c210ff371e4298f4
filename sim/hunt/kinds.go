package hunt

import "time"

// Kinds of arrivals, by Kind.
var Kinds = []string{"even or poisson", "gamma", "on and off", "clumps", "in step", "flash", "closed loop"}

// Kind is an index into Kinds.
func (s *Scene) Kind() int {
	o := s.Balance.OnOff
	switch {
	case s.Load.Clients != nil:
		return 6
	case s.Load.Flash != nil:
		return 5
	case o != nil && o.Together:
		return 4
	case o != nil && o.Period < 500*time.Millisecond:
		return 3
	case o != nil:
		return 2
	case s.Load.Arrivals == "gamma":
		return 1
	}
	return 0
}

// Manners of callers, by Manner.
var Manners = []string{"cost 1", "same cost", "mixed costs", "waiting"}

// Manner is an index into Manners.
func (s *Scene) Manner() int {
	switch {
	case s.Load.Patience > 0:
		return 3
	case s.Load.Costs != nil:
		return 2
	case s.Load.Cost > 1:
		return 1
	}
	return 0
}

// Troubles that befall a fleet, by Trouble.
var Troubles = []string{"none", "join", "crash", "lost messages"}

// Trouble is an index into Troubles.
func (s *Scene) Trouble() int {
	switch {
	case s.Redis.Lost > 0:
		return 3
	case len(s.Faults) > 0 && s.Faults[0].Kind == "crash":
		return 2
	case len(s.Faults) > 0:
		return 1
	}
	return 0
}

// Offered is the mean load as a multiple of the limit, of a closed load what it
// would be if each answer came at once.
func (s *Scene) Offered() float64 {
	if c := s.Load.Clients; c != nil {
		return float64(c.Count) / c.Think.Seconds() * s.MeanCost() / s.Capacity()
	}
	offered := s.Load.Offered
	for _, f := range s.Load.Flash {
		offered *= f.Times
	}
	return offered
}
