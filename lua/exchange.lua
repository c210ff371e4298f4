-- One exchange between a holder and the ledger of a key.
--
-- Go twin: lease.Ledger.Exchange. The same float64 operations in the same
-- order, so that both give the same replies and keep the same state for any
-- history (TestTwins, FuzzTwins). Read that one first: it has the reasons.
--
-- KEYS[1]  the limited key: a hash of the ledger's state, in field '#', and a
--          record per holder, in a field of its id
-- ARGV[1]  the holder's id
-- ARGV[2]  the request: [seq, seen, take, min, unit, give, held, spent, demand, shift,
--          lag, claim, left (rate of the claimed lease and its time, or -1 and 0),
--          mode (0 auto, 1 batches, 2 shares, 3 per request), fairness
--          (0 proportional, 1 max-min), batch, min_refresh, max_refresh,
--          headroom, burst_share, smallest, reserve, rate, burst]
-- ARGV[3]  the last two, the limit, as they are to be kept: rate,burst
--          All must be valid by lease.Request.Validate.
--
-- Reply    the holder's record as it is stored, [seq, at, rate, burst, keep,
--          refresh, until, life, demand, taken, add, retry, flags], and behind
--          it ,lent,holders,rate,burst: the sum of rates lent, the number of
--          holders and the limit.
--          stale,rate,burst if a later seq has been answered.
--          An error 'RATION ...' if what is stored cannot be understood.
--
-- Lists    are JSON arrays of numbers, which cjson reads at half the price of
--          string.match and tonumber.
-- Spent    is what the holder has used since its first request without an answer.
-- Units    tokens, tokens/s, whole µs. Rates and demands, but for the limit's
--          and the claim's, are in 2^-20 tokens/s, which makes them whole; until
--          (end of the rate), life (end of the tokens), refresh and retry count
--          from at; flags sum up 1 intact, 2 contended, 4 above the water level,
--          8 rate has ended.
-- Time     is this server's, read once; it never goes back.
-- Repeats  of a holder's last seq are answered from its record. Like stale ones
--          they change and write nothing.
-- Writes   come last, the largest first: memory that has run out stops all of
--          them. Records of others are read and written only after a lease has
--          ended.
-- TTL      at least the time to full, the longest lease and a second, so that a
--          key that expires is one that nobody would miss. It is a quarter
--          longer when set, and set again when it has run down to that: most
--          exchanges send replicas and the AOF a single HSET.

local floor, ceil, format, byte, char, sub = math.floor, math.ceil, string.format, string.byte, string.char, string.sub

-- Constants of package lease.
local RESOLUTION, MAX_RATE, MAX_BURST = 1048576, 4294967296, 4294967296
local MAX_FILL = 315360000000000 -- µs
local CONTENTION, FILLED, CALMS_IN, HASTE, TOKEN_LIFE = 0.9, 0.5, 500000, 1.5, 2

-- Some pools are so far below 0 that they never fill: a hundred years, in µs,
-- are the longest TTL.
local MAX_TTL = 3153600000000000

-- The calendar is a string of 20 counts, each three digits to base 40.
local SLOTS, BASE, ZERO, MAX_HOLDERS = 20, 40, 48, 63999

local stored = redis.pcall('HMGET', KEYS[1], '#', ARGV[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local state, record = stored[1], stored[2]

local seq, seen, take, min, unit, give, held, spent, demand, shift, lag, claim, left,
  mode, fairness, batch, minRefresh, maxRefresh, headroom, burstShare, smallest, reserve,
  newRate, newBurst = unpack(cjson.decode(ARGV[2]))

local rate, burst, at, pool, rates, bursts, sum, low, high, unrest, born, width, holders, expiry, ends
if state then
  local ok, list = pcall(cjson.decode, state)
  if not ok or not list or #list ~= 15 or type(list[15]) ~= 'string' or #list[15] ~= SLOTS * 3 then
    return redis.error_reply('RATION bad state')
  end
  rate, burst, at, pool, rates, bursts, sum, low, high, unrest, born, width, holders, expiry, ends = unpack(list)
  rates, sum, low = rates / RESOLUTION, sum / RESOLUTION, low / RESOLUTION
elseif record or redis.call('HLEN', KEYS[1]) > 0 then
  return redis.error_reply('RATION no ledger: a hash without state')
end

-- own is the lease that the holder comes back with: its record by position,
-- [1] seq, [2] at, [3] rate, [4] burst, [7] until, [8] life, [9] demand,
-- [11] add, [13] flags.
local own
if record then
  local ok, list = pcall(cjson.decode, record)
  if not ok or not list or #list ~= 13 then
    return redis.error_reply('RATION bad record of holder ' .. ARGV[1])
  end
  own = list
  if seq <= own[1] then
    local limit = string.match(state, '^%[([^,]*,[^,]*)')
    if seq < own[1] then
      return 'stale,' .. limit
    end
    return format('%s,%d,%d,%s', record, rates * RESOLUTION, holders, limit)
  end
end

-- open
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local slotWidth = floor(maxRefresh / 4)
if not state then
  rate, burst, at, pool, rates, bursts, sum, low, high, unrest, born, width, holders, expiry =
    newRate, newBurst, now, newBurst, 0, 0, 0, 0, 0, 0, now, slotWidth, 0, 0
  ends = string.rep('000', SLOTS)
  if claim >= 0 then pool = 0 end
end
local t = now
if now < at then
  t = at
  expiry = 0 -- do not rely on what another clock said
end

-- advance: all holders are looked at only when a lease has ended in a slot that
-- has passed.
local due = slotWidth > width
local slot, last = floor(at / width), floor(t / width)
if slot < last - SLOTS then slot = last - SLOTS end
while slot < last and not due do
  local i = slot % SLOTS * 3
  due = sub(ends, i + 1, i + 3) ~= '000'
  slot = slot + 1
end

local ended, gone
if due then
  ended, gone = {}, {}
  local fields = redis.call('HGETALL', KEYS[1])
  local leases, events = {}, {}
  for i = 1, #fields, 2 do
    local id, text = fields[i], fields[i + 1]
    if id ~= '#' then
      local ok, r = pcall(cjson.decode, text)
      if not ok or not r or #r ~= 13 then
        return redis.error_reply('RATION bad record of holder ' .. id)
      end
      leases[id] = r
      if r[3] > 0 and r[13] < 8 and r[2] + r[7] <= t then
        events[#events + 1] = {r[2] + r[7], id, false, text}
      end
      if r[2] + r[8] <= t then
        events[#events + 1] = {r[2] + r[8], id, true}
      end
    end
  end
  -- Events of one moment may come in any order: nothing flows in between, and
  -- the sums are exact. (Redis compares strings by its locale, Go by bytes.)
  table.sort(events, function(a, b) return a[1] < b[1] end)
  for _, e in ipairs(events) do
    local moment, id, r = e[1], e[2], leases[e[2]]
    if moment < at then moment = at end
    local free, room = rate - rates, burst - bursts
    if free < 0 then free = 0 end
    if room < 0 then room = pool < room and room or pool < 0 and pool or 0 end
    pool = pool + free * (moment - at) / 1000000
    if pool > room then pool = room end
    unrest = unrest / (1 + (moment - at) / CALMS_IN)
    at = moment
    if e[3] then
      bursts, sum = bursts - r[4], sum - r[9] / RESOLUTION
      if r[13] % 8 >= 4 then
        high = high - 1
      else
        low = low - r[9] / RESOLUTION
      end
      leases[id], ended[id], gone[id] = nil, nil, true
    else
      rates = rates - r[3] / RESOLUTION
      r[13] = r[13] + 8
      ended[id] = string.gsub(e[4], '%d+%]$', format('%d]', r[13]))
    end
  end
  if slotWidth > width then width = slotWidth end
  local counts = {}
  holders = 0
  for _, r in pairs(leases) do
    local over = r[2] + r[8]
    if r[3] > 0 and r[13] < 8 then over = r[2] + r[7] end
    slot = floor(over / width) % SLOTS
    counts[slot] = (counts[slot] or 0) + 1
    holders = holders + 1
  end
  ends = ''
  for i = 0, SLOTS - 1 do
    local n = counts[i] or 0
    ends = ends .. char(ZERO + floor(n / BASE / BASE), ZERO + floor(n / BASE) % BASE, ZERO + n % BASE)
  end
  own = leases[ARGV[1]]
  ended[ARGV[1]], gone[ARGV[1]] = nil, nil -- is written below
end

-- refill
local free, room = rate - rates, burst - bursts
if free < 0 then free = 0 end
if room < 0 then room = pool < room and room or pool < 0 and pool or 0 end
pool = pool + free * (t - at) / 1000000
if pool > room then pool = room end
unrest = unrest / (1 + (t - at) / CALMS_IN)
rate, burst = newRate, newBurst

-- What the holder comes back with. Its old lease ends here.
local intact, ownSlot, life = false, nil, 0
if own then
  local ownAt, ownRate, ownUntil, ownDemand = own[2], own[3] / RESOLUTION, own[2] + own[7], own[9] / RESOLUTION
  life = ownAt + own[8] - t
  local accrued, over = 0, ownAt + own[8]
  if own[13] < 8 then
    rates = rates - ownRate
    accrued = ownUntil
    if t < accrued then accrued = t end
    accrued = ownRate * (accrued - ownAt) / 1000000
    if ownRate > 0 then over = ownUntil end
  end
  ownSlot = floor(over / width) % SLOTS
  bursts, sum = bursts - own[4], sum - ownDemand
  if own[13] % 8 >= 4 then
    high = high - 1
  else
    low = low - ownDemand
  end
  intact = seen == own[1]
  local back, most = give, own[4] - ceil((held + spent) * RESOLUTION) / RESOLUTION
  local least = own[4] - ceil(held * RESOLUTION) / RESOLUTION
  if not intact then back = back + (own[11] + accrued) end
  if back > most then back = most end
  if least > 0 then least = 0 end
  if back < least then back = least end
  pool = pool + back
else
  holders = holders + 1
  if holders > MAX_HOLDERS then
    return redis.error_reply('RATION too many holders')
  end
  if claim >= 0 then
    life = floor(maxRefresh * 17 / 4)
    if left < life then life = left end
    pool = pool - ceil(held * RESOLUTION) / RESOLUTION
    local age = t - born
    if age < floor(maxRefresh * 9 / 4) then pool = pool - claim * age / 1000000 end
  else
    held = 0
  end
end
if held > 2 * MAX_BURST - bursts then held = 2 * MAX_BURST - bursts end
local heldBurst = ceil(held * RESOLUTION) / RESOLUTION
room = burst - bursts - heldBurst
if room < 0 then room = 0 end
if pool > room then pool = room end

demand = demand / RESOLUTION
if demand > 2 * MAX_RATE - sum then demand = 2 * MAX_RATE - sum end
local all = sum + demand
unrest = unrest + shift / (all > rate and all or rate)

-- divide
local contended = all > rate * CONTENTION
local wish = demand * (1 + headroom)
local level = (rate - low * (1 + headroom)) / (high + 1)
local above = wish > level
local share, fair, lentRate, lentBurst = 0, demand, 0, 0
if (mode == 0 or mode == 2) and demand > 0 then
  local target
  if fairness == 1 then
    target = wish < level and wish or level
    if target < 0 then target = 0 end
  else
    target = rate / all
    if target > 1 + headroom then target = 1 + headroom end
    target = demand * target
  end
  if target < fair then fair = target end
  share = all * (1 + headroom)
  share = target / (share < rate and share or rate)
  if share > 1 then share = 1 end
  local lend = burstShare * burst
  local b, most = lend * share, lend * target / rate
  if most < batch then most = batch end
  if b > most then b = most end
  if b > lend - bursts then b = lend - bursts end
  b = floor(b)
  if b < 0 then b = 0 end
  room = burst - bursts - b
  if room < 1 then room = 1 end
  local full = pool > 0 and pool / room or 0
  if full > 1 then full = 1 end
  full = b * full + math.sqrt(demand * maxRefresh / 1000000)
  local need = demand + (full - held) * 1000000 / maxRefresh
  if need < 0 then need = 0 end
  if target > need then target = need end
  if target > rate - rates then target = rate - rates end
  local r = floor(target * RESOLUTION) / RESOLUTION
  if r < 0 then r = 0 end
  if mode == 0 and r * maxRefresh < 1000000 then r = 0 end
  if b >= 1 and (mode == 2 or b >= smallest) then lentRate, lentBurst = r, b end
end

local lends = lentBurst > 0
if mode == 1 then lentBurst, lends = heldBurst, true end
local keep = lentBurst
if lentBurst < heldBurst then lentBurst = heldBurst end

-- Requests that wait come first.
room = burst - bursts - lentBurst
if room < 0 then room = 0 end
local scarce = reserve * room
reserve = 0
if contended and lentRate > 0 then
  local others = rate - rates - lentRate
  if others < rate * unrest then others = rate * unrest end
  reserve = others * maxRefresh / 1000000
  if reserve > scarce then reserve = scarce end
end
local taken = 0
if take > 0 and pool - reserve >= min then
  taken = floor(pool - reserve < take and pool - reserve or take)
  if unit > 1 then taken = min + floor((taken - min) / unit) * unit end
  pool = pool - taken
end

-- Then the sub-bucket is filled.
local add = 0
if mode == 1 then
  add = batch - held
  if add > pool then add = pool end
  add = add > 0 and floor(add) or 0
  lentBurst = ceil((held + add) * RESOLUTION) / RESOLUTION
  keep = lentBurst
  room = burst - bursts - lentBurst
  if room < 0 then room = 0 end
elseif lends then
  local most = contended and lentBurst * FILLED or lentBurst
  add = pool * share
  if add > pool - reserve then add = pool - reserve end
  if add > most - held then add = most - held end
  if add < pool - room then add = pool - room end
  if add < 0 then add = 0 end
  if add > lentBurst - held then add = lentBurst - held end
end
pool = pool - add
if pool > room then pool = room end

-- term
if lag > maxRefresh then lag = maxRefresh end
local refresh = maxRefresh
if lentRate > 0 then
  refresh = batch * 1000000 / lentRate
  if refresh > maxRefresh then refresh = maxRefresh end
  refresh = refresh / (1 + HASTE * unrest)
  if refresh < minRefresh then refresh = minRefresh end
  if refresh < lag then refresh = lag end
  refresh = floor(refresh)
end
local rateEnd = refresh + floor(maxRefresh / 4) + lag
if life < rateEnd + refresh * TOKEN_LIFE then life = rateEnd + refresh * TOKEN_LIFE end

-- retry
local retry = 0
local denied = take > taken or mode == 1 and keep == 0
if lentRate > 0 and (denied or contended and pool < scarce) then
  retry = refresh
else
  if scarce < 1 then scarce = 1 end
  if keep == 0 and take > 0 and fair < demand and pool < scarce then
    local n = taken > min and taken or min
    if n < 1 then n = 1 end
    retry = n * (demand - fair) / (demand * fair) * (1 - (pool > 0 and pool or 0) / scarce)
    retry = ceil(retry * 1000000)
    if retry > maxRefresh then retry = maxRefresh end
  end
end
if denied and lentRate == 0 then
  local missing = (min > 1 and taken == 0 and min or 1) - pool
  free = rate - rates - lentRate
  local guess = missing / (free > 0.000001 and free or 0.000001)
  if guess > maxRefresh / 1000000 then guess = maxRefresh / 1000000 end
  local wait = missing / rate
  if bursts > 0 or wait < guess then wait = guess end
  wait = ceil(wait * 1000000)
  if retry < wait then retry = wait end
  if retry < 1000 then retry = 1000 end
  if retry > MAX_FILL then retry = MAX_FILL end
end

-- insert
rates, bursts = rates + lentRate, bursts + lentBurst
local flags = (intact and 1 or 0) + (contended and 2 or 0) + (above and 4 or 0)
if above then
  high = high + 1
else
  low = low + demand
end
slot = floor((t + (lentRate > 0 and rateEnd or life)) / width) % SLOTS
if slot ~= ownSlot then
  for step = -1, 1, 2 do
    local i = step < 0 and ownSlot or step > 0 and slot
    if i then
      local a, b, c = byte(ends, i * 3 + 1, i * 3 + 3)
      local n = ((a - ZERO) * BASE + b - ZERO) * BASE + c - ZERO + step
      ends = sub(ends, 1, i * 3) .. char(ZERO + floor(n / BASE / BASE), ZERO + floor(n / BASE) % BASE, ZERO + n % BASE) .. sub(ends, i * 3 + 4)
    end
  end
end

-- 18 slots are longer than any lease.
local ttl = (burst - pool) / rate * 1000000 + width * 18 + 1000000
if ttl > MAX_TTL then ttl = MAX_TTL end
local expires = expiry < now + ttl
if expires then
  ttl = ceil(ttl * 1.25 / 1000)
  expiry = now + ttl * 1000
end

record = format('[%d,%d,%d,%.17g,%.17g,%d,%d,%d,%d,%d,%.17g,%d,%d]',
  seq, t, lentRate * RESOLUTION, lentBurst, keep, refresh, rateEnd, life, demand * RESOLUTION, taken, add, retry, flags)
state = format('[%s,%d,%.17g,%d,%.17g,%d,%d,%d,%.17g,%d,%d,%d,%d,"%s"]', ARGV[3],
  t, pool, rates * RESOLUTION, bursts, all * RESOLUTION, low * RESOLUTION, high, unrest, born, width, holders, expiry, ends)
redis.call('HSET', KEYS[1], '#', state, ARGV[1], record)
if due then
  for id, text in pairs(ended) do
    redis.call('HSET', KEYS[1], id, text)
  end
  for id in pairs(gone) do
    redis.call('HDEL', KEYS[1], id)
  end
end
if expires then
  redis.call('PEXPIRE', KEYS[1], format('%d', ttl))
end
return format('%s,%d,%d,%s', record, rates * RESOLUTION, holders, ARGV[3])
