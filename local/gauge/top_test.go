package gauge

import (
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestTopBounds: no count is too low, none is above the truth by more than its Error, no
// Error is above a part of everything, and whoever has more than that part is there.
func TestTopBounds(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 7))
		const most = 16
		tops := []*Top{NewTop(most), NewTop(most)}
		truth, total := map[string]uint64{}, uint64(0)
		for i := range 20_000 {
			name := strconv.Itoa(int(random.ExpFloat64() * 20))
			n := 1 + random.Uint64N(5)
			tops[i%2].Add(name, n)
			truth[name] += n
			total += n
		}
		ranking := Ranking(2*most, tops...)
		listed := map[string]bool{}
		for i, r := range ranking {
			listed[r.Name] = true
			if is := truth[r.Name]; is > r.Count || is+r.Error < r.Count || r.Error > total/most {
				t.Errorf("seed %d: %+v, but it is %d of %d", seed, r, is, total)
			}
			if i > 0 && ranking[i-1].Count < r.Count {
				t.Errorf("seed %d: %+v after %+v", seed, r, ranking[i-1])
			}
		}
		for name, n := range truth {
			if n > total/most && !listed[name] {
				t.Errorf("seed %d: %s has %d of %d and is not there", seed, name, n, total)
			}
		}
		if short := Ranking(3, tops...); len(short) != 3 || short[2] != ranking[2] {
			t.Errorf("seed %d: the first three are %v", seed, short)
		}
	}
}

// TestTopExact: where there is room for all names nothing is approximate.
func TestTopExact(t *testing.T) {
	top := NewTop(4)
	for i, name := range []string{"a", "b", "c", "b", "c", "c"} {
		top.Add(name, uint64(i))
	}
	want := []Ranked{{"c", 11, 0}, {"b", 4, 0}, {"a", 0, 0}}
	got := Ranking(10, top)
	for i, r := range want {
		if len(got) != len(want) || got[i] != r {
			t.Fatalf("%v, not %v", got, want)
		}
	}
	if len(Ranking(10)) != 0 || len(Ranking(10, NewTop(3))) != 0 {
		t.Error("a ranking of nothing")
	}
}
