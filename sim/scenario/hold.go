package scenario

import (
	"fmt"
	"slices"
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
	switch {
	case l.Cost > 1:
		return fmt.Errorf(alone, "cost", l.Cost, s.Limit)
	case l.Costs != nil:
		return fmt.Errorf(alone, "costs", l.Costs, s.Limit)
	case s.replay != nil && s.replay.largest > 1:
		return fmt.Errorf(alone, "trace with costs of up to", s.replay.largest, s.Limit)
	case l.Retry != nil && l.Retry.After == 0:
		return fmt.Errorf("retry.after is missing: limit %s tells nobody when to try again", s.Limit)
	}
	if l.Hold == nil {
		l.Hold = &Hold{}
	}
	return l.Hold.resolve()
}

func (h *Hold) resolve() error {
	setDefault(&h.Mean, 100*time.Millisecond)
	setDefault(&h.Times, "exponential")
	if h.Times == "gamma" {
		setDefault(&h.CV, 2)
	}
	switch {
	case !slices.Contains([]string{"exponential", "even", "gamma"}, h.Times):
		return bad("hold.times", h.Times, "exponential, even, gamma")
	case h.CV != 0 && h.Times != "gamma":
		return fmt.Errorf("hold.cv is for gamma times, not for %s", h.Times)
	case h.Times == "gamma" && !(h.CV >= 0.1 && h.CV <= 20):
		return bad("hold.cv", h.CV, "from 0.1 to 20")
	}
	return within("hold.mean", h.Mean, 100*time.Microsecond, longest)
}
