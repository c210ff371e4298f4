package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// A LinesRow is what an operation costs one goroutine, and each of two that run at
// the same time on the same cache line, or on one each; ns.
type LinesRow struct {
	Operation        string
	One, Same, Apart float64
	Cores            float64 // that two had on one line
}

const atomicAdd = "atomic add"

// measureLines is about the machine, not about ration: what it costs to meet.
func measureLines(o options) (rows []LinesRow) {
	type line struct {
		_  [64]byte
		n  atomic.Int64
		_  [56]byte
		mu sync.Mutex
		_  [56]byte
		x  int64
		rw sync.RWMutex
		_  [128]byte
	}
	var lines [2]line
	operations := []struct {
		name string
		do   func(l *line)
	}{
		{"atomic load", func(l *line) { l.n.Load() }},
		{atomicAdd, func(l *line) { l.n.Add(1) }},
		{"compare and swap until it succeeds", func(l *line) {
			for {
				if n := l.n.Load(); l.n.CompareAndSwap(n, n+1) {
					return
				}
			}
		}},
		{"mutex", func(l *line) { l.mu.Lock(); l.x++; l.mu.Unlock() }},
		{"read lock of an RWMutex", func(l *line) { l.rw.RLock(); _ = l.x; l.rw.RUnlock() }},
	}
	for _, op := range operations {
		var one, same, apart []sample
		a, b := func() { op.do(&lines[0]) }, func() { op.do(&lines[1]) }
		for range 6 * o.rounds {
			one = append(one, spin(o.round/6, a))
			same = append(same, spin(o.round/6, a, a))
			apart = append(apart, spin(o.round/6, a, b))
		}
		row := LinesRow{Operation: op.name}
		rate, _ := undisturbed(one)
		row.One = 1e9 / rate
		rate, row.Cores = undisturbed(same)
		row.Same = 2e9 / rate
		rate, _ = undisturbed(apart)
		row.Apart = 2e9 / rate
		rows = append(rows, row)
	}
	return rows
}

// collisions is the part of decisions that meet another goroutine in their
// lane, if so many run at any time, and lanes are chosen at random.
func collisions(running, lanes int) float64 {
	p := 1.0
	for range running - 1 {
		p *= 1 - 1/float64(lanes)
	}
	return 1 - p
}

// printModel says what an atomic add in a lane costs by cores, if all of them
// decide for one key all the time: those that share a line wait for it in turn.
func printModel(w io.Writer, add LinesRow) {
	header(w, "cores", "lanes", "bytes a hot key", "goroutines that share their lane",
		"an add, mean", "the same in one line for all")
	for _, cores := range []int{2, 4, 8, 16, 32, 64, 128} {
		lanes := min(max(nextPower(8*cores), 16), 128)
		mean := add.One + float64(cores-1)/float64(lanes)*(add.Same-add.One)
		fmt.Fprintf(w, "| %d | %d | %s | %.0f %% | %.0f ns | %s ns |\n",
			cores, lanes, whole(float64(64*lanes)), 100*collisions(cores, lanes), mean,
			whole(float64(cores)/2*add.Same))
	}
}

func nextPower(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}
