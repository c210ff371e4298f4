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

const hot64 = "hot key, 64 goroutines"

// Names of loads that goals are about.
const (
	zipf64        = "10,000 keys, Zipf 1.1, 64 goroutines"
	sparse64      = "100,000 keys, 64 goroutines"
	exhausted64   = "exhausted hot key, 64 goroutines"
	delayedHot64  = "1 ms away: hot key, 64 goroutines"
	delayedCold   = "1 ms away: cold keys, one goroutine"
	manyLocal1    = "100,000 keys in the process, one goroutine"
	openLoopFixed = "100,000 keys, 50,000 decisions/s offered"
)

// grid is what is measured. It is not the full product of keys, goroutines,
// limits and networks, which would take an hour: each of them is varied beside
// one hot key and 64 goroutines.
func grid(quick bool) []Row {
	all := append([]Subject{ration}, peers...)
	few := pick(all, ration.Name, controlName, pipelinedName, "redis_rate, AutoPipeline", "rueidis")
	tableSubjects := append([]Subject{ration}, tables...)
	short := Load{
		Keys: 1, Goroutines: 64, Limit: generous, Generous: true,
		Warm: 300 * time.Millisecond, Long: 350 * time.Millisecond, Time: 150 * time.Millisecond,
	}
	long := short
	long.Keys, long.Limit = 100_000, Limit{Rate: 1000, Burst: 1000}
	long.Warm, long.Long, long.Time = time.Second, 2*time.Second, 500*time.Millisecond
	if quick {
		all = few
		few = pick(all, ration.Name, controlName, pipelinedName)
		short.Warm, short.Long, short.Time = 120*time.Millisecond, 120*time.Millisecond, 60*time.Millisecond
		long.Warm, long.Long, long.Time = 300*time.Millisecond, 400*time.Millisecond, 100*time.Millisecond
	}
	load := func(base Load, name string, change func(*Load)) Load {
		base.Name = name
		change(&base)
		return base
	}
	delayed := append(slices.Clone(all), policies...)
	rows := []Row{
		{load(short, hot64, func(l *Load) {}), all, controlName},
		{load(short, "hot key, 16 goroutines", func(l *Load) { l.Goroutines = 16 }), all, controlName},
		{load(short, "hot key, one goroutine", func(l *Load) { l.Goroutines = 1 }), all, controlName},
		{load(short, "10,000 keys, uniform, 64 goroutines", func(l *Load) { l.Keys = 10_000 }), all, controlName},
		{load(short, zipf64, func(l *Load) { l.Keys, l.Pick = 10_000, Zipf }), all, controlName},
		{load(long, sparse64, func(l *Load) {}), few, controlName},
		{load(long, openLoopFixed, func(l *Load) { l.Rate = 50_000 }), pick(few, ration.Name, pipelinedName, "rueidis"), pipelinedName},
		{load(short, exhausted64, func(l *Load) { l.Limit, l.Generous = exhausted, false }), all, controlName},
		{load(short, delayedHot64, func(l *Load) { l.Delayed = true }), delayed, controlName},
		{load(short, delayedCold, func(l *Load) {
			l.Delayed, l.Pick, l.Keys, l.Goroutines, l.Warm = true, Cold, 5_000, 1, 0
		}), all, controlName},
		{load(long, manyLocal1, func(l *Load) { l.Goroutines = 1 }), tableSubjects, mapName},
		{load(long, "100,000 keys in the process, two goroutines", func(l *Load) { l.Goroutines = 2 }), tableSubjects, mapName},
	}
	if quick {
		return slices.DeleteFunc(rows, func(r Row) bool {
			return r.Load.Goroutines == 16 || r.Load.Goroutines == 2 || r.Load.Rate > 0 || r.Load.Name == "10,000 keys, uniform, 64 goroutines"
		})
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
	touch := time.Duration(r.Load.Keys) * 15 * time.Microsecond
	if r.Load.Pick == Cold {
		touch = 0
	}
	each := touch + r.Load.Warm + r.Load.Long + r.Load.Time + 60*time.Millisecond
	return time.Duration(len(r.Subjects)) * each
}
