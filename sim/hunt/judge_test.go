package hunt

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
)

// repeat is a figure of each replication: around a mean, up and down by wobble.
func repeat(f Figures, of func(*Figures) *float64, wobble float64) []Figures {
	list := make([]Figures, Replications)
	for i := range list {
		list[i] = f
		*of(&list[i]) += wobble * float64(i-Replications/2)
	}
	return list
}

func admittedOf(f *Figures) *float64   { return &f.Admitted }
func callsOf(f *Figures) *float64      { return &f.Calls }
func worstOf(f *Figures) *float64      { return &f.Worst }
func starvationOf(f *Figures) *float64 { return &f.Starvation }
func latencyOf(f *Figures) *float64    { return &f.Latency }
func spiltOf(f *Figures) *float64      { return &f.Tokens.Spilt }

// plain is what a call for each request comes to in these tests.
var plain = Figures{
	Admitted: 1000, Ideal: 1000, Calls: 0.5, Worst: 0.9, Starvation: 2, Latency: 0.1,
}

// fleet is a scene of ten processes in which nothing goes wrong.
func fleet() *scenario.Scenario {
	return &scenario.Scenario{
		Processes: 10, Burst: 100,
		Limit: scenario.Limit{Limit: lease.Limit{Rate: 60}}, Keys: scenario.Keys{Number: 1},
		Duration: 10 * time.Second,
	}
}

func judged(s *scenario.Scenario, auto, each []Figures, cheapest *Rival) *Judgement {
	j := &Judgement{Scene: &Scene{Scenario: s}, Auto: auto, Each: each, Cheapest: cheapest}
	j.judge()
	return j
}

func (j *Judgement) shortIn() (list []Aspect) {
	for a := range aspects {
		if j.Losses[a].Short {
			list = append(list, a)
		}
	}
	return list
}

// A loss that is above what is tolerated in each replication falls short, one that
// is just within does not, and nor does a large one that the next replication
// contradicts. Each row changes one figure of what is judged.
func TestWhatFallsShort(t *testing.T) {
	for _, c := range []struct {
		name   string
		of     func(*Figures) *float64
		by     float64 // the figure's loss
		wobble float64 // between replications
		short  []Aspect
	}{
		{"equal", admittedOf, 0, 0, nil},
		{"admits more", admittedOf, 5, 0, nil},
		{"1.1 points of utilisation", admittedOf, -11, 0.1, []Aspect{Utilisation}},
		{"0.9 points", admittedOf, -9, 0.1, nil},
		{"5 points, perhaps", admittedOf, -50, 40, nil},
		{"5 points, surely", admittedOf, -50, 10, []Aspect{Utilisation}},
		{"1.1 % more calls", callsOf, 0.0055, 1e-5, []Aspect{Calls}},
		{"0.9 % more", callsOf, 0.0045, 1e-5, nil},
		{"10 % more, perhaps", callsOf, 0.05, 0.05, nil},
		{"a process 0.11 below", worstOf, -0.11, 1e-3, []Aspect{Worst}},
		{"0.09 below", worstOf, -0.09, 1e-3, nil},
		{"0.11 above", worstOf, 0.11, 1e-3, nil},
		{"0.3 below, perhaps", worstOf, -0.3, 0.2, nil},
		{"starved for 0.21 s more", starvationOf, 0.21, 1e-3, []Aspect{Starvation}},
		{"0.19 s more", starvationOf, 0.19, 1e-3, nil},
		{"2 s more, perhaps", starvationOf, 2, 2, nil},
		{"a p99 of 12 ms more", latencyOf, 0.012, 1e-4, []Aspect{Latency}},
		{"10.5 ms more", latencyOf, 0.0105, 1e-4, nil},
		{"50 ms more, perhaps", latencyOf, 0.05, 0.05, nil},
	} {
		auto := repeat(plain, c.of, c.wobble)
		for i := range auto {
			*c.of(&auto[i]) += c.by
		}
		j := judged(fleet(), auto, repeat(plain, c.of, 0), nil)
		if got := j.shortIn(); !slices.Equal(got, c.short) || j.Short() != (c.short != nil) {
			t.Errorf("%s: short in %v, want %v\n%+v", c.name, got, c.short, j.Losses)
		}
		if c.short != nil && (j.Score <= 1 || j.worstAspect() != c.short[0]) {
			t.Errorf("%s: score %v, worst in %d", c.name, j.Score, j.worstAspect())
		}
		if c.short == nil && j.Score > 1 {
			t.Errorf("%s: score %v", c.name, j.Score)
		}
	}
}

// A wobble that both sides share is none: intervals are of paired differences.
func TestPairedReplications(t *testing.T) {
	auto, each := repeat(plain, callsOf, 0.1), repeat(plain, callsOf, 0.1)
	for i := range auto {
		auto[i].Calls += 0.02
	}
	if j := judged(fleet(), auto, each, nil); !j.Losses[Calls].Short {
		t.Errorf("%+v", j.Losses[Calls])
	}
	auto[0], auto[4] = auto[4], auto[0]
	if j := judged(fleet(), auto, each, nil); j.Losses[Calls].Short {
		t.Errorf("not paired, but sure: %+v", j.Losses[Calls])
	}
}

// A fixed policy that needs fewer calls counts, but is no reason to rank a scene:
// it suits that scene alone.
func TestCheaperRival(t *testing.T) {
	for _, c := range []struct {
		calls float64
		short bool
	}{{0.5 / 1.21, true}, {0.5 / 1.19, false}} {
		f := plain
		f.Calls = c.calls
		rival := &Rival{Figures: repeat(f, callsOf, 1e-4)}
		auto := repeat(plain, callsOf, 1e-4)
		j := judged(fleet(), auto, repeat(plain, callsOf, 0), rival)
		if j.Losses[Cheaper].Short != c.short || j.Short() != c.short || j.Score > 1 {
			t.Errorf("a rival with %.3f calls: %+v, score %v", c.calls, j.Losses[Cheaper], j.Score)
		}
		j = judged(fleet(), auto, repeat(plain, callsOf, 0), nil)
		if j.Short() {
			t.Error("short without a rival")
		}
	}
}

// What better division would have kept falls short, if the ideal bucket had a use
// for it.
func TestAvoidable(t *testing.T) {
	each := repeat(plain, admittedOf, 0)
	for a := range each {
		each[a].Admitted = 900 // no better: only the lost tokens are judged
		each[a].Tokens = engine.Tokens{PoolSpilt: 120, IdealSpilt: 100}
	}
	for _, c := range []struct {
		name     string
		admitted float64
		tokens   engine.Tokens
		want     float64
	}{
		{"nothing lost", 900, engine.Tokens{}, 0},
		{"in leases", 900,
			engine.Tokens{Spilt: 5, Asking: 4, Expired: 3, Unclaimed: 2, Refused: 1}, 0.015},
		{"without a name", 900, engine.Tokens{Other: 11}, 0.011},
		{"little", 900, engine.Tokens{Spilt: 9}, 0.009},
		{"more than was wanted", 995, engine.Tokens{Spilt: 500}, 0.005},
		{"by crashes and messages", 900, engine.Tokens{Forfeited: 50, Messages: 50}, 0},
		{"nobody wanted it", 900, engine.Tokens{PoolSpilt: 100, IdealSpilt: 100}, 0},
		{"the pool is far away", 900, engine.Tokens{PoolSpilt: 120, IdealSpilt: 100}, 0},
		{"somebody was denied", 900, engine.Tokens{PoolSpilt: 135, IdealSpilt: 100}, 0.015},
		{"so were others", 990, engine.Tokens{PoolSpilt: 135, IdealSpilt: 100}, 0.01},
		{"in leases, not in the pool", 900,
			engine.Tokens{Spilt: 15, PoolSpilt: 90, IdealSpilt: 100}, 0.015},
		{"lent twice", 900, engine.Tokens{Asking: -20}, 0},
	} {
		f := plain
		f.Admitted, f.Tokens = c.admitted, c.tokens
		j := judged(fleet(), repeat(f, spiltOf, 0), each, nil)
		l := j.Losses[Avoidable]
		if math.Abs(l.Mean-c.want) > 1e-12 || l.Short != (c.want > 0.01) {
			t.Errorf("%s: %+v, want %v", c.name, l, c.want)
		}
	}
}

// Where messages are lost, what stands still meanwhile is held against auto only as
// far as a call for each request admits more.
func TestAvoidableWhereMessagesAreLost(t *testing.T) {
	s := fleet()
	s.Redis.Lost = 0.01
	f, e := plain, plain
	f.Admitted, f.Tokens = 900, engine.Tokens{Expired: 50}
	for _, c := range []struct{ each, want float64 }{{880, 0}, {900, 0}, {920, 0.02}, {990, 0.05}} {
		e.Admitted = c.each
		j := judged(s, repeat(f, spiltOf, 0), repeat(e, spiltOf, 0), nil)
		if l := j.Losses[Avoidable]; math.Abs(l.Mean-c.want) > 1e-12 {
			t.Errorf("beside %v admitted: %+v, want %v", c.each, l, c.want)
		}
	}
}

// In a closed load a limiter that answers slowly is asked for less: it is held
// against what the bucket of the faster one admitted.
func TestClosedLoadUsesLargerIdeal(t *testing.T) {
	slow := plain
	slow.Admitted, slow.Ideal = 800, 800
	auto, each := repeat(slow, admittedOf, 0), repeat(plain, admittedOf, 0)
	if j := judged(fleet(), auto, each, nil); j.Losses[Utilisation].Mean != 0 {
		t.Errorf("an open load: %+v", j.Losses[Utilisation])
	}
	closed := fleet()
	closed.Load.Clients = &scenario.Clients{Count: 10, Think: time.Second}
	j := judged(closed, auto, each, nil)
	if l := j.Losses[Utilisation]; math.Abs(l.Mean-0.2) > 1e-12 || !l.Short {
		t.Errorf("a closed load: %+v", l)
	}
	j = judged(closed, each, auto, nil)
	if l := j.Losses[Utilisation]; math.Abs(l.Mean+0.2) > 1e-12 || l.Short {
		t.Errorf("the other way round: %+v", l)
	}
}

// What crashes take along is excused as far as leases of fair size hold it: beyond
// that, leases were too large. Without crashes nothing is; what messages lost is,
// all of it.
func TestForfeitsAreExcusedWithinBounds(t *testing.T) {
	crashes := func(times int) *scenario.Scenario {
		s := fleet()
		for i := range times {
			at := time.Duration(i+1) * time.Second
			s.Faults = append(s.Faults, scenario.Fault{Kind: "crash", At: at})
		}
		return s
	}
	const fair = 2 * (100 + 60) / 2 / 10 // tokens of fleet(), for each crash
	lossy := crashes(0)
	lossy.Redis.Lost = 0.01
	keys := crashes(1)
	keys.Keys.Number = 5
	joined := crashes(0)
	joined.Faults = []scenario.Fault{{Kind: "join", At: time.Second}}
	for _, c := range []struct {
		name          string
		scene         *scenario.Scenario
		lost          engine.Tokens
		missing, want float64
	}{
		{"no crash", crashes(0), engine.Tokens{Forfeited: 50}, 50, 0.05},
		{"a join", joined, engine.Tokens{Forfeited: 50}, 50, 0.05},
		{"fair", crashes(1), engine.Tokens{Forfeited: fair}, fair, 0},
		{"too large", crashes(1), engine.Tokens{Forfeited: 50}, 50, (50 - fair) / 1e3},
		{"several", crashes(3), engine.Tokens{Forfeited: 50}, 50, (50 - 3*fair) / 1e3},
		{"of each key", keys, engine.Tokens{Forfeited: 50}, 50, 0},
		{"missing anyway", crashes(1), engine.Tokens{}, 50, 0.05},
		{"messages", lossy, engine.Tokens{Messages: 50}, 50, 0},
		{"messages, without loss", crashes(0), engine.Tokens{Messages: 50}, 50, 0.05},
	} {
		f := plain
		f.Admitted -= c.missing
		f.Tokens = c.lost
		j := judged(c.scene, repeat(f, admittedOf, 0), repeat(plain, admittedOf, 0), nil)
		l := j.Losses[Utilisation]
		if math.Abs(l.Mean-c.want) > 1e-12 {
			t.Errorf("%s: %+v, want %v", c.name, l, c.want)
		}
	}
}

// A scene in which nothing can be admitted is one in which nothing is lost.
func TestNothingOffered(t *testing.T) {
	none := make([]Figures, Replications)
	if j := judged(fleet(), none, none, nil); j.Short() || j.Score != 0 {
		t.Errorf("%+v", j)
	}
}
