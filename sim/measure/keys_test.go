package measure

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestJudgeKeys(t *testing.T) {
	name := func(key int) string { return fmt.Sprint("k", key) }
	k := JudgeKeys([]KeyShare{
		{Key: 0, Offered: 9, Admitted: 10, Ideal: 10},
		{Key: 1, Offered: 9, Admitted: 4, Ideal: 8},
		{Key: 2, Offered: 9}, // nothing was to be had, such as for a key that asks once for too much
		{Key: 3, Offered: 9, Admitted: 97, Ideal: 100},
		{Key: 4, Offered: 9, Admitted: 11, Ideal: 10},
	}, name)
	// (1 + 0.5 + 1 + 0.97 + 1.1)^2 / 5 / (1 + 0.25 + 1 + 0.9409 + 1.21)
	if want := 4.57 * 4.57 / 5 / 4.4009; math.Abs(k.Fairness-want) > 1e-12 || k.Worst != 0.5 ||
		k.Asked != 5 {
		t.Errorf("fairness %v, want %v; worst %v of %d", k.Fairness, want, k.Worst, k.Asked)
	}
	if want := [...]int{0, 1, 0, 0, 1, 0, 0, 3}; k.Spread != want {
		t.Errorf("spread %v, want %v", k.Spread, want)
	}
	var order []string
	for _, s := range k.List {
		order = append(order, s.Name)
	}
	if want := []string{"k1", "k3", "k0", "k2", "k4"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	if k := JudgeKeys(nil, name); k.Fairness != 1 || k.Worst != 1 || k.Asked != 0 {
		t.Errorf("of no key: %+v", k)
	}
}

// However many keys there are, the list is short, and has the worst.
func TestJudgeManyKeys(t *testing.T) {
	named := 0
	var shares []KeyShare
	for i := range 100_000 {
		shares = append(shares, KeyShare{Key: i, Admitted: float64(100_000 - i), Ideal: 100_000})
	}
	k := JudgeKeys(shares, func(int) string { named++; return "" })
	if len(k.List) != MostKeys || cap(k.List) > 2*MostKeys || named != MostKeys {
		t.Errorf("%d keys, room for %d, %d names", len(k.List), cap(k.List), named)
	}
	if k.List[0].Key != 99_999 || k.Worst != 1e-5 || k.Asked != 100_000 {
		t.Errorf("the worst is %+v, %v of %d", k.List[0], k.Worst, k.Asked)
	}
	sum := 0
	for _, n := range k.Spread {
		sum += n
	}
	if sum != 100_000 {
		t.Errorf("%d keys in %v", sum, k.Spread)
	}
}
