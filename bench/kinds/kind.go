package main

import (
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A kind is a kind of limit, who offers it, ration first, and under which loads they are measured.
type kind struct {
	name     string
	subjects []subject
	loads    []load

	// most is how much was surely admitted in one window, or in use at once, of one key.
	most func(spans []span, window time.Duration) int
	// ideal is how many requests of one key a central limit admits; nil for slots.
	ideal func(at []int64, l limit) int
}

// A load is what a fleet is asked.
type load struct {
	name    string
	places  []string // of the server
	limit   limit
	keys    int
	workers int           // of each process: each asks when its last request is done
	rate    float64       // or requests/s of all processes together, at random times
	hold    time.Duration // how long a job has its slot

	warm, long time.Duration // before it is measured, and while
	phase      time.Duration // when it begins, in a window by the clock; below zero: at once
	rounds     int           // at most: fewer if one was calm

	plenty    bool // the limit is out of reach: what is admitted is not judged
	contended bool // there is always a job that waits for a slot
}

const (
	near = "near" // on loopback
	far  = "far"  // behind the proxy
)

func kindNames() (names []string) {
	for _, k := range kinds(false) {
		names = append(names, k.name)
	}
	return names
}

// kinds are what is measured. With short all is over soon.
func kinds(short bool) []kind {
	is := lengthOf(short)
	quota, sliding, slots := windowLoads(is), windowLoads(is), slotLoads(is)
	// Two counters are at their worst when demand begins late in one of their windows.
	sliding[1].phase = sliding[1].limit.window / 2
	several := windowLoads(is)
	several[1].rate /= 2 // what half of n in a window is refilled
	return []kind{
		{
			name: "quota", loads: quota, most: mostInCalendar, ideal: idealQuota,
			subjects: []subject{
				ration(func(l limit) hybrid.Limit { return hybrid.Quota(l.n, l.window) }),
				peer("INCR window", countInWindow),
			},
		},
		{
			name: "sliding", loads: sliding, most: mostInAny, ideal: idealLog,
			subjects: []subject{
				ration(func(l limit) hybrid.Limit { return hybrid.Sliding(l.n, l.window) }),
				peer("sorted-set log", logTimes),
				peer("two counters", weighCounts),
			},
		},
		{
			name: "several", loads: several, most: mostInAny, ideal: idealBucket,
			subjects: []subject{rationAll, peer("three buckets", takeOfBuckets)},
		},
		{
			name: "slots", loads: slots, most: mostAtOnce,
			subjects: []subject{
				ration(func(l limit) hybrid.Limit { return hybrid.Slots(l.n) }),
				semaphore,
			},
		},
	}
}

// A length is how long loads are.
type length struct {
	short, long time.Duration // of closed loops without a pause, and of others
	rounds      int
	window      time.Duration
	windows     int
	places      []string // of what is not out of reach
}

func lengthOf(short bool) length {
	if short {
		return length{
			short: 200 * time.Millisecond, long: 500 * time.Millisecond, rounds: 1,
			window: time.Second, windows: 1, places: []string{near},
		}
	}
	return length{
		short: 300 * time.Millisecond, long: 1500 * time.Millisecond, rounds: 2,
		window: 2 * time.Second, windows: 2, places: []string{near, far},
	}
}

// outOfReach is a load for which there is always enough.
func outOfReach(is length) load {
	return load{
		name: "out of reach", places: []string{near, far}, limit: limit{4_000_000_000, is.window},
		keys: 1, workers: 4, warm: is.short, long: is.short, phase: -1, rounds: is.rounds,
		plenty: true,
	}
}

// windowLoads are those of limits of so many in a time. The second one begins with a window.
func windowLoads(is length) []load {
	return []load{
		outOfReach(is),
		{
			name: "twice the limit", places: is.places, keys: 1, rate: 1000,
			limit: limit{int64(500 * is.window.Seconds()), is.window},
			long:  time.Duration(is.windows) * is.window, rounds: is.rounds,
		},
		{
			name: "rare keys", places: is.places, limit: limit{100, time.Minute}, keys: 200,
			rate: 200, long: is.long, phase: -1, rounds: is.rounds,
		},
		{
			name: "new users", places: is.places, limit: limit{100, time.Minute}, keys: 100_000,
			workers: 8, long: is.long, phase: -1, rounds: is.rounds,
		},
	}
}

func slotLoads(is length) []load {
	const hold = 50 * time.Millisecond
	return []load{
		outOfReach(is),
		{
			name: "40 of 100 in use", places: is.places, limit: limit{n: 100}, keys: 1, rate: 800,
			hold: hold, warm: is.long / 3, long: is.long, phase: -1, rounds: is.rounds,
		},
		{
			name: "200 want 100", places: is.places, limit: limit{n: 100}, keys: 1, workers: 25,
			hold: hold, warm: is.long / 3, long: is.long, phase: -1, rounds: is.rounds,
			contended: true,
		},
		{
			name: "rare keys", places: is.places, limit: limit{n: 100}, keys: 200, rate: 200,
			hold: hold, long: is.long, phase: -1, rounds: is.rounds,
		},
	}
}

// overhead is about what it takes to open and close a fleet.
const overhead = 400 * time.Millisecond

func (l load) expected() time.Duration {
	wait := time.Duration(0)
	if l.phase >= 0 {
		wait = l.limit.window / 2
	}
	return time.Duration(l.rounds) * (overhead + wait + l.warm + l.long)
}

func (k kind) expected() (all time.Duration) {
	for _, l := range k.loads {
		all += time.Duration(len(l.places)*len(k.subjects)) * l.expected()
	}
	return all
}
