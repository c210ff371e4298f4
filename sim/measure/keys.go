package measure

import (
	"cmp"
	"slices"

	"github.com/seed13b07268/ration/local/gauge"
)

// MostKeys is how many keys are listed one by one, whatever their number.
const MostKeys = 1000

// KeyShareSteps divide the parts of what a key should have had; the last one is all of it.
var KeyShareSteps = [...]float64{0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 1}

// A KeyShare is what was asked for one key, such as a tenant's, and what it got, in tokens.
// It should have had what an ideal bucket of its own admits.
type KeyShare struct {
	Key      int     `json:"key"`
	Name     string  `json:"name"`
	Offered  float64 `json:"offered"`
	Admitted float64 `json:"admitted"`
	Ideal    float64 `json:"ideal"`
}

// Part is Admitted / Ideal, 1 where nothing was to be had.
func (k KeyShare) Part() float64 {
	if k.Ideal == 0 {
		return 1
	}
	return k.Admitted / k.Ideal
}

// Keys is how evenly keys were treated that each have a limit of their own.
type Keys struct {
	Asked    int     `json:"asked"`    // keys that something was asked for
	Fairness float64 `json:"fairness"` // Jain's index of their parts
	Worst    float64 `json:"worst"`    // the smallest part, at most 1

	// Spread counts the keys whose part is at least the step, and below the next one.
	Spread [len(KeyShareSteps)]int `json:"spread"`

	// List has the MostKeys keys with the smallest part, the smallest first.
	List []KeyShare `json:"list"`
}

// JudgeKeys compares what keys got with what they should have had. It puts shares in order.
func JudgeKeys(shares []KeyShare, name func(key int) string) Keys {
	const rounding = 1e-9
	k := Keys{Asked: len(shares), Worst: 1}
	parts := make([]float64, len(shares))
	for i, s := range shares {
		parts[i] = s.Part()
		k.Worst = min(k.Worst, parts[i])
		step := 0
		for step+1 < len(KeyShareSteps) && parts[i] >= KeyShareSteps[step+1]-rounding {
			step++
		}
		k.Spread[step]++
	}
	k.Fairness = gauge.Jain(parts)
	slices.SortFunc(shares, func(a, b KeyShare) int {
		return cmp.Or(cmp.Compare(a.Part(), b.Part()), cmp.Compare(a.Key, b.Key))
	})
	k.List = slices.Clone(shares[:min(len(shares), MostKeys)])
	for i := range k.List {
		k.List[i].Name = name(k.List[i].Key)
	}
	return k
}
