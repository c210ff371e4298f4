package scenario

import (
	"cmp"
	"fmt"
	"math"

	"github.com/seed13b07268/ration/lease"
)

// A Class is a class of requests, by the names of the fields of lease.Class, and what part of the
// load it is.
type Class struct {
	Name   string  `yaml:"name"`
	Floor  float64 `yaml:"floor,omitempty"`
	Weight float64 `yaml:"weight,omitempty"`

	// Share is the part of the requests that are of the class, 0 to 1. All Shares add up to 1.
	// Default: where no class has one, all alike.
	Share float64 `yaml:"share,omitempty"`

	// OnOff lets the requests of the class come and go, in an open load. The load while they are
	// there stays as it is, so that the mean is lower.
	OnOff *OnOff `yaml:"on_off,omitempty"`
}

// LeaseClasses are the Classes by their type, nil if there are none.
func (s *Scenario) LeaseClasses() (list []lease.Class) {
	for _, c := range s.Classes {
		list = append(list, lease.Class{Name: c.Name, Floor: c.Floor, Weight: c.Weight})
	}
	return list
}

// resolveClasses looks at the classes, and at what does not go with them.
func (s *Scenario) resolveClasses() error {
	b, n := &s.Balance, len(s.Classes)
	if n == 0 {
		return wrong(b.Apart, "balance.apart is for classes, and there are none")
	}
	err := cmp.Or(
		wrong(s.Keys.Each != nil, "%d of them do not go with a list of keys: a request for several keys "+
			"has no class", n),
		wrong(!s.Limit.Kind.Classes(), "%d of them do not go with limit %s: a floor is a part of a rate, "+
			"or of a quota", n, s.Limit),
		wrong(b.Apart && b.By != "random" && b.By != "own",
			"balance.apart is for random and own, not for %s", b.By))
	if err != nil {
		return err
	}
	policy, err := s.Policy.Lease()
	if err != nil {
		return err
	}
	if err := lease.ValidateClasses(s.LeaseClasses(), policy); err != nil {
		return err
	}
	sum := 0.0
	for i := range s.Classes {
		c := &s.Classes[i]
		if err := c.check(s); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		sum += c.Share
	}
	if sum == 0 {
		for i := range s.Classes {
			s.Classes[i].Share = 1 / float64(n)
		}
		return nil
	}
	return wrong(math.Abs(sum-1) > 1e-6, "share %.6g of all together is not 1", sum)
}

// check returns an error that names the field and its value unless the class can have a part of
// the load of s.
func (c *Class) check(s *Scenario) error {
	err := cmp.Or(checkName(c.Name), within("share", c.Share, 0, 1))
	if err != nil || c.OnOff == nil {
		return err
	}
	if s.Load.Clients != nil || s.Load.Trace != nil {
		return fmt.Errorf("on_off is for an open load: no clients, no trace")
	}
	return c.OnOff.check(s)
}
