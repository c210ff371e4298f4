package main

import "slices"

// A Spread is a figure over rounds.
type Spread struct {
	Median, Min, Max float64
}

// spread returns the zero Spread without values.
func spread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	median := sorted[n/2]
	if n%2 == 0 {
		median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return Spread{Median: median, Min: sorted[0], Max: sorted[n-1]}
}

// over is the spread of a figure of each sample.
func over[T any](samples []T, figure func(T) float64) Spread {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	return spread(values)
}

// ratios is the spread of a figure over that of another one in the same round:
// what slows the machine down for a while slows both.
func ratios[T, U any](a []T, figureA func(T) float64, b []U, figureB func(U) float64) Spread {
	var values []float64
	for i := range min(len(a), len(b)) {
		if d := figureB(b[i]); d > 0 {
			values = append(values, figureA(a[i])/d)
		}
	}
	return spread(values)
}
