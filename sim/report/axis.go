package report

import (
	"math"
	"strconv"
)

// axis places values between lo and hi, which are logarithms if log.
type axis struct {
	log    bool
	lo, hi float64
	ticks  []float64
}

func newAxis(low, high float64, log bool) axis {
	if !(low <= high) {
		return axis{}
	}
	if !log {
		low, high = apart(low, high)
		return axis{lo: low, hi: high, ticks: roundTicks(low, high)}
	}
	a := axis{log: true, lo: math.Log10(low), hi: math.Log10(high)}
	if a.hi-a.lo < 0.1 {
		a.lo, a.hi = a.lo-0.5, a.hi+0.5
	}
	multiples, every := []float64{1, 2, 5}, 1.0
	if decades := a.hi - a.lo; decades > 3 {
		multiples, every = multiples[:1], math.Ceil(decades/7)
	}
	for e := every * math.Floor(a.lo/every); e <= a.hi; e += every {
		for _, m := range multiples {
			// The logarithm of a power of ten is not always whole.
			if l := e + math.Log10(m); l >= a.lo-1e-9 && l <= a.hi+1e-9 {
				a.ticks = append(a.ticks, m*math.Pow(10, e))
			}
		}
	}
	if len(a.ticks) < 2 {
		a.ticks = roundTicks(apart(low, high))
	}
	return a
}

// apart returns low and high, or two values around them that differ by enough to divide.
func apart(low, high float64) (float64, float64) {
	size := max(math.Abs(low), math.Abs(high))
	switch {
	case high-low > max(1e-9*size, 1e-100):
		return low, high
	case size < 1e-90:
		return low, low + 1
	}
	return low - size/2, high + size/2
}

// roundTicks returns the multiples of 1, 2 or 5 times a power of ten from low to high: two
// to seven.
func roundTicks(low, high float64) []float64 {
	power := math.Pow(10, math.Floor(math.Log10((high-low)/6)))
	step := 10 * power
	for _, m := range []float64{5, 2, 1} {
		if 6*m*power >= high-low {
			step = m * power
		}
	}
	var ticks []float64
	first, last := math.Ceil(low/step-1e-9), math.Floor(high/step+1e-9)
	for i := range int(last-first) + 1 {
		ticks = append(ticks, (first+float64(i))*step)
	}
	return ticks
}

// part returns where v is on the axis, from 0 to 1.
func (a axis) part(v float64) float64 {
	if a.log {
		v = math.Log10(v)
	}
	return (v - a.lo) / (a.hi - a.lo)
}

// value returns where the n-th of some parts begins.
func (a axis) value(n, parts int) float64 {
	v := a.lo + (a.hi-a.lo)*float64(n)/float64(parts)
	if a.log {
		return math.Pow(10, v)
	}
	return v
}

func bound(v float64) string { return tickText(rounded(v, 3)) }

// tickText writes v briefly: 0.5, 20, 1.5k, 10M.
func tickText(v float64) string {
	v = rounded(v, 10) // 3 * 0.1
	a := math.Abs(v)
	if a >= 1e15 || a > 0 && a < 1e-3 {
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	unit := ""
	for _, u := range []string{"k", "M", "G", "T"} {
		if a < 1000 {
			break
		}
		a, v, unit = a/1000, v/1000, u
	}
	return strconv.FormatFloat(rounded(v, 10), 'f', -1, 64) + unit
}
