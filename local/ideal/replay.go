package ideal

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Replay decides recorded requests again, by an ideal limit for each key.
type Replay struct {
	limit    lease.Limit
	calendar bool
	keys     []Ideal
}

// NewReplay returns a Replay of requests for keys from 0 to below the number of keys. The limit is
// valid, and no slots: a record does not tell how long jobs hold them.
func NewReplay(limit lease.Limit, keys int) *Replay {
	return &Replay{limit, TraitsOf(limit).Calendar, make([]Ideal, keys)}
}

// Admits takes n tokens of a key, whose limit begins full with its first request, or reports that
// they are denied. What was charged is admitted: it is a debt of a bucket, ends with the window of
// a quota, and counts in a sliding window only if it fits.
func (r *Replay) Admits(key int32, at time.Duration, n int64, charged bool) bool {
	limit := r.keys[key]
	if limit == nil {
		limit, _ = Of(at, r.limit, 0)
		r.keys[key] = limit
	}
	fits := limit.Take(at, float64(n), 0)
	if !fits && charged {
		level := limit.Tokens(at) - float64(n)
		if r.calendar {
			level = max(level, 0)
		}
		limit.Level(at, level, nil)
	}
	return fits || charged
}

// Fates are what became of the requests of each key.
type Fates []Fate

// A Fate is what became of the requests of a key.
type Fate struct{ Requests, Denied int64 }

// Part is which part of the requests was denied, 0 without requests.
func (f Fate) Part() float64 {
	if f.Requests == 0 {
		return 0
	}
	return float64(f.Denied) / float64(f.Requests)
}

// Sum is the fate of all keys, how many keys were denied anything, and the key that was denied the
// largest part, the first of several.
func (f Fates) Sum() (all Fate, keys, worst int) {
	for i, k := range f {
		all.Requests += k.Requests
		all.Denied += k.Denied
		if k.Denied > 0 {
			keys++
		}
		if k.Part() > f[worst].Part() {
			worst = i
		}
	}
	return all, keys, worst
}
