package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// played is a candidate as if it had been played twelve times: its figures, with
// as much noise. All candidates have the same noise, as on the same requests.
func played(label string, calls, fairness, utilisation, excess, noise float64) *candidate {
	c := &candidate{Label: label, variant: &variant{Label: label, Scenario: &scenario.Scenario{}}}
	total := int64(0) // no two of them do the same
	for _, r := range label {
		total = total*31 + int64(r)
	}
	for i := range 12 {
		wobble := noise * (float64(i%3) - 1)
		c.variant.Results = append(c.variant.Results, &engine.Result{
			Replication: i, Requests: 1000, Calls: total, CallsPerRequest: calls * (1 + wobble), Fairness: fairness + wobble/10,
			Utilisation: utilisation + wobble/10, Excess: excess, ExcessAllowed: 50,
		})
	}
	c.variant.summarise()
	return c
}

// labels of those candidates that are meant.
func labels(all []*candidate, meant func(*candidate) bool) (names []string) {
	for _, c := range all {
		if meant(c) {
			names = append(names, c.Label)
		}
	}
	return names
}

// The front has those that no other one surely beats: neither those that are
// beaten in one figure, nor one of two that are alike for any other reason.
func TestFront(t *testing.T) {
	all := []*candidate{
		played("cheap", 0.01, 0.98, 0.97, 0, 0.01),
		played("fair", 0.02, 0.995, 0.97, 0, 0.01),
		played("full", 0.1, 0.98, 0.999, 0, 0.01),
		played("as cheap", 0.01, 0.98, 0.97, 0, 0.01),           // a tie: both stay
		played("hardly dearer", 0.0101, 0.98, 0.97, 0, 0.01),    // 1 %: not enough to matter
		played("dearer", 0.015, 0.98, 0.97, 0, 0.01),            // than cheap
		played("less fair", 0.02, 0.985, 0.97, 0, 0.01),         // than fair
		played("exceeds", 0.02, 0.995, 0.97, 20, 0.01),          // more than fair
		played("hardly less fair", 0.02, 0.9948, 0.97, 0, 0.01), // by less than matters
	}
	got := tune(all, constraints{MinFairness: 0.5, MinUtilisation: 0.5})
	want := "cheap, as cheap, hardly dearer, fair, hardly less fair, full"
	if front := strings.Join(labels(got.Candidates, func(c *candidate) bool { return c.OnFront }), ", "); front != want {
		t.Errorf("on the front: %s\nwant %s", front, want)
	}
	for i := 1; i < len(got.Candidates); i++ {
		if got.Candidates[i].mean(calls) < got.Candidates[i-1].mean(calls) {
			t.Error("not in the order of calls")
		}
	}
}

// A difference that chance may have made beats nobody; nor does a single
// replication, which says nothing about chance.
func TestSurely(t *testing.T) {
	a, b := played("a", 0.02, 0.99, 0.99, 0, 0), played("b", 0.01, 0.99, 0.99, 0, 0)
	if !surely(calls, a, b) || surely(calls, b, a) || !dominates(b, a) || dominates(a, b) || dominates(a, a) {
		t.Error("half the calls are not better")
	}
	for i, r := range b.variant.Results { // as few in the mean, but up and down
		r.CallsPerRequest = 0.01 + 0.04*float64(i%2) - 0.02*float64((i+1)%2)
	}
	if surely(calls, a, b) || surely(calls, b, a) {
		t.Error("noise is better")
	}
	a, b = played("a", 0.02, 0.99, 0.99, 0, 0), played("b", 0.01, 0.99, 0.99, 0, 0)
	a.variant.Results, b.variant.Results = a.variant.Results[:1], b.variant.Results[:1]
	if surely(calls, a, b) {
		t.Error("one replication is enough")
	}
	b.variant.Results[0].Replication = 5
	if surely(calls, a, b) || dominates(b, a) {
		t.Error("different replications are compared")
	}
}

// A policy whose calls ran away in one of its plays beats nobody: its mean says what it costs, though
// its interval is so wide that nothing is sure.
func TestRunawayCalls(t *testing.T) {
	limits := constraints{MinFairness: 0.9, MinUtilisation: 0.9}
	for _, c := range []struct {
		name            string
		calls, fairness float64 // of the other one, in its usual plays
		once            float64 // calls of its last play
		want            string
	}{
		{"fairer, and five times the calls", 0.01, 0.993, 1.2, "steady"},
		{"fewer calls in all plays but one", 0.005, 0.99, 1, "steady"},
		{"fairer, and as many calls", 0.02, 0.993, 0.0201, "other"},
		{"fewer calls in all plays", 0.005, 0.99, 0.005, "other"},
	} {
		steady, other := played("steady", 0.02, 0.99, 0.99, 0, 0.01), played("other", c.calls, c.fairness, 0.99, 0, 0.01)
		other.variant.Results[11].CallsPerRequest = c.once
		other.variant.summarise()
		other.changes = 1
		got := tune([]*candidate{steady, other}, limits)
		if got.best == nil || got.best.Label != c.want {
			t.Errorf("%s: %s", c.name, got.Verdict)
		}
		if c.want == "steady" && !steady.OnFront {
			t.Errorf("%s: steady is not on the front", c.name)
		}
	}
}

// What is recommended needs the fewest calls of those that keep the constraints,
// and the verdict names those without which fewer would do.
func TestRecommendation(t *testing.T) {
	type point struct {
		label                        string
		calls, fair, utilised, extra float64
	}
	cheap, fair, full, best := point{"cheap", 0.01, 0.95, 0.95, 0}, point{"fair", 0.02, 0.995, 0.95, 0}, point{"full", 0.03, 0.95, 0.999, 0}, point{"best", 0.1, 0.995, 0.999, 0}
	breaks := point{"breaks", 0.005, 0.999, 0.999, 60}
	for _, c := range []struct {
		name    string
		points  []point
		limits  constraints
		want    string // label
		binding string
		says    string
	}{
		{"nothing binds", []point{cheap, fair, full, best}, constraints{MinFairness: 0.9, MinUtilisation: 0.9}, "cheap", "", "No constraint binds"},
		{"nor where the others are dearer", []point{cheap, {"dear and unfair", 0.2, 0.8, 0.95, 0}}, constraints{MinFairness: 0.9, MinUtilisation: 0.9}, "cheap", "", "No constraint binds"},
		{"fairness alone", []point{cheap, fair, full, best},
			constraints{MinFairness: 0.99, MinUtilisation: 0.9}, "fair", minFairness,
			"-min-fairness binds: without it, fewer"},
		{"utilisation alone", []point{cheap, fair, full, best},
			constraints{MinFairness: 0.9, MinUtilisation: 0.99}, "full", minUtil,
			"-min-util binds: without it, fewer"},
		{"either of two", []point{cheap, fair, full, best},
			constraints{MinFairness: 0.99, MinUtilisation: 0.99}, "best", minFairness + "," + minUtil,
			"-min-fairness and -min-util bind: without any one of them, fewer"},
		{"only both together", []point{cheap, best}, constraints{MinFairness: 0.99, MinUtilisation: 0.99},
			"best", minFairness + " with " + minUtil,
			"-min-fairness with -min-util binds: without them, fewer"},
		{"the promise", []point{breaks, cheap}, constraints{MinFairness: 0.9, MinUtilisation: 0.9},
			"cheap", promise, promise + " binds"},
		{"calls are the limit of what was chosen", []point{cheap, best}, constraints{MaxCalls: 0.05}, "cheap", maxCalls, "-max-calls binds what was chosen"},
		{"calls that exclude nobody better", []point{cheap, {"dear", 0.2, 0.95, 0.95, 0}}, constraints{MaxCalls: 0.05}, "cheap", "", "No constraint binds"},
		{"calls, and all else is given", []point{cheap, best}, constraints{MaxCalls: 0.05, MinFairness: 0.9, MinUtilisation: 0.9}, "cheap", "", "No constraint binds"},
		{"as few calls, but fairer", []point{cheap, {"fairer", 0.01005, 0.96, 0.95, 0}}, constraints{MinFairness: 0.9, MinUtilisation: 0.9}, "fairer", "", ""},
	} {
		var all []*candidate
		for _, p := range c.points {
			all = append(all, played(p.label, p.calls, p.fair, p.utilised, p.extra, 0.001))
		}
		got := tune(all, c.limits)
		if got.best == nil || got.best.Label != c.want || strings.Join(got.Binding, ",") != c.binding || !strings.Contains(got.Verdict, c.says) {
			t.Errorf("%s: %v, binding %q: %s\nwant %s, %s", c.name, got.best, got.Binding, got.Verdict, c.want, c.binding)
			continue
		}
		if r := labels(all, func(c *candidate) bool { return c.Recommended }); len(r) != 1 || r[0] != c.want {
			t.Errorf("%s: recommended are %v", c.name, r)
		}
	}
}

// Who was played less often than others may have had luck, and what is gained is told of the requests
// that both have met.
func TestLuck(t *testing.T) {
	sure, lucky := played("sure", 0.02, 0.99, 0.99, 0, 0), played("lucky", 0.01, 0.99, 0.99, 0, 0)
	for _, r := range sure.variant.Results[10:] {
		r.CallsPerRequest = 0.05
	}
	sure.variant.summarise()
	lucky.variant.Results = lucky.variant.Results[:10]
	lucky.variant.summarise()
	lucky.Own = true
	got := tune([]*candidate{sure, lucky}, constraints{MinFairness: 0.9, MinUtilisation: 0.9})
	if got.best != sure || math.Abs(got.Gains[0].Calls+1) > 1e-9 {
		t.Errorf("%s, gains %+v", got.Verdict, got.Gains)
	}
}

// Constraints that are not given are half a hundredth below the best lease that the
// others leave.
func TestChosenConstraints(t *testing.T) {
	all := func() []*candidate {
		return []*candidate{played("few", 0.01, 0.97125, 0.95345, 0, 0), played("many", 0.5, 0.99999, 0.99999, 0, 0)}
	}
	for _, c := range []struct {
		limits     constraints
		fair, util float64
		chosen     string
	}{
		{constraints{}, 0.9949, 0.9949, minUtil + "," + minFairness},
		{constraints{MaxCalls: 0.1}, 0.9662, 0.9484, minUtil + "," + minFairness},
		{constraints{MinFairness: 0.3}, 0.3, 0.9949, minUtil},
		{constraints{MinUtilisation: 0.3}, 0.9949, 0.3, minFairness},
		{constraints{MaxCalls: 0.001}, 0, 0, ""},
	} {
		got := tune(all(), c.limits).Constraints
		if math.Abs(got.MinFairness-c.fair) > 1e-9 || math.Abs(got.MinUtilisation-c.util) > 1e-9 || strings.Join(got.Chosen, ",") != c.chosen {
			t.Errorf("%+v: chosen %+v", c.limits, got)
		}
	}
}

// When nothing qualifies, the verdict says so, and what could be had.
func TestNothingQualifies(t *testing.T) {
	for _, c := range []struct {
		limits constraints
		want   []string
		not    string
	}{
		{constraints{MaxCalls: 0.001, MinFairness: 0.9, MinUtilisation: 0.9}, []string{"-max-calls 0.001 is too few", "0.01 is what is needed (cheap)"}, "-min-"},
		{constraints{MinFairness: 0.9999, MinUtilisation: 0.9}, []string{"-min-fairness 0.9999 is too much", "0.9950 is the most (best)"}, "-max-calls"},
		{constraints{MinFairness: 0.9, MinUtilisation: 0.9999}, []string{"-min-util 0.9999 is too much", "0.9990 is the most (best)"}, "-max-calls"},
		{constraints{MaxCalls: 0.05, MinFairness: 0.99, MinUtilisation: 0.9}, []string{"-max-calls 0.05 is too few", "0.1 is what is needed (best)", "-min-fairness 0.99 is too much", "0.9500 is the most (cheap)"}, "-min-util"},
		{constraints{MaxCalls: 0.001, MinFairness: 0.9999, MinUtilisation: 0.9999}, nil, "-m"},
	} {
		got := tune([]*candidate{played("cheap", 0.01, 0.95, 0.95, 0, 0), played("best", 0.1, 0.995, 0.999, 0, 0)}, c.limits)
		name := fmt.Sprintf("%+v", c.limits)
		simtest.Has(t, name, got.Verdict, append(c.want, "No candidate keeps all constraints.")...)
		simtest.Lacks(t, name, got.Verdict, c.not)
		if got.best != nil {
			t.Errorf("%s: %s", name, got.best.Label)
		}
		if len(got.Binding) != 0 {
			t.Errorf("%+v: binding %v", c.limits, got.Binding)
		}
	}
}

// A search begins with leases of all sizes, what others do, and the scenario's own
// policy; each is valid, and none is there twice.
func TestCandidates(t *testing.T) {
	s := simtest.Scenario(t, "policy: {batch: 77, fairness: max-min}\nfaults: [{at: 1s, kind: outage, for: 1s}]")
	own, _ := s.Policy.Lease()
	type key struct {
		policy lease.Policy
		outage string
	}
	seen, modes, text := map[key]bool{}, map[lease.Mode]int{}, s.Text()
	for _, c := range gridOf(s) {
		k := key{c.Policy, c.Outage}
		if seen[k] {
			t.Errorf("twice: %s", c.Label)
		}
		seen[k] = true
		modes[c.Policy.Mode]++
		if p, err := c.variant.Scenario.Policy.Lease(); err != nil || p != c.Policy || c.variant.Scenario.Outage != c.Outage || p.Fairness != lease.MaxMin {
			t.Errorf("%s plays %+v, %v", c.Label, p, err)
		}
		if err := c.variant.Scenario.Resolve(); err != nil {
			t.Errorf("%s: %v", c.Label, err)
		}
		if c.Classic != (c.Policy.Mode == lease.Batches || c.Policy.Mode == lease.PerRequest) {
			t.Errorf("%s: classic is %v", c.Label, c.Classic)
		}
	}
	for _, outage := range []string{"share", "deny", "allow"} {
		if !seen[key{own, outage}] {
			t.Errorf("the scenario's own policy is not tried, with outage %s", outage)
		}
	}
	if modes[lease.Auto] < 100 || modes[lease.Batches] != 3 || modes[lease.PerRequest] != 1 {
		t.Errorf("modes %v", modes)
	}
	if s.Text() != text {
		t.Error("the scenario has changed")
	}
}

// The same search finds the same policy, on one core and on several.
func TestTuneIsTheSameEverywhere(t *testing.T) {
	simtest.Long(t)
	everywhere(t, longform.Of("tune -effort 0.01 -duration 50ms -warmup 20ms -set processes=3 -json",
		"tune -effort 0.02 -duration 500ms -warmup 100ms -json"))
}

// What is recommended is held against what a reader has: in calls, and in what they buy.
func TestGains(t *testing.T) {
	own, each := played("own", 0.2, 0.999, 0.999, 0, 0), played("each", 0.1, 0.999, 0.9999, 0, 0)
	batches, best := played("batches of 10", 0.4, 0.9, 0.9992, 0, 0), played("best", 0.058, 0.999, 0.998, 0, 0)
	own.Own, batches.Classic, batches.Policy.Mode, each.Classic, each.Policy.Mode = true, true, lease.Batches, true, lease.PerRequest
	got := tune([]*candidate{own, each, batches, best}, constraints{MinFairness: 0.99, MinUtilisation: 0.99})
	want := []string{
		"It needs 71 % fewer calls than your policy (0.2000 a request) and costs 0.1 points of utilisation.",
		"It needs 86 % fewer calls than batches of 10 (0.4000 a request), costs 0.1 points of utilisation and gains 9.9 points of fairness.",
		"It needs 42 % fewer calls than a call for each request (0.1000 a request) and costs 0.2 points of utilisation.",
	}
	if !slices.Equal(got.gainsText(), want) {
		t.Errorf("%q\nwant %q", got.gainsText(), want)
	}
	if g := got.Gains[0]; math.Abs(g.Calls-0.71) > 1e-9 || math.Abs(g.Utilisation.Mean+0.001) > 1e-9 || g.Utilisation.N != 12 {
		t.Errorf("%+v", g)
	}
	// Own and batches need more calls than a call for each request: so it is said.
	if !own.Dear || !batches.Dear || best.Dear || each.Dear {
		t.Error("dear are", labels(got.Candidates, func(c *candidate) bool { return c.Dear }))
	}
	if len(got.Warnings) != 1 || got.Warnings[0] != "Your policy needs more calls than a plain limiter, which asks Redis for each request: 0.2000 instead of 0.1000 calls per request." {
		t.Errorf("warnings %q", got.Warnings)
	}
	// Where all that is cheap is excluded, the recommendation is dear, too.
	each.variant.Results[0].Excess = 100
	if got = tune([]*candidate{own, each}, constraints{MinFairness: 0.99, MinUtilisation: 0.99}); len(got.Warnings) != 2 || !strings.HasPrefix(got.Warnings[0], "The recommended policy needs more calls") {
		t.Errorf("warnings %q of %s", got.Warnings, got.Verdict)
	}
}

// A policy that costs more than a plain limiter is not shown without a word.
func TestDearPoliciesAreWarnedOf(t *testing.T) {
	simtest.Long(t)
	const dear = " -set policy.mode=batches -batch 1 -limit 50/s -keys 20 -offered 0.5"
	for _, line := range []string{"run" + dear, "compare -b batch=2" + dear, "sweep -over batch=1,2" + dear} {
		prints(t, line+short, "WARNING: The policy of ", "more calls than a plain limiter")
	}
	simtest.Lacks(t, "a cheap one", must(t, "run"+short), "WARNING")
}

// Rows that are equal are one: the policy that changes less. The list that is judged stays.
func TestEqualRowsAreOne(t *testing.T) {
	a, b, c := played("same", 0.1, 0.99, 0.99, 0, 0.01), played("same", 0.1, 0.99, 0.99, 0, 0.01), played("other", 0.2, 0.99, 0.99, 0, 0.01)
	a.changes = 2
	all := []*candidate{c, a, b}
	got := tune(all, constraints{})
	if !slices.Equal(all, []*candidate{c, a, b}) {
		t.Errorf("the list is %v", all)
	}
	if len(got.Candidates) != 2 || got.Candidates[0] != b || got.Candidates[1] != c {
		t.Error(labels(got.Candidates, func(*candidate) bool { return true }))
	}
}

// A knob is turned by marks, also from between two, and drags along what must not be longer.
func TestTurn(t *testing.T) {
	at := func(name string) *knob {
		i := slices.IndexFunc(knobs, func(k knob) bool { return k.name == name })
		return &knobs[i]
	}
	for _, c := range []struct {
		name string
		from lease.Policy
		by   int
		want lease.Policy // zero: no further
	}{
		{"Batch", lease.Policy{Batch: 100}, 1, lease.Policy{Batch: 110}},
		{"Batch", lease.Policy{Batch: 105}, 1, lease.Policy{Batch: 110}},
		{"Batch", lease.Policy{Batch: 105}, -1, lease.Policy{Batch: 100}},
		{"Batch", lease.Policy{Batch: 100}, 6, lease.Policy{Batch: 200}},
		{"Batch", lease.Policy{Batch: 1}, -6, lease.Policy{}},
		{"Batch", lease.Policy{Batch: lease.MaxBurst}, 1, lease.Policy{}},
		{"BurstShare", lease.Policy{BurstShare: 0.95}, 4, lease.Policy{BurstShare: 1}},
		{"MaxRefresh", lease.Policy{MinRefresh: 100 * time.Millisecond, MaxRefresh: 110 * time.Millisecond}, -6,
			lease.Policy{MinRefresh: 56 * time.Millisecond, MaxRefresh: 56 * time.Millisecond}},
		{"MaxRefresh", lease.Policy{MaxRefresh: time.Second, MaxHold: time.Second}, 6, lease.Policy{MaxRefresh: 2 * time.Second, MaxHold: 2 * time.Second}},
		{"MaxHold", lease.Policy{MaxRefresh: time.Hour, MaxHold: time.Hour}, 1, lease.Policy{}},
	} {
		turned, ok := at(c.name).turn(choice{policy: c.from.Resolved()}, c.by)
		want := choice{policy: c.want.Resolved()}
		if !ok && c.want == (lease.Policy{}) {
			want.policy = c.from.Resolved()
		}
		got := turned.policy
		if ok != (c.want != lease.Policy{}) || got.Validate() != nil {
			t.Errorf("%s of %+v by %d: %+v, %v", c.name, c.from, c.by, got, ok)
		}
		k := at(c.name)
		if k.get(turned) != k.get(want) ||
			c.want.MinRefresh != 0 && got.MinRefresh != c.want.MinRefresh ||
			c.want.MaxHold != 0 && got.MaxHold != c.want.MaxHold {
			t.Errorf("%s of %+v by %d: %+v, want %+v", c.name, c.from, c.by, got, want.policy)
		}
	}
}

// gridOf are the candidates that a search begins with.
func gridOf(s *scenario.Scenario) (all []*candidate) {
	search := newSearch(s, constraints{}, 1, 10, false, 1)
	for _, x := range append(search.others(), search.points()[1:]...) {
		all = append(all, search.candidate(x, s))
	}
	return all
}

// policyIn reads a policy out of Go that was printed for a hybrid.Config.
func policyIn(t *testing.T, text string) (p lease.Policy, outage string) {
	t.Helper()
	e, err := parser.ParseExpr("hybrid.Config{\n" + text + "\n}")
	if err != nil {
		t.Fatalf("%s\nis not Go: %v", text, err)
	}
	number := func(e ast.Expr) float64 {
		x, err := strconv.ParseFloat(e.(*ast.BasicLit).Value, 64)
		simtest.OK(t, err)
		return x
	}
	units := map[string]time.Duration{"Hour": time.Hour, "Minute": time.Minute, "Second": time.Second, "Millisecond": time.Millisecond, "Microsecond": time.Microsecond}
	duration := func(e ast.Expr) time.Duration {
		switch e := e.(type) {
		case *ast.BinaryExpr:
			return time.Duration(number(e.X)) * units[e.Y.(*ast.SelectorExpr).Sel.Name]
		case *ast.SelectorExpr:
			return units[e.Sel.Name]
		}
		return time.Duration(number(e))
	}
	for _, field := range e.(*ast.CompositeLit).Elts {
		f := field.(*ast.KeyValueExpr)
		if f.Key.(*ast.Ident).Name == "Outage" {
			outage = f.Value.(*ast.SelectorExpr).Sel.Name
			continue
		}
		for _, e := range f.Value.(*ast.CompositeLit).Elts {
			f := e.(*ast.KeyValueExpr)
			name := f.Key.(*ast.Ident).Name
			switch x := reflect.ValueOf(&p).Elem().FieldByName(name); {
			case name == "Mode":
				p.Mode = map[string]lease.Mode{"Batches": lease.Batches, "Shares": lease.Shares, "PerRequest": lease.PerRequest}[f.Value.(*ast.SelectorExpr).Sel.Name]
			case name == "Fairness":
				p.Fairness = map[string]lease.Fairness{"MaxMin": lease.MaxMin}[f.Value.(*ast.SelectorExpr).Sel.Name]
			case x.CanFloat():
				x.SetFloat(number(f.Value))
			case x.Type() == reflect.TypeFor[time.Duration]():
				x.SetInt(int64(duration(f.Value)))
			default:
				x.SetInt(int64(number(f.Value)))
			}
		}
	}
	return p.Resolved(), outage
}

// What is printed to be pasted, as Go and as JSON, is the policy that was
// recommended, to the last bit.
func TestPaste(t *testing.T) {
	policies := []lease.Policy{
		{}, {Mode: lease.PerRequest}, {Mode: lease.Batches, Batch: 30}, {Mode: lease.Shares, Fairness: lease.MaxMin, Batch: 1 << 32, Smallest: 7},
		{MinRefresh: time.Millisecond, MaxRefresh: time.Hour, Headroom: 1e-9, BurstShare: 1. / 3, Reserve: 0.999},
		{MinRefresh: 1234567 * time.Nanosecond, MaxRefresh: 90 * time.Second}, {MinRefresh: time.Minute, MaxRefresh: time.Minute},
		{MinRefresh: 1001 * time.Microsecond, MaxRefresh: time.Second}, {MinRefresh: 250 * time.Millisecond, MaxRefresh: 250 * time.Millisecond},
		{MaxHold: time.Minute}, {MaxRefresh: time.Minute, MaxHold: time.Hour}, {MaxHold: 250 * time.Millisecond},
	}
	for _, c := range gridOf(simtest.Scenario(t, "")) {
		policies = append(policies, c.Policy)
	}
	for _, p := range policies {
		p = p.Resolved()
		for outage, name := range map[string]string{"share": "", "deny": "Deny", "allow": "Allow"} {
			c := &candidate{Policy: p, Outage: outage}
			if got, o := policyIn(t, c.goText()); got != p || o != name {
				t.Errorf("%s\nis %+v, %s\nwant %+v, %s", c.goText(), got, o, p, name)
			}
		}
		text, err := json.Marshal(p)
		simtest.OK(t, err)
		var got lease.Policy
		if err := json.Unmarshal(text, &got); err != nil || got != p {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}

// `sim tune` recommends a policy that keeps the constraints, that needs about the fewest calls of
// those that do, and that can be pasted as it is printed.
func TestTune(t *testing.T) {
	simtest.Long(t)
	line := longform.Of("tune -effort 0.01 -set processes=3", "tune") + " -duration 250ms -warmup 50ms -min-fairness 0.9 "
	d := decode(t, must(t, line+"-json"))
	if d.Command != "tune" || d.Tuning == nil || len(d.Tuning.Candidates) < 4 || len(d.Variants) != len(d.Tuning.Candidates) {
		t.Fatalf("%s: %d variants", d.Command, len(d.Variants))
	}
	var best *candidate
	for i, c := range d.Tuning.Candidates {
		if d.Variants[i].Label != c.Label {
			t.Fatalf("candidate %s, variant %s", c.Label, d.Variants[i].Label)
		}
		c.variant = &variant{Results: make([]*engine.Result, len(d.Variants[i].Results))}
		for n := range c.variant.Results {
			c.variant.Results[n] = &d.Variants[i].Results[n]
		}
		if c.Recommended {
			best = c
		}
	}
	l := d.Tuning.Constraints
	if best == nil || l.MinFairness != 0.9 || best.mean(fairness) < 0.9 || best.mean(utilisation) < l.MinUtilisation || len(best.Fails) > 0 {
		t.Fatalf("recommended %+v under %+v", best, l)
	}
	for _, c := range d.Tuning.Candidates {
		as := len(c.variant.Results) >= len(best.variant.Results)
		if as && len(c.Fails) == 0 && near*c.mean(calls) < best.mean(calls) {
			t.Errorf("%s needs fewer calls than %s", c.Label, best.Label)
		}
	}
	text := must(t, line)
	_, rest, ok := strings.Cut(text, "In Go, in hybrid.Config:\n\n")
	code, rest, ok1 := strings.Cut(rest, "\n\nAs YAML, in a scenario:\n\n")
	yaml, rest, ok2 := strings.Cut(rest, "\n\nAs JSON, of a hybrid.Policy (durations are nanoseconds):\n\n")
	if !ok || !ok1 || !ok2 {
		t.Fatalf("nothing to paste:\n%s", text)
	}
	var p lease.Policy
	simtest.OK(t, json.Unmarshal([]byte(rest), &p))
	if q, _ := policyIn(t, code); p != best.Policy || q != best.Policy {
		t.Errorf("recommended %+v\nin Go %+v\nin JSON %+v", best.Policy, q, p)
	}
	pasted, err := scenario.Parse([]byte(strings.ReplaceAll(yaml, "\n    ", "\n")[4:]), nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, yaml)
	}
	if q, err := pasted.Policy.Lease(); err != nil || q != best.Policy || pasted.Outage != "share" {
		t.Errorf("in YAML %+v, outage %s, %v", q, pasted.Outage, err)
	}
	simtest.Has(t, line, text, "* ", best.Label, "classic batches of 1")
	text = prints(t, line+"-effort 0.01 -max-calls 1e-6", "No candidate keeps all constraints. -max-calls 1e-06 is too few")
	simtest.Lacks(t, "with too few calls", text, "In Go")
}
