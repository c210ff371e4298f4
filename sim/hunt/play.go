package hunt

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
)

// Replications is how often a scene is played by each of the two that are
// compared, and rivalReplications by the other policies.
const (
	Replications      = 5
	rivalReplications = 2
)

// A rival is a fixed policy. Together they tell what the fewest calls are for
// which a scene can be served.
type rival struct {
	name   string
	policy lease.Policy
}

var rivals = []rival{
	{"batches of 10", lease.Policy{Mode: lease.Batches, Batch: 10}},
	{"batches of 100", lease.Policy{Mode: lease.Batches, Batch: 100}},
	{"shares", lease.Policy{Mode: lease.Shares}},
	{"refresh 100 ms", lease.Policy{MaxRefresh: 100 * time.Millisecond, Batch: 30}},
	{"refresh 1 s", lease.Policy{MaxRefresh: time.Second, Batch: 400, BurstShare: 0.8}},
}

// auto is what is judged, and each what it is judged by: a call for each request.
var (
	auto = lease.Policy{}
	each = lease.Policy{Mode: lease.PerRequest}
)

// Figures are what one replication comes to.
type Figures struct {
	Admitted   float64 `json:"admitted"` // tokens
	Ideal      float64 `json:"ideal"`
	Calls      float64 `json:"calls"` // per request
	Worst      float64 `json:"worst"` // process's admitted / fair share
	Starvation float64 `json:"starvation"`
	Latency    float64 `json:"latency"` // p99, seconds

	Tokens engine.Tokens `json:"tokens"`
}

// An Excess is an error of the limiter: more was admitted than is promised.
type Excess struct {
	Scene       *Scene
	Policy      string
	Replication int
	Tokens      float64 // above the envelope
	Debited     bool    // with grants counted at their debit; else at their admission
}

func (e *Excess) Error() string {
	when := "at their admission"
	if e.Debited {
		when = "at their debit"
	}
	return fmt.Sprintf("hunt: %s with %s, replication %d: %.3f tokens above Burst + Rate*T, with grants counted %s",
		e.Scene.Name, e.Policy, e.Replication, e.Tokens, when)
}

// rounding is what arithmetic may add to an envelope, in tokens: float64, and a
// microsecond of the rate, the unit of a ledger's time.
func (s *Scene) rounding() float64 { return 0.01 + s.Limit.PerSecond*1e-6 }

// A Player plays scenes.
type Player struct {
	Played *atomic.Int64 // simulated time, ns, for who waits for it
}

// play plays n replications of a scene with a policy, from number first on.
func (p Player) play(ctx context.Context, s *Scene, name string, policy lease.Policy, first, n int) ([]Figures, error) {
	c := s.Clone()
	c.Policy = scenario.PolicyOf(policy)
	if err := c.Resolve(); err != nil {
		return nil, fmt.Errorf("hunt: %s: %w", s.Name, err)
	}
	var all []Figures
	for i := first; i < first+n; i++ {
		r, err := engine.RunWatched(ctx, c, s.Seed, i, p.Played)
		if err != nil {
			return nil, err
		}
		for _, e := range []Excess{
			{s, name, i, r.ExcessDebited, true},
			{s, name, i, r.Excess - r.ExcessAllowed, false},
		} {
			if e.Tokens > s.rounding() {
				return nil, &e
			}
		}
		all = append(all, Figures{
			Admitted: r.TokensAdmitted, Ideal: r.TokensIdeal, Calls: r.CallsPerRequest, Worst: r.WorstShare,
			Starvation: r.Starvation, Latency: r.LatencyP99, Tokens: r.Tokens,
		})
	}
	return all, nil
}

// Judge plays a scene and judges it; withRivals with the fixed policies, too.
func (p Player) Judge(ctx context.Context, s *Scene, withRivals bool) (*Judgement, error) {
	j := &Judgement{Scene: s}
	var err, failed error
	if j.Auto, err = p.play(ctx, s, "auto", auto, 0, Replications); err != nil {
		failed = err
	} else if j.Each, err = p.play(ctx, s, "a call for each request", each, 0, Replications); err != nil {
		failed = err
	}
	if failed != nil {
		return nil, failed
	}
	if withRivals {
		for _, r := range rivals {
			figures, err := p.play(ctx, s, r.name, r.policy, 0, rivalReplications)
			if err != nil {
				return nil, err
			}
			j.Rivals = append(j.Rivals, Rival{Name: r.name, Figures: figures})
		}
		if err := p.cheapest(ctx, j); err != nil {
			return nil, err
		}
	}
	j.judge()
	return j, nil
}

// cheapest finds the rival that needs the fewest calls of those that keep
// utilisation, and do not starve a process that a call for each request serves. If
// it looks cheaper than auto, it is played as often.
func (p Player) cheapest(ctx context.Context, j *Judgement) error {
	best := max(j.utilisation(j.Auto), j.utilisation(j.Each))
	for i := range j.Rivals {
		best = max(best, j.utilisation(j.Rivals[i].Figures))
	}
	var chosen *Rival
	for i := range j.Rivals {
		r := &j.Rivals[i]
		keeps := j.utilisation(r.Figures) >= best-kept && mean(r.Figures, worst) >= mean(j.Each, worst)-worstTolerated
		if keeps && (chosen == nil || mean(r.Figures, calls) < mean(chosen.Figures, calls)) {
			chosen = r
		}
	}
	if chosen == nil || mean(j.Auto[:rivalReplications], calls) <= dearer*mean(chosen.Figures, calls) {
		return nil
	}
	for _, r := range rivals {
		if r.name == chosen.Name {
			more, err := p.play(ctx, j.Scene, r.name, r.policy, rivalReplications, Replications-rivalReplications)
			if err != nil {
				return err
			}
			chosen.Figures = append(chosen.Figures, more...)
		}
	}
	j.Cheapest = chosen
	return nil
}

// IsExcess reports whether an error is one, and which.
func IsExcess(err error) (*Excess, bool) {
	var e *Excess
	ok := errors.As(err, &e)
	return e, ok
}
