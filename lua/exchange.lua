-- One exchange between a holder and the ledger of a key.
--
-- Go twin: lease.Ledger.Exchange. The same float64 operations in the same
-- order, so that both give the same replies and keep the same state for any
-- history (TestTwins, FuzzTwins). Read that one first: it has the reasons.
--
-- KEYS[1]  the limited key: a hash of the ledger's state, in the fields #, @ and =,
--          and a record per holder, in a field of its id
-- ARGV[1]  the holder's id
-- ARGV[2]  the request: [seq, seen, take, min, unit, give, held, spent, demand, shift,
--          lag, claim, left (rate of the claimed lease and its time, or -1 and 0),
--          mode (0 auto, 1 batches, 2 shares, 3 per request), fairness
--          (0 proportional, 1 max-min), batch, min_refresh, max_refresh, max_hold,
--          headroom, burst_share, smallest, reserve, rate, burst]
-- ARGV[3]  the last two, the limit that is declared, as they are to be kept: rate,burst
--          All must be valid by lease.Request.Validate.
--
-- Reply    an array: the holder's record as it is stored; keep, refresh, taken,
--          retry, flags (1 intact, 2 contended, 4 calm, 8 dry), the number of holders; the
--          limit in force, as in ARGV[3]. All but the first and the last are whole
--          numbers.
--          stale,rate,burst if this seq or a later one has been answered, or there is
--          no room for another holder: nothing is changed or written.
--          An error 'RATION ...' if what is stored cannot be understood.
--
-- Values   are strings of numbers, most significant byte first: whole ones have 7
--          bytes, others a mantissa of 7 and an exponent of 2, counts have 2.
--            #       at, rates, bursts, demand, low; pool, unrest; counts of those above
--                    the water level and of all holders; when somebody last declared the
--                    limit in force
--            @       counts: the calendar, 20 slots and 3 eras
--            =       born, width of a slot, expiry (0 if not known), by how much the
--                    ledger's time is ahead of the server's, and the limit as in
--                    ARGV[3]: what seldom changes, written with the TTL
--            record  seq, at, rate, burst, until, life, demand; add; and a byte of
--                    flags: 1 above the water level, 2 rate has ended
--          None is longer than 64 bytes: up to there (hash-max-listpack-value)
--          Redis keeps a small hash in one piece, in half the memory.
-- Spent    is what the holder has used since its first request without an answer.
-- Units    tokens, tokens/s, whole µs. Rates, demands, bursts and keep, but for
--          the limit's and the claim's, are in 2^-20, which makes them whole; until
--          (end of the rate, 0 for the batch of a calm key), life (end of the
--          tokens), refresh and retry count from at.
-- Time     is this server's, read once; it never goes back, and goes on when that does.
-- Writes   come last: memory that has run out stops the first, and so all of
--          them. Records of others are read and written only after a lease has
--          ended.
-- TTL      at least the time to full, the longest lease and a second, so that a
--          key that expires is one that nobody would miss. It is a quarter
--          longer when set, and set again when it has run down to that: most
--          exchanges send replicas and the AOF a single HSET.

local floor, ceil, frexp, ldexp = math.floor, math.ceil, math.frexp, math.ldexp
local format, byte, char, sub = string.format, string.byte, string.char, string.sub

-- Constants of package lease.
local RESOLUTION, MAX_RATE, MAX_BURST = 1048576, 4294967296, 4294967296
local MAX_FILL = 315360000000000 -- µs
local CONTENTION, FILLED, CALMS_IN, HASTE, TOKEN_LIFE, TURN_OF_CROWD = 0.9, 0.5, 500000, 1.5, 2, 200
local FEW_TRIPS = 2
local CALM_DEMAND, CALM_POOL, CALM_BATCH, CALM_LENT, CALM_FIRST, CALM_MOST = 0.5, 0.5, 0.0625, 0.5, 4, 16
local STEADY_DEMAND, STEADY_TAIL, DRIFT = 0.25, 1 / 16, 1 / 512

-- Some pools are so far below 0 that they never fill: a hundred years, in µs,
-- are the longest TTL.
local MAX_TTL = 3153600000000000

local SLOTS, ERAS, REACH, ERA, EIGHTH, LONGEST_TERM, RAISE_AFTER = 20, 3, 18, 480, 60, 85, 504
local MAX_HOLDERS, STEP = 65535, 1000000
local SUMS, ENDS, ABOUT, RECORD = 64, 2 * (SLOTS + ERAS), 28, 59 -- bytes, ABOUT without the limit

-- whole reads the number of 7 bytes at position i of s, and bytes writes one,
-- from 0 to 2^53. All of this is exact.
local function whole(s, i)
  local a, b, c, d, e, f, g = byte(s, i, i + 6)
  return (((((a * 256 + b) * 256 + c) * 256 + d) * 256 + e) * 256 + f) * 256 + g
end

local function bytes(x)
  local g = x % 256
  x = (x - g) / 256
  local f = x % 256
  x = (x - f) / 256
  local e = x % 256
  x = (x - e) / 256
  local d = x % 256
  x = (x - d) / 256
  local c = x % 256
  x = (x - c) / 256
  local b = x % 256
  return char((x - b) / 256, b, c, d, e, f, g)
end

-- fraction reads any number, of 9 bytes, and fractionBytes writes one.
local function fraction(s, i)
  local a, b = byte(s, i + 7, i + 8)
  local x = ldexp(whole(s, i), a % 128 * 256 + b - 16384)
  return a < 128 and x or -x
end

local function fractionBytes(x)
  local m, e = frexp(x)
  e = e - 53 + 16384
  if m < 0 then m, e = -m, e + 32768 end
  return bytes(m * 9007199254740992) .. char(floor(e / 256), e % 256)
end

-- parse reads a record by position: [1] seq, [2] at, [3] rate, [4] burst, [5] until,
-- [6] life, [7] demand, [8] add, [9] above the water level, [10] rate has ended.
local function parse(s)
  if #s ~= RECORD then return nil end
  local flags = byte(s, RECORD)
  return {
    whole(s, 1), whole(s, 8), whole(s, 15) / RESOLUTION, whole(s, 22) / RESOLUTION,
    whole(s, 29), whole(s, 36), whole(s, 43) / RESOLUTION, fraction(s, 50),
    flags % 2 == 1, flags >= 2,
  }
end

local stored = redis.pcall('HMGET', KEYS[1], '#', '@', '=', ARGV[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local sums, ends, about, record = unpack(stored)

local seq, seen, take, min, unit, give, held, spent, demand, shift, lag, claim, left,
  mode, fairness, batch, minRefresh, maxRefresh, maxHold, headroom, burstShare, smallest, reserve,
  newRate, newBurst = unpack(cjson.decode(ARGV[2]))

local rate, burst, at, pool, rates, bursts, sum, low, high, unrest, width, holders, declared, expiry
local limit = ARGV[3]
if sums and ends and about then
  if #sums ~= SUMS or #ends ~= ENDS or #about <= ABOUT then
    return redis.error_reply('RATION bad state')
  end
  limit = sub(about, ABOUT + 1)
  rate, burst = newRate, newBurst
  at, rates, bursts = whole(sums, 1), whole(sums, 8) / RESOLUTION, whole(sums, 15) / RESOLUTION
  sum, low = whole(sums, 22) / RESOLUTION, whole(sums, 29) / RESOLUTION
  pool, unrest = fraction(sums, 36), fraction(sums, 45)
  local a, b, c, d = byte(sums, 54, 57)
  high, holders = a * 256 + b, c * 256 + d
  width, expiry = whole(about, 8), whole(about, 15)
  if limit ~= ARGV[3] then
    local ok, list = pcall(cjson.decode, '[' .. limit .. ']')
    if not ok or not list or #list ~= 2 then
      return redis.error_reply('RATION bad state')
    end
    rate, burst, declared = list[1], list[2], sub(sums, 58)
  end
elseif sums or ends or about or record or redis.call('HLEN', KEYS[1]) > 0 then
  return redis.error_reply('RATION no ledger: a hash without state')
end

-- own is the lease that the holder comes back with.
local own
if record then
  own = parse(record)
  if not own then
    return redis.error_reply('RATION bad record of holder ' .. ARGV[1])
  end
  if seq <= own[1] then
    return 'stale,' .. sub(about, ABOUT + 1)
  end
end

-- open
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local steadyRefresh = floor(maxHold / 96) * 16
local slotWidth = floor(maxRefresh / 4)
if slotWidth < ceil(maxHold / ERA) then slotWidth = ceil(maxHold / ERA) end
if not sums then
  rate, burst, at, pool, rates, bursts, sum, low, high, unrest, width, holders, declared, expiry =
    newRate, newBurst, now, newBurst, 0, 0, 0, 0, 0, 0, slotWidth, 0, nil, 0
  ends = string.rep('\0', ENDS)
  if claim >= 0 then pool = 0 end
end
local ahead = about and sub(about, 22, 28) ~= '\0\0\0\0\0\0\0' and whole(about, 22) or 0
local t = now + ahead
if t < at then
  if t < at - STEP then ahead = at - now end
  t = at
  expiry = 0 -- do not rely on what another clock said
end

-- advance: all holders are looked at only when a lease has ended in a slot that
-- has passed, and those of eras more often when the key is not calm.
local none = string.rep('\0', ERAS * 2)
local due = slotWidth > width or sum > rate * CALM_DEMAND and sub(ends, SLOTS * 2 + 1) ~= none and
  floor(at / (width * EIGHTH)) < floor(t / (width * EIGHTH))
local slot, last = floor(at / width), floor(t / width)
if slot < last - SLOTS then slot = last - SLOTS end
while slot < last and not due do
  local i = slot % SLOTS * 2
  due = sub(ends, i + 1, i + 2) ~= '\0\0'
  slot = slot + 1
end
slot, last = floor(at / (width * ERA)), floor(t / (width * ERA))
if slot < last - ERAS then slot = last - ERAS end
while slot < last and not due do
  local i = (SLOTS + slot % ERAS) * 2
  due = sub(ends, i + 1, i + 2) ~= '\0\0'
  slot = slot + 1
end

-- place is where the calendar counts a lease, from when it was granted and
-- when something of it ends.
local function place(from, over)
  if over - from <= width * REACH then return floor(over / width) % SLOTS end
  return SLOTS + floor(over / (width * ERA)) % ERAS
end

local ended, gone
if due then
  ended, gone = {}, {}
  local fields = redis.call('HGETALL', KEYS[1])
  local leases, events = {}, {}
  for i = 1, #fields, 2 do
    local id, text = fields[i], fields[i + 1]
    if id ~= '#' and id ~= '@' and id ~= '=' then
      local r = parse(text)
      if not r then
        return redis.error_reply('RATION bad record of holder ' .. id)
      end
      leases[id] = r
      if r[3] > 0 and not r[10] and r[2] + r[5] <= t then
        events[#events + 1] = {r[2] + r[5], id, false, text}
      end
      if r[2] + r[6] <= t then
        events[#events + 1] = {r[2] + r[6], id, true}
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
      bursts, sum = bursts - r[4], sum - r[7]
      if r[9] then
        high = high - 1
      else
        low = low - r[7]
      end
      leases[id], ended[id], gone[id] = nil, nil, true
    else
      rates = rates - r[3]
      r[10] = true
      ended[id] = sub(e[4], 1, RECORD - 1) .. char(byte(e[4], RECORD) + 2)
    end
  end
  if slotWidth > width then width, expiry = slotWidth, 0 end
  local counts = {}
  for i = 1, SLOTS + ERAS do
    counts[i] = 0
  end
  -- The sums are what they were, unless somebody has tampered with them.
  holders, rates, bursts, sum, low, high = 0, 0, 0, 0, 0, 0
  for _, r in pairs(leases) do
    if not r[10] then rates = rates + r[3] end
    bursts, sum = bursts + r[4], sum + r[7]
    if r[9] then high = high + 1 else low = low + r[7] end
    local over = r[2] + r[6]
    if r[3] > 0 and not r[10] then over = r[2] + r[5] end
    slot = place(r[2], over) + 1
    counts[slot] = counts[slot] + 1
    holders = holders + 1
  end
  for i, n in ipairs(counts) do
    counts[i] = char(floor(n / 256), n % 256)
  end
  ends = table.concat(counts)
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

-- declare: nil is now
if declared and (newRate < rate or newRate == rate and newBurst <= burst or
  t - whole(declared, 1) > width * RAISE_AFTER) then
  rate, burst, limit, declared, expiry = newRate, newBurst, ARGV[3], nil, 0
end

-- What the holder comes back with. Its old lease ends here.
local intact, leased, ownSlot, life = false, false, nil, 0
if own then
  local ownAt, ownRate, ownUntil, ownDemand = own[2], own[3], own[2] + own[5], own[7]
  life = ceil(left * (1 + 2 * DRIFT)) + 1
  if life > ownAt + own[6] - t then life = ownAt + own[6] - t end
  local accrued, over = 0, ownAt + own[6]
  if not own[10] then
    rates = rates - ownRate
    accrued = ownUntil
    if t < accrued then accrued = t end
    accrued = ownRate * (accrued - ownAt) / 1000000
    if ownRate > 0 then over = ownUntil end
  end
  ownSlot = place(ownAt, over)
  leased = own[4] > 0
  bursts, sum = bursts - own[4], sum - ownDemand
  if own[9] then
    high = high - 1
  else
    low = low - ownDemand
  end
  intact = seen == own[1]
  local back, most = give, own[4] - ceil((held + spent) * RESOLUTION) / RESOLUTION
  local least = own[4] - ceil(held * RESOLUTION) / RESOLUTION
  if not intact then back = back + (own[8] + accrued) end
  if back > most then back = most end
  if least > 0 then least = 0 end
  if back < least then back = least end
  pool = pool + back
else
  holders = holders + 1
  if holders > MAX_HOLDERS then return 'stale,' .. sub(about, ABOUT + 1) end
  if claim >= 0 then
    life = width * ERA
    if left < life then life = left end
    pool = pool - ceil(held * RESOLUTION) / RESOLUTION
    local age = about and t - whole(about, 1) or 0
    if age < width * LONGEST_TERM then pool = pool - claim * age / 1000000 end
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
  local least = FEW_TRIPS
  if not leased then least = least * 2 end
  if contended then least = least * 2 end
  least = least * r * lag / 1000000
  if least < smallest then least = smallest end
  if mode == 0 and r * maxRefresh < 1000000 then r = 0 end
  if b >= 1 and (mode == 2 or b >= least) then lentRate, lentBurst = r, b end
end

-- calm
local calm = 0
if maxHold > maxRefresh and (mode == 0 or mode == 3) and demand + take > 0 and all <= rate * CALM_DEMAND
  and pool - take >= (burst - bursts) * CALM_POOL and demand * maxRefresh / 1000000 < smallest then
  local lend = burstShare * burst
  local half = lend * CALM_LENT
  local most = half - bursts
  if demand > 0 then
    local part = half * demand / all
    if part > lend - bursts then part = lend - bursts end
    if most < part then most = part end
  end
  local few, b = smallest * CALM_FIRST, demand * maxHold / 1000000
  if few > held then few = held end
  if b < few then b = few end
  if b < smallest then b = smallest end
  if b > smallest * CALM_MOST then b = smallest * CALM_MOST end
  local part = (pool - take) * CALM_BATCH
  if demand == 0 then b, part = smallest * CALM_FIRST, part / 2 end
  if b > part then b = part end
  if b > most then b = most end
  b = floor(b)
  if b >= smallest / 2 and b >= 2 * (demand * maxRefresh / 1000000) then
    calm, lentRate, lentBurst, share = b, 0, b, 1
  end
end

-- steady
local steady = false
if calm == 0 and mode == 0 and lentRate > 0 and all <= rate * STEADY_DEMAND and pool - take >= (burst - bursts) * CALM_POOL
  and steadyRefresh > maxRefresh and demand * maxRefresh / 1000000 >= smallest then
  local b = burstShare * burst * CALM_LENT * demand / all
  if b > lentBurst then b = lentBurst end
  b = floor(b)
  if b >= smallest then
    steady = true
    lentRate = wish < rate - rates and wish or rate - rates
    lentRate, lentBurst = floor(lentRate * RESOLUTION) / RESOLUTION, b
  end
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
if steady then
  refresh = steadyRefresh
elseif lentRate > 0 then
  refresh = batch * 1000000 / lentRate
  if refresh > maxRefresh then refresh = maxRefresh end
  refresh = refresh / (1 + HASTE * unrest)
  if refresh < minRefresh then refresh = minRefresh end
  if refresh < lag then refresh = lag end
  local crowd = holders * TURN_OF_CROWD
  if crowd > maxRefresh then crowd = maxRefresh end
  if refresh < crowd then refresh = crowd end
  refresh = floor(refresh)
end
local rateEnd = refresh + floor(maxRefresh / 4) + lag
local granted = rateEnd + refresh * TOKEN_LIFE
if steady then
  granted = rateEnd + refresh * STEADY_TAIL
elseif calm > 0 and calm >= held then
  refresh, rateEnd, granted, steady = maxHold, 0, maxHold, true
end
if life < granted then life = granted end

-- retry
local dry = contended and pool < (scarce > 1 and scarce or 1)
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
if above then
  high = high + 1
else
  low = low + demand
end
slot = place(t, t + (lentRate > 0 and rateEnd or life))
if slot ~= ownSlot then
  for step = -1, 1, 2 do
    local i = step < 0 and ownSlot or step > 0 and slot
    if i then
      local a, b = byte(ends, i * 2 + 1, i * 2 + 2)
      local n = a * 256 + b + step
      ends = sub(ends, 1, i * 2) .. char(floor(n / 256), n % 256) .. sub(ends, i * 2 + 3)
    end
  end
end

-- REACH slots are longer than any lease but those that eras count, and but for tokens
-- that outlive a rate which ends within them (a shorter lease after a long one): the
-- TTL that was set for these, unless it is set anew, covers them.
local longest = width * REACH
if holders > 1 and (expiry == 0 or sub(ends, SLOTS * 2 + 1) ~= none) then longest = width * ERA end
if longest < life then longest = life end
local ttl = (burst - pool) / rate * 1000000 + longest + 1000000
if ttl > MAX_TTL then ttl = MAX_TTL end
local expires = expiry < now + ttl
if expires then
  ttl = ceil(ttl * 1.25 / 1000)
  expiry = now + ttl * 1000
end

local stamp = bytes(t)
sums = stamp .. bytes(rates * RESOLUTION) .. bytes(bursts * RESOLUTION) .. bytes(all * RESOLUTION) ..
  bytes(low * RESOLUTION) .. fractionBytes(pool) .. fractionBytes(unrest) ..
  char(floor(high / 256), high % 256, floor(holders / 256), holders % 256) .. (declared or stamp)
record = bytes(seq) .. stamp .. bytes(lentRate * RESOLUTION) .. bytes(lentBurst * RESOLUTION) .. bytes(rateEnd) ..
  bytes(life) .. bytes(demand * RESOLUTION) .. fractionBytes(add) .. char(above and 1 or 0)
if expires then
  about = (about and sub(about, 1, 7) or stamp) .. bytes(width) .. bytes(expiry) .. bytes(ahead) .. limit
  redis.call('HSET', KEYS[1], '#', sums, '@', ends, '=', about, ARGV[1], record)
  redis.call('PEXPIRE', KEYS[1], format('%d', ttl))
else
  redis.call('HSET', KEYS[1], '#', sums, '@', ends, ARGV[1], record)
end
if due then
  for id, text in pairs(ended) do
    redis.call('HSET', KEYS[1], id, text)
  end
  for id in pairs(gone) do
    redis.call('HDEL', KEYS[1], id)
  end
end
local flags = (intact and 1 or 0) + (contended and 2 or 0) + (steady and 4 or 0) + (dry and 8 or 0)
return {record, keep * RESOLUTION, refresh, taken, retry, flags, holders, limit}
