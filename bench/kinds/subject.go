package main

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
)

// A subject is a limiter as a user would set it up.
type subject struct {
	name string
	open func(addr string, id int, l limit) (*process, error)
}

// A limit is n in each window, or n at once.
type limit struct {
	n      int64
	window time.Duration
}

// A process is one of a fleet. A take of slots waits until ctx ends, and returns how to release
// what it has taken.
type process struct {
	take  func(ctx context.Context, key string) (ok bool, release func() error, err error)
	close func()

	// astray is how many decisions were made without what Redis knows.
	astray func() uint64
}

// openRation opens the library with its default Policy. On a machine so busy that an exchange
// takes longer than a quarter of a second another Timeout keeps what is measured away from
// outages, and Deny keeps them from admitting anything.
func openRation(addr string, c hybrid.Config) (*hybrid.Limiter, *process, error) {
	opt := remote.Options(addr)
	opt.ReadTimeout, opt.WriteTimeout = time.Second, time.Second
	opt.PoolTimeout, opt.DialTimeout = time.Second, time.Second
	client := redis.NewClient(opt)
	c.Process, c.Timeout, c.Outage = hybrid.NewProcess(), time.Second, hybrid.Deny
	limiter, err := hybrid.New(remote.New(client), c)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return limiter, &process{
		take: func(_ context.Context, key string) (bool, func() error, error) {
			return limiter.Allow(key), nil, nil
		},
		close: func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = limiter.Close(ctx) // the server is emptied anyway
			client.Close()
		},
		astray: func() uint64 {
			outage := limiter.Stats().Outage
			return outage.Admitted + outage.Denied
		},
	}, nil
}

// ration is the library with one limit for each request.
func ration(of func(l limit) hybrid.Limit) subject {
	return subject{"ration", func(addr string, _ int, l limit) (*process, error) {
		limiter, p, err := openRation(addr, hybrid.Config{Limit: of(l)})
		if err != nil {
			return nil, err
		}
		if of(l).Kind == hybrid.KindSlots {
			p.take = func(ctx context.Context, key string) (bool, func() error, error) {
				slot, err := limiter.Acquire(ctx, key, 1)
				if err != nil {
					return false, nil, err
				}
				return true, slot.Release, nil
			}
		}
		return p, nil
	}}
}

func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 32})
}

// A call is what a peer asks Redis for one request; id is unlike any other's.
type call func(ctx context.Context, client *redis.Client, key, id string) (ok bool, err error)

// peer asks Redis for each request.
func peer(name string, of func(l limit) call) subject {
	return subject{name, func(addr string, id int, l limit) (*process, error) {
		client, ask, next := newClient(addr), of(l), newIDs(id)
		return &process{
			take: func(_ context.Context, key string) (bool, func() error, error) {
				ok, err := ask(context.Background(), client, key, next())
				return ok, nil, err
			},
			close:  func() { client.Close() },
			astray: func() uint64 { return 0 },
		}, nil
	}}
}

func newIDs(process int) func() string {
	var last atomic.Int64
	return func() string { return strconv.Itoa(process) + "-" + strconv.FormatInt(last.Add(1), 10) }
}

// fixedWindow counts in a key for each window, by the client's clock. KEYS[1] is the count;
// ARGV are n and how long the count is kept, ms. It returns 1 if the request is admitted.
var fixedWindow = redis.NewScript(`
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return count <= tonumber(ARGV[1]) and 1 or 0`)

func countInWindow(l limit) call {
	return func(ctx context.Context, client *redis.Client, key, _ string) (bool, error) {
		name := key + ":" + strconv.FormatInt(time.Now().UnixNano()/int64(l.window), 10)
		return fixedWindow.Run(ctx, client, []string{name}, l.n, l.window.Milliseconds()).Bool()
	}
}

// slidingLog keeps the time of each request that was admitted, by the server's clock. KEYS[1] is
// a sorted set; ARGV are n, the window in ms and a name for the request. It returns 1 if the
// request is admitted. Times are written with all their digits.
var slidingLog = redis.NewScript(`
local time, window = redis.call('TIME'), tonumber(ARGV[2])
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, string.format('%.0f', now - window * 1000))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`)

func logTimes(l limit) call {
	return func(ctx context.Context, client *redis.Client, key, id string) (bool, error) {
		return slidingLog.Run(ctx, client, []string{key}, l.n, l.window.Milliseconds(), id).Bool()
	}
}

// twoCounters takes what the window before has admitted for evenly spread. KEYS[1] is a hash of
// the number of the window and both counts; ARGV are n and the window in ms. It returns 1 if the
// request is admitted.
var twoCounters = redis.NewScript(`
local time, window = redis.call('TIME'), tonumber(ARGV[2])
local at = (time[1] * 1000 + time[2] / 1000) / window
local number = math.floor(at)
local kept = redis.call('HMGET', KEYS[1], 'number', 'count', 'before')
local last, count, before = tonumber(kept[1]), tonumber(kept[2]), tonumber(kept[3])
if last ~= number then
	before = last == number - 1 and count or 0
	count = 0
end
if before * (1 - (at - number)) + count + 1 > tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'number', string.format('%.0f', number),
	'count', string.format('%.0f', count + 1), 'before', string.format('%.0f', before))
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', 2 * window))
return 1`)

func weighCounts(l limit) call {
	return func(ctx context.Context, client *redis.Client, key, _ string) (bool, error) {
		return twoCounters.Run(ctx, client, []string{key}, l.n, l.window.Milliseconds()).Bool()
	}
}

// acquire takes a slot by the server's clock, unless all are taken. KEYS[1] is a sorted set of
// who has one, by when it ends; ARGV are n, for how long, in ms, and a name for the job. It
// returns 1 if there was a slot.
var acquire = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, string.format('%.0f', now))
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`)

const (
	poll     = 5 * time.Millisecond // how often the semaphore is tried while it is taken
	slotLife = 30 * time.Second     // of a slot whose job has crashed, as ration's default
)

// semaphore is one call to acquire and one to release. Nothing renews a slot: the semaphore lets
// another job in beside one that takes longer than slotLife.
var semaphore = subject{"semaphore", func(addr string, id int, l limit) (*process, error) {
	client, next := newClient(addr), newIDs(id)
	return &process{
		take: func(ctx context.Context, key string) (bool, func() error, error) {
			job := next()
			for {
				ok, err := acquire.Run(context.Background(), client, []string{key}, l.n,
					slotLife.Milliseconds(), job).Bool()
				if err != nil {
					return false, nil, err
				}
				if ok {
					return true, func() error {
						return client.ZRem(context.Background(), key, job).Err()
					}, nil
				}
				select {
				case <-time.After(poll):
				case <-ctx.Done():
					return false, nil, fmt.Errorf("semaphore: %w", ctx.Err())
				}
			}
		},
		close:  func() { client.Close() },
		astray: func() uint64 { return 0 },
	}, nil
}}
