package main

// jain is Jain's index of fairness, (sum x)^2 / (n * sum x^2): 1 if all x are
// equal, 1/n if one has everything. If nobody has anything, nobody is favoured.
func jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(x)) * squares)
}
