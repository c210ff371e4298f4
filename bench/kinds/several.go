package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A request for several limits takes a token of its key's bucket, of that of a group of ten keys,
// and of everybody's: of all or of none.
const levels = 3

// larger is by how much the limit of a level is larger than that of a key.
var larger = [levels]int64{1, 20, 40_000}

// levelsOf are the names of the buckets: key is without its last digit, and without digits. The
// key that is not measured has others.
func levelsOf(key string) [levels]string {
	return [levels]string{key, key[:len(key)-1], key[:len(key)-digits]}
}

// bucket is that of a level. It is so large that it admits n in the first window: half is in it,
// and half flows in.
func (l limit) bucket(level int) hybrid.Limit {
	n := min(larger[level]*l.n/2, lease.MaxBurst)
	return hybrid.Per(float64(n), l.window)
}

// rationAll is the library with several limits for each request.
var rationAll = subject{"ration", func(addr string, _ int, l limit) (*process, error) {
	limiter, p, err := openRation(addr, hybrid.Config{LimitFor: func(key string) hybrid.Limit {
		switch len(key) {
		case len(keyPrefix) + digits:
			return l.bucket(0)
		case len(keyPrefix) + digits - 1:
			return l.bucket(1)
		}
		return l.bucket(2)
	}})
	if err != nil {
		return nil, err
	}
	p.take = func(_ context.Context, key string) (bool, func() error, error) {
		names := levelsOf(key)
		return limiter.AllowAll(names[:]...), nil, nil
	}
	return p, nil
}}

// bucketsTake takes a token of each bucket, or none. KEYS are the buckets; ARGV are rate and burst
// of each. Time is the server's. It returns 1 if the request is admitted.
var bucketsTake = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local all, allowed = {}, 1
for i, key in ipairs(KEYS) do
	local rate, burst = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
	local bucket = redis.call('HMGET', key, 'tokens', 'at')
	local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
	all[i] = math.min(burst, tokens + math.max(0, now - at) * rate)
	if all[i] < 1 then allowed = 0 end
end
if allowed == 0 then return 0 end
for i, key in ipairs(KEYS) do
	redis.call('HSET', key, 'tokens', string.format('%.17g', all[i] - 1),
		'at', string.format('%.17g', now))
	redis.call('PEXPIRE', key, math.ceil(ARGV[2 * i] / ARGV[2 * i - 1] * 1000) + 1000)
end
return 1`)

func takeOfBuckets(l limit) call {
	var args [2 * levels]any
	for level := range levels {
		b := l.bucket(level)
		args[2*level], args[2*level+1] = b.Rate, b.Burst
	}
	return func(ctx context.Context, client *redis.Client, key, _ string) (bool, error) {
		names := levelsOf(key)
		return bucketsTake.Run(ctx, client, names[:], args[:]...).Bool()
	}
}
