package measure

import (
	"math"
	"slices"
)

// An Interval is a mean with an interval around it. That of Estimate contains the true
// mean in 95 of 100 experiments like this one, that of Predict the next value.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	N    int     `json:"n"` // values
}

// Estimate returns the mean of x and its 95 % interval by Student's t. With
// fewer than two values the interval is the mean alone.
func Estimate(x []float64) Interval {
	n := float64(len(x))
	if n == 0 {
		return Interval{}
	}
	var sum, squares float64
	for _, v := range x {
		sum += v
	}
	mean := sum / n
	if n < 2 {
		return Interval{mean, mean, mean, 1}
	}
	for _, v := range x {
		squares += float64((v - mean) * (v - mean))
	}
	half := float64(studentT(len(x)-1) * math.Sqrt(squares/(n-1)/n))
	return Interval{mean, mean - half, mean + half, len(x)}
}

// Predictions is how many values Predict needs for 95 %.
const Predictions = 39

// outermost is which of so many values begins the interval of Predict, from 1, and which ends it.
func outermost(n int) int { return max(1, (n+1)/(Predictions+1)) }

// Covered is the part of experiments in which the interval of Predict holds the next value.
func Covered(n int) float64 { return max(0, 1-2*float64(outermost(n))/float64(n+1)) }

// Predict returns the mean of x and the interval in which one more value like them lies in 95 of
// 100 experiments, however they are distributed. Of n + 1 values each is as likely to be the
// last one, so that 39 leave 1 in 20 to lie below the smallest or above the largest. Of more, some
// are left out; fewer hold less (Covered). The value is off by a discrepancy beside, which is a
// standard deviation.
func Predict(x []float64, discrepancy float64) Interval {
	i := Estimate(x)
	if i.N < 2 {
		return i
	}
	sorted, out := slices.Sorted(slices.Values(x)), outermost(i.N)
	i.Low = i.Mean - math.Hypot(i.Mean-sorted[out-1], normal*discrepancy)
	i.High = i.Mean + math.Hypot(sorted[i.N-out]-i.Mean, normal*discrepancy)
	return i
}

// Differs reports whether zero is outside of the interval: for paired
// differences, whether the two differ.
func (i Interval) Differs() bool { return i.Low > 0 || i.High < 0 }

// normal is the quantile of the normal distribution for 97.5 %.
const normal = 1.959964

// quantiles of Student's t for 97.5 %, by degrees of freedom from 1.
var quantiles = [...]float64{
	12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
	2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
	2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
}

// studentT is the quantile for so many degrees of freedom; beyond the table by
// the first two terms of its expansion in 1/df (Abramowitz and Stegun 26.7.5),
// right to three digits there.
func studentT(df int) float64 {
	if df <= len(quantiles) {
		return quantiles[df-1]
	}
	const z = normal
	const z3, z5 = z * z * z, z * z * z * z * z
	n := float64(df)
	return z + (z3+z)/4/n + (5*z5+16*z3+3*z)/96/n/n
}
