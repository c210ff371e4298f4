package measure

import "math"

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
func Estimate(x []float64) Interval { return around(x, 1/float64(len(x)), 0) }

// Predict returns the mean of x and the interval in which one more value like them lies in
// 95 of 100 experiments, if they are about normal: Student's t with sqrt(1 + 1/n). The value is
// off by a discrepancy beside, which is a standard deviation. With fewer than two values the
// interval is the mean alone.
func Predict(x []float64, discrepancy float64) Interval {
	return around(x, 1+1/float64(len(x)), float64(discrepancy*discrepancy))
}

// around is the mean of x and Student's t times so many variances of x, and one more, around it.
func around(x []float64, variances, more float64) Interval {
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
	half := float64(studentT(len(x)-1) * math.Sqrt(float64(squares/(n-1)*variances)+more))
	return Interval{mean, mean - half, mean + half, len(x)}
}

// Differs reports whether zero is outside of the interval: for paired
// differences, whether the two differ.
func (i Interval) Differs() bool { return i.Low > 0 || i.High < 0 }

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
	const z = 1.959964
	const z3, z5 = z * z * z, z * z * z * z * z
	n := float64(df)
	return z + (z3+z)/4/n + (5*z5+16*z3+3*z)/96/n/n
}
