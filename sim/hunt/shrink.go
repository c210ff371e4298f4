package hunt

import (
	"context"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// A step makes a scene simpler, or reports that it is so already.
type step func(*scenario.Scenario) bool

// steps in the order in which they are tried: first what takes a dimension away.
var steps = []step{
	func(s *scenario.Scenario) bool { return clear(&s.Faults, s.Faults != nil) },
	func(s *scenario.Scenario) bool { return clear(&s.Redis.Lost, s.Redis.Lost > 0) },
	func(s *scenario.Scenario) bool { return clear(&s.Redis.Repeated, s.Redis.Repeated > 0) },
	func(s *scenario.Scenario) bool { return clear(&s.Balance.Moves, s.Balance.Moves > 0) },
	func(s *scenario.Scenario) bool { return clear(&s.Load.Patience, s.Load.Patience > 0) },
	func(s *scenario.Scenario) bool { return clear(&s.Redis.P99, s.Redis.P99 > 0) },
	func(s *scenario.Scenario) bool { return clear(&s.Redis.Jitter, s.Redis.Jitter > 0) },
	noGoing, fewerClasses, oneLimit, oneCost, oneKey, open, noFlash, noOnOff, poisson,
	func(s *scenario.Scenario) bool { return clear(&s.Balance.Skew, s.Balance.Skew > 0) },
	func(s *scenario.Scenario) bool { return clear(&s.KeySkew, s.KeySkew > 0 && s.Keys.Number > 1) },
	smaller, slower, rounder,
}

func clear[T any](field *T, set bool) bool {
	if set {
		var zero T
		*field = zero
	}
	return set
}

func oneCost(s *scenario.Scenario) bool {
	if s.Load.Costs == nil && s.Load.Cost <= 1 {
		return false
	}
	s.Load.Costs, s.Load.Cost = nil, 1
	return true
}

// noGoing lets classes stay, and come to the same processes.
func noGoing(s *scenario.Scenario) bool {
	simpler := clear(&s.Balance.Apart, s.Balance.Apart)
	for i := range s.Classes {
		c := &s.Classes[i]
		simpler = clear(&c.OnOff, c.OnOff != nil) || simpler
	}
	return simpler
}

// fewerClasses makes one class of the last two.
func fewerClasses(s *scenario.Scenario) bool {
	n := len(s.Classes) - 1
	if n < minClasses {
		return false
	}
	last, into := s.Classes[n], &s.Classes[n-1]
	into.Floor = scenario.Round(into.Floor+last.Floor, 2)
	into.Share = scenario.Round(into.Share+last.Share, 6)
	into.Weight = max(into.Weight, last.Weight)
	s.Classes = s.Classes[:n]
	return true
}

// oneLimit leaves the first of several limits.
func oneLimit(s *scenario.Scenario) bool {
	if s.Keys.Each == nil {
		return false
	}
	first := s.Limits()[0]
	s.Keys, s.KeySkew = scenario.Keys{Number: first.Number}, first.Skew
	s.SetLimit(first.Limit)
	return true
}

// oneKey gives one key the load of all.
func oneKey(s *scenario.Scenario) bool {
	if s.Keys.Number <= 1 { // 0 of several limits
		return false
	}
	s.Keys.Number, s.KeySkew = 1, 0
	return true
}

// open makes an open load of about the same size.
func open(s *scenario.Scenario) bool {
	c := s.Load.Clients
	if c == nil {
		return false
	}
	rate := float64(c.Count) / c.Think.Seconds()
	s.Load.Clients = nil
	s.Load.Offered = scenario.Round(rate*s.MeanCost()/s.Capacity(), 2)
	s.Balance = scenario.Balance{By: "random", Skew: s.Balance.Skew}
	return true
}

func noFlash(s *scenario.Scenario) bool {
	if s.Load.Flash == nil {
		return false
	}
	s.Load.Offered *= s.Load.Flash[0].Times
	s.Load.Flash = nil
	return true
}

func noOnOff(s *scenario.Scenario) bool { return clear(&s.Balance.OnOff, s.Balance.OnOff != nil) }

func poisson(s *scenario.Scenario) bool {
	if s.Load.Arrivals != "gamma" {
		return false
	}
	s.Load.Arrivals, s.Load.CV = "", 0
	return true
}

// smaller halves the fleet.
func smaller(s *scenario.Scenario) bool {
	if s.Processes <= 2 {
		return false
	}
	s.Processes = max(s.Processes/2, 2)
	for i := range s.Faults {
		s.Faults[i].Count = min(s.Faults[i].Count, s.Processes)
	}
	return true
}

// slower makes it a third of the rate.
func slower(s *scenario.Scenario) bool {
	if s.Keys.Each != nil || scenario.Mean(s.Limit.Limit) < 3*minRate || s.LimitOf().Burst < 3 ||
		s.Load.Clients != nil {
		return false
	}
	scale(s, 3)
	return true
}

// scale divides the numbers of the limit, if there is one, and leaves one digit of each.
func scale(s *scenario.Scenario, by float64) {
	if s.Keys.Each != nil {
		return
	}
	l := s.LimitOf()
	l.Rate = scenario.Round(l.Rate/by, 1)
	l.Burst = int64(max(scenario.Round(float64(l.Burst)/by, 1), 1))
	s.SetLimit(l)
}

// rounder leaves one digit of each number.
func rounder(s *scenario.Scenario) bool {
	before := s.Text()
	digit := func(d *time.Duration) { *d = time.Duration(scenario.Round(float64(*d), 1)) }
	scale(s, 1)
	s.Processes = int(scenario.Round(float64(s.Processes), 1))
	s.Load.Offered = scenario.Round(s.Load.Offered, 1)
	s.Load.CV = scenario.Round(s.Load.CV, 1)
	s.Balance.Skew = scenario.Round(s.Balance.Skew, 1)
	digit(&s.Redis.Latency)
	digit(&s.Redis.P99)
	if h := s.Load.Hold; h != nil {
		digit(&h.Mean)
	}
	if o := s.Balance.OnOff; o != nil {
		digit(&o.On)
		digit(&o.Period)
	}
	return s.Text() != before
}

// shrink returns the simplest scene found that still falls short in the aspect in which j does
// most, its judgement, and the work that finding it took: no more than the budget, but for a
// simpler scene that takes more to simulate.
func shrink(ctx context.Context, j *Judgement, budget float64) (_ *Judgement, spent float64, _ error) {
	aspect := j.worstAspect()
	for again := true; again; {
		again = false
		for _, simplify := range steps {
			next := j.Scene.with(j.Scene.Clone())
			if !simplify(next.Scenario) || next.Resolve() != nil {
				continue
			}
			tried, err := try(ctx, next, j, aspect, budget-spent)
			if err != nil {
				return j, spent, err
			}
			spent += tried.work
			if tried.Losses[aspect].Short {
				j, again = tried, true
			}
		}
	}
	return j, spent, nil
}

// try judges a scene simpler than that of j by one aspect. It ends at the first replication after
// which the mean loss is tolerated, or for which the budget is too small: then nothing is short.
func try(
	ctx context.Context, s *Scene, j *Judgement, aspect Aspect, budget float64,
) (*Judgement, error) {
	t := &Judgement{Scene: s}
	figures, policies := []*[]Figures{&t.Auto, &t.Each}, []rival{{"auto", auto}, {eachName, each}}
	replication := (work(j.Auto) + work(j.Each)) / Replications
	if aspect == Cheaper {
		t.Cheapest = &Rival{Name: j.Cheapest.Name, policy: j.Cheapest.policy}
		figures = append(figures, &t.Cheapest.Figures)
		policies = append(policies, rival{t.Cheapest.Name, t.Cheapest.policy})
		replication += work(j.Cheapest.Figures) / Replications
	}
	for i := range Replications {
		if budget < t.work+replication {
			t.Losses = [aspects]Loss{}
			return t, nil
		}
		err := parallel(ctx, len(policies), time.Time{}, func(ctx context.Context, n int) error {
			played, err := play(ctx, s, policies[n].name, policies[n].policy, i, 1)
			*figures[n] = append(*figures[n], played...)
			return err
		})
		if err != nil {
			return nil, err
		}
		t.work = 0
		for _, list := range figures {
			t.work += work(*list)
		}
		replication = max(replication, t.work/float64(i+1)) // a simpler scene may take more
		if t.judge(); t.Losses[aspect].Mean <= t.Losses[aspect].Tolerated {
			break
		}
	}
	if r := t.Cheapest; r != nil {
		best := max(t.utilisation(t.Auto), t.utilisation(t.Each), t.utilisation(r.Figures))
		t.Losses[Cheaper].Short = t.Losses[Cheaper].Short && t.keeps(r, best)
	}
	return t, nil
}

// worstAspect is the one in which the scene falls short by most.
func (j *Judgement) worstAspect() (worst Aspect) {
	score := 0.0
	for a := range aspects {
		if l := j.Losses[a]; l.Short && l.Sure()/l.Tolerated > score {
			worst, score = a, l.Sure()/l.Tolerated
		}
	}
	return worst
}
