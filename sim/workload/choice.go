package workload

import "math"

// A choice draws 0 to n-1 with a chance in proportion to weights, in constant
// time: each of n columns, as likely as the others, belongs to its own number up
// to a height and to one other above it (Walker's alias method, ACM TOMS 3,
// 1977; the table is built as Vose does, IEEE TSE 17, 1991).
type choice []column

type column struct {
	height float64 // of 1
	other  int
}

func (c *choice) set(weights []float64) {
	n := len(weights)
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	columns := make(choice, n)
	var low, high []int // columns that are not full, and more than full
	for i, w := range weights {
		columns[i] = column{w / sum * float64(n), i}
		if columns[i].height < 1 {
			low = append(low, i)
		} else {
			high = append(high, i)
		}
	}
	for len(low) > 0 && len(high) > 0 {
		l, h := low[len(low)-1], high[len(high)-1]
		low = low[:len(low)-1]
		columns[l].other = h
		columns[h].height -= 1 - columns[l].height
		if columns[h].height < 1 {
			high = high[:len(high)-1]
			low = append(low, h)
		}
	}
	for _, i := range append(low, high...) { // full, but for rounding
		columns[i].height = 1
	}
	*c = columns
}

func (c choice) draw(r *Random) int {
	u := float64(r.Uniform() * float64(len(c)))
	i := int(u)
	drawn := c[i].other
	if u-float64(i) < c[i].height { // without a branch, which nobody could predict
		drawn = i
	}
	return drawn
}

// Zipf are the weights of n ranks by Zipf's law with exponent s >= 0: 0 is
// uniform. They add up to 1. (rand.Zipf demands s > 1.)
func Zipf(n int, s float64) []float64 {
	weights := make([]float64, n)
	sum := 0.0
	for i := range weights {
		weights[i] = portable(math.Pow(float64(i+1), -s))
		sum += weights[i]
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

// portable rounds away the last bits, in which machines may differ.
func portable(x float64) float64 { return float64(float32(x)) }
