package measure

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func TestJudge(t *testing.T) {
	j := Judge([]Share{
		{Offered: 100, Admitted: 50, Ideal: 40, Fair: 50, Level: 30},
		{Offered: 20, Admitted: 5, Ideal: 10, Fair: 10, Level: 20},
		{}, // was not asked
	})
	want := Justice{
		Sum: Share{120, 55, 50, 60, 50}, Utilisation: 1.1, Worst: 0.5,
		Fair:     1.5 * 1.5 / 2 / 1.25,                              // of 1 and 1/2
		Accepted: 0.75 * 0.75 / 2 / 0.3125,                          // of 1/2 and 1/4
		Ideal:    1.75 * 1.75 / 2 / 1.8125,                          // of 5/4 and 1/2
		Level:    (5./3 + .25) * (5./3 + .25) / 2 / (25./9 + 1./16), // of 5/3 and 1/4
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{{"utilisation", j.Utilisation, want.Utilisation}, {"worst", j.Worst, want.Worst}, {"fair", j.Fair, want.Fair},
		{"accepted", j.Accepted, want.Accepted}, {"ideal", j.Ideal, want.Ideal}, {"level", j.Level, want.Level}} {
		if math.Abs(c.got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if j.Sum != want.Sum {
		t.Errorf("sum %+v, want %+v", j.Sum, want.Sum)
	}
	if j := Judge(nil); j.Utilisation != 1 || j.Worst != 1 || j.Fair != 1 {
		t.Errorf("of nobody: %+v", j)
	}
}

func TestDivide(t *testing.T) {
	demand := []float64{60, 30, 10, 0}
	if got := Divide(nil, lease.Proportional, demand, 50); !slices.Equal(got, []float64{30, 15, 5, 0}) {
		t.Errorf("proportional: %v", got)
	}
	if got := Divide(nil, lease.MaxMin, demand, 50); !slices.Equal(got, []float64{20, 20, 10, 0}) {
		t.Errorf("max-min: %v", got)
	}
}

func TestRank(t *testing.T) {
	if got := Rank([]float64{3, 1, 2, 4}, 0.5, 9); got != 3 {
		t.Errorf("upper median %v", got)
	}
	if got := Rank(nil, 0.5, 9.0); got != 9 {
		t.Errorf("of nothing %v", got)
	}
}

func TestLife(t *testing.T) {
	l := NewLife()
	l.Ask(10)
	if starved := l.Deny(12); starved != 0 {
		t.Errorf("one denial is %v of starvation", starved)
	}
	if starved := l.Deny(15); starved != 3 {
		t.Errorf("starved %v", starved)
	}
	if !l.Admit() || l.Waited(20) != 10 {
		t.Errorf("it waited %v", l.Waited(20))
	}
	if l.Admit() {
		t.Error("first twice")
	}
	l.Deny(40)
	l.Reset(50)
	if starved := l.Deny(70); starved != 20 {
		t.Errorf("starved %v since the reset", starved)
	}
	l.Ask(70 + 2*time.Second) // nobody asked for two seconds
	if starved := l.Deny(71 + 2*time.Second); starved != 0 {
		t.Errorf("starved %v, though nobody asked", starved)
	}
}

func TestPermitted(t *testing.T) {
	policy := lease.Policy{MaxRefresh: 4 * time.Second, MaxHold: 4 * time.Second}
	of := func(n float64) lease.Limit { return lease.Limit{Rate: n, Burst: int64(n)} }
	p := NewPermitted(of(100))
	if until := p.Change(10*time.Second, of(50), policy, time.Second); until != 32*time.Second {
		t.Errorf("until %v", until)
	}
	p.Change(20*time.Second, of(10), policy, time.Second) // until 42 s
	for _, c := range []struct {
		at   time.Duration
		want float64
	}{{20 * time.Second, 100}, {32*time.Second - 1, 100}, {32 * time.Second, 50}, {42 * time.Second, 10}} {
		if got := p.At(c.at); got != of(c.want) {
			t.Errorf("at %v: %v, want %v", c.at, got, c.want)
		}
	}
}
