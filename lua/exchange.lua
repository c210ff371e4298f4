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
--          other frames is in &0, and the piles of a crowd are in &s (ledger.lua).
-- ARGV[1]  the holder's id
-- ARGV[2]  the request: numbers of eight bytes each, as layout.go names and spells them. The
--          demand is in 2^-20; claim and left are the rate of the claimed lease and
--          its time, or -1 and 0; hold is 0 or 1.
-- ARGV[3]  the last two, the limit that is declared, as text that is to be kept: rate,burst
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
  spans(l)
  local first, last = floor(since / l.spans), floor(l.at / l.spans)
  if l.rooms and tokens > 0 and last - first < ROOM_SPANS then
    local least = ROOM_PARTS
    for span = first, last do
      local room = l.rooms[span % ROOM_SPANS + 1]
      if room < least then least = room end
    end
    local back = least * l.burst / ROOM_PARTS
    if back > tokens then back = tokens end
    local parts = ceil(back * ROOM_PARTS / l.burst)
    for i = 1, ROOM_SPANS do
      local left = l.rooms[i] - parts
      l.rooms[i] = left > 0 and left or 0
    end
    l.pool = l.pool + back
  end
end

-- bucket.go

-- refund takes what the holder hands back of it.
local function refund(l, a, q, own)
  a.held, a.leased = q.held, own.shape ~= NONE
  local dies = own.at + own.life - a.at
  a.left = ceil(q.left * (1 + 2 * DRIFT)) + 1
  if a.left > dies then a.left = dies end
  a.was = own.demand
  local accrued = own.at + own.refills
  if a.at < accrued then accrued = a.at end
  local unused = own.add + own.rate * (accrued - own.at) / 1000000
  if q.seen == own.seq then unused = unused - q.got end
  if unused < 0 or q.seen > own.seq then unused = 0 end
  local fits = own.burst - ceil(q.peak * RESOLUTION) / RESOLUTION
  if fits > unused then fits = unused end
  if fits < 0 then fits = 0 end
  local tokens, since = unused - fits, own.at
  giveBack(l, tokens, since)
  local back, most = q.give + fits, own.burst - ceil(q.held * RESOLUTION) / RESOLUTION
  if back > most then back = most end
  l.pool = l.pool + back
end

-- adopt debits a lease that a state which was lost has lent.
local function adopt(l, a, q)
  a.held, a.left = q.held, l.tick * ERA
  if q.left < a.left then a.left = q.left end
  l.pool = l.pool - ceil(a.held * RESOLUTION) / RESOLUTION
  local age = a.at - l.born
  if age < l.tick * LONGEST_TERM then l.pool = l.pool - q.claim * age / 1000000 end
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
  if a.held > 2 * MAX_BURST - l.bursts then a.held = 2 * MAX_BURST - l.bursts end
  a.floor = ceil(a.held * RESOLUTION) / RESOLUTION
  local room = l.burst - l.bursts - a.floor
  if room < 0 then room = 0 end
  if l.pool > room then l.pool = room end
end

-- bucket.go

-- reserve puts into the lease what was taken for callers that reserve it.
local function reserve(l, a, q)
  a.kept = a.taken
  a.held = a.held + a.kept
  local burst = ceil(a.held * RESOLUTION) / RESOLUTION
  if a.burst < burst then a.burst = burst end
  if a.burst > a.keep and a.shape == LONG_BATCH then
    a.shape = BATCH
  elseif a.burst > a.keep then
    a.longest, a.spare = q.maxRefresh, 0
  end
end

-- bucket.go

-- serve takes tokens for the requests that wait.
local function serve(l, a, q)
  local room = l.burst - l.bursts - a.burst
  if room < 0 then room = 0 end
  a.scarce, a.spared = q.reserve * room, 0
  if a.contended and a.shape == SLICE then
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
  if q.hold > 0 then
    reserve(l, a, q)
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
  elseif a.shape == BATCH and a.keep > 0 then
    add = l.pool - a.spared + a.held
    if add > a.burst then add = a.burst end
    add = floor(add) - a.held
    if add < 0 then add = 0 end
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
  a.add, l.pool = add + a.kept, l.pool - add
  if l.pool > room then l.pool = room end
end

-- surplus.go

-- full sets l.full: how full the pool is when taken tokens have left it.
local function full(l, taken)
  l.full = floor(min(max(l.pool - taken, 0) / max(l.burst - l.bursts, 1), 1) * SURPLUS_PARTS)
end

-- plenty sets l.plenty: how much of a surplus there is without what a request takes.
local function plenty(l, q)
  full(l, q.take)
  l.plenty = max(min(l.surplus, l.full) / SURPLUS_PARTS - SURPLUS_FROM, 0) / (1 - SURPLUS_FROM)
end

-- noteSurplus moves the mark at the end of an exchange.
local function noteSurplus(l)
  full(l, 0)
  local rise = ceil(max(l.full - l.surplus, 0) * min((l.at - l.was) / SURPLUS_IN, 1))
  l.surplus = min(l.surplus + rise, l.full)
end

-- earmark.go

-- lend is how much may be lent.
local function lendable(l, q, plenty)
  local share = q.burstShare + (1 - q.burstShare) * SURPLUS_LENT * plenty
  l.lend = max(min(share * l.burst, l.burst - l.earmark), 0)
end

-- earmarks keeps tokens for the holder, if it has been denied a request for several.
local function earmarks(l, a, q, own)
  local first = not own.seq or own.flags % ENDED < MARKED
  local coin = (a.at % 65536 * 40503 + a.seq % 65536) % 65536
  if l.earmark == 0 and q.min > 1 and q.min <= l.burst and
    (l.rates > 0 or not first or l.pool * FEW < q.min) and
    (a.taken == 0 or a.contended and coin < 32768) then
    local due = floor(min(a.fair * q.maxRefresh / 1000000 * REFRESHES, q.take, l.burst / 2))
    l.earmark, a.flags = max(q.min, due), a.flags + MARKED
    local expected = floor(q.min * WAITS * 1000000 / max(a.demand, 0.000001))
    local longest = q.maxHold
    if l.earmark * 2 > l.burst then
      local filled = floor(l.earmark * 2 * 1000000 / l.rate) + q.maxRefresh * REFRESHES
      longest = min(longest, filled)
    end
    if a.burst == 0 then a.life = max(a.life, min(expected, longest)) end
  end
end

-- divide.go

-- later is the longest time until a holder comes back where there is no surplus.
local function later(q)
  return q.maxRefresh * LATER_TIMES - (q.lag < q.maxRefresh and q.lag or q.maxRefresh)
end

-- slice lends a slice or a batch, or nothing.
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

    if q.mode == SHARES then
      if rate > 0 then a.shape, a.rate, a.burst = SLICE, rate, burst end
    elseif trips * rate * q.lag <= burst * 1000000 then
      if rate * a.longest < 1000000 then
        local held = floor(a.held)
        if held >= 1 and burst >= q.smallest then
          a.shape, a.burst = BATCH, held < burst and held or burst
        end
      elseif burst >= q.smallest then
        a.shape, a.rate, a.burst = SLICE, rate, burst
      elseif burst >= q.smallest / 2 and a.demand - a.was <= SHIFTED * a.demand then
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
    lendable(l, q, 0)
    local half = CALM_FLOW * l.rate * q.maxHold / 1000000
    if half < l.burst * CALM_BATCH then half = l.burst * CALM_BATCH end
    if half > l.lend * CALM_LENT then half = l.lend * CALM_LENT end
    local first = CALM_START * l.rate * q.maxRefresh / 1000000 / l.holders
    if first < smallest * CALM_FIRST then first = smallest * CALM_FIRST end
    local most, need, part = half - l.bursts, first, left * CALM_BATCH / 2
    if a.demand > 0 then
      most = half * a.demand / sum
      if most > l.lend - l.bursts then most = l.lend - l.bursts end
      local few = first < a.held and first or a.held
      if first < smallest * CALM_MOST then first = smallest * CALM_MOST end
      if few < smallest then few = smallest end
      need, part = a.demand * q.maxHold / 1000000, left * CALM_BATCH
      if need < few then need = few end
      if need > first then need = first end
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

-- divide.go

-- divide decides what the holder is lent, by its demand and that of all.
local function divide(l, a, q)
  plenty(l, q)
  lendable(l, q, l.plenty)
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
  a.contended, a.longest, a.spare = sum > l.rate * CONTENTION, q.maxRefresh, 0
  if l.unrest < LATER_UNREST and a.demand > 0 then
    local use, most = q.smallest * LATER_USE * 1000000 / a.demand, later(q)
    if not a.contended or use > most then use = most end
    if a.longest < use then a.longest = use end
    if q.mode == AUTO then
      local spare = l.plenty * (l.burst - l.bursts) * 1000000 / (l.demand + a.demand)
      a.spare = min(spare, q.maxHold * SURPLUS_HOLD)
    end
    a.longest = max(a.longest, a.spare)
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
  elseif a.shape == SLICE then
    refresh(l, a, q, lag)
  elseif a.shape == BATCH and a.keep == a.burst and q.mode == AUTO then
    a.refresh = later(q)
  end
  a.refills = a.shape == LONG_BATCH and 0 or a.refresh + floor(q.maxRefresh / 4) + lag
  a.granted = a.refills + a.refresh * tail
  if a.refresh > q.maxRefresh and a.shape ~= LONG_BATCH then
    a.granted = a.refills + q.maxRefresh
  end
  a.life = a.granted < a.left and a.left or a.granted
end

-- wait is when the pool may have what was denied.
local function wait(l, a, q)
  local missing = (q.min > 1 and a.taken == 0 and q.min or 1) + l.earmark - l.pool
  local free = l.rate - l.rates - a.rate
  local guess = missing * 1000000 / (free > 0.000001 and free or 0.000001)
  local wait = q.maxRefresh / (1 + l.unrest * q.maxRefresh / q.minRefresh)
  if wait < missing * 1000000 / l.rate then wait = missing * 1000000 / l.rate end
  if l.bursts > 0 and wait > q.maxRefresh then wait = q.maxRefresh end
  if wait > guess then wait = guess end
  wait = ceil(wait)
  if a.retry < wait then a.retry = wait end
  if a.retry < 1000 then a.retry = 1000 end
  if a.retry > MAX_FILL then a.retry = MAX_FILL end
end

-- turn is when a holder that is too small for a lease should ask again.
local function turn(l, a, q, scarce)
  if q.take > 0 and a.fair < a.demand and l.pool < scarce then
    local next, n = q.min, a.held + (a.add - a.kept) + (a.taken - a.kept)
    if next < 1 then next = 1 end
    if n < next then n = next end
    local wait = n / a.fair - next / a.demand
    if wait < 0 then wait = 0 end
    wait = wait * (1 - (l.pool > 0 and l.pool or 0) / scarce) * 1000000
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
  local scarce = a.scarce > a.spared + 1 and a.scarce or a.spared + 1
  local denied = q.take > a.taken or q.mode == BATCHES and a.keep == 0
  a.dry = a.contended and l.pool < scarce
  if a.shape == SLICE and a.dry then
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
if l.earmark > l.burst then l.earmark = l.burst end

takeBack(l, a, q, own)
divide(l, a, q)
serve(l, a, q)
fill(l, a, q)
term(l, a, q)
retry(l, a, q)
earmarks(l, a, q, own)
insert(l, a, own)
keepRooms(l)
noteSurplus(l)
lifetime(l, a, now)
-- (close)
