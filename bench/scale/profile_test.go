package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// These are for profiles, not for comparison: docs/performance.md says how to
// take them, of this tree and of another one.

func benchmarkHot(b *testing.B, goroutines int) {
	l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	for range 10_000 {
		l.Allow("k")
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	b.ResetTimer()
	for range goroutines {
		go func() {
			for left.Add(-chunk) > -chunk {
				for range chunk {
					l.Allow("k")
				}
			}
			done <- struct{}{}
		}()
	}
	for range goroutines {
		<-done
	}
}

func BenchmarkHot1(b *testing.B) { benchmarkHot(b, 1) }
func BenchmarkHot2(b *testing.B) { benchmarkHot(b, 2) }

// BenchmarkHot64 is for GOMAXPROCS=64, on however many cores.
func BenchmarkHot64(b *testing.B) { benchmarkHot(b, 64) }

// BenchmarkKeys decides for 100,000 keys, all of which have a lease.
func BenchmarkKeys(b *testing.B) {
	const keys = 100_000
	l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit:  hybrid.PerSecond(1e6),
		Policy: hybrid.Policy{Mode: lease.Batches, Batch: 10_000, MaxRefresh: time.Hour},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("tenant:%07d", i)
	}
	rand.Shuffle(keys, func(i, j int) { names[i], names[j] = names[j], names[i] })
	for range 3 {
		for _, name := range names {
			l.Allow(name)
		}
	}
	b.ResetTimer()
	for i := range b.N {
		l.Allow(names[i%keys])
	}
}

// BenchmarkExchange is the client's side of one, in batches as large as they
// get: 256 keys that renew their leases on a real server.
func BenchmarkExchange(b *testing.B) {
	client := redis.NewClient(remote.Options(redistest.Start(b).Addr))
	defer client.Close()
	store := remote.New(client)
	calls := newRenewals(clusterBatch, func(i int) string { return fmt.Sprintf("tenant:%07d", i) }, lease.Limit{Rate: 1000, Burst: 1000})
	b.ResetTimer()
	for n := 0; n < b.N; n += len(calls) {
		calls.next()
		store.Exchange(context.Background(), calls)
		if err := calls.err(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAsk is all of an exchange in the process: a request of a key whose
// limit is too small to be leased, and so asks each time.
func BenchmarkAsk(b *testing.B) {
	client := redis.NewClient(remote.Options(redistest.Start(b).Addr))
	defer client.Close()
	l, err := hybrid.New(remote.New(client), hybrid.Config{
		Limit: hybrid.PerSecond(1e6), Policy: hybrid.Policy{Mode: lease.PerRequest},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close(context.Background())
	var next atomic.Int64
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprint("key:", next.Add(1))
		for pb.Next() {
			l.Allow(name)
		}
	})
}
