package size

import (
	"math"

	"github.com/seed13b07268/ration/sim/workload"
)

// A Class is keys of about the same demand: ranks First to First+Keys-1 by popularity.
type Class struct {
	First int     `json:"first"`
	Keys  int     `json:"keys"`
	Rate  float64 `json:"requests_per_second"` // of all of them

	skew, all float64 // exponent of Zipf's law, and requests/s of rank 1
}

// divide divides keys by Zipf's law into classes, of which a sample stands for each: ranks 1, 2,
// 3 and 4, 5 to 10, 11 to 21 and so on, three for each power of ten. Keys that are all alike are
// one class.
func divide(keys int, skew, rate float64) []Class {
	if skew == 0 {
		return []Class{{First: 1, Keys: keys, Rate: rate, all: rate / float64(keys)}}
	}
	top := portable(rate / ranks(1, keys, skew))
	var classes []Class
	for first, power := 1, 1; first <= keys; power *= 10 {
		for _, last := range []int{power, power * 22 / 10, power * 46 / 10} {
			if last = min(last, keys); first <= last {
				classes = append(classes, Class{
					First: first, Keys: last - first + 1, skew: skew, all: top,
					Rate: portable(top * ranks(first, last, skew)),
				})
				first = last + 1
			}
		}
	}
	return classes
}

// decade is the power of ten that the ranks of a class go up to.
func (c *Class) decade() (power int) {
	for power = 1; power < c.First; power *= 10 {
	}
	return power
}

// of is how many requests/s a rank has.
func (c *Class) of(rank int) float64 {
	return portable(c.all * math.Pow(float64(rank), -c.skew))
}

// sample returns the demands of n keys, one of each of as many equal parts of the class: at the
// same place of each part, which is drawn.
func (c *Class) sample(n int, place float64) []float64 {
	rates := make([]float64, n)
	for i := range rates {
		part := int((float64(i) + place) / float64(n) * float64(c.Keys))
		rates[i] = c.of(c.First + min(part, c.Keys-1))
	}
	return rates
}

// sampled is how many keys stand for the class where each is known by a formula.
const sampled = 1000

// mean of something that a key's demand decides, over the keys of the class.
func (c *Class) mean(of func(rate float64) float64) (mean float64) {
	rates := c.sample(min(c.Keys, sampled), 0.5)
	for _, rate := range rates {
		mean += of(rate) / float64(len(rates))
	}
	return mean
}

// place draws where in each part of a class its sample is.
func place(seed uint64, replication int) float64 {
	return workload.NewRandom(seed, replication, -1, workload.Samples).Uniform()
}

// ranks is the sum of rank^-skew from first to last: one by one up to 10,000, and beyond by the
// formula of Euler and Maclaurin, whose next term is less than 1e-15 of the sum.
func ranks(first, last int, skew float64) (sum float64) {
	const each = 10_000
	for i := first; i <= min(last, each); i++ {
		sum += math.Pow(float64(i), -skew)
	}
	if last <= each {
		return sum
	}
	a, b := float64(max(first, each+1)), float64(last)
	f := func(x float64) float64 { return math.Pow(x, -skew) }
	slope := func(x float64) float64 { return -skew * math.Pow(x, -skew-1) }
	integral := math.Log(b / a)
	if skew != 1 {
		integral = f(a) * a * math.Expm1((1-skew)*math.Log(b/a)) / (1 - skew)
	}
	return sum + integral + (f(a)+f(b))/2 + (slope(b)-slope(a))/12
}

// portable rounds away the last bits, in which machines may differ.
func portable(x float64) float64 { return float64(float32(x)) }
