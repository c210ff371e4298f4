package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/hybrid"
)

// A GoroutinesRow is decisions a second of so many goroutines together.
type GoroutinesRow struct {
	Procs, Goroutines int
	Hot, Apart        float64 // ration by name: one key, a key each
	Shared, Each      float64 // rate.Limiter: one, one each
	Clock             float64 // reading the time, and nothing else
	Cores             float64 // that they had, at least
}

func measureGoroutines(o options) (rows []GoroutinesRow, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const most = 1000
	l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close(context.Background()) }()
	shared, start := rate.NewLimiter(1e9, 1e9), time.Now()
	var hot, apart, one, each, clock []func()
	for i := range most {
		name := fmt.Sprint("goroutine:", i)
		own := &struct {
			rate.Limiter
			_ [128]byte // or its neighbour's lock would be on the same cache line
		}{Limiter: *rate.NewLimiter(1e9, 1e9)}
		hot = append(hot, func() { l.Allow("hot") })
		apart = append(apart, func() { l.Allow(name) })
		one = append(one, func() { shared.Allow() })
		each = append(each, func() { own.Allow() })
		clock = append(clock, func() { time.Since(start) })
	}
	all := runtime.NumCPU()
	for _, procs := range []int{1, all} {
		counts := []int{1, 2, 4, 16, 64, 256, most}
		if procs == 1 && all > 1 {
			counts = []int{1, most} // to compare with
		} else if procs == 1 && len(rows) > 0 {
			break // a machine of one core
		}
		runtime.GOMAXPROCS(procs)
		for _, n := range counts {
			row := GoroutinesRow{Procs: procs, Goroutines: n, Cores: math.Inf(1)}
			row.measure(o, [][]func(){hot[:n], apart[:n], one[:n], each[:n], clock[:n]})
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// measure has goroutines spin, one for each function of a subject. Subjects are in the order of the
// row's figures.
func (row *GoroutinesRow) measure(o options, subjects [][]func()) {
	measured := make([][]sample, len(subjects))
	for s, f := range subjects {
		// Leases grow with what is asked for, and go in a pause: rounds of one subject follow each
		// other.
		for range 5 {
			spin(o.round, f...)
		}
		for range 2 * o.rounds {
			measured[s] = append(measured[s], spin(o.round/2, f...))
		}
	}
	for s, to := range []*float64{&row.Hot, &row.Apart, &row.Shared, &row.Each, &row.Clock} {
		rate, cores := undisturbed(measured[s])
		*to, row.Cores = rate, min(row.Cores, cores)
	}
}
