package gauge

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
