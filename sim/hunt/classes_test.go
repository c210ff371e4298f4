package hunt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// Classes are drawn from a stream of their own: without them it is the same scene.
func TestDrawnClasses(t *testing.T) {
	longform.None(t)
	alone, going, apart, floors := 0, 0, 0, map[float64]bool{}
	list := append(slices.Clone(drawn(t, Wide)), drawn(t, Near)...)
	for _, b := range list {
		s := again(t, b, Classes)
		if n := len(s.Classes); n < minClasses || n > maxClasses {
			t.Errorf("%s has %d classes", s.Name, n)
		}
		sum := 0.0
		for _, c := range s.Classes {
			sum += c.Floor
			floors[c.Floor] = true
			if c.OnOff != nil {
				going++
			}
		}
		if sum < minFloors-0.02 || sum > maxFloors+0.02 {
			t.Errorf("%s: floors are %.2f together\n%s", s.Name, sum, s.Text())
		}
		if s.Alone() {
			alone++
		}
		if s.Balance.Apart {
			apart++
		}
		s.Name, s.Classes, s.Balance.Apart = b.Name, nil, false
		if s.Text() != b.Text() {
			t.Errorf("with classes it is another scene:\n%s%s", s.Text(), b.Text())
		}
	}
	often(t, "a class alone", alone, list, alonePart)
	if going < len(list)/8 || apart < len(list)/8 || len(floors) < 50 {
		t.Errorf("of %d scenes %d have a class that comes and goes, %d have classes apart; %d floors",
			len(list), going, apart, len(floors))
	}
}

// A class alone is held against the ideal limit, a floor against a point of the limit, and the worst
// class against nine tenths of its fair share: only where there are classes.
func TestWhatClassesFallShortIn(t *testing.T) {
	several := []scenario.Class{{Name: "a", Floor: 0.5, Share: 0.5}, {Name: "b", Share: 0.5}}
	one := []scenario.Class{{Name: "a", Floor: 0.5, Share: 1}, {Name: "b"}}
	for _, c := range []struct {
		name    string
		classes []scenario.Class
		of      func(*Figures) *float64
		value   float64
		short   []Aspect
	}{
		{"no classes", nil, lackOf, 0.5, nil},
		{"a floor lacks 1.1 points", several, lackOf, 0.011, []Aspect{Floors}},
		{"0.9 points", several, lackOf, 0.009, nil},
		{"0.89 of a fair share", several, worstClassOf, 0.89, []Aspect{ByClass}},
		{"0.91", several, worstClassOf, 0.91, nil},
		{"a class alone has 0.988", one, admittedOf, 988, []Aspect{Alone}},
		{"0.992", one, admittedOf, 992, nil},
		{"several have 0.988", several, admittedOf, 988, nil},
	} {
		before := plain
		before.WorstClass = 1
		each := repeat(before, admittedOf, 0)
		for i := range each { // a call for each request does no better
			each[i].Admitted = 985
		}
		auto := repeat(before, c.of, 0)
		for i := range auto {
			*c.of(&auto[i]) = c.value
		}
		s := fleet()
		s.Classes = c.classes
		if got := judged(s, auto, each, nil).shortIn(); !slices.Equal(got, c.short) {
			t.Errorf("%s: short in %v, want %v", c.name, got, c.short)
		}
	}
}

func lackOf(f *Figures) *float64       { return &f.Lack }
func worstClassOf(f *Figures) *float64 { return &f.WorstClass }

// Classes are simplified until there are two that stay.
func TestSimplerClasses(t *testing.T) {
	s := simtest.Scenario(t, "{limit: 100/s, balance: {apart: true}, classes: [{name: a, floor: 0.2, share: 0.5}, "+
		"{name: b, floor: 0.1, share: 0.2}, {name: c, floor: 0.3, weight: 2, share: 0.3, on_off: {on: 1s, period: 2s}}]}")
	if !noGoing(s) || noGoing(s) || !fewerClasses(s) || fewerClasses(s) {
		t.Errorf("simpler twice, or never:\n%s", s.Text())
	}
	simtest.OK(t, s.Resolve())
	if last := s.Classes[1]; len(s.Classes) != 2 || last.Floor != 0.4 || last.Share != 0.5 || last.Weight != 2 ||
		s.Balance.Apart || last.OnOff != nil {
		t.Errorf("simpler is\n%s", s.Text())
	}
}

// A scene with classes is played and judged: what floors lack is known, and that a policy of batches
// is no rival.
func TestHuntClasses(t *testing.T) {
	simtest.Long(t)
	s := draw(t, 1, 38, Near, Classes)
	s.Duration = s.Warmup + 4*time.Second
	j, err := judgeScene(t.Context(), s, true)
	simtest.OK(t, err)
	for i := range j.Auto {
		if f := &j.Auto[i]; f.WorstClass == 0 || f.Lack == 0 {
			t.Errorf("replication %d: %+v", i, f)
		}
	}
	for name := range j.kept {
		if strings.HasPrefix(name, "batches") {
			t.Errorf("%s have classes", name)
		}
	}
}
