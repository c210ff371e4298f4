package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/bench/netem"
	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/control"
)

// A DistanceRow is what the round trip does to a hot key, to a new one, and
// to a limiter that asks for each request.
type DistanceRow struct {
	Added           time.Duration // by the proxy, both ways together
	P50, P99, P999  time.Duration // of decisions of the hot key
	Denied          float64       // of them, though the limit was far away
	Exchanges       float64       // a second
	PerDecision     float64       // exchanges
	Cold            time.Duration // first decision of a new key, median
	Plain, PlainP99 time.Duration // a script for each request
}

const (
	hotTick  = time.Millisecond
	hotBurst = 20 // requests in each tick: 20,000 a second
	coldKeys = 9
)

func measureDistance(o options) (rows []DistanceRow, err error) {
	s, err := startServer()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for _, tenths := range []time.Duration{1, 10, 100, 500, 2000} {
		rtt := tenths * time.Millisecond / 10
		if o.short && rtt > 10*time.Millisecond {
			break
		}
		row, err := measureFar(o, s, rtt)
		if err != nil {
			return nil, fmt.Errorf("round trip %v: %w", rtt, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func measureFar(o options, s *server, rtt time.Duration) (row DistanceRow, err error) {
	row.Added = rtt
	ctx := context.Background()
	p, err := netem.Start(s.Addr, rtt/2)
	if err != nil {
		return row, err
	}
	defer p.Close()
	// An exchange may take longer than by default: 200 ms is a long way.
	opt := remote.Options(p.Addr)
	opt.ReadTimeout, opt.WriteTimeout = time.Second, time.Second
	opt.PoolTimeout, opt.DialTimeout = time.Second, time.Second
	client := redis.NewClient(opt)
	defer client.Close()
	l, err := hybrid.New(remote.New(client),
		hybrid.Config{Limit: hybrid.PerSecond(100_000), Timeout: time.Second})
	if err != nil {
		return row, err
	}
	defer func() { _ = l.Close(ctx) }()

	long := 3 * time.Second
	if o.short {
		long = 300 * time.Millisecond
	}
	for range 10 { // connections, which take several round trips each
		l.Allow("connect")
	}
	failed := l.Stats().Failed
	row.measureHot(l, long)
	row.measureCold(l)
	if failed = l.Stats().Failed - failed; failed > 0 {
		return row, fmt.Errorf("%d exchanges failed", failed)
	}
	return row, row.measurePlain(ctx, s, client, long/2)
}

// drive asks for a hot key. Each request comes by itself, whether or not those before it have been
// answered.
func drive(l *hybrid.Limiter, long time.Duration) (took []time.Duration, denied int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	tick := time.NewTicker(hotTick)
	defer tick.Stop()
	for end := time.Now().Add(long); time.Now().Before(end); {
		<-tick.C
		for range hotBurst {
			wg.Go(func() {
				start := time.Now()
				admitted := l.Allow("hot")
				mine := time.Since(start)
				mu.Lock()
				defer mu.Unlock()
				took = append(took, mine)
				if !admitted {
					denied++
				}
			})
		}
	}
	wg.Wait()
	return took, denied
}

// measureHot measures a key that has leases.
func (row *DistanceRow) measureHot(l *hybrid.Limiter, long time.Duration) {
	drive(l, long/3+10*row.Added) // leases
	before := l.Stats()
	start := time.Now()
	took, denied := drive(l, long)
	exchanges := float64(l.Stats().Exchanges - before.Exchanges)
	row.Exchanges = exchanges / time.Since(start).Seconds()
	row.PerDecision = exchanges / float64(len(took))
	row.Denied = float64(denied) / float64(len(took))
	slices.Sort(took)
	row.P50, row.P99, row.P999 = quantile(took, 0.5), quantile(took, 0.99), quantile(took, 0.999)
}

// measureCold measures the first request of a key.
func (row *DistanceRow) measureCold(l *hybrid.Limiter) {
	cold := make([]time.Duration, coldKeys)
	for i := range cold {
		start := time.Now()
		l.Allow(fmt.Sprint("cold:", i))
		cold[i] = time.Since(start)
	}
	slices.Sort(cold)
	row.Cold = quantile(cold, 0.5)
}

// measurePlain measures a plain script by the same client.
func (row *DistanceRow) measurePlain(
	ctx context.Context, s *server, client *redis.Client, long time.Duration,
) error {
	digest, err := s.client.ScriptLoad(ctx, control.PlainBucket).Result()
	if err != nil {
		return err
	}
	plain := make([]time.Duration, 0, 200)
	for end := time.Now().Add(long); time.Now().Before(end) || len(plain) < 3; {
		start := time.Now()
		call := client.EvalSha(ctx, digest, []string{"plain"}, 100_000, 100_000, 1)
		if err := call.Err(); err != nil {
			return err
		}
		plain = append(plain, time.Since(start))
	}
	slices.Sort(plain)
	row.Plain, row.PlainP99 = quantile(plain, 0.5), quantile(plain, 0.99)
	return nil
}
