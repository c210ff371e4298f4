package main

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/hybrid"
)

// A GoroutinesRow is decisions a second of so many goroutines together.
type GoroutinesRow struct {
	Procs, Goroutines int
	Hot, Apart        float64 // ration by name: one key, a key each
	Shared, Each      float64 // rate.Limiter: one, one each
}

func measureGoroutines(o options) (rows []GoroutinesRow, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const most = 256
	l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close(context.Background()) }()
	shared := rate.NewLimiter(1e9, 1e9)
	var hot, apart, one, each []func()
	for i := range most {
		name, own := fmt.Sprint("goroutine:", i), rate.NewLimiter(1e9, 1e9)
		hot = append(hot, func() { l.Allow("hot") })
		apart = append(apart, func() { l.Allow(name) })
		one = append(one, func() { shared.Allow() })
		each = append(each, func() { own.Allow() })
	}
	all := runtime.NumCPU()
	counts := []int{1, 2}
	if all > 2 {
		counts = append(counts, all)
	}
	for _, procs := range counts {
		if procs > all {
			break
		}
		runtime.GOMAXPROCS(procs)
		for _, n := range []int{1, 2, 4, 16, 64, most} {
			subjects := [][]func(){hot[:n], apart[:n], one[:n], each[:n]}
			measured := make([][]sample, len(subjects))
			for i := range 2 * o.rounds {
				for s, f := range subjects {
					if i == 0 {
						spin(2*o.round, f...) // leases need some 100 ms
					}
					measured[s] = append(measured[s], spin(o.round/2, f...))
				}
			}
			rows = append(rows, GoroutinesRow{procs, n, undisturbed(measured[0]), undisturbed(measured[1]), undisturbed(measured[2]), undisturbed(measured[3])})
		}
	}
	return rows, nil
}
