package hunt

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// Options say what to hunt.
type Options struct {
	Seed   uint64
	First  int // number of the first scene
	Scenes int
	Class  Class
	Limits Limits
	Until  time.Time // no scene is begun after it, unless it is zero
	Rivals bool      // play the fixed policies, too
	Worst  int       // so many are shrunk,
	Effort float64   // which may simulate as much as this part of the hunt

	Progress *atomic.Int64 // scenes judged, and shrunk; may be nil
}

// A Report is what was found.
type Report struct {
	Seed       uint64
	Class      Class
	Limits     Limits
	Judgements []*Judgement // by number
	Shrunk     []*Judgement // the worst, as Ranked has them, made simpler where Effort allows
}

// Run draws scenes, judges and shrinks them, on all cores. It returns what it has
// when ctx ends, with its error, and stops at once at an Excess.
func Run(ctx context.Context, o Options) (*Report, error) {
	r := &Report{Seed: o.Seed, Class: o.Class, Limits: o.Limits}
	if o.Progress == nil {
		o.Progress = new(atomic.Int64)
	}
	var mu sync.Mutex
	err := parallel(ctx, o.Scenes, o.Until, func(ctx context.Context, n int) error {
		s, err := Draw(o.Seed, o.First+n, o.Class, o.Limits)
		if err != nil {
			return err
		}
		j, err := judgeScene(ctx, s, o.Rivals)
		if err != nil {
			return err
		}
		o.Progress.Add(1)
		mu.Lock()
		defer mu.Unlock()
		r.Judgements = append(r.Judgements, j)
		return nil
	})
	slices.SortFunc(r.Judgements, func(a, b *Judgement) int { return cmp.Compare(a.Scene.Number, b.Scene.Number) })
	if err != nil {
		return r, err
	}
	return r, r.shrink(ctx, o)
}

// shrink makes the worst scenes simpler, one after the other, so that what one of them leaves of
// the effort is there for the next. Each may take half of what is left.
func (r *Report) shrink(ctx context.Context, o Options) error {
	left := 0.0
	for _, j := range r.Judgements {
		left += o.Effort * j.work
	}
	worst := r.Ranked()
	r.Shrunk = worst[:min(len(worst), o.Worst)]
	for i, j := range r.Shrunk {
		budget := left
		if i < len(r.Shrunk)-1 {
			budget /= 2
		}
		simplest, spent, err := shrink(ctx, j, budget)
		if err != nil {
			return err
		}
		r.Shrunk[i] = simplest
		left -= spent
		o.Progress.Add(1)
	}
	return nil
}

// parallel does n things on all cores. It begins no more after the first error,
// which it returns and which ends the context of the others, nor after until.
func parallel(ctx context.Context, n int, until time.Time, do func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil || !until.IsZero() && time.Now().After(until) {
					return
				}
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// Ranked are the scenes that fall short, the worst first.
func (r *Report) Ranked() []*Judgement {
	var list []*Judgement
	for _, j := range r.Judgements {
		if j.Short() {
			list = append(list, j)
		}
	}
	slices.SortStableFunc(list, func(a, b *Judgement) int { return cmp.Compare(b.Score, a.Score) })
	return list
}

// Short counts the scenes that fall short in an aspect, and finds the largest loss
// that is sure.
func (r *Report) Short(a Aspect) (n int, worst float64) {
	for _, j := range r.Judgements {
		if l := j.Losses[a]; l.Short {
			n++
			worst = max(worst, l.Sure())
		}
	}
	return n, worst
}

// MedianCalls is the median over all scenes of calls per request.
func (r *Report) MedianCalls() float64 {
	x := make([]float64, len(r.Judgements))
	for i, j := range r.Judgements {
		x[i] = mean(j.Auto, calls)
	}
	return measure.Rank(x, 0.5, 0)
}

// saved is a Judgement as JSON.
type saved struct {
	Class    string             `json:"class,omitempty"` // a report without it has wide scenes
	Number   int                `json:"scene"`
	Scenario *scenario.Scenario `json:"scenario,omitempty"`
	Auto     []Figures          `json:"auto"`
	Each     []Figures          `json:"each"`
	Losses   map[string]Loss    `json:"losses,omitempty"`
	Rivals   map[string]float64 `json:"rivals,omitempty"` // calls of those that count
}

// Write writes the report as JSON, a scene each line, for Read and for programs.
func (r *Report) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	for _, j := range r.Judgements {
		losses := map[string]Loss{}
		for a, l := range j.Losses {
			if Aspect(a) <= Avoidable || l != (Loss{}) { // the others are of classes
				losses[Aspects[a]] = l
			}
		}
		s := saved{
			Class: ClassNames[j.Scene.Class], Number: j.Scene.Number, Scenario: j.Scene.Scenario,
			Auto: j.Auto, Each: j.Each, Losses: losses, Rivals: j.kept,
		}
		if err := e.Encode(s); err != nil {
			return fmt.Errorf("hunt: write report: %w", err)
		}
	}
	return nil
}

// A Change is what one report has and another had: of a figure, positive is more.
type Change struct {
	Name          string
	Before, After float64 // means over scenes
	Interval      measure.Interval
	More, Less    int // scenes in which it is surely so
	By            []Moved
}

// Moved is by how much a scene did, surely.
type Moved struct {
	Number int
	By     float64
}

// Read reads what Write wrote, as far as Against needs it: the figures, and the
// numbers of the scenes.
func Read(from io.Reader) (*Report, error) {
	r := &Report{}
	for d := json.NewDecoder(from); ; {
		var s struct {
			saved
			Scenario json.RawMessage `json:"scenario"`
			Losses   json.RawMessage `json:"losses"`
		}
		if err := d.Decode(&s); err == io.EOF {
			return r, nil
		} else if err != nil {
			return nil, fmt.Errorf("hunt: read report: %w", err)
		}
		scene := &Scene{Number: s.Number, Class: Class(max(slices.Index(ClassNames, s.Class), 0))}
		r.Judgements = append(r.Judgements, &Judgement{Scene: scene, Auto: s.Auto, Each: s.Each})
	}
}

// Against compares with an earlier report of the same scenes, paired scene by scene
// and replication by replication.
func (r *Report) Against(before *Report) ([]Change, error) {
	type drawn struct {
		class  Class
		number int
	}
	was := map[drawn]*Judgement{}
	for _, j := range before.Judgements {
		was[drawn{j.Scene.Class, j.Scene.Number}] = j
	}
	var changes []Change
	for _, f := range compared {
		c := Change{Name: f.name}
		var means []float64
		for _, j := range r.Judgements {
			old, ok := was[drawn{j.Scene.Class, j.Scene.Number}]
			if !ok || len(old.Auto) != len(j.Auto) {
				continue
			}
			x := make([]float64, len(j.Auto))
			for i := range x {
				x[i] = f.of(&j.Auto[i]) - f.of(&old.Auto[i])
			}
			e := measure.Estimate(x)
			means = append(means, e.Mean)
			c.Before += mean(old.Auto, f.of)
			c.After += mean(j.Auto, f.of)
			switch {
			case e.Low > f.least:
				c.More++
				c.By = append(c.By, Moved{j.Scene.Number, e.Low})
			case e.High < -f.least:
				c.Less++
				c.By = append(c.By, Moved{j.Scene.Number, e.High})
			}
		}
		if len(means) == 0 {
			return nil, fmt.Errorf("hunt: no scene of the report to compare with was played")
		}
		c.Before /= float64(len(means))
		c.After /= float64(len(means))
		c.Interval = measure.Estimate(means)
		slices.SortFunc(c.By, func(a, b Moved) int { return cmp.Compare(math.Abs(b.By), math.Abs(a.By)) })
		changes = append(changes, c)
	}
	return changes, nil
}

// compared are the figures that Against compares, and the least difference that
// counts.
var compared = []struct {
	name  string
	of    func(*Figures) float64
	least float64
}{
	{"utilisation", func(f *Figures) float64 { return f.Admitted / max(f.Ideal, 1) }, 0.002},
	{"calls", calls, 0.002},
	{"worst process", worst, 0.01},
	{"starvation", starvation, 0.02},
	{"latency p99", latency, 1e-4},
	{"avoidable", func(f *Figures) float64 { return avoidable(f, 0) }, 0.002},
}
