package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
)

// A Memory is what keys take, in bytes per key.
type Memory struct {
	Subject string
	Process float64            // heap after 100,000 keys were asked for once each
	Idle    map[string]float64 // the same later, by how much later
	Redis   map[int]float64    // MEMORY USAGE of one key, by processes that use it
	Refused string
}

const memoryKeys = 100_000

// heap is what is in use after collections: one may leave what finalizers and
// pools hold on to.
func heap() float64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// measureMemory looks at a subject's heap. Figures are of one round: they
// hardly differ between rounds, and idle keys take long.
func (b *bench) measureMemory(s Subject, idle []time.Duration) (Memory, error) {
	m := Memory{Subject: s.Name, Idle: map[string]float64{}, Redis: map[int]float64{}}
	c := b.crowd(Load{Keys: memoryKeys, Goroutines: touchers})
	tallies := c.newTallies()
	if err := b.server.Flush(); err != nil {
		return m, err
	}
	before := heap()
	limiter, err := s.Open(Env{
		Addr: b.server.Addr, Limit: Limit{Rate: 1000, Burst: 1000}, Conns: touchers,
	})
	if err != nil {
		m.Refused = err.Error()
		return m, nil
	}
	c.touch(limiter, tallies, 15*time.Second)
	asked := sum(tallies)
	if asked.decisions < memoryKeys {
		m.Refused = fmt.Sprintf("asked for only %d keys in 15 s", asked.decisions)
		limiter.Close()
		return m, nil
	}
	start := time.Now()
	perKey := func() float64 { return (heap() - before) / memoryKeys }
	m.Process = perKey()
	if s.Module == rationModule { // no other one forgets by itself
		for _, later := range idle {
			select {
			case <-time.After(later - time.Since(start)):
			case <-b.done:
			}
			m.Idle[later.String()] = perKey()
		}
	}
	runtime.KeepAlive(limiter.Allow) // some have nothing to close
	limiter.Close()
	runtime.KeepAlive(tallies)

	for _, holders := range []int{1, 8, 64} {
		if s.Local || (!s.Leases && holders > 1) {
			continue // the key is the same, whoever uses it
		}
		if m.Redis[holders], err = b.keyMemory(s, holders); err != nil {
			return m, err
		}
	}
	return m, nil
}

// keyMemory is what one key takes in Redis when several processes use it.
func (b *bench) keyMemory(s Subject, holders int) (float64, error) {
	if err := b.server.Flush(); err != nil {
		return 0, err
	}
	env := Env{Addr: b.server.Addr, Limit: Limit{Rate: 100_000, Burst: 100_000}, Conns: 1}
	if s.Name == ration.Name {
		return b.holdersMemory(env, holders)
	}
	limiters := make([]Limiter, 0, holders)
	defer func() {
		for _, l := range limiters {
			l.Close()
		}
	}()
	for range holders {
		l, err := s.Open(env)
		if err != nil {
			return 0, err
		}
		limiters = append(limiters, l)
	}
	for i := range 200 { // slidingwindow tells Redis every 100 ms
		_, _ = limiters[i%holders].Allow("tenant:000042")
		if s.Leases {
			time.Sleep(time.Millisecond)
		}
	}
	bytes, _, err := b.server.memory()
	return float64(bytes), err
}

// holdersMemory keeps all limiters asking until each has a lease.
func (b *bench) holdersMemory(env Env, holders int) (float64, error) {
	limiters := make([]*hybrid.Limiter, 0, holders)
	clients := make([]*redis.Client, 0, holders)
	defer func() {
		for i, l := range limiters {
			closeRation(l, clients[i])
		}
	}()
	for range holders {
		l, client, err := openRation(env, hybrid.Config{})
		if err != nil {
			return 0, err
		}
		limiters, clients = append(limiters, l), append(clients, client)
	}
	end := time.Now().Add(800 * time.Millisecond)
	for ; time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		for _, l := range limiters {
			l.Allow("tenant:000042")
		}
	}
	bytes, _, err := b.server.memory()
	return float64(bytes), err
}

// holderCounts are the columns of a Memory, in order.
func holderCounts(all []Memory) []int {
	var counts []int
	for _, m := range all {
		for n := range m.Redis {
			counts = append(counts, n)
		}
	}
	slices.Sort(counts)
	return slices.Compact(counts)
}
