-- Every exchange begins so: it reads what is stored, lets time go on, refuses repeats, and
-- counts the limit that the holder declares.
local stored = redis.pcall('HMGET', KEYS[1], '#', '@', '=', ARGV[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local sums, about, record = stored[1], stored[3], stored[4]
local q = cjson.decode(ARGV[2])
l.ends, l.limit, l.rate, l.burst = stored[2], ARGV[3], q.rate, q.burst
if sums or l.ends or about or record or redis.call('HLEN', KEYS[1]) > 0 then
  local wrong = flaw(sums, l.ends, about)
  if wrong then return redis.error_reply(wrong) end
  l.SUMS, l.ABOUT = readState(sums, about)
  l.pass = tonumber(sub(l.ends, (SLOTS + ERAS) * 2 + 1)) or 0
  l.ends = sub(l.ends, 1, (SLOTS + ERAS) * 2)
  l.limit = sub(about, ABOUT + 1)
  if l.limit ~= ARGV[3] then
    local ok, list = pcall(cjson.decode, '[' .. l.limit .. ']')
    if not ok or not list or #list ~= 2 then return redis.error_reply('RATION bad state') end
    l.rate, l.burst = list[1], list[2]
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
if not sums then -- open
  l.at, l.rates, l.bursts, l.demand, l.low, l.pool, l.unrest = now, 0, 0, 0, 0, 0, 0
  l.high, l.holders, l.version, l.born, l.places, l.only = 0, 0, VERSION, now, 0, 1
  l.earmark = 0
  l.slot, l.expiry, l.ahead = slotWidth(q), 0, 0
  l.ends, l.pass = string.rep('\0', (SLOTS + ERAS) * 2), 0
  if q.claim < 0 then l.pool = l.burst end
end
limits(l)
clock(l, a, now)
local t = a.at
if own.seq and q.seq <= own.seq and own.at + own.life > t then return 'stale,' .. l.limit end
advance(l, q, t)
if l.wrong then return redis.error_reply(l.wrong) end
if l.leases and l.leases[ARGV[1]] then
  own.RECORD = unpack(l.leases[ARGV[1]])
elseif l.leases and l.changed[ARGV[1]] == false then
  own.seq = nil
end
if not own.seq and l.holders >= MAX_HOLDERS then return 'stale,' .. l.limit end
declare(l, a, q, own)
a.seq, a.rate, a.burst, a.shape, a.taken, a.retry, a.share = q.seq, 0, 0, NONE, 0, 0, 0
a.held, a.left, a.leased, a.was = 0, 0, false, 0
