package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/control"
)

// These are for profiles (go test ./scale -run xxx -bench Cold -cpuprofile cpu), not for
// comparison.

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

// BenchmarkCold is the first request of a key, one after the other: in a process alone, with a
// real server, and a plain bucket's script of it.
var cold atomic.Uint64 // names of keys

func BenchmarkCold(b *testing.B) {
	client := redis.NewClient(remote.Options(redistest.Start(b).Addr))
	defer client.Close()
	limiter := func(store hybrid.Store) func(*testing.B) {
		return func(b *testing.B) {
			l, err := hybrid.New(store, hybrid.Config{Limit: hybrid.PerSecond(1e6)})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close(context.Background())
			b.ReportAllocs()
			for b.Loop() {
				l.Allow(strconv.FormatUint(cold.Add(1), 10))
			}
		}
	}
	b.Run("memory", limiter(hybrid.NewMemory()))
	b.Run("redis", limiter(remote.New(client)))
	b.Run("script", func(b *testing.B) {
		ctx := context.Background()
		digest, err := client.ScriptLoad(ctx, control.PlainBucket).Result()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			keys := []string{strconv.FormatUint(cold.Add(1), 10)}
			if err := client.EvalSha(ctx, digest, keys, 1e6, 1e6, 1).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
