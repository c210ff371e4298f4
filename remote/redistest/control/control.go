// Package control is what the costs of ration are compared with.
package control

// PlainBucket is what a limiter without leases runs for each request: a token
// bucket that is read, computed, written and given its end. It keeps fractions and
// uses the server's clock. KEYS[1] is the bucket; ARGV are rate, burst and the
// tokens asked for.
const PlainBucket = `
local rate, burst, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
local allowed = tokens >= n and 1 or 0
if allowed == 1 then tokens = tokens - n end
redis.call('HSET', KEYS[1],
	'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000) + 1000)
return {allowed, string.format('%.17g', tokens)}`
