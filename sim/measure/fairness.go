package measure

import "slices"

// WaterFill appends to dst the max-min fair division of supply among demands:
// each gets its demand, or the level at which all is used up, whichever is
// less.
func WaterFill(dst, demand []float64, supply float64) []float64 {
	sorted := slices.Clone(demand)
	slices.Sort(sorted)
	level := 0.0
	for i, d := range sorted {
		if rest := float64(len(sorted) - i); d*rest > supply {
			level = supply / rest
			break
		}
		supply -= d
		level = d
	}
	for _, d := range demand {
		dst = append(dst, min(d, level))
	}
	return dst
}
