-- Every exchange begins so: it reads what is stored and the time, and refuses repeats.
local stored = redis.pcall('HMGET', KEYS[1], '#', '@', '=', ARGV[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local sums, about, record = stored[1], stored[3], stored[4]
local q = cjson.decode(ARGV[2])
l.ends, l.limit, l.rate, l.burst = stored[2], ARGV[3], q.rate, q.burst
l.window, l.offset = q.window, q.offset
if sums or l.ends or about or record or redis.call('HLEN', KEYS[1]) > 0 then
  local wrong = flaw(sums, l.ends, about)
  if wrong then return redis.error_reply(wrong) end
  l.SUMS, l.ABOUT = readState(sums, about)
  l.pass = tonumber(sub(l.ends, (SLOTS + ERAS) * 2 + 1)) or 0
  l.ends = sub(l.ends, 1, (SLOTS + ERAS) * 2)
  l.limit = sub(about, ABOUT + 1)
  if l.limit ~= ARGV[3] then
    local ok, list = pcall(cjson.decode, '[' .. l.limit .. ']')
    if not ok or not list or #list ~= 2 and #list ~= 4 then
      return redis.error_reply('RATION bad state')
    end
    l.rate, l.burst, l.window, l.offset = list[1], list[2], list[3], list[4]
  end
end
if record then
  if #record ~= RECORD then
    return redis.error_reply('RATION bad record of holder ' .. ARGV[1])
  end
  own.RECORD = readRecord(record)
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if not sums then
  l.at, l.version, l.born = now, VERSION, now
  open(l, q, own)
end
limits(l)
clock(l, a, now)
local t = a.at
if own.seq and q.seq <= own.seq and own.at + own.life > t then return 'stale,' .. l.limit end
