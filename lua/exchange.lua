-- One exchange between a holder and the ledger of a key.
--
-- Go twin: lease.Ledger.Exchange, whose phases have the same names here, in the same
-- order. The same float64 operations in the same order, so that both give the
-- same replies and keep the same state for any history (TestTwins, FuzzTwins).
-- Read that one first: it has the reasons. Here l is the ledger, a the answer, r
-- a record and q the request.
--
-- KEYS[1]  the limited key: a hash of the ledger's state, in the fields #, @ and =,
--          and a record per holder, in a field of its id
-- ARGV[1]  the holder's id
-- ARGV[2]  the request: a JSON array of numbers. layout.go names its elements. The
--          demand is in 2^-20; claim and left are the rate of the claimed lease and
--          its time, or -1 and 0.
-- ARGV[3]  the last two, the limit that is declared, as they are to be kept: rate,burst
--          All must be valid by lease.Request.Validate.
--
-- Reply    an array: the holder's record as it is stored; keep (in 2^-20), refresh,
--          expires, taken, retry, flags (see layout.go), the number of holders; the
--          limit in force, as in ARGV[3]. All but the first and the last are whole
--          numbers.
--          stale,rate,burst if this seq or a later one has been answered, or there is
--          no room for another holder: nothing is changed or written.
--          An error 'RATION ...' if what is stored cannot be understood, or is of
--          another version.
--
-- Values   are strings of numbers, of fixed lengths, as layout.go says. The calendar,
--          in @, is counts of two bytes: 20 slots and 3 eras.
-- Units    tokens, tokens/s, whole µs. A record's refills (the end of its rate) and
--          life (the end of its tokens), refresh, expires and retry count from at.
-- Time     is this server's, read once; it never goes back, and goes on when that does.
-- Writes   come last: memory that has run out stops the first, and so all of
--          them. Records of others are read and written only after a lease has
--          ended.
-- TTL      at least the time to full, the longest lease and a second, so that a
--          key that expires is one that nobody would miss. It is a quarter
--          longer when set, and set again when it has run down to that: most
--          exchanges send replicas and the AOF a single HSET.

-- (prelude)

-- bucket.go

local function clock(l, now)
  local t = now + l.ahead
  if t < l.at then
    if t < l.at - CLOCK_STEP then l.ahead = l.at - now end
    l.expiry = 0 -- do not rely on what another clock said
    return l.at
  end
  return t
end

-- declare returns the text of the limit in force, of which limit is the one so far.
local function declare(l, q, t, limit)
  if (q.rate > l.rate or q.rate == l.rate and q.burst > l.burst) and
    t - l.declared <= l.slot * RAISE_AFTER then
    return limit
  end
  l.rate, l.burst, l.declared = q.rate, q.burst, t
  if limit ~= ARGV[3] then l.expiry = 0 end
  return ARGV[3]
end

local function refill(l, t)
  local free, room, pool = l.rate - l.rates, l.burst - l.bursts, l.pool
  if free < 0 then free = 0 end
  if room < 0 then room = pool < room and room or pool < 0 and pool or 0 end
  pool = pool + free * (t - l.at) / 1000000
  if pool > room then pool = room end
  l.pool, l.unrest, l.at = pool, l.unrest / (1 + (t - l.at) / CALMS_IN), t
end

-- trim leaves room in the bucket for what is lent and for burst.
local function trim(l, burst)
  local room = l.burst - l.bursts - burst
  if room < 0 then room = 0 end
  if l.pool > room then l.pool = room end
end

-- ends.go

local function slotWidth(q)
  local width, least = floor(q.maxRefresh / 4), ceil(q.maxHold / ERA)
  return width < least and least or width
end

local function refills(r) return r.shape == SLICE or r.shape == LONG_SLICE end

-- place is where the calendar counts a lease, from 0.
local function place(l, r)
  local after, width = r.life, l.slot
  if refills(r) and r.flags < ENDED then after = r.refills end
  local over = r.at + after
  if over - r.at <= width * REACH then return floor(over / width) % SLOTS end
  return SLOTS + floor(over / (width * ERA)) % ERAS
end

-- hasEras reports whether the calendar counts any lease in its three eras.
local function hasEras(ends) return sub(ends, SLOTS * 2 + 1) ~= '\0\0\0\0\0\0' end

-- due reports whether a lease may have ended until t: in a slot that has passed or, where
-- somebody may be waiting for it, perhaps in an era that has not.
local function due(l, q, t, ends)
  local at, width = l.at, l.slot
  local least, eighth = slotWidth(q), width * EIGHTH
  if least > width then return true end
  if l.demand > l.rate * CALM_DEMAND and floor(at / eighth) < floor(t / eighth) and
    hasEras(ends) then
    return true
  end
  local slot, last = floor(at / width), floor(t / width)
  if slot < last - SLOTS then slot = last - SLOTS end
  while slot < last do
    local i = slot % SLOTS * 2
    if sub(ends, i + 1, i + 2) ~= '\0\0' then return true end
    slot = slot + 1
  end
  slot, last = floor(at / (width * ERA)), floor(t / (width * ERA))
  if slot < last - ERAS then slot = last - ERAS end
  while slot < last do
    local i = (SLOTS + slot % ERAS) * 2
    if sub(ends, i + 1, i + 2) ~= '\0\0' then return true end
    slot = slot + 1
  end
end

-- subtract takes r out of the sums, but for its rate.
local function subtract(l, r)
  l.bursts, l.demand = l.bursts - r.burst, l.demand - r.demand
  if r.flags % 2 == HIGH then
    l.high = l.high - 1
  else
    l.low = l.low - r.demand
  end
end

-- finish goes through the leases that ended until t, in the order in which they did. It
-- returns what to write of records that have changed, false for those that have gone,
-- and leaves the others in leases.
local function finish(l, t, leases)
  local events, changed = {}, {}
  for id, r in pairs(leases) do
    if refills(r) and r.flags < ENDED and r.at + r.refills <= t then
      events[#events + 1] = {r.at + r.refills, id, false}
    end
    if r.at + r.life <= t then events[#events + 1] = {r.at + r.life, id, true} end
  end
  -- Events of one moment may come in any order: nothing flows in between, and
  -- the sums are exact. (Redis compares strings by its locale, Go by bytes.)
  table.sort(events, function(x, y) return x[1] < y[1] end)
  for _, e in ipairs(events) do
    local moment, id, r = e[1], e[2], leases[e[2]]
    refill(l, moment < l.at and l.at or moment)
    if e[3] then
      subtract(l, r)
      leases[id], changed[id] = nil, false
    else
      l.rates, r.flags = l.rates - r.rate, r.flags + ENDED
      changed[id] = writeRecord(r)
    end
  end
  return changed
end

-- count makes the sums and the calendar anew. They are what they were, unless somebody
-- has tampered with them.
local function count(l, leases)
  local counts = {}
  for i = 1, SLOTS + ERAS do
    counts[i] = 0
  end
  l.holders, l.rates, l.bursts, l.demand, l.low, l.high = 0, 0, 0, 0, 0, 0
  for _, r in pairs(leases) do
    if r.flags < ENDED then l.rates = l.rates + r.rate end
    l.bursts, l.demand = l.bursts + r.burst, l.demand + r.demand
    if r.flags % 2 == HIGH then l.high = l.high + 1 else l.low = l.low + r.demand end
    local slot = place(l, r) + 1
    counts[slot] = counts[slot] + 1
    l.holders = l.holders + 1
  end
  for i, n in ipairs(counts) do
    counts[i] = char(floor(n / 256), n % 256)
  end
  return table.concat(counts)
end

-- advance brings the bucket to time t. All holders are looked at only when a lease has
-- ended since the last time: it returns the calendar, and then their leases and what
-- finish returns, or an error.
local function advance(l, q, t, ends)
  local leases, changed
  if due(l, q, t, ends) then
    leases = {}
    local fields = redis.call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
      local id, text = fields[i], fields[i + 1]
      if id ~= '#' and id ~= '@' and id ~= '=' then
        if #text ~= RECORD then return nil, 'RATION bad record of holder ' .. id end
        leases[id] = readRecord(text)
      end
    end
    changed = finish(l, t, leases)
    local width = slotWidth(q)
    if width > l.slot then l.slot, l.expiry = width, 0 end
    ends = count(l, leases)
  end
  refill(l, t)
  return ends, leases, changed
end

-- ledger.go

-- refund takes what the holder hands back of its lease r.
local function refund(l, a, q, r)
  a.held, a.leased = q.held, r.shape ~= NONE
  a.left = ceil(q.left * (1 + 2 * DRIFT)) + 1
  if a.left > r.at + r.life - a.at then a.left = r.at + r.life - a.at end
  a.was = r.demand
  local accrued = r.at + r.refills
  if a.at < accrued then accrued = a.at end
  local missed = r.add + r.rate * (accrued - r.at) / 1000000
  if q.seen == r.seq then missed = missed - q.got end
  if missed < 0 then missed = 0 end
  local room = r.burst - ceil(q.peak * RESOLUTION) / RESOLUTION
  if missed > room then missed = room end
  if missed < 0 then missed = 0 end
  local back, most = q.give + missed, r.burst - ceil(q.held * RESOLUTION) / RESOLUTION
  if back > most then back = most end
  l.pool = l.pool + back
end

-- adopt debits a lease that a state which was lost has lent.
local function adopt(l, a, q)
  a.held, a.left = q.held, l.slot * ERA
  if q.left < a.left then a.left = q.left end
  l.pool = l.pool - ceil(a.held * RESOLUTION) / RESOLUTION
  local age = a.at - l.born
  if age < l.slot * LONGEST_TERM then l.pool = l.pool - q.claim * age / 1000000 end
end

-- takeBack ends the lease own that the holder comes back with.
local function takeBack(l, a, q, own)
  if own then
    if own.flags < ENDED then l.rates = l.rates - own.rate end
    subtract(l, own)
    refund(l, a, q, own)
  else
    l.holders = l.holders + 1
    if q.claim >= 0 then adopt(l, a, q) end
  end
  if a.held > 2 * MAX_BURST - l.bursts then a.held = 2 * MAX_BURST - l.bursts end
  a.floor = ceil(a.held * RESOLUTION) / RESOLUTION
  trim(l, a.floor)
end

-- serve takes tokens for the requests that wait.
local function serve(l, a, q)
  local room = l.burst - l.bursts - a.burst
  if room < 0 then room = 0 end
  a.scarce = q.reserve * room
  if a.contended and refills(a) then
    local others = l.rate - l.rates - a.rate
    if others < l.rate * l.unrest then others = l.rate * l.unrest end
    a.spared = others * q.maxRefresh / 1000000
    if a.spared > a.scarce then a.spared = a.scarce end
  end
  local avail = l.pool - a.spared
  if q.take > 0 and avail >= q.min then
    local taken = floor(avail < q.take and avail or q.take)
    if q.unit > 1 then taken = q.min + floor((taken - q.min) / q.unit) * q.unit end
    a.taken, l.pool = taken, l.pool - taken
  end
end

-- fill adds to the lease: its share of the pool, and what the pool has no room for.
local function fill(l, a, q)
  local pool, add = l.pool, 0
  if q.mode == BATCHES then
    add = q.batch - a.held
    if add > pool then add = pool end
    add = add > 0 and floor(add) or 0
    a.burst = ceil((a.held + add) * RESOLUTION) / RESOLUTION
    a.keep = a.burst
  elseif a.shape ~= NONE then
    local room = l.burst - l.bursts - a.burst
    if room < 0 then room = 0 end
    local most = a.contended and a.burst * FILLED or a.burst
    add = pool * a.share
    if add > pool - a.spared then add = pool - a.spared end
    if add > most - a.held then add = most - a.held end
    if add < pool - room then add = pool - room end
    if add < 0 then add = 0 end
    if add > a.burst - a.held then add = a.burst - a.held end
  end
  if a.shape == NONE and a.burst > 0 then a.shape = BATCH end
  a.add, l.pool = add, pool - add
  trim(l, a.burst)
end

-- divide.go

-- smallest is the smallest burst that is of use to the holder.
local function smallest(a, q, rate)
  local trips = FEW_TRIPS
  if not a.leased then trips = trips * 2 end
  if a.contended then trips = trips * 2 end
  trips = trips * rate * q.lag / 1000000
  return trips < q.smallest and q.smallest or trips
end

-- slice lends a slice or a plain batch, or nothing.
local function slice(l, a, q, target)
  local lend = q.burstShare * l.burst
  local burst = lend * a.share
  if burst > lend - l.bursts then burst = lend - l.bursts end
  burst = floor(burst)
  if burst < 1 then return end

  local room, refresh = l.burst - l.bursts - burst, q.maxRefresh
  if room < 1 then room = 1 end
  local above = l.pool > 0 and l.pool / room or 0
  if above > 1 then above = 1 end
  above = burst * above + sqrt(a.demand * refresh / 1000000)
  local need = a.demand + (above - a.held) * 1000000 / refresh
  if need < 0 then need = 0 end
  if target > need then target = need end
  if target > l.rate - l.rates then target = l.rate - l.rates end
  local rate = floor(target * RESOLUTION) / RESOLUTION
  if rate < 0 then rate = 0 end

  if q.mode == AUTO then
    if burst < smallest(a, q, rate) then return end
    if rate * refresh < 1000000 then rate = 0 end
  end
  a.shape, a.rate, a.burst = rate > 0 and SLICE or BATCH, rate, burst
end

-- long.go

-- calm reports whether all together want at most a part of the rate, and the pool is
-- half full.
local function calm(l, sum, part, left)
  return sum <= l.rate * part and left >= (l.burst - l.bursts) * CALM_POOL
end

-- longBatch lends a batch for MaxHold, in place of what has been found.
local function longBatch(l, a, q, sum)
  local demand, left, smallest = a.demand, l.pool - q.take, q.smallest
  if q.maxHold <= q.maxRefresh or q.mode ~= AUTO and q.mode ~= PER_REQUEST or
    demand + q.take == 0 or not calm(l, sum, CALM_DEMAND, left) then
    return false
  end
  local used = demand * q.maxRefresh / 1000000
  if used >= smallest then return false end
  local lend = q.burstShare * l.burst
  local half = lend * CALM_LENT
  local most, need, part = half - l.bursts, smallest * CALM_FIRST, left * CALM_BATCH / 2
  if demand > 0 then
    local fair = half * demand / sum
    if fair > lend - l.bursts then fair = lend - l.bursts end
    if most < fair then most = fair end
    local few = need < a.held and need or a.held
    if few < smallest then few = smallest end
    need = demand * q.maxHold / 1000000
    if need < few then need = few end
    if need > smallest * CALM_MOST then need = smallest * CALM_MOST end
    part = left * CALM_BATCH
  end
  if need > part then need = part end
  if need > most then need = most end
  local batch = floor(need)
  if batch < smallest / 2 or batch < 2 * used then return false end
  a.shape, a.rate, a.burst, a.share = LONG_BATCH, 0, batch, 1
  if batch < a.held then a.shape = BATCH end
  return true
end

local function longRefresh(q) return floor(q.maxHold / 96) * 16 end

-- longSlice lends a slice for a sixth of MaxHold, in place of a plain one.
local function longSlice(l, a, q, sum)
  if q.mode ~= AUTO or not calm(l, sum, STEADY_DEMAND, l.pool - q.take) or
    longRefresh(q) <= q.maxRefresh or a.demand * q.maxRefresh / 1000000 < q.smallest then
    return
  end
  local burst = q.burstShare * l.burst * CALM_LENT * a.demand / sum
  if burst > a.burst then burst = a.burst end
  burst = floor(burst)
  if burst < q.smallest then return end
  local rate = a.demand * (1 + q.headroom)
  if rate > l.rate - l.rates then rate = l.rate - l.rates end
  a.shape, a.rate, a.burst = LONG_SLICE, floor(rate * RESOLUTION) / RESOLUTION, burst
end

-- divide.go

-- divide decides what the holder is lent, by its demand and that of all.
local function divide(l, a, q)
  local demand, ahead = q.demand / RESOLUTION, 1 + q.headroom
  if demand > 2 * MAX_RATE - l.demand then demand = 2 * MAX_RATE - l.demand end
  local sum = l.demand + demand
  local shift, larger = demand - a.was, demand
  if shift < 0 then shift = -shift end
  if larger < a.was then larger = a.was end
  if shift >= SHIFTED * larger then
    l.unrest = l.unrest + shift / (sum > l.rate and sum or l.rate)
  end
  a.demand, a.fair, a.contended = demand, demand, sum > l.rate * CONTENTION

  local wish, level = demand * ahead, (l.rate - l.low * ahead) / (l.high + 1)
  if wish > level then a.flags = HIGH end
  if (q.mode == AUTO or q.mode == SHARES) and demand > 0 then
    local target = l.rate / sum
    if target > ahead then target = ahead end
    target = demand * target
    if q.fairness == MAX_MIN then
      target = wish < level and wish or level
      if target < 0 then target = 0 end
    end
    if target < demand then a.fair = target end
    local all = sum * ahead
    a.share = target / (all < l.rate and all or l.rate)
    if a.share > 1 then a.share = 1 end
    slice(l, a, q, target)
  end
  if not longBatch(l, a, q, sum) and a.shape == SLICE then longSlice(l, a, q, sum) end
  a.keep = a.burst
  if a.burst < a.floor then a.burst = a.floor end
end

-- term.go

-- refresh is when the holder of a slice should come back.
local function refresh(l, a, q, lag)
  local longest, refresh = q.maxRefresh, q.batch * 1000000 / a.rate
  if refresh > longest then refresh = longest end
  refresh = refresh / (1 + HASTE * l.unrest)
  if refresh < q.minRefresh then refresh = q.minRefresh end
  if refresh < lag then refresh = lag end
  local crowd = l.holders * TURN_OF_CROWD
  if crowd > longest then crowd = longest end
  if refresh < crowd then refresh = crowd end
  return floor(refresh)
end

-- term is when the holder should come back, until when it may refill by itself, and when
-- its tokens die.
local function term(l, a, q)
  local longest, lag, tail = q.maxRefresh, q.lag, TOKEN_LIFE
  if lag > longest then lag = longest end
  a.refresh = longest
  if a.shape == LONG_BATCH then
    a.refresh, tail = q.maxHold, 1
  elseif a.shape == LONG_SLICE then
    a.refresh, tail = longRefresh(q), LONG_TAIL
  elseif a.shape == SLICE then
    a.refresh = refresh(l, a, q, lag)
  end
  if a.shape ~= LONG_BATCH then a.refills = a.refresh + floor(longest / 4) + lag end
  a.granted = a.refills + a.refresh * tail
  a.life = a.granted < a.left and a.left or a.granted
end

-- wait is when the pool may have what was denied.
local function wait(l, a, q)
  local missing = (q.min > 1 and a.taken == 0 and q.min or 1) - l.pool
  local free, longest = l.rate - l.rates - a.rate, q.maxRefresh / 1000000
  local guess = missing / (free > 0.000001 and free or 0.000001)
  if guess > longest then guess = longest end
  local wait = missing / l.rate
  if l.bursts > 0 or wait < guess then wait = guess end
  return ceil(wait * 1000000)
end

-- turn is when a holder that is too small for a lease should ask again.
local function turn(l, a, q, scarce)
  if a.keep > 0 or q.take == 0 or a.fair >= a.demand or l.pool >= scarce then return 0 end
  local n = a.taken > q.min and a.taken or q.min
  if n < 1 then n = 1 end
  local wait = n * (a.demand - a.fair) / (a.demand * a.fair) *
    (1 - (l.pool > 0 and l.pool or 0) / scarce)
  wait = wait * 1000000
  local free = l.rate - l.rates - a.rate
  if free < 0.000001 then free = 0.000001 end
  local full = (l.burst - l.bursts - a.burst - l.pool) * 1000000 / free - q.lag
  if full < 0 then full = 0 end
  if wait > full then wait = full end
  if wait > q.maxRefresh then wait = q.maxRefresh end
  return ceil(wait)
end

-- retry is how long the holder shall not ask again, and whether the pool has run dry.
local function retry(l, a, q)
  local scarce = a.scarce > 1 and a.scarce or 1
  a.dry = a.contended and l.pool < scarce
  local denied = q.take > a.taken or q.mode == BATCHES and a.keep == 0
  if refills(a) and (denied or a.contended and l.pool < a.scarce) then
    a.retry = a.refresh
    return
  end
  local retry = turn(l, a, q, scarce)
  if denied then
    local wait = wait(l, a, q)
    if retry < wait then retry = wait end
    if retry < 1000 then retry = 1000 end
    if retry > MAX_FILL then retry = MAX_FILL end
  end
  a.retry = retry
end

-- insert puts the record in the place of own, and returns the calendar.
local function insert(l, a, own, ends)
  l.rates, l.bursts, l.demand = l.rates + a.rate, l.bursts + a.burst, l.demand + a.demand
  if a.flags == HIGH then
    l.high = l.high + 1
  else
    l.low = l.low + a.demand
  end
  local old, new = own and place(l, own), place(l, a)
  if old == new then return ends end
  for step = -1, 1, 2 do
    local slot = step < 0 and old or step > 0 and new
    if slot then
      local high, low = byte(ends, slot * 2 + 1, slot * 2 + 2)
      local n = high * 256 + low + step
      ends = sub(ends, 1, slot * 2) .. char(floor(n / 256), n % 256) .. sub(ends, slot * 2 + 3)
    end
  end
  return ends
end

-- Some pools are so far below 0 that they never fill: a hundred years, in µs, are the
-- longest TTL.
local maxTTL = 3153600000000000

-- lifetime returns the TTL to set, in ms, if that which was set does not suffice.
local function lifetime(l, a, now, ends)
  -- REACH slots are longer than any lease but those that eras count, and but for
  -- tokens that outlive a rate which ends within them (a shorter lease after a long
  -- one): the TTL that was set for these, unless it is set anew, covers them.
  local longest = l.slot * REACH
  if l.holders > 1 and (l.expiry == 0 or hasEras(ends)) then
    longest = l.slot * ERA
  end
  if longest < a.life then longest = a.life end
  local ttl = (l.burst - l.pool) / l.rate * 1000000 + longest + 1000000
  if ttl > maxTTL then ttl = maxTTL end
  if l.expiry >= now + ttl then return nil end
  ttl = ceil(ttl * 1.25 / 1000)
  l.expiry = now + ttl * 1000
  return ttl
end

local stored = redis.pcall('HMGET', KEYS[1], '#', '@', '=', ARGV[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local sums, ends, about, record = stored[1], stored[2], stored[3], stored[4]
local q = cjson.decode(ARGV[2])
local limit, l = ARGV[3], nil
if sums or ends or about or record or redis.call('HLEN', KEYS[1]) > 0 then
  local wrong = flaw(sums, ends, about)
  if wrong then return redis.error_reply(wrong) end
  l, limit = readState(sums, about), sub(about, ABOUT + 1)
  l.rate, l.burst = q.rate, q.burst
  if limit ~= ARGV[3] then
    local ok, list = pcall(cjson.decode, '[' .. limit .. ']')
    if not ok or not list or #list ~= 2 then return redis.error_reply('RATION bad state') end
    l.rate, l.burst = list[1], list[2]
  end
end
local own
if record then
  if #record ~= RECORD then
    return redis.error_reply('RATION bad record of holder ' .. ARGV[1])
  end
  own = readRecord(record)
  if q.seq <= own.seq then return 'stale,' .. limit end
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if not l then -- open
  l = {
    version = VERSION, at = now, rates = 0, bursts = 0, demand = 0, low = 0, pool = 0,
    unrest = 0, high = 0, holders = 0, declared = now, born = now, slot = slotWidth(q),
    expiry = 0, ahead = 0, rate = q.rate, burst = q.burst,
  }
  if q.claim < 0 then l.pool = l.burst end
  ends = string.rep('\0', (SLOTS + ERAS) * 2)
end
local t = clock(l, now)
local leases, changed
ends, leases, changed = advance(l, q, t, ends)
if not ends then return redis.error_reply(leases) end
if leases then own = leases[ARGV[1]] end
if not own and l.holders >= MAX_HOLDERS then return 'stale,' .. limit end
limit = declare(l, q, t, limit)

local a = {
  seq = q.seq, at = t, rate = 0, burst = 0, refills = 0, life = 0, demand = 0, add = 0,
  shape = NONE, flags = 0, keep = 0, refresh = 0, granted = 0, taken = 0, retry = 0,
  contended = false, dry = false, held = 0, floor = 0, left = 0,
  leased = false, was = 0, share = 0, fair = 0, scarce = 0, spared = 0,
}
takeBack(l, a, q, own)
divide(l, a, q)
serve(l, a, q)
fill(l, a, q)
term(l, a, q)
retry(l, a, q)
ends = insert(l, a, own, ends)

local ttl = lifetime(l, a, now, ends)
sums, record = writeSums(l), writeRecord(a)
if ttl then
  about = writeAbout(l) .. limit
  redis.call('HSET', KEYS[1], '#', sums, '@', ends, '=', about, ARGV[1], record)
  redis.call('PEXPIRE', KEYS[1], format('%d', ttl))
else
  redis.call('HSET', KEYS[1], '#', sums, '@', ends, ARGV[1], record)
end
if changed then
  changed[ARGV[1]] = nil -- is written
  for id, text in pairs(changed) do
    if text then
      redis.call('HSET', KEYS[1], id, text)
    else
      redis.call('HDEL', KEYS[1], id)
    end
  end
end
local flags = (a.contended and CONTENDED or 0) + (a.dry and DRY or 0)
return {
  record, a.keep * RESOLUTION, a.refresh, a.granted, a.taken, a.retry, flags, l.holders, limit,
}
