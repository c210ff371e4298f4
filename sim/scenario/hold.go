package scenario

import (
	"cmp"
	"fmt"
	"time"
)

// Hold is how long jobs last.
type Hold struct {
	Mean time.Duration `yaml:"mean,omitempty"` // 100 µs to 1000 h; default 100ms

	// Times are exponential, even, which is all alike, or gamma with a coefficient of
	// variation CV. Default: exponential.
	Times string  `yaml:"times,omitempty"`
	CV    float64 `yaml:"cv,omitempty"` // 0.1 to 20; default 2
}

// resolveHold looks at how long jobs last, and at what does not go with jobs.
func (s *Scenario) resolveHold() error {
	l := &s.Load
	if !s.Limit.Kind.Jobs() {
		if l.Hold != nil {
			return fmt.Errorf("hold of %v does not go with limit %s: it is for slots", l.Hold.Mean, s.Limit)
		}
		return nil
	}
	const alone = "%s %v does not go with limit %s: each job has one slot"
	largest := int64(0)
	if s.replay != nil {
		largest = s.replay.largest
	}
	err := cmp.Or(wrong(l.Cost > 1, alone, "cost", l.Cost, s.Limit),
		wrong(l.Costs != nil, alone, "costs", l.Costs, s.Limit),
		wrong(largest > 1, alone, "trace with costs of up to", largest, s.Limit),
		wrong(l.Retry != nil && l.Retry.After == 0,
			"retry.after is missing: limit %s tells nobody when to try again", s.Limit))
	if l.Hold == nil {
		l.Hold = &Hold{}
	}
	return cmp.Or(err, l.Hold.resolve())
}

func (h *Hold) resolve() error {
	setDefault(&h.Mean, 100*time.Millisecond)
	setDefault(&h.Times, "exponential")
	if h.Times == "gamma" {
		setDefault(&h.CV, 2)
	}
	return cmp.Or(spread("hold.", "times", h.Times, h.CV, "exponential"),
		within("hold.mean", h.Mean, 100*time.Microsecond, longest))
}
