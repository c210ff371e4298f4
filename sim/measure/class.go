package measure

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// Floor returns the ideal limit that admits what is within the floor of a class: so much of the Rate, and
// what of it flows in a refresh, or one request of the largest cost. It is nil without a floor.
func Floor(
	at time.Duration, c lease.Class, limit lease.Limit, refresh time.Duration, largest int64,
	patience time.Duration,
) ideal.Ideal {
	if c.Floor == 0 {
		return nil
	}
	floor, _ := ideal.Of(at, floorOf(c, limit, refresh, largest), patience)
	return floor
}

// SetFloor lets the limit of a floor follow that of the key.
func SetFloor(
	floor ideal.Ideal, at time.Duration, c lease.Class, limit lease.Limit, refresh time.Duration,
	largest int64,
) {
	if floor != nil {
		floor.SetLimit(at, floorOf(c, limit, refresh, largest))
	}
}

func floorOf(c lease.Class, limit lease.Limit, refresh time.Duration, largest int64) lease.Limit {
	rate := float64(c.Floor * limit.Rate)
	holds := min(float64(rate*refresh.Seconds()), float64(c.Floor*float64(limit.Burst)))
	return lease.Limit{Rate: rate, Burst: max(int64(math.Ceil(holds)), largest, 1)}
}

// ByClass appends to dst the division of supply among the demands of classes, the highest first:
// what is owed to their floors, then the rest by weight, and what is left by rank.
func ByClass(
	dst []float64, classes []lease.Class, demand, owed []float64, supply float64,
) []float64 {
	first := len(dst)
	for c := range classes {
		x := min(owed[c], demand[c], supply)
		dst = append(dst, x)
		supply -= x
	}
	given := dst[first:]
	missing := func(c int) float64 { return demand[c] - given[c] }
	for more := true; more && supply > 0; {
		more = false
		weights := 0.0
		for c, class := range classes {
			if missing(c) > 0 {
				weights += class.Weight
			}
		}
		if weights == 0 {
			break
		}
		part := supply / weights
		for c, class := range classes {
			if x := missing(c); x > 0 && x <= float64(part*class.Weight) {
				given[c] = demand[c]
				supply -= x
				more = true
			}
		}
		if more {
			continue
		}
		for c, class := range classes {
			if missing(c) > 0 {
				given[c] += float64(part * class.Weight)
			}
		}
		return dst
	}
	for c := range classes {
		x := min(missing(c), max(supply, 0))
		given[c] += x
		supply -= x
	}
	return dst
}
