package hunt

import (
	"bytes"
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// cheap are five scenes of a few hundred requests each, of which 93 falls short. After a
// change of the protocol others may: then these tests say so.
var cheap = Options{Seed: 201, First: 91, Scenes: 5}

func run(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("seed %d, scenes %d to %d: %v", o.Seed, o.First, o.First+o.Scenes-1, err)
	}
	return r
}

func written(t *testing.T, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	simtest.OK(t, r.Write(&b))
	return b.String()
}

// Scenes are judged to the last bit alike when they are played again, in whatever
// order cores take them; and alone as among others.
func TestRunReplays(t *testing.T) {
	simtest.Long(t)
	o := cheap
	o.Rivals, o.Worst, o.Effort = true, 1, 9
	if !longform.Set() {
		o.First, o.Scenes, o.Effort, o.Rivals = 93, 2, 1, false
	}
	o.Progress = new(atomic.Int64)
	first := run(t, o)
	if got := o.Progress.Load(); got != int64(o.Scenes)+1 {
		t.Errorf("progress %d of %d scenes and the worst one", got, o.Scenes)
	}
	if len(first.Shrunk) == 0 {
		t.Fatal("none of cheap falls short: choose other scenes")
	}
	text := written(t, first)
	if n := strings.Count(text, "\n"); n != o.Scenes {
		t.Errorf("%d lines for %d scenes", n, o.Scenes)
	}
	old := runtime.GOMAXPROCS(1)
	again := run(t, o)
	runtime.GOMAXPROCS(old)
	if written(t, again) != text {
		t.Errorf("seed %d: other bytes on one core", o.Seed)
	}
	if first.Shrunk[0].Scene == first.Ranked()[0].Scene {
		t.Errorf("seed %d: the worst scene is no simpler", o.Seed)
	}
	if len(again.Shrunk) != 1 || again.Shrunk[0].Scene.Text() != first.Shrunk[0].Scene.Text() {
		t.Errorf("seed %d: another simplest scene on one core", o.Seed)
	}
	o.First, o.Scenes, o.Worst = 93, 1, 0
	if alone := written(t, run(t, o)); !strings.Contains(text, alone) {
		t.Errorf("scene 93 of seed %d is judged differently alone: %.300s", o.Seed, alone)
	}
	o.Seed = 203
	if other := written(t, run(t, o)); strings.Contains(text, other) {
		t.Error("another seed, the same figures")
	}
}

// Who is interrupted gets what is judged by then, and the error; scenes under way
// are not among it.
func TestRunIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{Seed: 1, First: 80, Scenes: 100_000, Worst: 3, Progress: new(atomic.Int64)}
	go func() {
		for o.Progress.Load() < 3 && ctx.Err() == nil {
			runtime.Gosched()
		}
		cancel()
	}()
	r, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if n := len(r.Judgements); n < 3 || n > 1000 {
		t.Fatalf("%d scenes are judged", n)
	}
	if len(r.Shrunk) > 0 {
		t.Errorf("%d scenes are shrunk after an interrupt", len(r.Shrunk))
	}
	for i, j := range r.Judgements {
		if len(j.Auto) != Replications || len(j.Each) != Replications {
			t.Errorf("scene %d is judged by %d and %d replications",
				j.Scene.Number, len(j.Auto), len(j.Each))
		}
		if i > 0 && j.Scene.Number <= r.Judgements[i-1].Scene.Number {
			t.Errorf("scene %d comes after %d", j.Scene.Number, r.Judgements[i-1].Scene.Number)
		}
	}

	r, err = Run(ctx, cheap)
	if len(r.Judgements) != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before it began: %d scenes, %v", len(r.Judgements), err)
	}
}

// When the time is over nothing is begun, which is no error.
func TestUntil(t *testing.T) {
	simtest.Long(t)
	o := cheap
	o.Until = time.Unix(1, 0)
	o.Scenes, o.Worst = 2, 1
	if r := run(t, o); len(r.Judgements) != 0 || len(r.Shrunk) != 0 {
		t.Errorf("%d scenes after the end", len(r.Judgements))
	}
	o.Until, o.Worst = time.Now().Add(time.Hour), 0
	if r := run(t, o); len(r.Judgements) != o.Scenes {
		t.Errorf("%d scenes in an hour", len(r.Judgements))
	}
}

// The first error, such as an Excess, ends it all: nothing more is begun, what is
// under way is interrupted, and its own error does not hide the first.
func TestFirstErrorEndsAll(t *testing.T) {
	scene := &Scene{Scenario: &scenario.Scenario{Name: "hunt-1-4"}}
	want := &Excess{Scene: scene, Tokens: 2, Debited: true}
	var begun atomic.Int64
	err := parallel(t.Context(), 1000, time.Time{}, func(ctx context.Context, n int) error {
		switch begun.Add(1); {
		case n < 4:
			return nil
		case n == 4:
			return want
		}
		<-ctx.Done()
		return ctx.Err()
	})
	got, ok := IsExcess(err)
	if !ok || got != want {
		t.Errorf("error %v, want %v", err, want)
	}
	if n, most := begun.Load(), int64(5+runtime.GOMAXPROCS(0)); n > most {
		t.Errorf("%d were begun, want %d at most", n, most)
	}
	simtest.Refused(t, "an excess", want, "hunt-1-4", "2.000 tokens", "at their debit")
	if _, ok := IsExcess(context.Canceled); ok {
		t.Error("an interrupt is an excess")
	}
}

// A report that Write wrote and Read reads differs from itself in nothing. What
// differs is found, with its scene and its sign; scenes of only one of them count
// for nothing.
func TestAgainst(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	r := run(t, cheap)
	before := func() *Report {
		t.Helper()
		read, err := Read(strings.NewReader(written(t, r)))
		simtest.OK(t, err)
		return read
	}
	changes, err := r.Against(before())
	if err != nil || len(changes) != len(compared) {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	for _, c := range changes {
		if c.Before != c.After || c.Interval.Mean != 0 || c.Interval.N != 5 ||
			c.More+c.Less+len(c.By) > 0 {
			t.Errorf("against itself: %+v", c)
		}
	}

	old := before()
	for _, j := range old.Judgements {
		j.Scene.Class = Near
	}
	_, err = r.Against(old)
	simtest.Refused(t, "scenes of another class", err, "no scene")

	old = before()
	old.Judgements = append(old.Judgements[:1], old.Judgements[2:]...) // 92 is not there
	for i := range Replications {
		old.Judgements[1].Auto[i].Calls -= 0.1 // of 93: more now
		old.Judgements[2].Auto[i].Calls += 0.5 // of 94: less now
		old.Judgements[3].Auto[i].Calls += 0.001
		old.Judgements[3].Auto[i].Latency += float64(i - 2) // wide
		old.Judgements[0].Auto[i].Worst -= 0.2
	}
	changes, err = r.Against(old)
	simtest.OK(t, err)
	for _, c := range changes {
		var more, less int
		var by []Moved
		switch c.Name {
		case "calls":
			more, less, by = 1, 1, []Moved{{94, -0.5}, {93, 0.1}}
		case "worst process":
			more, by = 1, []Moved{{91, 0.2}}
		}
		same := slices.EqualFunc(c.By, by, func(a, b Moved) bool {
			return a.Number == b.Number && math.Abs(a.By-b.By) < 1e-9
		})
		if c.More != more || c.Less != less || !same || c.Interval.N != 4 {
			t.Errorf("%+v, want %d more, %d less: %v", c, more, less, by)
		}
	}

	other := &Report{Judgements: []*Judgement{{Scene: &Scene{Number: 7}}}}
	_, err = r.Against(other)
	simtest.Refused(t, "other scenes", err, "no scene")
	if _, err := Read(strings.NewReader("{\"scene\": 3}\nnonsense")); err == nil {
		t.Error("nonsense is read")
	}
}

// The worst scene, made simpler, still falls short in what it fell short in; and
// read back from its YAML it is the same, so that a file of -out shows what it is
// there for.
func TestShrink(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	s := draw(t, 401, 31, Near, Buckets)
	j, err := judgeScene(t.Context(), s, true)
	simtest.OK(t, err)
	aspect := j.worstAspect()
	if !j.Losses[aspect].Short {
		t.Fatalf("%s falls short in nothing: choose another scene for this test", s.Name)
	}
	small, _, err := shrink(t.Context(), j, math.Inf(1))
	simtest.OK(t, err)
	t.Logf("%s, %s: %d bytes became %d", s.Name, Aspects[aspect],
		len(s.Text()), len(small.Scene.Text()))
	if !small.Losses[aspect].Short {
		t.Errorf("%s fell short in %s, and its simpler one does not:\n%s",
			s.Name, Aspects[aspect], small.Scene.Text())
	}
	x := small.Scene
	if x.Text() == s.Text() {
		t.Errorf("%s is no simpler", s.Name)
	}
	if x.Seed != s.Seed || x.Number != s.Number {
		t.Errorf("%s is played with another seed", s.Name)
	}

	again := simtest.Scenario(t, x.Text())
	from := x.with(again)
	read, err := judgeScene(t.Context(), from, false)
	simtest.OK(t, err)
	if !reflect.DeepEqual(read.Auto, small.Auto) || !reflect.DeepEqual(read.Each, small.Each) {
		t.Errorf("%s plays differently from its YAML:\n%s", s.Name, x.Text())
	}

	for i, step := range steps { // it could not be simpler
		next := x.with(x.Clone())
		if !step(next.Scenario) || next.Resolve() != nil {
			continue
		}
		tried, err := try(t.Context(), next, small, aspect, math.Inf(1))
		simtest.OK(t, err)
		if tried.Losses[aspect].Short {
			t.Errorf("%s: step %d makes it simpler still:\n%s", s.Name, i, next.Text())
		}
	}
}

// Making scenes simpler simulates no more than Effort allows: nothing, what one trial takes, or
// as much as it wants. Each of the worst leaves the next one half of what there was.
func TestEffort(t *testing.T) {
	simtest.Long(t)
	s := draw(t, 401, 47, Near, Buckets)
	j, err := judgeScene(t.Context(), s, true)
	simtest.OK(t, err)
	replication := (work(j.Auto) + work(j.Each)) / Replications
	sizes := map[int]bool{}
	for _, replications := range []float64{0, 0.99, 6, 12, longform.Of[float64](100, 1000)} {
		budget := replications * replication
		small, spent, err := shrink(t.Context(), j, budget)
		simtest.OK(t, err)
		sizes[len(small.Scene.Text())] = true
		if spent > budget*1.01 || replications < 1 && (spent != 0 || small != j) ||
			replications >= 1 && spent == 0 {
			t.Errorf("%v replications of %v: %v were spent", replications, replication, spent)
		}
		if !small.Losses[j.worstAspect()].Short {
			t.Errorf("%v replications: nothing falls short\n%s", replications, small.Scene.Text())
		}
	}
	if len(sizes) < 3 {
		t.Errorf("the same scene with any budget: %v", sizes)
	}

	r := &Report{Judgements: []*Judgement{j, j, j}}
	o := Options{Worst: 3, Effort: 60 * replication / (3 * j.work), Progress: new(atomic.Int64)}
	simtest.OK(t, r.shrink(t.Context(), o))
	half, spent, err := shrink(t.Context(), j, 30*replication)
	simtest.OK(t, err)
	quarter, _, err := shrink(t.Context(), j, (60*replication-spent)/2)
	simtest.OK(t, err)
	for i, want := range []*Judgement{half, quarter} {
		if r.Shrunk[i].Scene.Text() != want.Scene.Text() || want == j {
			t.Errorf("number %d of the worst has become\n%s, want\n%s", i,
				r.Shrunk[i].Scene.Text(), want.Scene.Text())
		}
	}
}

// Each step leaves a scene that resolves, and does nothing the second time but
// where it says so: else Shrink would not end.
func TestStepsEnd(t *testing.T) {
	simtest.Long(t)
	done := make([]int, len(steps))
	list := slices.Concat(drawn(t, Wide), drawn(t, Near))
	list = slices.DeleteFunc(list, func(s *Scene) bool { return s.Number >= longform.Of(12, 30) })
	pair := draw(t, 1, 0, Wide, Pairs)
	classed := draw(t, 1, 37, Near, Classes)
	for _, s := range append(list, pair, classed) {
		for i, step := range steps {
			x := s.Clone()
			for n := 0; step(x); n++ {
				done[i]++
				if err := x.Clone().Resolve(); err != nil {
					t.Fatalf("%s, step %d: %v\n%s", s.Name, i, err, x.Text())
				}
				if n == 20 {
					t.Fatalf("%s: step %d has no end\n%s", s.Name, i, x.Text())
				}
			}
		}
	}
	for i, n := range done {
		if n == 0 {
			t.Errorf("step %d makes no scene simpler", i)
		}
	}
}

// Scenes with other limits are judged as those with buckets are: to the last bit alike.
func TestRunLimits(t *testing.T) {
	simtest.Long(t)
	marks := map[Limits]string{Quotas: "-quota\"", Pairs: "-pair\"", Sliding: "-sliding\"",
		Slots: "-slots\"", Classes: "-classes\"", QuotaClasses: "-quota-classes\"",
		Waits: "-waits\""}
	for limits, mark := range marks {
		o := Options{Seed: 201, First: 93, Scenes: 1, Class: Both, Limits: limits, Rivals: longform.Set()}
		first := run(t, o)
		if text := written(t, first); text != written(t, run(t, o)) {
			t.Errorf("%s, seed %d: other bytes the second time", LimitNames[limits], o.Seed)
		} else if n := strings.Count(text, mark); n != o.Scenes || first.Limits != limits {
			t.Errorf("%d of %d scenes have %s: %.500s", n, o.Scenes, LimitNames[limits], text)
		}
	}
}
