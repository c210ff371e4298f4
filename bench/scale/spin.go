package main

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const chunk = 256 // decisions between two looks at whether to stop

// A sample is a round: calls a second, and how many cores this process had.
type sample struct{ rate, cores float64 }

// undisturbed is the median rate of the half of the rounds in which this
// process had most of the machine. What is meant to run side by side does not
// while something else has the other cores.
func undisturbed(samples []sample) (rate, cores float64) {
	samples = slices.SortedFunc(slices.Values(samples),
		func(a, b sample) int { return cmp.Compare(b.cores, a.cores) })
	var rates, had []float64
	for _, s := range samples[:(len(samples)+1)/2] {
		rates, had = append(rates, s.rate), append(had, s.cores)
	}
	return median(rates), median(had)
}

// spin lets a goroutine run each function for a time and returns how many
// calls a second they make together. They take turns as goroutines that serve
// requests do: else each would keep its core for 10 ms.
func spin(long time.Duration, functions ...func()) sample {
	var stop atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	start, cpu := time.Now(), ownCPU()
	for _, f := range functions {
		wg.Go(func() {
			n := int64(0)
			for ; !stop.Load(); n += chunk {
				for range chunk {
					f()
				}
				runtime.Gosched()
			}
			calls.Add(n)
		})
	}
	time.Sleep(long)
	stop.Store(true)
	wg.Wait()
	took := time.Since(start)
	return sample{float64(calls.Load()) / took.Seconds(), float64(ownCPU()-cpu) / float64(took)}
}

func least(x []float64) float64 { return slices.Min(x) }

func median(x []float64) float64 {
	if len(x) == 0 {
		return math.NaN()
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// quantile of sorted values.
func quantile(x []time.Duration, q float64) time.Duration {
	return x[min(int(q*float64(len(x))), len(x)-1)]
}
