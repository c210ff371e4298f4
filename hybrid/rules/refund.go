package rules

import (
	"errors"

	"github.com/seed13b07268/ration/hybrid"
)

// Refund gives back the Hits of descriptors that Take has allowed, and that were not of use after
// all: to the buckets that the rules name now, and to those of a Descriptor.Limit. It is for
// callers that cannot know beforehand what may come back, as Envoy's negative hits: where one can,
// Reserve is better, which loses nothing. How much comes back, hybrid.Limiter.Refund says: only
// what this process has spent from what it has on lease. The rest stays spent.
//
// A shadow gets back what it has counted by then. Stats go on to count the requests. It does not
// block. What has no limit ignores its Hits.
//
// Errors are ErrDescriptor and hybrid.ErrClosed. Nothing has come back then, or, if Close is called
// meanwhile, a part.
func (l *Limiter) Refund(domain string, descriptors ...Descriptor) error {
	if err := check(descriptors); err != nil {
		return err
	}
	for {
		s := l.state.Load()
		if l.closed.Load() {
			return hybrid.ErrClosed
		}
		p := newPlan(s.domains[domain], descriptors)
		if err := p.refund(); !errors.Is(err, hybrid.ErrClosed) || s == l.state.Load() {
			return err
		}
		// The domain has another Limiter by now, and that of before holds nothing any more.
	}
}

// refund gives back what is planned.
func (p *plan) refund() error {
	for _, a := range p.asks {
		if _, err := as(p.domain.limiter, a.Class).Refund(a.Key, a.N); err != nil {
			return err
		}
	}
	for _, s := range p.shadows {
		if _, err := as(s.limiter, s.ask.Class).Refund(s.ask.Key, s.ask.N); err != nil {
			return err
		}
	}
	return nil
}
