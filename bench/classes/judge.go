package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	// window is the time in which floors are looked at.
	window = 2 * time.Second

	// stall is how late an arrival may be offered: a window in which one was later is not judged,
	// nor is the next one. The machine has stopped then, not a limiter.
	stall = 50 * time.Millisecond
)

// A row is what a design made of the windows of a scene that are judged.
type row struct {
	design      string
	worst, mean float64   // what a floor lacks, in a window and in all, parts of the Rate
	shares      []float64 // admitted by class, parts of the Rate
	used        float64   // of what an ideal bucket admits
	excess      float64   // tokens above Burst + Rate x T in the worst time
	calls       float64   // exchanges/s
	windows     int
}

func (s *scene) windows() int { return int(s.time / window) }

// window is the one in which at lies, if it counts.
func (s *scene) window(at time.Duration) (i int, ok bool) {
	i = int((at - s.warm) / window)
	return i, at >= s.warm && i < s.windows()
}

// calm are the windows that are judged.
func (s *scene) calm(games []game) []bool {
	late := make([]time.Duration, s.windows())
	for _, g := range games {
		for _, of := range g.late {
			for i := range late {
				late[i] = max(late[i], of[i])
			}
		}
	}
	calm := make([]bool, len(late))
	for i := range calm {
		calm[i] = late[i] < stall && (i == 0 || late[i-1] < stall)
	}
	return calm
}

// tokens are counts by window and class.
type tokens [][]float64

func (s *scene) empty() tokens {
	t := make(tokens, s.windows())
	for i := range t {
		t[i] = make([]float64, len(classes))
	}
	return t
}

// count adds a token to the window of its arrival, if that counts.
func (t tokens) count(s *scene, at time.Duration, class int) {
	if i, ok := s.window(at); ok {
		t[i][class]++
	}
}

// only has the windows that are judged.
func (t tokens) only(judged []bool) (some tokens) {
	for i, ok := range judged {
		if ok {
			some = append(some, t[i])
		}
	}
	return some
}

func (t tokens) sum(class int) (sum float64) {
	for i := range t {
		sum += t[i][class]
	}
	return sum
}

// lacks is how far below min(demand, floor) the classes are at worst in a window, and in the mean
// of all windows, as parts of the Rate.
func lacks(offered, admitted tokens) (worst, mean float64) {
	each, all := rate*window.Seconds(), rate*window.Seconds()*float64(len(offered))
	for c, class := range classes {
		for i := range offered {
			worst = max(worst, min(offered[i][c]/each, class.Floor)-admitted[i][c]/each)
		}
		mean = max(mean, min(offered.sum(c)/all, class.Floor)-admitted.sum(c)/all)
	}
	return worst, mean
}

// ideal is what one bucket without a fleet admits.
func (s *scene) ideal(all [processes][][]arrival) tokens {
	var merged []arrival
	for p := range all {
		merged = append(merged, slices.Concat(all[p]...)...)
	}
	slices.SortFunc(merged, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	admitted, level, at := s.empty(), float64(burst), time.Duration(0)
	for _, a := range merged {
		level = min(level+rate*(a.at-at).Seconds(), burst)
		at = a.at
		if level >= 1 {
			level--
			admitted.count(s, a.at, a.class)
		}
	}
	return admitted
}

// excess is how many tokens above Burst + Rate x T were surely admitted in the worst time T. Each
// was taken between when it was asked for and when it was answered.
func excess(all admissions) (most float64) {
	var asked, done []float64
	for _, a := range all {
		asked, done = append(asked, a.asked.Seconds()), append(done, a.done.Seconds())
	}
	slices.Sort(asked)
	slices.Sort(done)
	begin, i := math.Inf(-1), 0
	for j, end := range done {
		for ; i < len(asked) && asked[i] <= end; i++ {
			begin = max(begin, rate*asked[i]-float64(i))
		}
		most = max(most, float64(j+1)-rate*end+begin-burst)
	}
	return most
}

func (g *game) row(s *scene, all [processes][][]arrival, calm []bool) row {
	offered, admitted := s.empty(), s.empty()
	var done admissions
	for p := range all {
		for class, arrivals := range all[p] {
			for _, a := range arrivals {
				offered.count(s, a.at, class)
			}
			for _, a := range g.admitted[p][class] {
				admitted.count(s, a.at, class)
			}
			done = append(done, g.admitted[p][class]...)
		}
	}
	offered, admitted = offered.only(calm), admitted.only(calm)
	r := row{design: g.design.name, windows: len(offered), excess: excess(done)}
	r.worst, r.mean = lacks(offered, admitted)
	ideal, best := s.ideal(all).only(calm), 0.0
	for class := range classes {
		r.shares = append(r.shares, admitted.sum(class)/rate/window.Seconds()/float64(r.windows))
		r.used += admitted.sum(class)
		best += ideal.sum(class)
	}
	r.used /= best
	r.calls = float64(g.exchanges()-g.warmed) / s.time.Seconds()
	return r
}
