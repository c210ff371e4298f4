-- One exchange between a holder and the ledger of a key.
--
-- Go twin: lease.Ledger.Exchange, whose phases have the same names here, in the same
-- order. The same float64 operations in the same order, so that both give the
-- same replies and keep the same state for any history (TestTwins, FuzzTwins).
-- Read that one first: it has the reasons. Here l is the ledger, a the answer, own
-- the lease that the holder comes back with, r another one, and q the request.
-- assemble.go says how the phases come to cost no more than code without functions.
--
-- KEYS[1]  the limited key: a hash of the ledger's state, in the fields #, @ and =,
--          and a record per holder, in a field of its id. While live holders declare
--          several limits, each of these is in a field, %1 and so on.
-- ARGV[1]  the holder's id
-- ARGV[2]  the request: a JSON array of numbers. layout.go names its elements. The
--          demand is in 2^-20; claim and left are the rate of the claimed lease and
--          its time, or -1 and 0.
-- ARGV[3]  the last two, the limit that is declared, as they are to be kept: rate,burst
--          All must be valid by lease.Request.Validate.
--
-- Reply    an array: the holder's record and the sums as they are stored; keep (in
--          2^-20), refresh, expires, taken, retry, flags (see layout.go); the limit in
--          force, as in ARGV[3]. All but the first two and the last are whole numbers.
--          stale,rate,burst if this seq or a later one has been answered, by a lease
--          that has not ended, or there is no room for another holder: nothing is
--          changed or written.
--          An error 'RATION ...' if what is stored cannot be understood, or is of
--          another version.
--
-- Values   are strings of numbers, of fixed lengths, as layout.go says. The calendar,
--          in @, is counts of two bytes: 20 slots and 3 eras; after these l.pass, as
--          text, while a pass through the leases is under way.
-- Units    tokens, tokens/s, whole µs. A record's refills (the end of its rate) and
--          life (the end of its tokens), refresh, expires and retry count from at.
-- Time     is this server's, read once; it never goes back, and goes on when that does.
-- Writes   come last: memory that has run out stops the first, and so all of
--          them. Records of others are read and written only after a lease has
--          ended: all of them, or where there are more than LOOKS, about so many at
--          each exchange.
-- TTL      at least the time to full, the longest lease and a second, so that a
--          key that expires is one that nobody would miss. It is a quarter
--          longer when set, and set again when it has run down to that: most
--          exchanges send replicas and the AOF a single HSET.

-- (prelude)
local l, a, own = {}, {}, {}

-- bucket.go

-- clock sets a.at, the time of this exchange.
local function clock(l, a, now)
  a.at = now + l.ahead
  if a.at < l.at then
    if a.at < l.at - CLOCK_STEP then l.ahead = l.at - now end
    a.at = l.at
    l.expiry = 0 -- do not rely on what another clock said
  end
end

local function refill(l, t)
  local free, room = l.rate - l.rates, l.burst - l.bursts
  if free < 0 then free = 0 end
  if room < 0 then room = l.pool < room and room or l.pool < 0 and l.pool or 0 end
  l.pool = l.pool + free * (t - l.at) / 1000000
  if l.pool > room then l.pool = room end
  l.unrest = l.unrest / (1 + (t - l.at) / CALMS_IN)
  l.at = t
end

-- limits.go

-- limits reads those that are declared into l.list, by place, from 1, if there are
-- several, or sets l.wrong.
local function limits(l)
  if l.places > 0 then
    local fields = {}
    for i = 1, l.places do
      fields[i] = format('%%%d', i)
    end
    l.texts, l.list = redis.call('HMGET', KEYS[1], unpack(fields)), {}
    for i = 1, l.places do
      local text = l.texts[i]
      if text and #text == DECLARED then
        local rate, burst, holders = readDeclared(text)
        l.list[i] = {rate, burst, holders}
        if rate <= 0 or burst < 1 then l.wrong = 'RATION bad state' end
      elseif text then
        l.wrong = 'RATION bad state'
      end
    end
  end
end

-- join counts a holder that declares this limit.
local function join(l, a, q)
  local same, free, lowest
  for i = 1, MAX_LIMITS do
    local d = l.list[i]
    if not d then
      free = free or i
    elseif d[1] == q.rate and d[2] == q.burst then
      same = i
    elseif not lowest or d[1] < l.list[lowest][1] or
      d[1] == l.list[lowest][1] and d[2] < l.list[lowest][2] then
      lowest = i
    end
  end
  local i = same or free or lowest
  local d = l.list[i] or {q.rate, q.burst, 0}
  if d[1] > q.rate then d[1] = q.rate end
  if d[2] > q.burst then d[2] = q.burst end
  d[3] = d[3] + 1
  l.list[i], a.limit = d, i
end

-- leave counts a holder less of the limit in this place.
local function leave(l, place)
  local d = l.list and l.list[place]
  if d then
    d[3] = d[3] - 1
    if d[3] <= 0 then l.list[place] = nil end
  end
end

-- inForce finds the lowest of them. Where there is one, no list is kept.
local function inForce(l, a, q)
  local n, last, rate, burst = 0, 0, q.rate, q.burst
  for i, d in pairs(l.list) do
    n = n + 1
    if last < i then last = i end
    if rate > d[1] then rate = d[1] end
    if burst > d[2] then burst = d[2] end
  end
  if n == 1 then l.only, last = a.limit, 0 end
  local text = ARGV[3]
  if rate ~= q.rate or burst ~= q.burst then text = format('%.17g,%.0f', rate, burst) end
  if text ~= l.limit or last ~= l.places then l.expiry = 0 end
  l.rate, l.burst, l.limit, l.places = rate, burst, text, last
end

-- declare counts what the holder declares, and puts the lowest of all in force.
local function declare(l, a, q, own)
  a.limit = l.only
  if l.places > 0 or l.limit ~= ARGV[3] then
    if not l.list then
      l.list, own.limit = {}, l.only
      if l.holders > 0 then l.list[l.only] = {l.rate, l.burst, l.holders} end
    end
    local d = own.seq and l.list[own.limit]
    if d and d[1] == q.rate and d[2] == q.burst then
      a.limit = own.limit
    else
      if d then
        local place = own.limit
        leave(l, place)
      end
      join(l, a, q)
    end
    inForce(l, a, q)
  end
end

-- writeLimits writes what has changed of the list. (Its fields go with it.)
local function writeLimits(l)
  local texts = l.texts or {}
  for i = 1, l.places > #texts and l.places or #texts do
    local d, text = l.places > 0 and l.list[i], false
    if d then text = writeDeclared(d[1], d[2], d[3]) end
    if text and text ~= texts[i] then
      redis.call('HSET', KEYS[1], format('%%%d', i), text)
    elseif texts[i] and not text then
      redis.call('HDEL', KEYS[1], format('%%%d', i))
    end
  end
end

-- ends.go

local function slotWidth(q)
  local width, least = floor(q.maxRefresh / 4), ceil(q.maxHold / ERA)
  return width < least and least or width
end

-- place is where the calendar counts a lease, from 0.
local function place(width, at, after, life, shape, flags)
  if flags >= ENDED or shape ~= SLICE and shape ~= LONG_SLICE then after = life end
  if after <= width * REACH then return floor((at + after) / width) % SLOTS end
  return SLOTS + floor((at + after) / (width * ERA)) % ERAS
end

-- due tells by l.due whether a lease may have ended until t.
local function due(l, q, t)
  local at, width = l.at, l.slot
  local eighth, eras = width * EIGHTH, width * ERA
  l.width = slotWidth(q)
  l.due = l.width > width or (l.demand > l.rate * CALM_DEMAND or l.places > 0) and
    floor(at / eighth) < floor(t / eighth) and sub(l.ends, SLOTS * 2 + 1) ~= '\0\0\0\0\0\0'
  local slot, last = floor(at / width), floor(t / width)
  if slot < last - SLOTS then slot = last - SLOTS end
  while slot < last and not l.due do
    local i = slot % SLOTS * 2
    l.due = sub(l.ends, i + 1, i + 2) ~= '\0\0'
    slot = slot + 1
  end
  slot, last = floor(at / eras), floor(t / eras)
  if slot < last - ERAS then slot = last - ERAS end
  while slot < last and not l.due do
    local i = (SLOTS + slot % ERAS) * 2
    l.due = sub(l.ends, i + 1, i + 2) ~= '\0\0'
    slot = slot + 1
  end
end

-- holders sets l.leases, of all holders, or l.wrong. Where there are more than LOOKS, it
-- looks at about so many and remembers where to go on: l.pass is twice the cursor, and
-- 1 more if leases have ended since this pass began, so that another one must follow.
-- A lease that is noticed late is only wasted, as one is whose slot has not passed.
-- (So large a hash is a table, of which HSCAN gives parts. miniredis gives all.)
local function holders(l)
  local fields
  l.leases, l.whole = {}, l.holders <= LOOKS
  if l.whole then
    fields, l.pass = redis.call('HGETALL', KEYS[1]), 0
  else
    local cursor, again = floor(l.pass / 2), l.pass % 2
    if cursor == 0 then
      again = 0
    elseif l.due then
      again = 1
    end
    local page = redis.call('HSCAN', KEYS[1], format('%.0f', cursor), 'COUNT', LOOKS)
    cursor, fields = tonumber(page[1]), page[2]
    if cursor > 4503599627370495 then cursor = 0 end -- 2^52: no pass is as long
    l.pass = cursor * 2 + again
  end
  for i = 1, #fields, 2 do
    local id, text = fields[i], fields[i + 1]
    if id ~= '#' and id ~= '@' and id ~= '=' and byte(id) ~= 37 then -- 37 is %
      if #text ~= RECORD then
        l.wrong = 'RATION bad record of holder ' .. id
        break
      end
      l.leases[id] = {readRecord(text)}
    end
  end
end

-- finish goes through the leases that ended until t, in the order in which they did. It
-- sets l.changed: what to write of records, and false for those that have gone.
local function finish(l, t)
  local events, till = {}, t
  l.changed = {}
  for id, r in pairs(l.leases) do
    local ends, dies = r.at + r.refills, r.at + r.life
    if (r.shape == SLICE or r.shape == LONG_SLICE) and r.flags < ENDED and ends <= till then
      events[#events + 1] = {ends, id, false}
    end
    if dies <= till then events[#events + 1] = {dies, id, true} end
  end
  -- Events of one moment may come in any order: nothing flows in between, and
  -- the sums are exact. (Redis compares strings by its locale, Go by bytes.)
  table.sort(events, function(x, y) return x[1] < y[1] end)
  for _, event in ipairs(events) do
    local t, id, r = event[1], event[2], l.leases[event[2]]
    if t < l.at then t = l.at end
    refill(l, t)
    if not event[3] then
      l.rates, r.flags = l.rates - r.rate, r.flags + ENDED
      l.changed[id] = writeRecord(unpack(r))
    else
      l.holders = l.holders - 1
      l.bursts, l.demand = l.bursts - r.burst, l.demand - r.demand
      if r.flags % 2 == HIGH then l.high = l.high - 1 else l.low = l.low - r.demand end
      if r.flags % ENDED >= MARKED then l.earmark = 0 end
      local place = r.limit
      leave(l, place)
      l.leases[id], l.changed[id] = nil, false
    end
  end
end

-- lift takes the leases that are looked at out of the calendar, into l.counts.
local function lift(l)
  l.counts = {}
  for i = 1, SLOTS + ERAS do
    local high, low = byte(l.ends, i * 2 - 1, i * 2)
    l.counts[i] = l.whole and 0 or high * 256 + low
  end
  if not l.whole then
    for _, r in pairs(l.leases) do
      local slot = r.place + 1
      if (l.counts[slot] or 0) > 0 then l.counts[slot] = l.counts[slot] - 1 end
    end
  end
end

-- count makes the sums anew, if all are looked at. They are what they were, unless somebody
-- has tampered with them.
local function count(l)
  if l.whole then
    l.holders, l.rates, l.bursts, l.demand, l.low, l.high = 0, 0, 0, 0, 0, 0
    for _, r in pairs(l.leases) do
      if r.flags < ENDED then l.rates = l.rates + r.rate end
      l.bursts, l.demand = l.bursts + r.burst, l.demand + r.demand
      if r.flags % 2 == HIGH then l.high = l.high + 1 else l.low = l.low + r.demand end
      l.holders = l.holders + 1
    end
  end
end

-- lay puts those that have not ended back into the calendar.
local function lay(l)
  for id, r in pairs(l.leases) do
    local slot = place(l.slot, r.at, r.refills, r.life, r.shape, r.flags)
    l.counts[slot + 1] = l.counts[slot + 1] + 1
    if slot ~= r.place then
      r.place = slot
      l.changed[id] = writeRecord(unpack(r))
    end
  end
  for i, n in ipairs(l.counts) do
    l.counts[i] = char(floor(n / 256), n % 256)
  end
  l.ends = table.concat(l.counts)
end

-- advance brings the bucket to time t. Holders are looked at only when a lease has ended
-- since the last time.
local function advance(l, q, t)
  due(l, q, t)
  if l.due or l.pass > 0 then
    holders(l)
    if not l.wrong then
      lift(l)
      finish(l, t)
      if l.width > l.slot then l.slot, l.expiry = l.width, 0 end
      count(l)
      lay(l)
    end
  end
  refill(l, t)
end

-- ledger.go

-- remove takes the holder's lease out of the sums. The calendar has it until insert.
local function remove(l, own)
  if own.flags < ENDED then l.rates = l.rates - own.rate end
  l.bursts, l.demand = l.bursts - own.burst, l.demand - own.demand
  if own.flags % 2 == HIGH then l.high = l.high - 1 else l.low = l.low - own.demand end
  if own.flags % ENDED >= MARKED then l.earmark = 0 end
end

-- refund takes what the holder hands back of it.
local function refund(l, a, q, own)
  a.held, a.leased = q.held, own.shape ~= NONE
  local dies = own.at + own.life - a.at
  a.left = ceil(q.left * (1 + 2 * DRIFT)) + 1
  if a.left > dies then a.left = dies end
  a.was = own.demand
  local accrued = own.at + own.refills
  if a.at < accrued then accrued = a.at end
  local missed = own.add + own.rate * (accrued - own.at) / 1000000
  if q.seen == own.seq then missed = missed - q.got end
  if q.seen > own.seq then missed = 0 end
  local room = own.burst - ceil(q.peak * RESOLUTION) / RESOLUTION
  if missed > room then missed = room end
  if missed < 0 then missed = 0 end
  local back, most = q.give + missed, own.burst - ceil(q.held * RESOLUTION) / RESOLUTION
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

-- takeBack ends the lease that the holder comes back with.
local function takeBack(l, a, q, own)
  if own.seq then
    remove(l, own)
  else
    l.holders = l.holders + 1
  end
  if own.seq and q.seq > own.seq then
    refund(l, a, q, own)
  elseif q.claim >= 0 then
    adopt(l, a, q)
  end
  if a.held > 2 * MAX_BURST - l.bursts then a.held = 2 * MAX_BURST - l.bursts end
  a.floor = ceil(a.held * RESOLUTION) / RESOLUTION
  local room = l.burst - l.bursts - a.floor
  if room < 0 then room = 0 end
  if l.pool > room then l.pool = room end
end

-- serve takes tokens for the requests that wait.
local function serve(l, a, q)
  local room = l.burst - l.bursts - a.burst
  if room < 0 then room = 0 end
  a.scarce, a.spared = q.reserve * room, 0
  if a.contended and (a.shape == SLICE or a.shape == LONG_SLICE) then
    local others = l.rate - l.rates - a.rate
    if others < l.rate * l.unrest then others = l.rate * l.unrest end
    a.spared = others * q.maxRefresh / 1000000
    if a.spared > a.scarce then a.spared = a.scarce end
  end
  if a.scarce < l.earmark then a.scarce = l.earmark end
  if a.spared < l.earmark then a.spared = l.earmark end
  local avail = l.pool - a.spared
  if q.take > 0 and avail >= q.min then
    a.taken = floor(avail < q.take and avail or q.take)
    if q.unit > 1 then a.taken = q.min + floor((a.taken - q.min) / q.unit) * q.unit end
    l.pool = l.pool - a.taken
  end
end

-- fill adds to the lease: its share of the pool, and what the pool has no room for.
local function fill(l, a, q)
  local add, room = 0, l.burst - l.bursts - a.burst
  if room < 0 then room = 0 end
  if q.mode == BATCHES then
    add = q.batch - a.held
    if add > l.pool - l.earmark then add = l.pool - l.earmark end
    add = add > 0 and floor(add) or 0
    a.burst = ceil((a.held + add) * RESOLUTION) / RESOLUTION
    a.keep = l.burst - l.bursts - l.earmark
    if a.keep < 0 then a.keep = 0 end
    if a.keep > a.burst then a.keep = a.burst end
    room = l.burst - l.bursts - a.burst
    if room < 0 then room = 0 end
  elseif a.shape ~= NONE then
    local most = a.contended and a.burst * FILLED or a.burst
    add = l.pool * a.share
    if add > l.pool - a.spared then add = l.pool - a.spared end
    if add > most - a.held then add = most - a.held end
    if add < l.pool - room then add = l.pool - room end
    if add < 0 then add = 0 end
    if add > a.burst - a.held then add = a.burst - a.held end
  end
  if a.shape == NONE and a.burst > 0 then a.shape = BATCH end
  a.add, l.pool = add, l.pool - add
  if l.pool > room then l.pool = room end
end

-- insert puts the new lease in the place of the old one.
local function insert(l, a, own)
  l.rates, l.bursts, l.demand = l.rates + a.rate, l.bursts + a.burst, l.demand + a.demand
  if a.flags % 2 == HIGH then l.high = l.high + 1 else l.low = l.low + a.demand end
  a.place = place(l.slot, a.at, a.refills, a.life, a.shape, a.flags)
  local old, new = own.seq and own.place, a.place
  if old ~= new then
    for step = -1, 1, 2 do
      local slot = step < 0 and old or step > 0 and new
      if slot then
        local high, low = byte(l.ends, slot * 2 + 1, slot * 2 + 2)
        local n = high * 256 + low + step
        l.ends = sub(l.ends, 1, slot * 2) .. char(floor(n / 256), n % 256) ..
          sub(l.ends, slot * 2 + 3)
      end
    end
  end
end

-- earmark.go

-- lend is how much may be lent.
local function lendable(l, q)
  local lend = q.burstShare * l.burst
  if lend > l.burst - l.earmark then lend = l.burst - l.earmark end
  if lend < 0 then lend = 0 end
  l.lend = lend
end

-- earmarks keeps tokens for the holder, if it has been denied a request for several.
local function earmarks(l, a, q, own)
  local first = not own.seq or own.flags % ENDED < MARKED
  local coin = (a.at % 65536 * 40503 + a.seq % 65536) % 65536
  if l.earmark == 0 and q.min > 1 and q.min <= l.burst and
    (l.rates > 0 or not first or l.pool * FEW < q.min) and
    (a.taken == 0 or a.contended and coin < 32768) then
    local due = a.fair * q.maxRefresh / 1000000 * REFRESHES
    if due > q.take then due = q.take end
    if due > l.burst / 2 then due = l.burst / 2 end
    due = floor(due)
    l.earmark, a.flags = q.min > due and q.min or due, a.flags + MARKED
    local demand = a.demand > 0.000001 and a.demand or 0.000001
    local expected = floor(q.min * WAITS * 1000000 / demand)
    local longest = q.maxHold
    if l.earmark * 2 > l.burst then
      local filled = floor(l.earmark * 2 * 1000000 / l.rate) + q.maxRefresh * REFRESHES
      if longest > filled then longest = filled end
    end
    if expected > longest then expected = longest end
    if a.burst == 0 and a.life < expected then a.life = expected end
  end
end

-- divide.go

-- slice lends a slice or a plain batch, or nothing.
local function slice(l, a, q, target)
  local burst, most = l.lend * a.share, l.lend * target / l.rate
  local trips = FEW_TRIPS
  if not a.leased then trips = trips * 2 end
  if a.contended then trips = trips * 2 end
  local far = ceil(trips * target * q.lag / 1000000)
  if most < q.batch then most = q.batch end
  if a.was > 0 and most < far then most = far end
  if burst > most then burst = most end
  if burst > l.lend - l.bursts then burst = l.lend - l.bursts end
  burst = floor(burst)
  if burst >= 1 then
    local room = l.burst - l.bursts - burst
    if room < 1 then room = 1 end
    local above = l.pool > 0 and l.pool / room or 0
    if above > 1 then above = 1 end
    above = burst * above + sqrt(a.demand * a.longest / 1000000)
    local need = a.demand + (above - a.held) * 1000000 / a.longest
    if need < 0 then need = 0 end
    local rate = target
    if rate > need then rate = need end
    if l.earmark > 0 and l.earmark > l.pool then
      local lacks = (l.earmark * 2 - l.pool) * 1000000 / (l.rate * q.maxRefresh * REFRESHES)
      if lacks > 0.5 then lacks = 0.5 end
      rate = rate - rate * lacks
    end
    if rate > l.rate - l.rates then rate = l.rate - l.rates end
    rate = floor(rate * RESOLUTION) / RESOLUTION
    if rate < 0 then rate = 0 end

    local smallest = trips * rate * q.lag / 1000000
    if smallest < q.smallest then smallest = q.smallest end
    local slow = q.mode == AUTO and rate * a.longest < 1000000
    if q.mode == SHARES or burst >= smallest and (not slow or a.held >= 1) then
      if slow then rate = 0 end
      a.shape, a.rate, a.burst = rate > 0 and SLICE or BATCH, rate, burst
    end
  end
end

-- long.go

-- longBatch lends a batch for MaxHold, in place of what has been found.
local function longBatch(l, a, q, sum)
  local left, smallest, used = l.pool - q.take, q.smallest, a.demand * q.maxRefresh / 1000000
  if q.maxHold > q.maxRefresh and (q.mode == AUTO or q.mode == PER_REQUEST) and
    a.demand + q.take > 0 and sum <= l.rate * CALM_DEMAND and
    left >= (l.burst - l.bursts) * CALM_POOL and used < smallest then
    local half = CALM_FLOW * l.rate * q.maxHold / 1000000
    if half < l.burst * CALM_BATCH then half = l.burst * CALM_BATCH end
    if half > l.lend * CALM_LENT then half = l.lend * CALM_LENT end
    local most, need, part = half - l.bursts, smallest * CALM_FIRST, left * CALM_BATCH / 2
    if a.demand > 0 then
      most = half * a.demand / sum
      if most > l.lend - l.bursts then most = l.lend - l.bursts end
      local few = need < a.held and need or a.held
      if few < smallest then few = smallest end
      need, part = a.demand * q.maxHold / 1000000, left * CALM_BATCH
      if need < few then need = few end
      if need > smallest * CALM_MOST then need = smallest * CALM_MOST end
    end
    if need > part then need = part end
    if need > most then need = most end
    local batch = floor(need)
    if batch >= smallest / 2 and batch >= 2 * used then
      a.shape, a.rate, a.burst, a.share = LONG_BATCH, 0, batch, 1
      if batch < a.held then a.shape = BATCH end
    end
  end
end

local function longRefresh(q) return floor(q.maxHold / 96) * 16 end

-- longSlice lends a slice for a sixth of MaxHold, in place of a plain one.
local function longSlice(l, a, q, sum)
  if q.mode == AUTO and sum <= l.rate * STEADY_DEMAND and
    l.pool - q.take >= (l.burst - l.bursts) * CALM_POOL and
    longRefresh(q) > q.maxRefresh and a.demand * q.maxRefresh / 1000000 >= q.smallest then
    local burst, rate = l.lend * CALM_LENT * a.demand / sum, l.rate - l.rates
    if burst > a.burst then burst = a.burst end
    burst = floor(burst)
    if rate > a.demand * (1 + q.headroom) then rate = a.demand * (1 + q.headroom) end
    if burst >= q.smallest then
      a.shape, a.rate, a.burst = LONG_SLICE, floor(rate * RESOLUTION) / RESOLUTION, burst
    end
  end
end

-- divide.go

-- divide decides what the holder is lent, by its demand and that of all.
local function divide(l, a, q)
  lendable(l, q)
  local ahead = 1 + q.headroom
  a.demand = q.demand / RESOLUTION
  if a.demand > 2 * MAX_RATE - l.demand then a.demand = 2 * MAX_RATE - l.demand end
  local sum = l.demand + a.demand
  local shift, larger = a.demand - a.was, a.demand
  if shift < 0 then shift = -shift end
  if larger < a.was then larger = a.was end
  if shift >= SHIFTED * larger and shift * q.maxRefresh >= q.smallest * 1000000 then
    l.unrest = l.unrest + shift / (sum > l.rate and sum or l.rate)
  end
  a.contended, a.longest = sum > l.rate * CONTENTION, q.maxRefresh
  if l.unrest < LATER_UNREST and sum <= l.rate * LATER_DEMAND and
    l.pool - q.take >= (l.burst - l.bursts) * CALM_POOL then
    a.longest = q.maxRefresh * LATER_TIMES - (q.lag < q.maxRefresh and q.lag or q.maxRefresh)
  end

  local wish, level = a.demand * ahead, (l.rate - l.low * ahead) / (l.high + 1)
  a.flags = wish > level and HIGH or 0
  a.fair = a.demand
  if (q.mode == AUTO or q.mode == SHARES) and a.demand > 0 then
    local target = l.rate / sum
    if target > ahead then target = ahead end
    target = a.demand * target
    if q.fairness == MAX_MIN then
      target = wish < level and wish or level
      if target < 0 then target = 0 end
    end
    if target < a.fair then a.fair = target end
    a.share = sum * ahead
    a.share = target / (a.share < l.rate and a.share or l.rate)
    if a.share > 1 then a.share = 1 end
    slice(l, a, q, target)
  end
  longBatch(l, a, q, sum)
  if a.shape == SLICE then
    longSlice(l, a, q, sum)
  end
  a.keep = a.burst
  if a.burst < a.floor then a.burst = a.floor end
end

-- term.go

-- refresh is when the holder of a slice should come back.
local function refresh(l, a, q, lag)
  local refresh, crowd = q.batch * 1000000 / a.rate, l.holders * TURN_OF_CROWD
  if refresh > a.longest then refresh = a.longest end
  refresh = refresh / (1 + HASTE * l.unrest)
  if refresh < q.minRefresh then refresh = q.minRefresh end
  if refresh < lag then refresh = lag end
  if crowd > a.longest then crowd = a.longest end
  if refresh < crowd then refresh = crowd end
  a.refresh = floor(refresh)
end

-- term is when the holder should come back, until when it may refill by itself, and when
-- its tokens die.
local function term(l, a, q)
  local lag, tail = q.lag, TOKEN_LIFE
  if lag > q.maxRefresh then lag = q.maxRefresh end
  a.refresh = q.maxRefresh
  if a.shape == LONG_BATCH then
    a.refresh, tail = q.maxHold, 1
  elseif a.shape == LONG_SLICE then
    a.refresh, tail = longRefresh(q), LONG_TAIL
  elseif a.shape == SLICE then
    refresh(l, a, q, lag)
  end
  a.refills = a.shape == LONG_BATCH and 0 or a.refresh + floor(q.maxRefresh / 4) + lag
  a.granted = a.refills + a.refresh * tail
  if a.shape == SLICE and a.refresh > q.maxRefresh then a.granted = a.refills + q.maxRefresh end
  a.life = a.granted < a.left and a.left or a.granted
end

-- wait is when the pool may have what was denied.
local function wait(l, a, q)
  local missing = (q.min > 1 and a.taken == 0 and q.min or 1) + l.earmark - l.pool
  local free = l.rate - l.rates - a.rate
  local guess = missing / (free > 0.000001 and free or 0.000001)
  if guess > q.maxRefresh / 1000000 then guess = q.maxRefresh / 1000000 end
  local wait = missing / l.rate
  if l.bursts > 0 or wait < guess then wait = guess end
  wait = ceil(wait * 1000000)
  if a.retry < wait then a.retry = wait end
  if a.retry < 1000 then a.retry = 1000 end
  if a.retry > MAX_FILL then a.retry = MAX_FILL end
end

-- turn is when a holder that is too small for a lease should ask again.
local function turn(l, a, q, scarce)
  if a.keep == 0 and q.take > 0 and a.fair < a.demand and l.pool < scarce then
    local n = a.taken > q.min and a.taken or q.min
    if n < 1 then n = 1 end
    local wait = n * (a.demand - a.fair) / (a.demand * a.fair) *
      (1 - (l.pool > 0 and l.pool or 0) / scarce) * 1000000
    local free = l.rate - l.rates - a.rate
    if free < 0.000001 then free = 0.000001 end
    local full = (l.burst - l.bursts - a.burst - l.pool) * 1000000 / free
    full = full - FEW_TRIPS * 2 * q.lag
    if full < 0 then full = 0 end
    if wait > full then wait = full end
    if wait > q.maxRefresh then wait = q.maxRefresh end
    a.retry = ceil(wait)
  end
end

-- retry is how long the holder shall not ask again, and whether the pool has run dry.
local function retry(l, a, q)
  local scarce = a.scarce > 1 and a.scarce or 1
  local denied = q.take > a.taken or q.mode == BATCHES and a.keep == 0
  a.dry = a.contended and l.pool < scarce
  if (a.shape == SLICE or a.shape == LONG_SLICE) and
    (denied or a.contended and l.pool < a.scarce) then
    a.retry = a.refresh
  else
    turn(l, a, q, scarce)
    if denied then
      wait(l, a, q)
    end
  end
end

-- lifetime sets l.ttl, in ms, if that which was set does not suffice.
local function lifetime(l, a, now)
  -- REACH slots are longer than any lease but those that eras count, and but for
  -- tokens that outlive a rate which ends within them (a shorter lease after a long
  -- one): the TTL that was set for these, unless it is set anew, covers them.
  local longest = l.slot * REACH
  if l.holders > 1 and
    (l.expiry == 0 or sub(l.ends, SLOTS * 2 + 1) ~= '\0\0\0\0\0\0') then
    longest = l.slot * ERA
  end
  if longest < a.life then longest = a.life end
  local ttl = (l.burst - l.pool) / l.rate * 1000000 + longest + 1000000
  -- Some pools are so far below 0 that they never fill: a hundred years, in µs, are
  -- the longest TTL.
  if ttl > 3153600000000000 then ttl = 3153600000000000 end
  if l.expiry < now + ttl then
    l.ttl = ceil(ttl * 1.25 / 1000)
    l.expiry = now + l.ttl * 1000
  end
end

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
if l.earmark > l.burst then l.earmark = l.burst end

a.seq, a.rate, a.burst, a.shape, a.taken, a.retry, a.share = q.seq, 0, 0, NONE, 0, 0, 0
a.held, a.left, a.leased, a.was = 0, 0, false, 0
takeBack(l, a, q, own)
divide(l, a, q)
serve(l, a, q)
fill(l, a, q)
term(l, a, q)
retry(l, a, q)
earmarks(l, a, q, own)
insert(l, a, own)

lifetime(l, a, now)
sums, record = writeSums(l.SUMS), writeRecord(a.RECORD)
if l.pass > 0 then l.ends = l.ends .. format('%.0f', l.pass) end
if l.ttl then
  about = writeAbout(l.ABOUT) .. l.limit
  redis.call('HSET', KEYS[1], '#', sums, '@', l.ends, '=', about, ARGV[1], record)
  redis.call('PEXPIRE', KEYS[1], format('%d', l.ttl))
else
  redis.call('HSET', KEYS[1], '#', sums, '@', l.ends, ARGV[1], record)
end
if l.list then
  writeLimits(l)
end
if l.changed then
  l.changed[ARGV[1]] = nil -- is written
  for id, text in pairs(l.changed) do
    if text then
      redis.call('HSET', KEYS[1], id, text)
    else
      redis.call('HDEL', KEYS[1], id)
    end
  end
end
local flags = (a.contended and CONTENDED or 0) + (a.dry and DRY or 0)
return {
  record, sums, a.keep * RESOLUTION, a.refresh, a.granted, a.taken, a.retry, flags, l.limit,
}
