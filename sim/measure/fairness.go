package measure

import "slices"

// Jain is Jain's index of fairness, (sum x)^2 / (n * sum x^2): 1 if all x are
// equal, 1/n if one has everything. If nobody has anything, nobody is favoured.
// (Jain, Chiu and Hawe, DEC-TR-301, 1984.)
func Jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += float64(v * v)
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(x)) * squares)
}

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
