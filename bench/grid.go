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

// grid is what is measured. It is not the full product of keys, goroutines,
// limits and networks, which would take an hour: each of them is varied beside
// one hot key and 64 goroutines.
func grid(quick bool) []Row {
	all := append([]Subject{ration}, peers...)
	// Sparse loads take seconds to warm up.
	sparse := pick(all, ration.Name, controlName, pipelinedName, "rueidis")
	inProcess := append([]Subject{rationHeld}, tables...)
	short := Load{
		Keys: 1, Goroutines: 64, Limit: generous, Generous: true,
		Warm: 200 * time.Millisecond, Long: 300 * time.Millisecond, Time: 120 * time.Millisecond,
	}
	long := short
	long.Keys, long.Limit = 100_000, Limit{Rate: 1000, Burst: 1000}
	long.Warm, long.Long = 500*time.Millisecond, 700*time.Millisecond
	long.Time = 400 * time.Millisecond
	settled, later, many, sizes := settle, 3*time.Second, "100,000 keys", policies
	if quick {
		all = pick(all, ration.Name, controlName, pipelinedName, "redis_rate, AutoPipeline",
			"rueidis")
		sparse = pick(all, ration.Name, controlName, pipelinedName)
		sizes = pick(policies, "ration batch 1", "ration batches of 1", "ration per request")
		short.Warm, short.Long = 100*time.Millisecond, 120*time.Millisecond
		long.Warm, long.Long = 150*time.Millisecond, 200*time.Millisecond
		short.Time, long.Time = 50*time.Millisecond, 50*time.Millisecond
		long.Keys, settled, many = 10_000, settle/4, "10,000 keys"
		later /= 20
	}
	fresh := short
	fresh.New, fresh.Keys, fresh.Warm, fresh.Time = true, 10_000, 0, 0
	fresh.Long = 200 * time.Millisecond
	if quick {
		fresh.Long /= 2
	}
	long.Settle = settled
	load := func(base Load, id, name string, change func(*Load)) Load {
		base.ID, base.Name = id, name
		change(&base)
		return base
	}
	goroutines := func(n int) func(*Load) { return func(l *Load) { l.Goroutines = n } }
	alone := func(n int) func(*Load) {
		return func(l *Load) { l.Goroutines, l.Limit, l.Touches = n, generous, 6 }
	}
	keys := func(p Pick) func(*Load) {
		return func(l *Load) { l.Keys, l.Pick, l.Settle = 10_000, p, settled }
	}
	rows := []Row{
		{load(short, hot64, "hot key, 64 goroutines", goroutines(64)), all, controlName},
		{load(short, "", "hot key, 16 goroutines", goroutines(16)), all, controlName},
		{load(short, "", "hot key, one goroutine", goroutines(1)), all, controlName},
		{load(short, "", "10,000 keys, uniform, 64 goroutines", keys(Uniform)), all, controlName},
		{load(short, zipf64, "10,000 keys, Zipf 1.1, 64 goroutines", keys(Zipf)), all, controlName},
		{load(long, sparse64, many+" evenly, 64 goroutines", goroutines(64)), sparse, controlName},
		{load(long, "", many+" evenly, 50,000 decisions/s offered", func(l *Load) {
			l.Rate = 50_000
		}),
			pick(sparse, ration.Name, pipelinedName, "rueidis"), pipelinedName},
		{load(fresh, newEven64, "new limiter, 10,000 keys evenly, 64 goroutines",
			goroutines(64)), all, controlName},
		{load(fresh, newLater64, "new limiter, 10,000 keys evenly, 64 goroutines, for longer",
			func(l *Load) { l.Long = later }), slices.Concat(sparse, pick(all, "slidingwindow")),
			controlName},
		{load(fresh, "", "new limiter, 10,000 keys, Zipf 1.1, 64 goroutines",
			func(l *Load) { l.Pick = Zipf }), all, controlName},
		{load(long, "", "10,000 keys of 10/s, 20,000 decisions/s offered", func(l *Load) {
			l.Keys, l.Limit, l.Rate = 10_000, Limit{Rate: 10, Burst: 10}, 20_000
		}), sparse, controlName},
		{load(short, exhausted64, "exhausted hot key, 64 goroutines",
			func(l *Load) { l.Limit, l.Generous = exhausted, false }), all, controlName},
		{load(short, delayedHot64, "1 ms away: hot key, 64 goroutines",
			func(l *Load) { l.Delayed = true }),
			slices.Concat(all, sizes), controlName},
		{load(fresh, "", "1 ms away: new limiter, 10,000 keys, Zipf 1.1, 64 goroutines",
			func(l *Load) { l.Delayed, l.Pick = true, Zipf }), all, controlName},
		{load(short, delayedCold, "1 ms away: cold keys, one goroutine", func(l *Load) {
			l.Delayed, l.Pick, l.Keys, l.Goroutines, l.Warm = true, Cold, 5_000, 1, 0
		}), all, controlName},
		{load(long, manyLocal, many+" in the process, one goroutine", alone(1)),
			inProcess, mapName},
		{load(long, "", many+" in the process, two goroutines", alone(2)), inProcess, mapName},
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
