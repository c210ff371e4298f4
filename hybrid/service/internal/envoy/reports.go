package envoy

import (
	"sync"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// reports knows which hits are reports. A gateway looks at a rule with 0 hits when a request comes,
// and says what the request has cost when its stream has ended. Such a report is a message as any
// other, and may reach another process than the look. So a rule at which somebody has looked is one
// to which costs are reported, unless its Overdraft says otherwise: hits that a message says, and
// that do not fit, are counted as a debt (ADR 159).
type reports struct {
	looked sync.Map // place of a rule; that of a limit which a request brings has no path
}

// see takes the result of a look.
func (p *reports) see(r *request, result rules.Result) {
	for i, each := range result.Each {
		if r.verbs[i] == look && each.State != rules.NotConfigured {
			p.looked.Store(place{domain: r.domain, path: each.Rule}, true)
		}
	}
}

// mark marks the hits of a request that are reports.
func (p *reports) mark(r *request, in *rules.Rules) error {
	explained, err := in.Explain(r.domain, r.descriptors...)
	for i, e := range explained {
		if !r.said[i] || r.verbs[i] != take || e.State == rules.NotConfigured ||
			e.State == rules.Replaced {
			continue
		}
		if o := e.Rule.Overdraft; o != nil {
			r.descriptors[i].Used = *o
		} else {
			_, r.descriptors[i].Used = p.looked.Load(place{domain: r.domain, path: e.Rule.Path})
		}
	}
	return err
}
