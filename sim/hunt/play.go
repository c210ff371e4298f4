package hunt

import (
	"context"
	"errors"
	"fmt"
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
	{"batches of 2", lease.Policy{Mode: lease.Batches, Batch: 2}},
	{"batches of 4", lease.Policy{Mode: lease.Batches, Batch: 4}},
	{"batches of 16", lease.Policy{Mode: lease.Batches, Batch: 16}},
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

const eachName = "a call for each request"

// Figures are what one replication comes to.
type Figures struct {
	Admitted   float64 `json:"admitted"` // tokens
	Ideal      float64 `json:"ideal"`
	Calls      float64 `json:"calls"` // per request
	Worst      float64 `json:"worst"` // process's admitted / fair share
	Starvation float64 `json:"starvation"`
	Latency    float64 `json:"latency"` // p99, seconds

	// Of requests with classes: what the floor of the class that fares worst lacks in windows of
	// 2 s, at worst and in the mean, as a part of the limit; and the smallest admitted / fair
	// share of a class.
	Lack       float64 `json:"lack,omitempty"`
	MeanLack   float64 `json:"mean_lack,omitempty"`
	WorstClass float64 `json:"worst_class,omitempty"`

	Tokens engine.Tokens `json:"tokens"`

	work float64 // that simulating took, in requests
}

// exchangeWork is how many requests take as long to simulate as an exchange does.
const exchangeWork = 5

// An Excess is an error of the limiter: more was admitted than is promised.
type Excess struct {
	Scene       *Scene // with the policy
	Policy      string // its name
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
func (s *Scene) rounding() float64 {
	fastest := 0.0
	for _, l := range s.Limits() {
		fastest = max(fastest, l.Limit.Rate)
	}
	return 0.01 + fastest*1e-6
}

// play plays n replications of a scene with a policy, from number first on.
func play(ctx context.Context, s *Scene, name string, policy lease.Policy, first, n int) ([]Figures, error) {
	c := s.with(s.Clone())
	c.Policy = scenario.PolicyOf(policy)
	if err := c.Resolve(); err != nil {
		return nil, fmt.Errorf("hunt: %s: %w", s.Name, err)
	}
	var all []Figures
	for i := first; i < first+n; i++ {
		r, err := engine.Run(ctx, c.Scenario, s.Seed, i)
		if err != nil {
			return nil, err
		}
		for _, e := range []Excess{
			{c, name, i, r.ExcessDebited, true},
			{c, name, i, r.Excess - r.ExcessAllowed, false},
		} {
			if e.Tokens > s.rounding() {
				return nil, &e
			}
		}
		f := Figures{
			Admitted: r.TokensAdmitted, Ideal: r.TokensIdeal, Calls: r.CallsPerRequest, Worst: r.WorstShare,
			Starvation: r.Starvation, Latency: r.LatencyP99, Tokens: r.Tokens,
			work: float64(r.Requests+exchangeWork*r.Calls) * s.Duration.Seconds() / r.Seconds,
		}
		f.byClass(s, r.Classes)
		all = append(all, f)
	}
	return all, nil
}

// judgeScene plays a scene and judges it; withRivals with the fixed policies, too.
func judgeScene(ctx context.Context, s *Scene, withRivals bool) (*Judgement, error) {
	j := &Judgement{Scene: s}
	var err error
	if j.Auto, err = play(ctx, s, "auto", auto, 0, Replications); err != nil {
		return nil, err
	}
	if j.Each, err = play(ctx, s, eachName, each, 0, Replications); err != nil {
		return nil, err
	}
	j.work = work(j.Auto) + work(j.Each)
	if withRivals {
		if j.Cheapest, err = cheapest(ctx, j); err != nil {
			return nil, err
		}
	}
	j.judge()
	return j, nil
}

// cheapest finds the rival that needs the fewest calls of those that keep
// utilisation, and do not starve a process that a call for each request serves. If
// it looks cheaper than auto, it is played as often; else there is none.
func cheapest(ctx context.Context, j *Judgement) (*Rival, error) {
	played := make([]Rival, len(rivals))
	best := max(j.utilisation(j.Auto), j.utilisation(j.Each))
	for i, r := range rivals {
		if s := j.Scene; s.Classes != nil && r.policy.Mode == lease.Batches {
			continue
		}
		figures, err := play(ctx, j.Scene, r.name, r.policy, 0, rivalReplications)
		if err != nil {
			return nil, err
		}
		played[i] = Rival{Name: r.name, Figures: figures, policy: r.policy}
		j.work += work(figures)
		best = max(best, j.utilisation(figures))
	}
	chosen := -1
	j.kept = map[string]float64{}
	for i, r := range played {
		if !j.keeps(&r, best) {
			continue
		}
		j.kept[r.Name] = mean(r.Figures, calls)
		if chosen < 0 || j.kept[r.Name] < j.kept[played[chosen].Name] {
			chosen = i
		}
	}
	if chosen < 0 {
		return nil, nil
	}
	r := &played[chosen]
	if mean(j.Auto[:rivalReplications], calls) <= dearer*mean(r.Figures, calls) {
		return nil, nil
	}
	more, err := play(ctx, j.Scene, r.Name, r.policy, rivalReplications, Replications-rivalReplications)
	r.Figures = append(r.Figures, more...)
	j.work += work(more)
	return r, err
}

// keeps reports whether a rival counts: it keeps the best utilisation, and the worst process.
func (j *Judgement) keeps(r *Rival, best float64) bool {
	return j.utilisation(r.Figures) >= best-kept &&
		mean(r.Figures, worst) >= mean(j.Each, worst)-worstTolerated
}

// work is what it took to simulate the figures.
func work(list []Figures) (sum float64) {
	for i := range list {
		sum += list[i].work
	}
	return sum
}

// IsExcess reports whether an error is one, and which.
func IsExcess(err error) (*Excess, bool) {
	var e *Excess
	ok := errors.As(err, &e)
	return e, ok
}
