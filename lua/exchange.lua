-- One exchange between a holder and the ledger of a key.
--
-- Go twin: lease.Ledger.Exchange. Same float64 operations in the same order,
-- so that both give the same reply and keep the same state for any history
-- (lua.TestTwins, lua.FuzzTwins). Read that one first: it has the reasons.
--
-- KEYS[1]  the key of the limit: a hash with the ledger's state in field '#'
--          and one field per holder.
-- ARGV[1]  holder id
-- ARGV[2]  request: seq seen take min give held demand shift lag claim
-- ARGV[3]  limit and policy: rate burst mode fairness batch min_refresh
--          max_refresh headroom burst_share smallest reserve
--          Decimal numbers with a space between them and no exponents (the
--          tonumber of miniredis fails on '1e-07'). Tokens, tokens/s, whole
--          µs. claim is the claimed rate, or -1 for no claim. mode 0 auto,
--          1 batches, 2 shares, 3 per request; fairness 0 proportional,
--          1 max-min. Valid by lease.Request.Validate; not checked here.
--
-- Reply    a string, the holder's record as it is stored, then the number of
--          holders and the limit in force:
--            seq at rate burst keep refresh until demand taken add add2 retry
--            flags holders limit_rate limit_burst
--          Whole numbers but for limit_rate: rate and demand in 2^-20 tokens/s;
--          add * 2^add2 is exact; refresh, until (end of the rate, from at) and
--          retry in µs; flags are the sum of 1 intact, 2 contended, 4 above the
--          water level, 8 rate has ended.
--          Or 'stale limit_rate limit_burst', if a later seq was answered.
--          Or an error 'RATION ...' if what is stored cannot be understood.
--
-- Time     is this server's, read once, in µs; it never goes back.
-- Repeats  (the last seq of a holder) give the same reply again, and like stale
--          ones change and write nothing.
-- Writes   only at the end, all or none: the state and this holder's record;
--          other records only when leases have ended since the last exchange.
-- The TTL  is the time to full and the longest lease, and a second: a key that
--          expires loses nothing.

local match, format, byte, char, sub = string.match, string.format, string.byte, string.char, string.sub
local floor, ceil, frexp, ldexp = math.floor, math.ceil, math.frexp, math.ldexp

-- Rates and demands are multiples of 2^-20 and stored as whole numbers. Any
-- other fraction is stored as mantissa and exponent, as math.frexp has them:
-- exact, shorter than 17 digits, and without the 'e' that miniredis cannot read.
local RESOLUTION, MANTISSA = 1048576, 9007199254740992

local RECORD = '^(%d+) (%d+) (%d+) (%d+) %d+ (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%-?%d+) %d+ (%d+)$'
local SLOTS = 20

local stored = redis.pcall('HMGET', KEYS[1], '#', ARGV[1])
if stored.err then
  return redis.error_reply('RATION not a ledger: ' .. stored.err)
end
local state, mine = stored[1], stored[2]

local seq, seen, take, min, give, held, demand, shift, lag, claim = match(ARGV[2],
  '^(%d+) (%d+) (%d+) (%d+) ([%d.]+) ([%d.]+) ([%d.]+) ([%d.]+) (%d+) (%-?[%d.]+)$')
local limitRate, limitBurst, mode, fairness, batch, minRefresh, maxRefresh, headroom, burstShare, smallest, reserve = match(ARGV[3],
  '^([%d.]+) (%d+) (%d) (%d) (%d+) (%d+) (%d+) ([%d.]+) ([%d.]+) (%d+) ([%d.]+)$')
if not seq or not limitRate then
  return redis.error_reply('RATION bad request')
end
seq, maxRefresh, claim = tonumber(seq), tonumber(maxRefresh), tonumber(claim)

-- The state, or that of a bucket which nobody has asked for yet. It opens full,
-- unless a claim shows that it has been in use and its state was lost.
local rate, burst, at, pool, rates, bursts, sum, low, high, unrest, born, width, holders, ends
local inForce
local slot = floor(maxRefresh / 4)

if state then
  local pool2, unrest2
  burst, at, pool, pool2, rates, bursts, sum, low, high, unrest, unrest2, born, width, holders, inForce, ends = match(state,
    '^(%d+) (%d+) (%-?%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+) (%d+) (%d+) (%d+) ([%d.]+) ([0-o]+)$')
  rate = inForce and tonumber(inForce)
  if not rate or #ends ~= SLOTS * 3 then
    return redis.error_reply('RATION bad state')
  end
  inForce = inForce .. ' ' .. burst
  burst, at, pool, bursts, high = tonumber(burst), tonumber(at), ldexp(tonumber(pool), tonumber(pool2)), tonumber(bursts), tonumber(high)
  rates, sum, low = tonumber(rates) / RESOLUTION, tonumber(sum) / RESOLUTION, tonumber(low) / RESOLUTION
  unrest, born, width, holders = ldexp(tonumber(unrest), tonumber(unrest2)), tonumber(born), tonumber(width), tonumber(holders)
elseif mine or redis.call('HLEN', KEYS[1]) > 0 then
  return redis.error_reply('RATION not a ledger: no state')
end

-- The holder's record.
local oSeq, oAt, oRate, oBurst, oRefresh, oUntil, oDemand, oTaken, oAdd, oAdd2, oFlags
if mine then
  oSeq, oAt, oRate, oBurst, oRefresh, oUntil, oDemand, oTaken, oAdd, oAdd2, oFlags = match(mine, RECORD)
  if not oSeq then
    return redis.error_reply('RATION bad record of holder ' .. ARGV[1])
  end
  oSeq = tonumber(oSeq)
  if seq == oSeq then
    return format('%s %d %s', mine, holders, inForce)
  elseif seq < oSeq then
    return 'stale ' .. inForce
  end
  oAt, oRate, oBurst, oDemand, oFlags = tonumber(oAt), tonumber(oRate) / RESOLUTION, tonumber(oBurst), tonumber(oDemand) / RESOLUTION, tonumber(oFlags)
  oRefresh, oUntil = tonumber(oRefresh), tonumber(oUntil)
end

local time = redis.call('TIME')
local t = time[1] * 1000000 + time[2]
if not state then
  rate, burst, at, pool = tonumber(limitRate), tonumber(limitBurst), t, 0
  rates, bursts, sum, low, high, unrest, born, width, holders = 0, 0, 0, 0, 0, 0, t, slot, 0
  ends = string.rep('000', SLOTS)
  if claim < 0 then
    pool = burst
  end
end
if t < at then
  t = at
end

-- advance: has a lease ended in a slot that has passed?
local last = floor(t / width)
local first = floor(at / width)
if first < last - SLOTS then
  first = last - SLOTS
end
local due = slot > width
while first < last and not due do
  local p = first % SLOTS * 3
  local a, b, c = byte(ends, p + 1, p + 3)
  due = a + b + c > 144
  first = first + 1
end

local ended, gone -- records to rewrite and to delete
if due then
  local all = redis.call('HGETALL', KEYS[1])
  local records, events = {}, {}
  for i = 1, #all, 2 do
    local id = all[i]
    if id ~= '#' then
      local _, a, ra, bu, re, un, de, _, _, _, fl = match(all[i + 1], RECORD)
      if not a then
        return redis.error_reply('RATION bad record of holder ' .. id)
      end
      local r = {text = all[i + 1], rate = ra / RESOLUTION, burst = tonumber(bu), demand = de / RESOLUTION, flags = tonumber(fl)}
      r.untilEnd = a + un
      r.expires = a + (un + re * 2)
      records[id] = r
      if r.rate > 0 and r.flags < 8 and r.untilEnd <= t then
        events[#events + 1] = {at = r.untilEnd, id = id, last = false}
      end
      if r.expires <= t then
        events[#events + 1] = {at = r.expires, id = id, last = true}
      end
    end
  end
  -- Events of the same time may come in any order: nothing flows between
  -- them, and sums of rates and bursts are exact. (Strings must not be
  -- compared here: Redis does so by the locale.)
  table.sort(events, function(x, y) return x.at < y.at end)
  ended, gone = {}, {}
  for _, e in ipairs(events) do
    local r, now, free = records[e.id], e.at, rate - rates
    if now < at then now = at end
    if free < 0 then free = 0 end
    local room = burst - bursts
    if room < 0 then room = 0 end
    pool = pool + free * (now - at) / 1000000
    if pool > room then pool = room end
    unrest = unrest / (1 + (now - at) / 500000)
    at = now
    if e.last then
      bursts, sum = bursts - r.burst, sum - r.demand
      if r.flags % 8 >= 4 then
        high = high - 1
      else
        low = low - r.demand
      end
      records[e.id], ended[e.id] = nil, nil
      gone[#gone + 1] = e.id
    else
      rates = rates - r.rate
      r.flags = r.flags + 8
      ended[e.id] = r
    end
  end
  -- The calendar, anew.
  if slot > width then
    width = slot
  end
  local counts = {}
  for i = 0, SLOTS - 1 do
    counts[i] = 0
  end
  holders = 0
  for _, r in pairs(records) do
    local e = r.expires
    if r.rate > 0 and r.flags < 8 then
      e = r.untilEnd
    end
    local s = floor(e / width) % SLOTS
    counts[s] = counts[s] + 1
    holders = holders + 1
  end
  for i = 0, SLOTS - 1 do
    local n = counts[i]
    counts[i + 1] = char(48 + floor(n / 4096), 48 + floor(n / 64) % 64, 48 + n % 64)
  end
  ends = table.concat(counts, '', 1, SLOTS)
  if mine then
    local r = records[ARGV[1]]
    mine = r
    oFlags = r and r.flags
  end
end

-- refill
local free, room = rate - rates, burst - bursts
if free < 0 then free = 0 end
if room < 0 then room = 0 end
pool = pool + free * (t - at) / 1000000
if pool > room then pool = room end
unrest = unrest / (1 + (t - at) / 500000)

rate, burst = tonumber(limitRate), tonumber(limitBurst)

-- What the holder comes back with. Its old lease ends here.
held, take, lag = tonumber(held), tonumber(take), tonumber(lag)
local intact, oSlot = false, nil
if mine then
  local e = oAt + oUntil
  local accrued = 0
  if oFlags < 8 then
    rates = rates - oRate
    accrued = e
    if t < e then accrued = t end
    accrued = oRate * (accrued - oAt) / 1000000
  end
  if oRate == 0 or oFlags >= 8 then
    e = oAt + (oUntil + oRefresh * 2)
  end
  oSlot = floor(e / width) % SLOTS
  bursts, sum = bursts - oBurst, sum - oDemand
  if oFlags % 8 >= 4 then
    high = high - 1
  else
    low = low - oDemand
  end
  intact = tonumber(seen) == oSeq
  if not intact then
    pool = pool + (tonumber(oTaken) + ldexp(tonumber(oAdd), tonumber(oAdd2)) + accrued)
  end
  pool = pool + tonumber(give)
else
  holders = holders + 1
  if claim >= 0 then
    pool = pool - ceil(held)
    local age = t - born
    if age < floor(maxRefresh * 9 / 4) then
      pool = pool - claim * age / 1000000
    end
  else
    held = 0
  end
end
local whole = ceil(held)
room = burst - bursts - whole
if room < 0 then room = 0 end
if pool > room then pool = room end

demand = tonumber(demand)
if demand > 4294967296 then demand = 4294967296 end
demand = floor(demand * RESOLUTION) / RESOLUTION
local all = sum + demand
local most = all
if most < rate then most = rate end
unrest = unrest + shift / most

-- divide
headroom = 1 + headroom
local contended = all > rate * 0.9
local wish = demand * headroom
local level = (rate - low * headroom) / (high + 1)
local above = wish > level
local share, nRate, nBurst = 0, 0, 0
if demand > 0 and (mode == '0' or mode == '2') then
  local target
  if fairness == '1' then
    target = wish
    if level < target then target = level end
  else
    target = rate / all
    if headroom < target then target = headroom end
    target = demand * target
  end
  local whole = all * headroom
  if rate < whole then whole = rate end
  if target > 0 then
    share = target / whole
    if share > 1 then share = 1 end
  end
  free = rate - rates
  if free < target then target = free end
  target = floor(target * RESOLUTION) / RESOLUTION
  if target < 0 then target = 0 end
  local lend = burstShare * burst
  local b = lend * share
  if lend - bursts < b then b = lend - bursts end
  b = floor(b)
  if mode == '0' then
    if b < tonumber(smallest) then
      b = 0
    elseif target * maxRefresh < 1000000 then
      target = 0
    end
  end
  if b >= 1 then
    nRate, nBurst = target, b
  end
end

local lends, batches = nBurst > 0, mode == '1'
if batches then
  nBurst, lends = whole, true
end
local keep = nBurst
if nBurst < whole then nBurst = whole end

-- Requests that wait come first.
room = burst - bursts - nBurst
if room < 0 then room = 0 end
reserve = contended and nRate > 0 and reserve * room or 0
local taken = 0
min = tonumber(min)
if take > 0 and pool - reserve >= min then
  taken = pool - reserve
  if take < taken then taken = take end
  taken = floor(taken)
  pool = pool - taken
end

-- Then the sub-bucket is filled.
local add = 0
if batches then
  add = batch - held
  if pool < add then add = pool end
  if add < 0 then add = 0 end
  add = floor(add)
  nBurst = ceil(held + add)
  keep = nBurst
  room = burst - bursts - nBurst
  if room < 0 then room = 0 end
elseif lends then
  add = pool * share
  if pool - reserve < add then add = pool - reserve end
  if pool - room > add then add = pool - room end
  if add < 0 then add = 0 end
  if nBurst - held < add then add = nBurst - held end
end
pool = pool - add
if pool > room then pool = room end

-- term
if maxRefresh < lag then lag = maxRefresh end
local refresh = maxRefresh
if nRate > 0 then
  refresh = batch * 1000000 / nRate
  if maxRefresh < refresh then refresh = maxRefresh end
  refresh = refresh / (1 + 5 * unrest)
  minRefresh = tonumber(minRefresh)
  if refresh < minRefresh then refresh = minRefresh end
  if refresh < lag then refresh = lag end
  refresh = floor(refresh)
end
local until_ = refresh + floor(maxRefresh / 4) + lag

-- retry
local retry = 0
local denied = take > taken or batches and keep == 0
if nRate > 0 and (denied or contended and pool - reserve < 1) then
  retry = refresh
elseif denied then
  if min < 1 then min = 1 end
  local missing = min - pool
  free = rate - rates - nRate
  if free < 0.000001 then free = 0.000001 end
  free = missing / free
  if maxRefresh / 1000000 < free then free = maxRefresh / 1000000 end
  retry = missing / rate
  if retry < free then retry = free end
  retry = ceil(retry * 1000000)
  if retry < 1000 then retry = 1000 end
end

-- insert
rates, bursts = rates + nRate, bursts + nBurst
local flags = 0
if intact then flags = 1 end
if contended then flags = flags + 2 end
if above then
  flags, high = flags + 4, high + 1
else
  low = low + demand
end
local nEnd = t + until_
if nRate == 0 then
  nEnd = t + (until_ + refresh * 2)
end
local nSlot = floor(nEnd / width) % SLOTS
if nSlot ~= oSlot then
  if oSlot then
    local a, b, c = byte(ends, oSlot * 3 + 1, oSlot * 3 + 3)
    local n = (a * 64 + b) * 64 + c - 199729
    ends = sub(ends, 1, oSlot * 3) .. char(48 + floor(n / 4096), 48 + floor(n / 64) % 64, 48 + n % 64) .. sub(ends, oSlot * 3 + 4)
  end
  local a, b, c = byte(ends, nSlot * 3 + 1, nSlot * 3 + 3)
  local n = (a * 64 + b) * 64 + c - 199727
  ends = sub(ends, 1, nSlot * 3) .. char(48 + floor(n / 4096), 48 + floor(n / 64) % 64, 48 + n % 64) .. sub(ends, nSlot * 3 + 4)
end

local add2, pool2, unrest2
add, add2 = frexp(add)
local record = format('%d %d %d %d %d %d %d %d %d %d %d %d %d',
  seq, t, nRate * RESOLUTION, nBurst, keep, refresh, until_, demand * RESOLUTION, taken, add * MANTISSA, add2 - 53, retry, flags)
local full = (burst - pool) / rate * 1000
pool, pool2 = frexp(pool)
unrest, unrest2 = frexp(unrest)
redis.call('HSET', KEYS[1], '#', format('%s %d %d %d %d %d %d %d %d %d %d %d %d %d %s %s',
  limitBurst, t, pool * MANTISSA, pool2 - 53, rates * RESOLUTION, bursts, all * RESOLUTION, low * RESOLUTION, high,
  unrest * MANTISSA, unrest2 - 53, born, width, holders, limitRate, ends), ARGV[1], record)
if full > 3e12 then full = 3e12 end
redis.call('PEXPIRE', KEYS[1], format('%d', ceil(full + width * 18 / 1000) + 1000))
return format('%s %d %s %s', record, holders, limitRate, limitBurst)
