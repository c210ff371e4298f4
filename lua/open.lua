-- Every exchange begins so: it reads what is stored and the time, and refuses repeats.
local stored = redis.pcall('HMGET', KEYS[1], '#', '@', '=', ARGV[1], '&r')
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local sums, ends, about, record = stored[1], stored[2], stored[3], stored[4]
q.REQUEST = read(REQUEST_FORMAT, ARGV[2])
l.limit, l.rate, l.burst, l.window, l.offset = ARGV[3], q.rate, q.burst, q.window, q.offset
if sums or ends or about or record or redis.call('HLEN', KEYS[1]) > 0 then
  flaw(l, sums, ends, about)
  if l.wrong then return redis.error_reply(l.wrong) end
  l.SUMS = read(SUMS_FORMAT, sums)
  scaleSums(l)
  l.ABOUT = read(ABOUT_FORMAT, about)
  readCaution(l, stored[5])
  l.pass = tonumber(sub(ends, (TICKS + ERAS) * 2 + ROOMS + 1)) or 0
  l.ends = sub(ends, 1, (TICKS + ERAS) * 2)
  l.limit = sub(about, ABOUT + 1)
  if l.limit ~= ARGV[3] then
    local ok, list = pcall(cjson.decode, '[' .. l.limit .. ']')
    if not ok or not list or #list ~= 2 and #list ~= 4 then
      return redis.error_reply('RATION bad state')
    end
    l.rate, l.burst, l.window, l.offset = list[1], list[2], list[3], list[4]
  end
end
if sums and l.rates > 0 and not l.window and #ends >= (TICKS + ERAS) * 2 + ROOMS then
  l.rooms = {read(ROOMS_FORMAT, sub(ends, (TICKS + ERAS) * 2 + 1, (TICKS + ERAS) * 2 + ROOMS))}
end
if record then
  if #record ~= RECORD then
    return redis.error_reply('RATION bad record of holder ' .. ARGV[1])
  end
  own.RECORD = read(RECORD_FORMAT, record)
  scaleOwn(l, own)
end
if l.wrong then return redis.error_reply(l.wrong) end

local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
if not sums then
  l.at, l.version, l.born, l.past = now, VERSION, now, 0
  open(l, q, own)
end
limits(l)
readPast(l)
readPiles(l)
clock(l, a, now)
local t = a.at
if own.seq and q.seq <= own.seq and own.at + own.life > t then return 'stale,' .. l.limit end
