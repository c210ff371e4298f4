package hunt

import (
	"fmt"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
)

// Bounds of the classes that are drawn.
const (
	minClasses, maxClasses = 2, 4
	minFloors, maxFloors   = 0.2, 0.9 // of all classes together
	minWeight, maxWeight   = 0.25, 4  // log; one of four classes has none
	minShare               = 0.1      // of the requests, as a part of the largest, log
	alonePart              = 0.25     // of the scenes have requests of one class only
	minGone, maxGone       = 2, 20    // s, the period of a class that comes and goes, log
)

// classes gives the requests of a scene classes.
func (d dice) classes(s *scenario.Scenario) {
	s.Name += "-classes"
	n := minClasses + d.Below(maxClasses-minClasses+1)
	s.Classes = make([]scenario.Class, n)
	all, sum := d.between(minFloors, maxFloors), 0.0
	parts := make([]float64, n)
	for i := range parts {
		if i == 0 || d.chance(0.6) {
			parts[i] = d.log(minShare, 1)
			sum += parts[i]
		}
	}
	for i := range s.Classes {
		c := &s.Classes[i]
		c.Name = fmt.Sprintf("class-%d", i)
		c.Floor = scenario.Round(all*parts[i]/sum, 2)
		if d.chance(0.75) {
			c.Weight = d.log(minWeight, maxWeight)
		}
	}
	if d.chance(alonePart) {
		s.Classes[d.Below(n)].Share = 1
		return
	}
	d.shares(s)
	if b := &s.Balance; (b.By == "random" || b.By == "own") && d.chance(0.5) {
		b.Apart = true
	}
}

// shares draws how many requests are of each class, and lets one of them come and go.
func (d dice) shares(s *scenario.Scenario) {
	sum, parts := 0.0, make([]float64, len(s.Classes))
	for i := range parts {
		parts[i] = d.log(minShare, 1)
		sum += parts[i]
	}
	left := 1.0
	for i := range parts[1:] {
		s.Classes[i].Share = scenario.Round(parts[i]/sum, 3)
		left -= s.Classes[i].Share
	}
	s.Classes[len(parts)-1].Share = scenario.Round(left, 6)
	if s.Load.Clients == nil && d.chance(1./3) {
		period := d.log(minGone, maxGone)
		s.Classes[d.Below(len(parts))].OnOff = &scenario.OnOff{
			On: d.duration(period * d.between(0.2, 0.8)), Period: d.duration(period),
		}
	}
}

// Alone reports whether all requests are of one class.
func (s *Scene) Alone() bool {
	for _, c := range s.Classes {
		if c.Share == 1 {
			return true
		}
	}
	return false
}

// byClass notes what classes got. A floor may lack a request: it is smooth, and requests are not.
func (f *Figures) byClass(s *Scene, list []engine.ClassShare) {
	if list == nil {
		return
	}
	one := float64(s.LargestCost()) / (s.Capacity() * engine.ClassWindow.Seconds())
	f.WorstClass = 1
	for i := range list {
		c := &list[i]
		f.Lack = max(f.Lack, c.Lack-one)
		f.MeanLack = max(f.MeanLack, c.MeanLack)
		f.WorstClass = min(f.WorstClass, c.Part())
	}
}
