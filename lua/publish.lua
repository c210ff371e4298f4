-- Keeps what a process tells of itself, for a while. One hash has all processes.
--
-- KEYS[1]  the hash
-- ARGV[1]  the process, neither '#' nor '!'
-- ARGV[2]  how long it is kept, ms, a whole number from 1 to 599999
-- ARGV[3]  the text
-- ARGV[4]  from how many processes on one that is new is refused
-- Reply    'OK', or an error 'RATION ...' if there are too many
--
-- A field is '<ms when it came> <ms when it ends> <text>', by the server's clock. All are
-- looked at when they are as many as '#' says, which is twice those that live and 16: those
-- that have ended are deleted then. So each look is paid for by as many processes that are
-- new (remote.TestPublishPrunes). One that finds too many is the last for 5 s: '!' is when
-- that ends.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = redis.call('HMGET', KEYS[1], ARGV[1], '#', '!')
if not known[1] and redis.call('HLEN', KEYS[1]) >= (tonumber(known[2]) or 16) then
  local refused = redis.error_reply('RATION so many processes publish already')
  if now < (tonumber(known[3]) or 0) then return refused end
  local all, live = redis.call('HGETALL', KEYS[1]), 0
  for i = 1, #all, 2 do
    local ends = string.match(all[i + 1], '^%d+ (%d+) ')
    if ends and tonumber(ends) > now then
      live = live + 1
    elseif all[i] ~= '#' then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
  if live >= tonumber(ARGV[4]) then
    redis.call('HSET', KEYS[1], '!', string.format('%.0f', now + 5000))
    return refused
  end
  redis.call('HSET', KEYS[1], '#', string.format('%d', 2 * live + 16))
end
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f %.0f ', now, now + ARGV[2]) .. ARGV[3])
redis.call('PEXPIRE', KEYS[1], 600000)
return redis.status_reply('OK')
