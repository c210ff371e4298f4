package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/bench/netem"
	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/control"
)

// A ColdRow is the first time of a new Limiter, whose keys Redis does not know either.
type ColdRow struct {
	Traffic  string
	Added    time.Duration // by the proxy, both ways together
	Long     time.Duration
	Rate     []float64 // decisions/s by round, sorted
	PerKey   float64   // exchanges for each key that was asked for, the median of rounds
	P50      time.Duration
	P999     time.Duration
	Plain    []float64 // a script for each decision, as Rate
	PlainP50 time.Duration
	PlainP99 time.Duration
}

const (
	coldGoroutines = 64
	coldNames      = 10_000
	coldZipf       = 1.1
	coldLimit      = 1_000_000 // a second, for each key
)

// traffic draws the numbers of keys.
func traffic(zipf bool, r *rand.Rand) func() int {
	if !zipf {
		return func() int { return r.IntN(coldNames) }
	}
	z := rand.NewZipf(r, coldZipf, 1, coldNames-1)
	return func() int { return int(z.Uint64()) }
}

func measureCold(o options) (rows []ColdRow, err error) {
	s, err := startServer()
	if err != nil {
		return nil, err
	}
	defer s.stop()
	for _, row := range []ColdRow{
		{Traffic: "even", Long: 200 * time.Millisecond},
		{Traffic: "even", Long: 3 * time.Second},
		{Traffic: "Zipf 1.1", Long: 200 * time.Millisecond},
		{Traffic: "Zipf 1.1", Long: 200 * time.Millisecond, Added: time.Millisecond},
	} {
		if o.short {
			row.Long = 20 * time.Millisecond
		}
		if err := row.measure(o, s); err != nil {
			return nil, fmt.Errorf("%s: %w", row.Traffic, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (row *ColdRow) measure(o options, s *server) error {
	addr := s.Addr
	if row.Added > 0 {
		p, err := netem.Start(s.Addr, row.Added/2)
		if err != nil {
			return err
		}
		defer p.Close()
		addr = p.Addr
	}
	client := redis.NewClient(remote.Options(addr))
	defer client.Close()
	digest, err := client.ScriptLoad(context.Background(), control.PlainBucket).Result()
	if err != nil {
		return err
	}
	var perKey []float64
	var took, plain []time.Duration
	for round := range max(o.rounds, 2) {
		names := make([]string, coldNames)
		for i := range names {
			names[i] = strconv.Itoa(round) + ":" + strconv.Itoa(i)
		}
		each, mine, err := row.ration(client, names)
		if err != nil {
			return err
		}
		perKey, took = append(perKey, each), append(took, mine...)
		ctx := context.Background()
		rate, mine, _, err := row.play(func(key int) error {
			return client.EvalSha(ctx, digest, []string{"plain:" + names[key]},
				coldLimit, coldLimit, 1).Err()
		})
		if err != nil {
			return err
		}
		row.Plain, plain = append(row.Plain, rate), append(plain, mine...)
	}
	slices.Sort(row.Rate)
	slices.Sort(row.Plain)
	slices.Sort(took)
	slices.Sort(plain)
	row.PerKey = median(perKey)
	row.P50, row.P999 = quantile(took, 0.5), quantile(took, 0.999)
	row.PlainP50, row.PlainP99 = quantile(plain, 0.5), quantile(plain, 0.99)
	return nil
}

// ration plays a round with a new Limiter.
func (row *ColdRow) ration(
	client *redis.Client, names []string,
) (perKey float64, took []time.Duration, err error) {
	ctx := context.Background()
	l, err := hybrid.New(remote.New(client),
		hybrid.Config{Limit: hybrid.PerSecond(coldLimit), Timeout: time.Second})
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = l.Close(ctx) }()
	rate, took, keys, err := row.play(func(key int) error {
		if !l.Allow(names[key]) {
			return fmt.Errorf("%s was denied", names[key])
		}
		return nil
	})
	row.Rate = append(row.Rate, rate)
	return float64(l.Stats().Exchanges) / float64(keys), took, err
}

// play lets all goroutines decide for the time of the row. It returns decisions a second, how
// long one in 16 took, and how many keys were asked for.
func (row *ColdRow) play(
	decide func(key int) error,
) (rate float64, took []time.Duration, keys int, err error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	asked, decisions := map[int]bool{}, 0
	start := time.Now()
	for g := range coldGoroutines {
		all.Go(func() {
			next := traffic(row.Traffic != "even", rand.New(rand.NewPCG(uint64(g), 1)))
			mine, n := [coldNames]bool{}, 0
			var times []time.Duration
			var failed error
			for now := time.Now(); now.Sub(start) < row.Long && failed == nil; now = time.Now() {
				for range 16 {
					key := next()
					mine[key] = true
					if failed = decide(key); failed != nil {
						break
					}
					n++
					if n%16 == 1 {
						times = append(times, time.Since(now))
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			decisions, took, err = decisions+n, append(took, times...), errors.Join(err, failed)
			for key, yes := range mine {
				if yes {
					asked[key] = true
				}
			}
		})
	}
	all.Wait()
	return float64(decisions) / time.Since(start).Seconds(), took, len(asked), err
}
