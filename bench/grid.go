package main

import (
	"slices"
	"time"
)

// A Row is a load, and who is measured under it.
type Row struct {
	Load     Load
	Subjects []Subject
	Control  string // whose rate in the same round is 1
}

// Loads that goals are about.
const (
	hot64        = "hot"
	zipf64       = "zipf"
	sparse64     = "sparse"
	exhausted64  = "exhausted"
	delayedHot64 = "delayed hot"
	delayedCold  = "delayed cold"
	manyLocal    = "many local"
	newEven64    = "new, even"
	newLater64   = "new, even, for longer"
)

// settle is how long a process with 100,000 keys runs before it is measured: it
// is one that goes on for days.
const settle = 4 * time.Second

// bases are what rows vary: loads and subjects of the full run, or of the quick one.
type bases struct {
	short, long, fresh Load
	settled, later     time.Duration
	many               string // how many keys the long loads have

	all, first, sparse, sizes []Subject
}

func newBases(quick bool) (b bases) {
	b.all = append([]Subject{ration}, peers...)
	// Sparse loads take seconds to warm up.
	b.sparse = pick(b.all, ration.Name, controlName, pipelinedName, "rueidis")
	b.short = Load{
		Keys: 1, Goroutines: 64, Limit: generous, Generous: true,
		Warm: 200 * time.Millisecond, Long: 300 * time.Millisecond, Time: 120 * time.Millisecond,
	}
	b.long = b.short
	b.long.Keys, b.long.Limit = 100_000, Limit{Rate: 1000, Burst: 1000}
	b.long.Warm, b.long.Long = 500*time.Millisecond, 700*time.Millisecond
	b.long.Time = 400 * time.Millisecond
	b.settled, b.later, b.many, b.sizes = settle, 3*time.Second, "100,000 keys", policies
	if quick {
		b.all = pick(b.all, ration.Name, controlName, pipelinedName, "redis_rate, AutoPipeline",
			"rueidis")
		b.sparse = pick(b.all, ration.Name, controlName, pipelinedName)
		b.sizes = pick(policies, "ration batch 1", "ration batches of 1", "ration per request")
		b.short.Warm, b.short.Long = 100*time.Millisecond, 120*time.Millisecond
		b.long.Warm, b.long.Long = 150*time.Millisecond, 200*time.Millisecond
		b.short.Time, b.long.Time = 50*time.Millisecond, 50*time.Millisecond
		b.long.Keys, b.settled, b.many = 10_000, settle/4, "10,000 keys"
		b.later /= 20
	}
	if b.first = b.all; !quick {
		b.first = slices.Insert(slices.Clone(b.all), 1, rationEager)
	}
	b.fresh = b.short
	b.fresh.New, b.fresh.Keys, b.fresh.Warm, b.fresh.Time = true, 10_000, 0, 0
	b.fresh.Long = 200 * time.Millisecond
	if quick {
		b.fresh.Long /= 2
	}
	b.long.Settle = b.settled
	return b
}

// named is a load with a name, and what changes.
func named(base Load, id, name string, change func(*Load)) Load {
	base.ID, base.Name = id, name
	change(&base)
	return base
}

func goroutines(n int) func(*Load) { return func(l *Load) { l.Goroutines = n } }

func alone(n int) func(*Load) {
	return func(l *Load) { l.Goroutines, l.Limit, l.Touches = n, generous, 6 }
}

func (b *bases) keys(p Pick) func(*Load) {
	return func(l *Load) { l.Keys, l.Pick, l.Settle = 10_000, p, b.settled }
}

// grid is what is measured. It is not the full product of keys, goroutines,
// limits and networks, which would take an hour: each of them is varied beside
// one hot key and 64 goroutines.
func grid(quick bool) []Row {
	b, inProcess := newBases(quick), append([]Subject{rationHeld}, tables...)
	rows := []Row{
		{named(b.short, hot64, "hot key, 64 goroutines", goroutines(64)), b.all, controlName},
		{named(b.short, "", "hot key, 16 goroutines", goroutines(16)), b.all, controlName},
		{named(b.short, "", "hot key, one goroutine", goroutines(1)), b.all, controlName},
		{named(b.short, "", "10,000 keys, uniform, 64 goroutines", b.keys(Uniform)), b.all, controlName},
		{named(b.short, zipf64, "10,000 keys, Zipf 1.1, 64 goroutines", b.keys(Zipf)), b.all, controlName},
		{named(b.long, sparse64, b.many+" evenly, 64 goroutines", goroutines(64)), b.sparse, controlName},
		{named(b.long, "", b.many+" evenly, 50,000 decisions/s offered", func(l *Load) {
			l.Rate = 50_000
		}),
			pick(b.sparse, ration.Name, pipelinedName, "rueidis"), pipelinedName},
		{named(b.fresh, newEven64, "new limiter, 10,000 keys evenly, 64 goroutines",
			goroutines(64)), b.first, controlName},
		{named(b.fresh, newLater64, "new limiter, 10,000 keys evenly, 64 goroutines, for longer",
			func(l *Load) { l.Long = b.later }), slices.Concat(b.sparse, pick(b.all, "slidingwindow")),
			controlName},
		{named(b.fresh, "", "new limiter, 10,000 keys, Zipf 1.1, 64 goroutines",
			func(l *Load) { l.Pick = Zipf }), b.first, controlName},
		{named(b.long, "", "10,000 keys of 10/s, 20,000 decisions/s offered", func(l *Load) {
			l.Keys, l.Limit, l.Rate = 10_000, Limit{Rate: 10, Burst: 10}, 20_000
		}), b.sparse, controlName},
		{named(b.short, exhausted64, "exhausted hot key, 64 goroutines",
			func(l *Load) { l.Limit, l.Generous = exhausted, false }), b.all, controlName},
		{named(b.short, delayedHot64, "1 ms away: hot key, 64 goroutines",
			func(l *Load) { l.Delayed = true }),
			slices.Concat(b.all, b.sizes), controlName},
		{named(b.fresh, "", "1 ms away: new limiter, 10,000 keys, Zipf 1.1, 64 goroutines",
			func(l *Load) { l.Delayed, l.Pick = true, Zipf }), b.first, controlName},
		{named(b.short, delayedCold, "1 ms away: cold keys, one goroutine", func(l *Load) {
			l.Delayed, l.Pick, l.Keys, l.Goroutines, l.Warm = true, Cold, 5_000, 1, 0
		}), b.all, controlName},
		{named(b.long, manyLocal, b.many+" in the process, one goroutine", alone(1)),
			inProcess, mapName},
		{named(b.long, "", b.many+" in the process, two goroutines", alone(2)), inProcess, mapName},
	}
	if quick { // the rest is in the full run
		return slices.DeleteFunc(rows, func(r Row) bool { return r.Load.ID == "" })
	}
	return rows
}

func pick(subjects []Subject, names ...string) []Subject {
	var picked []Subject
	for _, s := range subjects {
		if slices.Contains(names, s.Name) {
			picked = append(picked, s)
		}
	}
	return picked
}

// expected is about how long a round of a row takes, for the progress line.
func (r Row) expected() time.Duration {
	touch := time.Duration(r.Load.Keys) * 40 * time.Microsecond
	if r.Load.Pick == Cold || r.Load.New {
		touch = 0
	} else if r.Load.Touches > 0 { // nothing is asked for over the network
		touch /= 4
	}
	each := touch + r.Load.Long + r.Load.Time + 80*time.Millisecond
	all := time.Duration(len(r.Subjects)) * each
	for _, s := range r.Subjects {
		all += r.Load.warm(s)
	}
	return all
}
