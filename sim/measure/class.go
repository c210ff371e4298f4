package measure

import (
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// Floor returns the ideal limit that admits what is within the floor of a class: so much of the
// Rate, and what of it flows in a refresh, or one request of the largest cost; or whole tokens of
// each window. It is nil without a floor.
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
	if ideal.TraitsOf(limit).Calendar {
		limit.Burst = int64(float64(c.Floor*float64(limit.Burst)) + 1e-6) // 0.29 of 100 are 29
		return limit
	}
	rate := float64(c.Floor * limit.Rate)
	holds := min(float64(rate*refresh.Seconds()), float64(c.Floor*float64(limit.Burst)))
	return lease.Limit{Rate: rate, Burst: max(int64(math.Ceil(holds)), largest, 1)}
}

// A Floored is an ideal quota whose requests have classes: what a class has not used of its floor
// is for no other one, and the rest is for whoever comes first. Its methods are those of
// ideal.Ideal, for requests of the Class that was set last.
type Floored struct {
	Class   uint8
	limit   lease.Limit
	wait    time.Duration
	classes []lease.Class
	ends    time.Duration // the window under way
	windows []floored     // it, and those to come of which tokens are promised
	spilt   float64       // in windows that are over
}

// floored is what a window of a Floored has given.
type floored struct {
	used [lease.MaxClasses]float64
	gone float64 // that nobody has used, or below 0 more than there was: see Level
}

// NewFloored returns the ideal quota of a limit that begins at a time.
func NewFloored(
	at time.Duration, classes []lease.Class, limit lease.Limit, patience time.Duration,
) *Floored {
	_, ends := ideal.Window(limit, at)
	return &Floored{
		limit: limit, wait: patience, classes: classes, ends: ends, windows: make([]floored, 1),
	}
}

// left is what a window has left.
func (f *Floored) left(w *floored) float64 {
	left := float64(f.limit.Burst) - w.gone
	for _, used := range w.used {
		left -= used
	}
	return left
}

// free is what of that is for the Class.
func (f *Floored) free(w *floored) float64 {
	free := f.left(w)
	for i, c := range f.classes {
		if i != int(f.Class) {
			free -= max(float64(floorOf(c, f.limit, 0, 0).Burst)-w.used[i], 0)
		}
	}
	return max(free, 0)
}

// Fits goes through the windows that begin in time.
func (f *Floored) Fits(at time.Duration, n float64) bool {
	f.advance(at)
	for i, ends := 0, f.ends; n > 0; i++ {
		if i == len(f.windows) {
			f.windows = append(f.windows, floored{})
		}
		n -= f.free(&f.windows[i])
		if ends > at+f.wait {
			break
		}
		_, ends = ideal.Window(f.limit, ends)
	}
	return n <= 0
}

func (f *Floored) Take(at time.Duration, n float64, _ time.Duration) bool {
	fits := f.Fits(at, n)
	for i := 0; fits && n > 0; i++ {
		w := &f.windows[i]
		taken := min(n, f.free(w))
		w.used[f.Class] += taken
		n -= taken
	}
	return fits
}

func (f *Floored) SetLimit(at time.Duration, limit lease.Limit) {
	f.advance(at)
	f.limit = limit
}

func (f *Floored) Tokens(at time.Duration) float64 {
	f.advance(at)
	return f.left(&f.windows[0])
}

// Level takes back what was promised of windows to come, too.
func (f *Floored) Level(at time.Duration, tokens float64, _ ideal.Gauge) {
	f.advance(at)
	f.windows = f.windows[:1]
	f.windows[0].gone += f.left(&f.windows[0]) - min(tokens, float64(f.limit.Burst))
}

func (f *Floored) Spilt(at time.Duration) float64 {
	f.advance(at)
	return f.spilt
}

func (f *Floored) advance(at time.Duration) {
	for ; f.ends <= at; _, f.ends = ideal.Window(f.limit, f.ends) {
		f.spilt += max(f.left(&f.windows[0]), 0)
		if f.windows = f.windows[1:]; len(f.windows) == 0 {
			f.windows = make([]floored, 1)
		}
	}
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
