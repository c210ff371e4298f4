package engine

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/workload"
)

// decided are the requests that have their verdict since measuring began, with what an ideal
// bucket says to each.
func (w *witness) decided(ideal []bool) map[int]bool {
	yes := maps.Clone(w.underWay)
	for i, h := range w.of(asked, true) {
		yes[h.Request] = ideal[i]
	}
	decided := map[int]bool{}
	for i, h := range w.of(settled, true) {
		if ideal, ok := yes[h.Request]; ok {
			decided[i] = ideal
		}
	}
	return decided
}

func (w *witness) divisions(ideal []bool, of func(h happening) int) map[[2]int]*division {
	all := map[[2]int]*division{}
	decided := w.decided(ideal)
	for i, h := range w.of(settled, true) {
		ideal, measured := decided[i]
		if !measured {
			continue
		}
		at := [2]int{h.Key, of(h)}
		d := all[at]
		if d == nil {
			n := w.scenario.Processes
			d = &division{make([]float64, n), make([]float64, n)}
			all[at] = d
		}
		p := h.cell.process.index
		d.offered[p] += float64(h.Cost)
		if ideal {
			d.ideal[p] += float64(h.Cost)
		}
	}
	return all
}

func windowOf(at time.Duration) int { return int(at / (100 * time.Millisecond)) }

// fairShares of each window, by process.
func (w *witness) fairShares(ideal []bool) map[int][]float64 {
	fair := map[int][]float64{}
	for at, d := range w.divisions(ideal, func(h happening) int { return windowOf(h.at) }) {
		n := at[1]
		if fair[n] == nil {
			fair[n] = make([]float64, w.scenario.Processes)
		}
		parts := d.offered
		if w.scenario.Policy.Fairness == "max-min" {
			parts = filled(d.offered, total(d.ideal))
		}
		for i, x := range parts {
			fair[n][i] += x / total(parts) * total(d.ideal)
		}
	}
	return fair
}

func (w *witness) shares(ideal []bool) []measure.Share {
	all := make([]measure.Share, w.scenario.Processes)
	for _, d := range w.divisions(ideal, func(happening) int { return 0 }) {
		for i, x := range filled(d.offered, total(d.ideal)) {
			all[i].Offered += d.offered[i]
			all[i].Ideal += d.ideal[i]
			all[i].Level += x
		}
	}
	for _, h := range w.of(settled, true) {
		if h.verdict == lease.Admitted {
			all[h.cell.process.index].Admitted += float64(h.Cost)
		}
	}
	for _, window := range w.fairShares(ideal) {
		for i, x := range window {
			all[i].Fair += x
		}
	}
	return all
}

// worstSeconds is the 5th percentile of fairness in whole seconds of the clock.
func (w *witness) worstSeconds(ideal []bool, processes int) float64 {
	seconds := int(w.scenario.Duration / time.Second)
	admitted, fair := make([][]float64, seconds), make([][]float64, seconds)
	for i := range seconds {
		admitted[i], fair[i] = make([]float64, processes), make([]float64, processes)
	}
	for _, h := range w.of(settled, true) {
		if n := int(h.at / time.Second); h.verdict == lease.Admitted && n < seconds {
			admitted[n][h.cell.process.index] += float64(h.Cost)
		}
	}
	for n, window := range w.fairShares(ideal) {
		for i, x := range window {
			if n/10 < seconds {
				fair[n/10][i] += x
			}
		}
	}
	var all []float64
	for n := int(w.scenario.Warmup / time.Second); n < seconds; n++ {
		var ratios []float64
		for i := range processes {
			if fair[n][i] > 0 {
				ratios = append(ratios, admitted[n][i]/fair[n][i])
			}
		}
		if ratios != nil {
			all = append(all, index(ratios))
		}
	}
	slices.Sort(all)
	return all[len(all)/20]
}

// settle is as the comment on settling has it.
func (w *witness) settle(processes int) (mean float64, n int) {
	windows := int(w.scenario.Duration / (100 * time.Millisecond))
	offered, admitted := make([][]float64, windows+1), make([][]float64, windows+1)
	for i := range offered {
		offered[i], admitted[i] = make([]float64, processes), make([]float64, processes)
	}
	for _, h := range w.seen {
		if h.what == settled {
			offered[windowOf(h.at)][h.cell.process.index] += float64(h.Cost)
		}
		if h.what == settled && h.verdict == lease.Admitted {
			admitted[windowOf(h.at)][h.cell.process.index] += float64(h.Cost)
		}
	}
	unfair, lots := make([]float64, windows), make([]float64, windows)
	for i := range windows {
		demand, sum := offered[i], total(admitted[i])
		if sum == 0 {
			continue
		}
		if w.scenario.Policy.Fairness == "max-min" {
			demand = filled(demand, sum)
		}
		for p := range processes {
			part := demand[p] / total(demand)
			unfair[i] += math.Abs(admitted[i][p]/sum-part) / 2
			lots[i] += math.Sqrt(2/math.Pi*part*(1-part)/sum) / 2
		}
	}
	shifts := slices.DeleteFunc(workload.Shifts(w.scenario),
		func(at time.Duration) bool { return at < w.scenario.Warmup })
	sum := 0.0
	for i, at := range shifts {
		first := windowOf(at)
		before := total(unfair[first-10:first]) / 10
		end := windows
		if i+1 < len(shifts) {
			end = windowOf(shifts[i+1])
		}
		for k := first + 2; ; k++ {
			if k >= end {
				if i+1 < len(shifts) { // it has not settled before the next one
					sum += (shifts[i+1] - at).Seconds()
					n++
				}
				break
			}
			if total(unfair[k-2:k+1])/3 <= 1.25*max(before, lots[k]) {
				sum += (time.Duration(k-2)*100*time.Millisecond - at).Seconds()
				n++
				break
			}
		}
	}
	if n == 0 {
		return 0, 0
	}
	return sum / float64(n), n
}

func total(x []float64) (sum float64) {
	for _, v := range x {
		sum += v
	}
	return sum
}

// index is Jain's, by way of the coefficient of variation: 1/(1+cv^2).
func index(x []float64) float64 {
	mean := total(x) / float64(len(x))
	squares := 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean) / float64(len(x))
	}
	if mean == 0 {
		return 1
	}
	return 1 / (1 + squares/mean/mean)
}

// filled is the max-min division, by bisection of the level.
func filled(demand []float64, supply float64) []float64 {
	low, high := 0.0, slices.MaxFunc(demand, cmp.Compare[float64])
	parts := slices.Clone(demand)
	for range 100 {
		level := (low + high) / 2
		for i, d := range demand {
			parts[i] = min(d, level)
		}
		if total(parts) > supply {
			high = level
		} else {
			low = level
		}
	}
	return parts
}
