package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

const rationModule = "github.com/seed13b07268/ration"

// ration is the library with its defaults.
var ration = rationWith("ration", hybrid.Policy{})

// rationEager admits the first request for a key before Redis has answered.
var rationEager = rationOf("ration, Eager 1", hybrid.Config{Eager: 1})

// rationHeld keeps a lease of each key for half an hour, from ledgers in the
// same process. What is measured is then the look-up: with the default Policy and
// Redis, one or two goroutines cannot ask for 100,000 keys often enough for any
// of them to be leased.
var rationHeld = Subject{
	Name: "ration, leases of 30 min", Module: rationModule, Local: true,
	Open: func(e Env) (Limiter, error) {
		l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
			Limit:  hybrid.PerSecond(float64(e.Limit.Rate)).WithBurst(int64(e.Limit.Burst)),
			Policy: hybrid.Policy{MaxRefresh: 2 * time.Second, MaxHold: time.Hour},
		})
		if err != nil {
			return Limiter{}, err
		}
		return Limiter{
			Allow: func(key string) (bool, error) { return l.Allow(key), nil },
			Close: func() { closeRation(l, nil) },
		}, nil
	},
}

// policies are lease sizes and modes, none of which may make a hot key slower
// than asking Redis each time.
var policies = []Subject{
	rationWith("ration batch 1", hybrid.Policy{Batch: 1}),
	rationWith("ration batch 10", hybrid.Policy{Batch: 10}),
	rationWith("ration batch 1000", hybrid.Policy{Batch: 1000}),
	rationWith("ration batch 10000", hybrid.Policy{Batch: 10000}),
	rationWith("ration batches of 1", hybrid.Policy{Mode: lease.Batches, Batch: 1}),
	rationWith("ration batches of 100", hybrid.Policy{Mode: lease.Batches}),
	rationWith("ration batches of 10000", hybrid.Policy{Mode: lease.Batches, Batch: 10000}),
	rationWith("ration shares", hybrid.Policy{Mode: lease.Shares}),
	rationWith("ration per request", hybrid.Policy{Mode: lease.PerRequest}),
}

func rationWith(name string, policy hybrid.Policy) Subject {
	return rationOf(name, hybrid.Config{Policy: policy})
}

func rationOf(name string, config hybrid.Config) Subject {
	return Subject{
		Name: name, Module: rationModule, Leases: true,
		Open: func(e Env) (Limiter, error) {
			l, client, err := openRation(e, config)
			if err != nil {
				return Limiter{}, err
			}
			return Limiter{
				Allow: func(key string) (bool, error) { return l.Allow(key), nil },
				Close: func() { closeRation(l, client) },
				Astray: func() int64 {
					outage := l.Stats().Outage
					return int64(outage.Admitted + outage.Denied)
				},
			}, nil
		},
		Bound: func(l Limit, t time.Duration) float64 {
			return bucketBound(l, t+250*time.Millisecond) + float64(config.Eager) // see Config.Timeout
		},
	}
}

func openRation(e Env, config hybrid.Config) (*hybrid.Limiter, *redis.Client, error) {
	client := redis.NewClient(remote.Options(e.Addr))
	config.Limit = hybrid.PerSecond(float64(e.Limit.Rate)).WithBurst(int64(e.Limit.Burst))
	l, err := hybrid.New(remote.New(client), config)
	if err != nil {
		client.Close()
		return nil, nil, fmt.Errorf("ration: %w", err)
	}
	return l, client, nil
}

// closeRation hands leases back for at most a moment: the server is emptied
// anyway.
func closeRation(l *hybrid.Limiter, client *redis.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_ = l.Close(ctx)
	if client != nil {
		client.Close()
	}
}
