package main

import (
	"context"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// An Allocation is how often a warm path of ration's allocates per call.
type Allocation struct {
	Path   string
	Allocs float64
}

// allocations looks at all paths that decide without Redis, allowed and denied.
func (b *bench) allocations() ([]Allocation, error) {
	var all []Allocation
	ctx := context.Background()
	for _, verdict := range []struct {
		name  string
		limit Limit
	}{{"allowed", generous}, {"denied", exhausted}} {
		if err := b.server.Flush(); err != nil {
			return nil, err
		}
		l, client, err := openRation(Env{Addr: b.server.Addr, Limit: verdict.limit},
			hybrid.Config{})
		if err != nil {
			return nil, err
		}
		key := l.Key("hot")
		b.spin(500*time.Millisecond, key.Allow)
		for _, path := range []struct {
			name string
			call func()
		}{
			{"Key.Allow", func() { key.Allow() }},
			{"Key.AllowN", func() { key.AllowN(2) }},
			{"Key.Take", func() { _, _ = key.Take(ctx, 1) }},
			{"Limiter.Allow", func() { l.Allow("hot") }},
			{"Limiter.AllowN", func() { l.AllowN("hot", 2) }},
			{"Limiter.Take", func() { _, _ = l.Take(ctx, "hot", 1) }},
		} {
			// The mean is rounded down: renewals in the background, a few per
			// second, do not count as the path's.
			all = append(all, Allocation{
				path.name + ", " + verdict.name, testing.AllocsPerRun(10_000, path.call),
			})
		}
		closeRation(l, client)
	}
	return all, nil
}
