package gauge

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramAgainstSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var halves [2]Histogram
	var all []time.Duration
	for i := range 20_000 {
		d := time.Duration(math.Exp(rng.Float64()*20)) - 1
		halves[i%2].Add(d)
		all = append(all, d)
	}
	var h Histogram
	h.Merge(&halves[0])
	h.Merge(&halves[1])
	slices.Sort(all)
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[min(int(q*float64(len(all))), len(all)-1)]
		got := h.Quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/32)+1 {
			t.Errorf("quantile %v: %d, want %d or up to 3 %% more", q, got, want)
		}
	}
}

func TestHistogramExtremes(t *testing.T) {
	var h Histogram
	if h.Quantile(0.99) != 0 {
		t.Error("of nothing: not zero")
	}
	h.Add(-1)
	h.Add(math.MaxInt64)
	if h.Quantile(0) != 0 || h.Quantile(1) != math.MaxInt64 {
		t.Errorf("%v to %v", h.Quantile(0), h.Quantile(1))
	}
	var all [][2]uint64
	for least, n := range h.All() {
		all = append(all, [2]uint64{uint64(least), n})
	}
	if want := [][2]uint64{{0, 1}, {63 << 57, 1}}; !slices.Equal(all, want) {
		t.Errorf("all %v, want %v", all, want)
	}
	for range h.All() {
		break // as a caller may
	}
	h.Reset()
	if h.Quantile(1) != 0 {
		t.Error("after Reset: not zero")
	}
}
