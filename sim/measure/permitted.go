package measure

import (
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// Permitted is what an ideal.Gauge holds admissions against while a limit changes:
// the limit in force and those that leases may still follow, the largest of
// them. Processes hear of a change when they next attend to a key, and what is
// lent out until then stays out.
type Permitted struct {
	limit  lease.Limit
	ebbing []ebb
}

// ebb is a limit of before, and when the last lease under it has ended.
type ebb struct {
	limit lease.Limit
	until time.Duration
}

// NewPermitted permits a limit.
func NewPermitted(limit lease.Limit) Permitted { return Permitted{limit: limit} }

// Change changes the limit in force. It returns when that of before is no longer
// permitted: the longest refresh, the life of a lease, which is 4.25 of it or
// that of a calm key's batch, and an answer that is late; of a quota, the end of the window
// in which that is, and of a sliding window, a Window later.
func (p *Permitted) Change(now time.Duration, limit lease.Limit, policy lease.Policy, timeout time.Duration) (until time.Duration) {
	policy = policy.Resolved()
	until = now + policy.MaxRefresh + max(policy.MaxRefresh*17/4, policy.MaxHold) + timeout
	until = ideal.Counts(limit, until)
	p.ebbing = append(p.ebbing, ebb{p.limit, until})
	p.limit = limit
	return until
}

// At is what is permitted. Times must not go back.
func (p *Permitted) At(now time.Duration) lease.Limit {
	p.ebbing = slices.DeleteFunc(p.ebbing, func(x ebb) bool { return x.until <= now })
	limit := p.limit
	for _, x := range p.ebbing {
		limit.Rate, limit.Burst = max(limit.Rate, x.limit.Rate), max(limit.Burst, x.limit.Burst)
	}
	return limit
}
