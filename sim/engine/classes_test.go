package engine

import (
	"fmt"
	"math"
	"testing"
)

// classScene are three classes at four processes.
func classScene(t *testing.T, shares [3]float64, load string) *Result {
	t.Helper()
	return classesOf(t, "1000/s, burst: 200", shares, load)
}

func classesOf(t *testing.T, limit string, shares [3]float64, load string) *Result {
	t.Helper()
	s := read(t, fmt.Sprintf("{duration: 22s, warmup: 2s, processes: 4, limit: %s, "+
		"classes: [{name: critical, floor: 0.5, share: %v}, {name: normal, floor: 0.2, weight: 2, share: %v}, "+
		"{name: batch, weight: 1, share: %v}], load: {%s}}", limit, shares[0], shares[1], shares[2], load))
	r := play(t, s, 0)
	checkResult(t, s, r)
	var offered, admitted, fair float64
	var requests int64
	for _, c := range r.Classes {
		requests += c.Requests
		offered += c.Offered
		admitted += c.Admitted
		fair += c.Fair
	}
	if offered != r.TokensOffered || admitted != r.TokensAdmitted || math.Abs(fair-r.TokensIdeal) > 1e-6*fair {
		t.Errorf("%v of %v tokens by class, %v fair; %v of %v and %v in all", admitted, offered, fair,
			r.TokensAdmitted, r.TokensOffered, r.TokensIdeal)
	}
	if requests != r.Admitted+r.Denied+r.Unanswered {
		t.Errorf("%d requests by class, %d in all", requests, r.Requests)
	}
	return r
}

// Floors are honoured and the rest goes by weight, as the ledgers and holders of production have
// it; all that an ideal limit admits is admitted.
func TestClasses(t *testing.T) {
	r := classScene(t, [3]float64{0.3, 0.3, 0.4}, "offered: 4")
	for i, want := range []float64{0.5, 0.4, 0.1} {
		c := r.Classes[i]
		if got := c.Admitted / 20_000; math.Abs(got-want) > 0.02 || math.Abs(c.Fair/20_000-want) > 0.01 {
			t.Errorf("%s has %.3f of the limit, and a fair share of %.3f, not %v", c.Name, got, c.Fair/20_000, want)
		}
		if c.Honoured < 0.99 || c.Lack > 0.02 || c.Within > 0 && math.Abs(c.Within-20_000*[]float64{0.5, 0.2}[i]) > 300 {
			t.Errorf("%s: %.4f of %v within its floor, %.4f lacks", c.Name, c.Honoured, c.Within, c.Lack)
		}
	}
	if r.Utilisation < 0.99 {
		t.Errorf("utilisation %v", r.Utilisation)
	}
}

// Classes wait in lines of their own: one that asks for less than its floor waits less.
func TestClassesWait(t *testing.T) {
	r := classScene(t, [3]float64{0.1, 0, 0.9}, "offered: 4, patience: 300ms")
	high, low := r.Classes[0], r.Classes[2]
	if high.Admitted < 0.99*high.Offered || high.LatencyP99 > 0.1 || low.LatencyP99 < 0.2 {
		t.Errorf("critical: %v of %v, p99 %.4f s; batch: p99 %.4f s", high.Admitted, high.Offered,
			high.LatencyP99, low.LatencyP99)
	}
}

// A class alone gets all, whatever the floors of the others.
func TestClassAlone(t *testing.T) {
	for i, shares := range [][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}} {
		r := classScene(t, shares, "offered: 1.5")
		if c := r.Classes[i]; c.Admitted != r.TokensAdmitted || r.Utilisation < 0.99 {
			t.Errorf("%s alone: %v of %v, utilisation %v", c.Name, c.Admitted, r.TokensAdmitted, r.Utilisation)
		}
	}
}

// A quota keeps floors that nobody asks for, and gives the rest to whoever comes first.
func TestClassesOfAQuota(t *testing.T) {
	for _, c := range []struct{ shares, want [3]float64 }{ // of the quota
		{[3]float64{0, 0, 1}, [3]float64{0, 0, 0.3}},
		{[3]float64{0.1, 0, 0.9}, [3]float64{0.4, 0, 0.3}},
		{[3]float64{1, 0, 0}, [3]float64{0.8, 0, 0}},
		{[3]float64{0.2, 0.2, 0.6}, [3]float64{0.5, 0.2, 0.3}},
		{[3]float64{0.5, 0.25, 0.25}, [3]float64{0.5, 0.25, 0.25}},
	} {
		r := classesOf(t, "quota 5000/5s", c.shares, "offered: 4")
		for i, want := range c.want {
			x := r.Classes[i]
			if got := x.Admitted / 20_000; math.Abs(got-want) > 0.02 || math.Abs(x.Admitted-x.Fair) > 20 || x.Lack > 0.01 {
				t.Errorf("%v: %s has %.3f of the quota, not %.3f: %+v", c.shares, x.Name, got, want, x)
			}
		}
		if r.Utilisation < 0.995 || r.Excess > 0 {
			t.Errorf("%v: utilisation %v, excess %v", c.shares, r.Utilisation, r.Excess)
		}
	}
}

// What is within a floor, and denied, is missing.
func TestFloorsAreMeasured(t *testing.T) {
	e := &engine{scenario: read(t, "{limit: 100/s, burst: 100, classes: [{name: a, floor: 0.5}, {name: b}]}")}
	e.keys = make([]*key, 1)
	m := newClassMeter(e)
	k := &key{limit: e.scenario.LimitOf()}
	m.newKey(e, k)
	e.keys[0] = k
	for n := range 200 {
		q := new(request)
		q.Cost = 1
		q.within = n < 100
		m.settle(e, q, k.classes, n%2 == 0 && n < 100) // half of them, and no other
	}
	e.now = ClassWindow
	m.tick(e)
	if c := m.result()[0]; c.Within != 100 || c.Honoured != 0.5 || c.Lack != 0.25 || c.MeanLack != 0.25 {
		t.Errorf("%+v", c)
	}
}
