package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/RussellLuo/slidingwindow"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"
	"github.com/zeromicro/go-zero/core/limit"
	"github.com/zeromicro/go-zero/core/logx"
	zeroredis "github.com/zeromicro/go-zero/core/stores/redis"

	"github.com/seed13b07268/ration/remote/redistest/control"
)

// Names of the subjects that others are measured against.
const (
	controlName   = "EVALSHA (control)"
	pipelinedName = "EVALSHA, AutoPipeline"
)

// peers are the limiters that ask Redis. The first one is the control.
var peers = []Subject{
	{
		Name: controlName, Module: "github.com/redis/go-redis/v9",
		Note: "one script call per decision",
		Open: func(e Env) (Limiter, error) {
			client := newClient(e)
			return scripted(client, e.Limit, client.Close), nil
		},
	},
	{
		Name: pipelinedName, Module: "github.com/redis/go-redis/v9",
		Note: "the same, concurrent callers share pipelines",
		Open: func(e Env) (Limiter, error) {
			client, pipeline, err := newPipeline(e)
			if err != nil {
				return Limiter{}, err
			}
			return scripted(pipeline, e.Limit, client.Close), nil
		},
	},
	{
		Name: "redis_rate", Module: "github.com/go-redis/redis_rate/v10",
		Open: func(e Env) (Limiter, error) {
			client := newClient(e)
			return redisRate(redis_rate.NewLimiter(client), e.Limit, client.Close), nil
		},
	},
	{
		Name: "redis_rate, AutoPipeline", Module: "github.com/go-redis/redis_rate/v10",
		Open: func(e Env) (Limiter, error) {
			client, pipeline, err := newPipeline(e)
			if err != nil {
				return Limiter{}, err
			}
			return redisRate(redis_rate.NewLimiter(pipeline), e.Limit, client.Close), nil
		},
	},
	{
		Name: "ulule", Module: "github.com/ulule/limiter/v3",
		Note:  "fixed windows of 1 s: twice the limit at a boundary",
		Bound: windowBound,
		Open: func(e Env) (Limiter, error) {
			client := newClient(e)
			store, err := ululeredis.NewStore(client)
			if err != nil {
				return Limiter{}, err
			}
			l := limiter.New(store, limiter.Rate{Period: time.Second, Limit: int64(e.Limit.Rate)})
			return Limiter{
				Allow: func(key string) (bool, error) {
					c, err := l.Get(context.Background(), key)
					return err == nil && !c.Reached, err
				},
				Close: func() { client.Close() },
			}, nil
		},
	},
	{
		Name: "throttled", Module: "github.com/throttled/throttled/v2",
		Note: "reads, then compares and swaps, at most 10 times: on a contended key most " +
			"requests end in an error, and only the others count",
		// Its GET goes with a TIME in one pipeline.
		Calls: func(c Commands) int64 { return 2*c["time"] + c["eval"] + c["setnx"] + c["expire"] },
		Open: func(e Env) (Limiter, error) {
			client := newClient(e)
			store, err := goredisstore.NewCtx(client, "throttled:")
			if err != nil {
				return Limiter{}, err
			}
			return gcra(store, e.Limit, func() { client.Close() })
		},
	},
	{
		Name: "go-zero", Module: "github.com/zeromicro/go-zero",
		Note: "TokenLimiter with DisableIdentity: otherwise its breaker trips on Redis before " +
			"7.2, and it silently stops asking; it counts whole seconds of the client's clock; " +
			"its pool of connections cannot be set",
		Bound: func(l Limit, t time.Duration) float64 {
			return bucketBound(l, t+time.Second)
		},
		Open: openGoZero,
	},
	{
		Name: "rueidis", Module: "github.com/redis/rueidis",
		Note: "the control's script, EVALSHA; it pipelines by itself",
		Open: openRueidis,
	},
	{
		Name: "slidingwindow", Module: "github.com/RussellLuo/slidingwindow",
		Note: "counts locally, adds to Redis every 100 ms without blocking: several processes " +
			"together exceed the limit meanwhile; a goroutine per key",
		Leases: true, Bound: windowBound,
		Calls: func(c Commands) int64 { return c["incrby"] + c["expire"] + c["get"] },
		Open:  openSlidingWindow,
	},
}

func newClient(e Env) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: e.Addr, PoolSize: max(e.Conns, 10), MaxRetries: -1})
}

func newPipeline(e Env) (*redis.Client, *redis.AutoPipeliner, error) {
	client := newClient(e)
	pipeline, err := client.AutoPipeline()
	if err != nil {
		client.Close()
		return nil, nil, fmt.Errorf("autopipeline: %w", err)
	}
	return client, pipeline, nil
}

// scripted runs the control script through client.
func scripted(client redis.Scripter, l Limit, closeClient func() error) Limiter {
	script := redis.NewScript(control.PlainBucket)
	return Limiter{
		Allow: func(key string) (bool, error) {
			ctx := context.Background()
			v, err := script.Run(ctx, client, []string{key}, l.Rate, l.Burst, 1).Slice()
			if err != nil {
				return false, err
			}
			return v[0] == int64(1), nil
		},
		Close: func() { _ = closeClient() },
	}
}

func redisRate(r *redis_rate.Limiter, l Limit, closeClient func() error) Limiter {
	limit := redis_rate.Limit{Rate: l.Rate, Burst: l.Burst, Period: time.Second}
	return Limiter{
		Allow: func(key string) (bool, error) {
			res, err := r.Allow(context.Background(), key, limit)
			return err == nil && res.Allowed > 0, err
		},
		Close: func() { _ = closeClient() },
	}
}

// gcra is throttled's limiter on a store of its.
func gcra(store throttled.GCRAStoreCtx, l Limit, closeStore func()) (Limiter, error) {
	r, err := throttled.NewGCRARateLimiterCtx(store,
		throttled.RateQuota{MaxRate: throttled.PerSec(l.Rate), MaxBurst: l.Burst - 1})
	if err != nil {
		return Limiter{}, err
	}
	return Limiter{
		Allow: func(key string) (bool, error) {
			limited, _, err := r.RateLimitCtx(context.Background(), key, 1)
			return err == nil && !limited, err
		},
		Close: closeStore,
	}, nil
}

func openGoZero(e Env) (Limiter, error) {
	logx.Disable()
	store, err := zeroredis.NewRedis(zeroredis.RedisConf{
		Host: e.Addr, Type: zeroredis.NodeType, DisableIdentity: true, NonBlock: true,
	})
	if err != nil {
		return Limiter{}, err
	}
	keys := newTable(func(key string) *limit.TokenLimiter {
		return limit.NewTokenLimiter(e.Limit.Rate, e.Limit.Burst, store, key)
	})
	return Limiter{
		Allow: func(key string) (bool, error) { return keys.get(key).Allow(), nil },
		Close: func() {}, // it keeps its connections for the process's life
	}, nil
}

func openRueidis(e Env) (Limiter, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{e.Addr}, DisableCache: true,
	})
	if err != nil {
		return Limiter{}, err
	}
	script := rueidis.NewLuaScript(control.PlainBucket)
	args := []string{strconv.Itoa(e.Limit.Rate), strconv.Itoa(e.Limit.Burst), "1"}
	return Limiter{
		Allow: func(key string) (bool, error) {
			v, err := script.Exec(context.Background(), client, []string{key}, args).ToArray()
			if err != nil {
				return false, err
			}
			n, err := v[0].AsInt64()
			return n == 1, err
		},
		Close: client.Close,
	}, nil
}

func openSlidingWindow(e Env) (Limiter, error) {
	client := newClient(e)
	var mu sync.Mutex
	var stops []slidingwindow.StopFunc
	keys := newTable(func(key string) *slidingwindow.Limiter {
		window := func() (slidingwindow.Window, slidingwindow.StopFunc) {
			return slidingwindow.NewSyncWindow(key,
				slidingwindow.NewNonblockingSynchronizer(counters{client}, 100*time.Millisecond))
		}
		l, stop := slidingwindow.NewLimiter(time.Second, int64(e.Limit.Rate), window)
		mu.Lock()
		defer mu.Unlock()
		stops = append(stops, stop)
		return l
	})
	return Limiter{
		Allow: func(key string) (bool, error) { return keys.get(key).Allow(), nil },
		Close: func() {
			for _, stop := range stops {
				stop()
			}
			client.Close()
		},
	}, nil
}

// counters is the store that slidingwindow leaves to its user.
type counters struct{ client *redis.Client }

func (c counters) name(key string, start int64) string {
	return key + "@" + strconv.FormatInt(start, 10)
}

func (c counters) Add(key string, start, delta int64) (int64, error) {
	ctx, name := context.Background(), c.name(key, start)
	pipe := c.client.Pipeline()
	count := pipe.IncrBy(ctx, name, delta)
	pipe.Expire(ctx, name, 2*time.Second)
	_, err := pipe.Exec(ctx)
	return count.Val(), err
}

func (c counters) Get(key string, start int64) (int64, error) {
	n, err := c.client.Get(context.Background(), c.name(key, start)).Int64()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return n, err
}
