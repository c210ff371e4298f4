package measure

import (
	"slices"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
)

// A Share is what one process was asked for and got, in tokens.
type Share struct {
	Offered  float64 `json:"offered"`
	Admitted float64 `json:"admitted"`
	Ideal    float64 `json:"ideal"`      // what the ideal bucket admits of it
	Fair     float64 `json:"fair"`       // as the policy has it
	Level    float64 `json:"water_fill"` // max-min
}

// Justice is what the shares of all processes come to. Ratios of nothing are
// those of a perfect limiter.
type Justice struct {
	Sum         Share
	Utilisation float64 // admitted / ideal

	// Jain's index of admitted / fair share, and of admitted / the others.
	Fair, Accepted, Ideal, Level float64

	Worst float64 // the smallest admitted / fair share, at most 1
}

// Judge compares what processes got with what was fair.
func Judge(shares []Share) Justice {
	j := Justice{Utilisation: 1, Worst: 1}
	for _, s := range shares {
		j.Sum.Offered += s.Offered
		j.Sum.Admitted += s.Admitted
		j.Sum.Ideal += s.Ideal
		j.Sum.Fair += s.Fair
		j.Sum.Level += s.Level
		if s.Fair > 0 {
			j.Worst = min(j.Worst, s.Admitted/s.Fair)
		}
	}
	if j.Sum.Ideal > 0 {
		j.Utilisation = j.Sum.Admitted / j.Sum.Ideal
	}
	index := func(of func(Share) float64) float64 {
		var ratios []float64
		for _, s := range shares {
			if of(s) > 0 {
				ratios = append(ratios, s.Admitted/of(s))
			}
		}
		return gauge.Jain(ratios)
	}
	j.Fair = index(func(s Share) float64 { return s.Fair })
	j.Accepted = index(func(s Share) float64 { return s.Offered })
	j.Ideal = index(func(s Share) float64 { return s.Ideal })
	j.Level = index(func(s Share) float64 { return s.Level })
	return j
}

// Divide appends to dst the fair division of supply among demands: max-min, or
// in proportion to them.
func Divide(dst []float64, fairness lease.Fairness, demand []float64, supply float64) []float64 {
	if fairness == lease.MaxMin {
		return WaterFill(dst, demand, supply)
	}
	var sum float64
	for _, d := range demand {
		sum += d
	}
	for _, d := range demand {
		if sum > 0 {
			d = d * supply / sum
		}
		dst = append(dst, d)
	}
	return dst
}

// Rank is the value that a part q of all values is below, or other if there are
// none. It sorts them.
func Rank[T int64 | float64](values []T, q float64, other T) T {
	if len(values) == 0 {
		return other
	}
	slices.Sort(values)
	return values[int(q*float64(len(values)))]
}

// Ratio is a/b, 0 where b is.
func Ratio[T int64 | float64](a, b T) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
