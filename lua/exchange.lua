-- One exchange between a holder and the ledger of a key.
--
-- Go twin: lease.Ledger.Exchange, whose phases have the same names here, in the same
-- order. The same float64 operations in the same order, so that both give the
-- same replies and keep the same state for any history (TestTwins, FuzzTwins).
-- Read that one first: it has the reasons. Here l is the ledger, a the answer, own
-- the lease that the holder comes back with, r another one, and q the request.
-- assemble_test.go says how the phases come to cost no more than code without functions.
--
-- KEYS[1]  the limited key: a hash of the ledger's state, in the fields #, @ and =,
--          and a record per holder, in a field of its id. While live holders declare
--          several limits, each of these is in a field, %1 and so on. What was used under
--          other frames is in &0, and the piles of a crowd are in &s (ledger.lua). Demands by
--          class are in &c, and those of a holder in && and its id. What a bucket's
--          pool keeps for classes, or what they have of a quota, is in &l, and what a quota has
--          lent to a holder for them in &l and its id.
-- ARGV[1]  the holder's id
-- ARGV[2]  the request: numbers of eight bytes each, as layout.go names and spells them. The
--          demand is in 2^-20; claim and left are the rate of the claimed lease and
--          its time, or -1 and 0; hold is in µs.
-- ARGV[3]  the last two, the limit that is declared, as text that is to be kept: rate,burst
-- ARGV[4]  if the holder's requests have classes, numbers of eight bytes each: the class of the
--          first caller that waits, from 1, and of each class the demand in 2^-20, floor and weight
--          All must be valid by lease.Request.Validate.
--
-- Reply    a string: the holder's record and the sums as they are stored; keep, refresh,
--          expires, taken, retry and flags (see layout.go); the limit in force, as in ARGV[3].
--          stale,rate,burst if this seq or a later one has been answered, by a lease
--          that has not ended, or there is no room for another holder: nothing is
--          changed or written.
--          An error 'RATION ...' if what is stored cannot be understood, or is of
--          another version.
--
-- Values   are strings of numbers, of fixed lengths, as layout.go says. The calendar,
--          in @, is counts of two bytes: 20 ticks and 3 eras; after these l.pass, as
--          text, while the records of a crowd are swept.
-- Units    tokens, tokens/s, whole µs. A record's refills (the end of its rate) and
--          life (the end of its tokens), refresh, expires and retry count from at.
-- Time     is this server's, read once; it never goes back, and goes on when that does.
-- Writes   come last: memory that has run out stops the first, and so all of
--          them. Records of others are read and written only after a lease has
--          ended: all of them. Of a crowd, about LOOKS of those that do not count any more
--          are deleted at each exchange.
-- TTL      at least the time to full, the longest lease and a second, so that a
--          key that expires is one that nobody would miss. It is a quarter
--          longer when set, and set again when it has run down to that: most
--          exchanges send replicas and the AOF a single HSET.

-- (prelude)
-- (ledger)

-- room.go

-- giveBack adds to the pool what found no room in a lease that was answered at since.
local function giveBack(l, tokens, since)
  l.back = 0
  spans(l)
  local first, last = floor(since / l.lasting), floor(l.at / l.lasting)
  if l.rooms and tokens > 0 and last - first < ROOM_SPANS then
    local least = ROOM_PARTS
    for span = first, last do
      local room = l.rooms[span % ROOM_SPANS + 1]
      least = min(least, room)
    end
    local back = least * l.burst / ROOM_PARTS
    back = min(back, tokens)
    local parts = ceil(back * ROOM_PARTS / l.burst)
    for i = 1, ROOM_SPANS do
      local left = l.rooms[i] - parts
      l.rooms[i] = max(left, 0)
    end
    l.pool, l.back = l.pool + back, back
  end
end

-- bucket.go

-- refund takes what the holder hands back of it.
local function refund(l, a, q, own)
  a.held = q.held
  local dies = own.at + own.life - a.at
  if a.held > 0 or own.shape ~= BATCH then
    a.left = ceil(q.left * (1 + 2 * DRIFT)) + 1
    a.left = min(a.left, dies)
  end
  a.was = own.demand
  local accrued = min(own.at + own.refills, a.at)
  local unused, beyond = own.add + own.rate * (accrued - own.at) / 1000000, 0
  if q.seen == own.seq then
    beyond = max(q.got - unused, 0)
    unused = max(unused - q.got, 0)
  elseif q.seen > own.seq then
    beyond = max(q.give - unused, 0)
    unused = 0
  end
  local fits = own.burst - above(q.peak)
  fits = max(min(fits, unused), 0)
  local tokens, since = unused - fits, own.at
  giveBack(l, tokens, since)
  if own.flags < ENDED then
    local lost = l.back - tokens
    weigh(l, lost)
  end
  local back, most = q.give - beyond, own.burst - above(q.held)
  back = max(back, -q.held) + fits
  back = min(back, most)
  l.pool = l.pool + back
end

-- adopt debits a lease that a state which was lost has lent.
local function adopt(l, a, q)
  a.held, a.left = q.held, l.tick * ERA
  a.left = min(a.left, q.left)
  l.pool = l.pool - above(a.held)
  local age = a.at - l.born
  if age < l.tick * LONGEST_TERM then l.pool = l.pool - min(q.claim * age / 1000000, q.got) end
end

-- takeBack ends the lease that the holder comes back with.
local function takeBack(l, a, q, own)
  rejoin(l, own)
  if own.seq and q.seq > own.seq then
    refund(l, a, q, own)
  elseif q.claim >= 0 then
    adopt(l, a, q)
  end
  if not own.seq or q.since > own.seq then l.pool = l.pool - q.debt end
  local turn = own.seq and own.shape ~= SLICE and own.refills > 0 and own.at + own.refills or 0
  own.refills, own.mark = turn, own.seq and own.mark or 0 -- from here on, when its turn comes
  a.held = min(a.held, 2 * MAX_BURST - l.bursts)
  a.floor = above(a.held)
  local room = max(l.burst - l.bursts - a.floor, 0)
  trim(l, room)
end

-- bucket.go

-- reserve puts into the lease what was taken for callers that reserve it.
local function reserve(l, a, q)
  a.kept = a.taken
  a.held = a.held + a.kept
  local burst = above(a.held)
  a.burst = max(a.burst, burst)
  if a.burst > a.keep and a.shape == LONG_BATCH then
    a.shape = BATCH
  elseif a.burst > a.keep then
    a.longest = q.maxRefresh
  end
end

-- bucket.go

-- serve takes tokens for the requests that wait.
local function serve(l, a, q, own)
  local room = max(l.burst - l.bursts - a.burst, 0)
  a.scarce, a.spared = q.reserve * room, 0
  if a.contended and a.shape == SLICE and l.holders > 1 then a.spared = a.scarce end
  if a.guarded > 0 then
    local fits = (l.burst - l.bursts - a.burst - max(q.min, 1)) * MOST_KEPT
    a.guarded = min(fits, a.guarded)
    a.spared = max(a.spared, a.guarded)
  end
  local avail = l.pool - max(a.spared, l.earmark)
  if own.refills > 0 and a.at >= own.refills then
    local mine = max(own.mark, q.min)
    mine = min(mine, l.pool - a.spared)
    avail = max(avail, mine)
  end
  a.scarce = max(a.scarce, l.earmark)
  a.spared = max(a.spared, l.earmark)
  if q.take > 0 and avail >= q.min then
    a.taken = floor(min(q.take, avail))
    if q.unit > 1 then a.taken = q.min + floor((a.taken - q.min) / q.unit) * q.unit end
    l.pool = l.pool - a.taken
  end
  if q.hold > 0 then
    reserve(l, a, q)
  end
end

-- fill adds to the lease: its share of the pool, and what the pool has no room for.
local function fill(l, a, q)
  local add, room = 0, l.burst - l.bursts - a.burst
  room = max(room, 0)
  if q.mode == BATCHES then
    add = min(q.batch - a.held, l.pool - l.earmark)
    add = add > 0 and floor(add) or 0
    a.burst = above(a.held + add)
    a.keep = min(max(l.burst - l.bursts - l.earmark, 0), a.burst)
    room = max(l.burst - l.bursts - a.burst, 0)
  elseif a.shape == BATCH and a.keep > 0 then
    add = min(l.pool - a.spared + a.held, a.burst)
    add = floor(add) - a.held
    add = max(add, 0)
  elseif a.shape ~= NONE then
    local most = a.contended and a.burst * FILLED or a.burst
    add = l.pool * a.share
    add = min(add, l.pool - a.spared)
    add = min(add, most - a.held)
    add = max(add, l.pool - room)
    add = max(add, 0)
    add = min(add, a.burst - a.held)
  end
  if a.shape == NONE and a.burst > 0 then a.shape = BATCH end
  a.add, l.pool = add + a.kept, l.pool - add
  trim(l, room)
end

-- earmark.go

-- lend is how much may be lent.
local function lendable(l, q)
  local share = q.burstShare
  if q.mode == AUTO then share = share / (1 + l.caution) end
  l.lend = max(min(share * l.burst, l.burst - l.earmark), 0)
end

-- lacking sets l.lacks, the part of its rate that a slice gives up for the earmark.
local function lacking(l, q)
  l.lacks = 0
  if l.earmark > 0 and l.earmark > l.pool then
    local lacks = (l.earmark * 2 - l.pool) * 1000000 / (l.rate * q.maxRefresh * REFRESHES)
    l.lacks = min(lacks, 0.5)
  end
end

-- lineUp keeps tokens for the holder, if it has been denied, and sets when its turn comes.
local function lineUp(l, a, q, own)
  local denied = q.take > a.taken and a.shape ~= SLICE
  local stays = denied and q.waits > 0 and q.mode == PER_REQUEST and not ARGV[4] and q.min <= l.burst
  q.waits = stays and 1 or 0
  local mixed = (a.at % 65536 * 40503 + a.seq % 65536) % 65536
  local large = q.min > 1 and q.min <= l.burst and
    (l.earmark == 0 or not ARGV[4] and q.mode == PER_REQUEST) and
    (l.rates > 0 or own.mark > 0 or l.pool * FEW < q.min) and
    (a.taken == 0 or a.contended and mixed < 32768)
  if stays or large then
    local fair = a.demand * l.rate / max(l.demand + a.demand, l.rate)
    fair = min(a.fair, fair)
    local turn, unit = l.burst * 1000000 / l.rate, max(q.unit, 1)
    turn = min(turn, q.maxRefresh * REFRESHES)
    local more = q.min + floor((fair * turn / 1000000 - q.min) / unit + mixed / 65536) * unit
    more = min(more, q.take - a.taken)
    more = min(more, floor(l.burst / 2))
    more = max(q.min, more)
    a.mark = min(more, LARGEST_MARK)
    a.flags = a.flags + MARKED
  end
  if not denied then
    own.refills = 0
  elseif own.refills == 0 or a.taken > 0 then
    local n = max(q.min, 1)
    if l.earmark > 0 then n = max(a.mark, n) end
    n = ceil((l.earmark + n - l.pool) * 1000000 / l.rate)
    own.refills = a.at + max(n, 1)
  end
end

-- outlive lets the record live for as long as tokens are kept for the holder.
local function outlive(l, a, q, own)
  if own.refills > 0 then
    a.refills = max(own.refills - a.at, 1)
    a.refills = min(a.refills, MAX_FILL)
  end
  if a.mark > 0 and a.burst == 0 then
    if q.waits > 0 then
      a.life = max(a.life, min(a.retry + q.maxRefresh * REFRESHES, l.tick * ERA))
    else
      local expected = floor(q.min * WAITS * 1000000 / max(a.demand, 0.000001))
      local longest = q.maxHold
      if a.mark * 2 > l.burst then
        local filled = floor(a.mark * 2 * 1000000 / l.rate) + q.maxRefresh * REFRESHES
        longest = min(longest, filled)
      end
      a.life = max(a.life, min(expected, longest))
      a.retry = min(a.retry, max(q.maxRefresh, ceil(1000000 / l.rate)))
    end
  end
end

-- divide.go

-- slice lends a slice or a batch, or nothing.
local function slice(l, a, q, target)
  local burst, most = l.lend * a.share, l.lend * target / l.rate
  local trips = a.contended and 2 * FEW_TRIPS or FEW_TRIPS
  local far = ceil(trips * target * q.lag / 1000000)
  most = max(most, q.batch)
  if a.was > 0 and most < far then most = far end
  burst = min(burst, most)
  burst = min(burst, l.lend - l.bursts)
  burst = floor(burst)
  if burst >= 1 then
    local room = max(l.burst - l.bursts - burst, 1)
    local above = l.pool > 0 and l.pool / room or 0
    above = min(above, 1)
    above = burst * above + math.sqrt(a.demand * a.longest / 1000000)
    local need = a.demand + (above - a.held) * 1000000 / a.longest
    need = max(need, 0)
    local rate = min(target, need)
    if not ARGV[4] then
      lacking(l, q)
      rate = rate - rate * l.lacks
    end
    rate = min(rate, l.rate - l.rates)
    rate = floor(rate * RESOLUTION) / RESOLUTION
    rate = max(rate, 0)

    if q.mode == SHARES then
      if rate > 0 then a.shape, a.rate, a.burst = SLICE, rate, burst end
    else
      local batch = q.smallest / (2 * FEW_TRIPS)
      local slice = batch * trips
      if ARGV[4] then batch = q.smallest / FEW_TRIPS end
      if burst < batch then -- of no use
      elseif trips * rate * q.lag > burst * 1000000 then
        if burst * 1000000 >= a.demand * q.lag then a.shape, a.burst = BATCH, burst end
      elseif rate * a.longest < 1000000 then
        local used = (l.demand + a.demand) * q.maxRefresh
        if max(l.denied, l.caution) > 0 or l.pool * 1000000 < used or
          rate * a.longest * a.hurry < 1000000 then
          burst = min(burst, floor(a.held))
        end
        if burst >= 1 then a.shape, a.burst = BATCH, burst end
      elseif burst >= slice * (1 + BATCHES_FOR * l.caution) then
        a.shape, a.rate, a.burst = SLICE, rate, burst
      else
        a.shape, a.burst = BATCH, burst
      end
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
    half = max(half, l.burst * CALM_BATCH)
    half = min(half, l.lend * CALM_LENT)
    local first = CALM_START * l.rate * q.maxRefresh / 1000000 / l.holders
    first = max(first, smallest * CALM_FIRST)
    local most, need, part = half - l.bursts, first, left * CALM_BATCH / 2
    if a.demand > 0 then
      most = half * a.demand / sum
      most = min(most, l.lend - l.bursts)
      local few = min(a.held, first)
      first = max(first, smallest * CALM_MOST)
      few = max(few, smallest)
      need, part = a.demand * q.maxHold / 1000000, left * CALM_BATCH
      need = min(max(need, few), first)
    end
    need = min(min(need, part), most)
    local batch = floor(need)
    if batch >= smallest / 2 and batch >= 2 * used then
      a.shape, a.rate, a.burst, a.share = LONG_BATCH, 0, batch, 1
      if batch < a.held then a.shape = BATCH end
    end
  end
end

-- class.go

-- keepByClass divides what the pool has among classes.
local function keepByClass(l, a, q, told, n, all, given)
  local free, rest, first, most = max(l.pool, 0), l.rate, told[1], {}
  local room = max(l.burst - l.bursts, 0) * max(1 - l.rates / l.rate, 0) / (1 + l.caution)
  local modest = all[first] <= told[first * 3] * l.rate
  for c = 1, n do
    if given[c] > 0 and a.contended then
      local part = room * given[c] / l.rate
      most[c] = max(part, 1)
      if c == first then
        most[c] = max(most[c], q.min)
        l.lent[c] = min(most[c], l.lent[c])
      end
    else
      most[c], l.lent[c] = 0, 0
    end
    if l.lent[c] < 0 then free = free - l.lent[c] end
  end
  for c = 1, n do
    if l.lent[c] >= 0 and all[c] <= told[c * 3] * l.rate then
      l.lent[c], rest = max(l.lent[c], most[c]), rest - given[c]
    end
    l.lent[c] = min(l.lent[c], free)
    free = free - max(l.lent[c], 0)
  end
  for c = 1, n do
    local came = free * given[c] / max(rest, 0.000001)
    came = min(came, most[c] - l.lent[c])
    came = l.lent[c] + max(came, 0)
    l.lent[c] = max(came, 0 - most[c])
    came = max(l.lent[c], 0)
    if c ~= first and not modest then a.guarded = a.guarded + floor(came) end
  end
end

-- byClass sets a.worth, the rate that the holder's demand is worth by class, and a.parts.
local function byClass(l, a, q, sum)
  local told = {read('>' .. string.rep('d', #ARGV[4] / 8), ARGV[4])}
  local n, total, all, wish, given = (#ARGV[4] / 8 - 1) / 3, 0, {}, {}, {}
  a.classes, a.parts = {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}
  for c = 1, n do
    local d = told[c * 3 - 1] / RESOLUTION
    d = min(d, 2 * MAX_RATE - l.classes[c])
    a.classes[c], all[c] = d, l.classes[c] + d
    total = total + all[c]
  end
  local rate = l.rate * min(total, sum) / max(sum, total, 0.000001)
  local behind = l.pool < 0 and -l.pool or 0
  rate = rate - min(behind, rate * PAYBACK)
  for c = 1, n do
    wish[c] = all[c] * (1 + q.headroom)
    given[c] = min(wish[c], told[c * 3] * l.rate, rate)
    rate = rate - given[c]
  end
  local weights, more = 0, true
  while more do
    weights, more = 0, false
    for c = 1, n do
      if given[c] < wish[c] then weights = weights + told[c * 3 + 1] end
    end
    local part = rate / max(weights, 0.000000001)
    for c = 1, n do
      local missing = wish[c] - given[c]
      if missing > 0 and missing <= part * told[c * 3 + 1] then
        given[c], more = wish[c], true
        rate = max(rate - missing, 0)
      end
    end
    if not more and weights > 0 then
      for c = 1, n do
        if given[c] < wish[c] then given[c] = given[c] + part * told[c * 3 + 1] end
      end
    end
  end
  for c = 1, weights > 0 and 0 or n do
    local rest = min(wish[c] - given[c], rate)
    given[c], rate = given[c] + rest, rate - rest
  end
  local first = told[1]
  a.first, a.worth, a.asked, a.askedFair = first, 0, a.classes[first], 0
  if a.asked > 0 then
    local fair = a.asked * given[first] / all[first]
    a.askedFair = min(fair, a.asked)
  end
  lacking(l, q)
  for c = 1, n do
    if a.classes[c] > 0 then
      local above = min(given[c], told[c * 3] * l.rate)
      above = given[c] - above
      wish[c] = a.classes[c] * (given[c] - above * l.lacks) / all[c]
      a.worth = a.worth + wish[c]
    end
  end
  for c = 1, a.worth > 0 and n or 0 do
    if a.classes[c] > 0 then a.parts[c] = floor(wish[c] / a.worth * PARTS_OF_LEASE) end
  end
  a.askedPart = a.parts[first] / PARTS_OF_LEASE
  keepByClass(l, a, q, told, n, all, given)
  for c = 1, n do
    l.classes[c] = all[c]
  end
end

-- divide.go

-- divide decides what the holder is lent, by its demand and that of all.
local function divide(l, a, q)
  lendable(l, q)
  local ahead = 1 + q.headroom
  a.demand = q.demand / RESOLUTION
  a.demand = min(a.demand, 2 * MAX_RATE - l.demand)
  local sum = l.demand + a.demand
  local shift, larger = a.demand - a.was, a.demand
  if shift < 0 then shift = -shift end
  larger = max(larger, a.was)
  if shift >= SHIFTED * larger and shift * q.maxRefresh * LATER_TIMES >= q.smallest * 1000000 then
    l.unrest = l.unrest + shift / max(l.rate, sum)
  end
  a.contended = sum > l.rate * CONTENTION
  a.hurry, a.guarded = 1 + l.caution + HASTE * l.unrest, 0
  a.longest = q.maxRefresh * LATER_TIMES - min(q.maxRefresh, q.lag)
  local used = l.burst * 1000000 / (l.demand + a.demand)
  used = min(used, q.maxHold * SLICE_HOLD)
  a.longest = max(a.longest, used) / a.hurry
  if a.contended and ARGV[4] or l.places > 0 then a.longest = q.maxRefresh end

  local wish, level = a.demand * ahead, (l.rate - l.low * ahead) / (l.high + 1)
  a.flags = wish > level and HIGH or 0
  a.fair = a.demand
  if ARGV[4] then
    byClass(l, a, q, sum)
  end
  if (q.mode == AUTO or q.mode == SHARES) and a.demand > 0 then
    local target = l.rate / sum
    target = min(target, ahead)
    target = a.demand * target
    if q.fairness == MAX_MIN then
      target = min(level, wish)
      target = max(target, 0)
    end
    if ARGV[4] then target = a.worth end
    a.fair = min(a.fair, target)
    a.share = sum * ahead
    a.share = target / min(l.rate, a.share)
    a.share = min(a.share, 1)
    slice(l, a, q, target)
  end
  longBatch(l, a, q, sum)
  a.keep = a.burst
  a.burst = max(a.burst, a.floor)
end

-- term.go

-- shortest sets the shortest time for which slices are lent.
local function shortest(l, a, q)
  local crowd, most, lag = l.holders * TURN_OF_CROWD, max(a.longest, q.maxRefresh), q.lag
  lag = min(lag, q.maxRefresh)
  crowd = min(crowd, most)
  crowd = max(max(crowd, q.minRefresh), lag)
  a.shortest = crowd
end

-- refresh is when the holder of a slice should come back.
local function refresh(l, a, q)
  local refresh = q.batch * 1000000 / (a.rate * a.hurry)
  refresh = min(refresh, a.longest)
  shortest(l, a, q)
  refresh = max(refresh, a.shortest)
  a.refresh = floor(refresh)
end

-- term is when the holder should come back, until when it may refill by itself, and when
-- its tokens die.
local function term(l, a, q)
  local lag, tail = q.lag, TOKEN_LIFE
  lag = min(lag, q.maxRefresh)
  a.refresh = q.maxRefresh
  if a.shape == LONG_BATCH then
    a.refresh, tail = q.maxHold, 1
  elseif a.shape == SLICE then
    refresh(l, a, q)
  elseif a.shape == BATCH and q.mode == AUTO then
    a.refresh = max(a.refresh, a.longest)
    a.refresh = floor(a.refresh)
  end
  a.refills = a.shape == LONG_BATCH and 0 or a.refresh + floor(q.maxRefresh / 4) + lag
  a.granted = a.refills + a.refresh * tail
  if a.refresh > q.maxRefresh and a.shape ~= LONG_BATCH then
    a.granted = a.refills + q.maxRefresh
  end
  local open = min(q.hold, l.tick * ERA)
  a.granted = max(a.granted, open)
  a.life = a.granted < a.left and a.left or a.granted
  if a.shape ~= SLICE then a.refills = 0 end
end

-- takeByClass takes what the answer has taken from what is kept for classes.
local function takeByClass(l, a)
  if a.contended then
    l.lent[a.first] = l.lent[a.first] - a.taken
    for c = 1, MAX_CLASSES do
      local filled, kept = (a.add - a.kept) * a.parts[c] / PARTS_OF_LEASE, max(l.lent[c], 0)
      l.lent[c] = l.lent[c] - min(filled, kept)
    end
    local alone, ahead = true, false
    for c = 1, MAX_CLASSES do
      if c ~= a.first and l.classes[c] > 0 then
        alone, ahead = false, ahead or l.lent[c] > l.lent[a.first]
      end
    end
    a.parts.ahead = ahead or alone and a.taken + a.add > 0
  end
  if a.contended or l.portions then
    l.portions = {'&l', write(LENT_FORMAT, unpack(l.lent, 1, MAX_CLASSES))}
  end
end

-- wait is when the pool may have what was denied.
local function wait(l, a, q, own)
  local before = own.refills > 0 and own.refills <= a.at and 0 or l.earmark
  local missing = (q.min > 1 and a.taken == 0 and q.min or 1) + max(before, a.guarded) - l.pool
  local free = l.rate - l.rates - a.rate
  local wait = missing * 1000000 / max(0.000001, free)
  local longest = missing * 1000000 / l.rate
  if l.bursts + l.earmark > 0 then longest = min(longest, q.maxRefresh) end
  shortest(l, a, q)
  longest = max(longest, a.shortest)
  wait = min(wait, longest)
  wait = ceil(wait)
  a.retry = min(max(max(a.retry, wait), 1000), MAX_FILL)
end

-- turn is when a holder that is too small for a lease should ask again.
local function turn(l, a, q, scarce)
  local fair, demand, part = a.fair, a.demand, 1
  if ARGV[4] then fair, demand, part = a.askedFair, a.asked, a.askedPart end
  if q.take > 0 and fair < demand and l.pool < scarce then
    local next, n = q.min, (a.held + (a.add - a.kept)) * part + (a.taken - a.kept)
    next = max(next, 1)
    n = max(n, next)
    local wait = n / fair - next / demand
    wait = max(wait, 0)
    wait = wait * (1 - (max(l.pool, 0)) / scarce) * 1000000
    local free = max(l.rate - l.rates - a.rate, 0.000001)
    local full = (l.burst - l.bursts - a.burst - l.pool) * 1000000 / free
    full = full - FEW_TRIPS * 2 * q.lag
    full = max(full, 0)
    wait = min(min(wait, full), a.longest)
    a.retry = ceil(wait)
  end
end

-- retry is how long the holder shall not ask again, and whether the pool has run dry.
local function retry(l, a, q, own)
  local scarce = a.scarce > a.spared + 1 and a.scarce or a.spared + 1
  if l.holders == 1 and l.pool >= a.spared + max(q.min, 1) then scarce = a.spared + 1 end
  local denied = q.take > a.taken or q.mode == BATCHES and a.keep == 0
  a.dry = a.contended and l.pool < scarce
  if a.shape == SLICE and a.dry then
    a.retry = a.refresh
  else
    if q.waits > 0 then
      a.retry = own.refills - a.at
    else
      turn(l, a, q, scarce)
    end
    if denied then
      wait(l, a, q, own)
    end
  end
end

-- lifetime sets l.ttl, in ms, if that which was set does not suffice.
local function lifetime(l, a, now)
  -- REACH ticks are longer than any lease but those that eras count, and but for
  -- tokens that outlive a rate which ends within them (a shorter lease after a long
  -- one): the TTL that was set for these, unless it is set anew, covers them.
  local longest = l.tick * REACH
  if l.holders > 1 and
    (l.expiry == 0 or sub(l.ends, TICKS * 2 + 1) ~= '\0\0\0\0\0\0') then
    longest = l.tick * ERA
  end
  local ttl = (l.burst - l.pool) / l.rate * 1000000 + max(longest, a.life) + 1000000
  ttl = min(ttl, LONGEST_PAST) -- some pools are so far below 0 that they never fill
  if l.expiry < now + ttl then
    l.ttl = ceil(ttl * 1.25 / 1000)
    l.expiry = now + l.ttl * 1000
  end
end

-- (open)
-- (begin)
declare(l, a, q, own)
weigh(l, q.denied)

if ARGV[4] then
  readClasses(l)
  local texts = l.wipe and {} or redis.call('HMGET', KEYS[1], '&&' .. ARGV[1], '&l')
  local text = own.seq and texts[1]
  lessen(l, text)
  readLent(l, texts)
  if l.wrong then return redis.error_reply(l.wrong) end
end
takeBack(l, a, q, own)
divide(l, a, q)
serve(l, a, q, own)
fill(l, a, q)
if ARGV[4] then
  takeByClass(l, a)
end
term(l, a, q)
lineUp(l, a, q, own)
retry(l, a, q, own)
outlive(l, a, q, own)
insert(l, a, own)
keepRooms(l)
lifetime(l, a, now)
-- (close)
