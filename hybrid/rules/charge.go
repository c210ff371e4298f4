package rules

import (
	"errors"

	"github.com/seed13b07268/ration/hybrid"
)

// Charge takes the Hits of descriptors that were used already, as hybrid.Limiter.Charge does: from
// the buckets that the rules name now, and those of a Descriptor.Limit. Hits of 0 charge nothing.
// What is not there is a debt. It is for costs that a Reservation elsewhere was too small for; for
// reports of requests that are served see Descriptor.Used, whose debts are bounded.
//
// A shadow counts the Hits, too. Stats count no request. It does not block, but may call LimitFor
// once for a key.
//
// Errors are ErrDescriptor, and those of hybrid.Limiter.Charge, of all buckets that have one.
func (l *Limiter) Charge(domain string, descriptors ...Descriptor) error {
	if err := check(descriptors); err != nil {
		return err
	}
	if l.closed.Load() {
		return hybrid.ErrClosed
	}
	p := newPlan(l.state.Load().domains[domain], descriptors)
	var err error
	for i, a := range p.asks {
		if descriptors[p.from[i]].Hits > 0 {
			err = errors.Join(err, l.charge(domain, a))
		}
	}
	for _, s := range p.shadows {
		if descriptors[s.descriptor].Hits > 0 {
			l.cast(s)
		}
	}
	return err
}
