-- One exchange between a holder and the ledger of a key that has a quota.
--
-- Go twin: lease.quotaLedger, whose phases have the same names here, in the same order.
-- Read that one first: it has the reasons. The skeleton, KEYS, ARGV and the reply are those
-- of exchange.lua, with the same meanings, but for:
--
-- ARGV[2]  has two numbers more, the window's length and the offset, in µs. So has
--          ARGV[3]: 0,burst,window,offset.
-- ARGV[4]  has three numbers more for each class: own, debt and back.
-- Reply    the record's refills is how long the window goes on, µs from at.
--
--          Portions by class follow as Lent in layout.go says.
--
-- Time     is this server's, or that of the last exchange if it steps back.
-- TTL      until the window ends, and an era and a second more: whoever comes back with a
--          lease of the window before finds that it is known.

-- (prelude)
-- (ledger)

-- (window)
-- quota.go

-- class_quota.go

-- What there is by class: by.told are the numbers of ARGV[4].
local by = ARGV[4] and {told = {read('>' .. string.rep('d', #ARGV[4] / 8), ARGV[4])}}

-- classify begins an answer by class: it reads the accounts, or sets l.wrong.
local function classify(l, a, own)
  by.first, by.n, by.spared = by.told[1], (#ARGV[4] / 8 - 1) / 6, 0
  by.adds, by.keep, by.kept = {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}, {}
  by.own, by.lost = {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}
  by.lent, a.classes = {0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0}
  readClasses(l)
  if not l.wipe then
    local texts = redis.call('HMGET', KEYS[1], '&l', '&l' .. ARGV[1], '&&' .. ARGV[1])
    for i = 1, 2 do
      if texts[i] and #texts[i] == LENT then
        local lent = {read(LENT_FORMAT, texts[i])}
        for c = 1, MAX_CLASSES do
          if lent[c] - lent[c] ~= 0 then l.wrong = 'RATION bad state' end
        end
        if i == 1 then by.lent = lent else by.lost = lent end
      elseif texts[i] then
        l.wrong = 'RATION bad state'
      end
    end
    local text = own.seq and texts[3]
    lessen(l, text)
  end
end

-- keepOwn notes what the holder keeps for classes.
local function keepOwn(a)
  local left = a.held
  for c = 1, by.n do
    local own = by.told[c * 6 - 1]
    by.own[c] = min(own, left)
    left = left - by.own[c]
  end
end

-- book takes to the accounts of classes what comes back to the pool.
local function book(l, a, q, own, came)
  local left = max(came, 0)
  for c = 1, MAX_CLASSES do
    local back = 0
    if a.flags >= MARKED and c <= by.n then back = by.told[c * 6 + 1] end
    if q.seen < own.seq then back = back + by.lost[c] end
    back = min(back, left)
    left = left - max(back, 0)
    local lent = by.lent[c] - back
    by.lent[c] = max(lent, 0)
  end
  if a.flags >= MARKED then
    keepOwn(a)
  end
end

-- bookDebt takes a debt to the accounts of those who have made it.
local function bookDebt(q)
  local left = q.debt
  for c = 1, by.n do
    local n = by.told[c * 6]
    n = min(n, left)
    by.lent[c], left = by.lent[c] + n, left - n
  end
end

-- adoptByClass counts what a lost state has lent for classes.
local function adoptByClass(l, a)
  keepOwn(a)
  for c = 1, by.n do
    by.lent[c] = by.lent[c] + by.own[c]
  end
end

-- keepFloors finds what the pool keeps of each floor, and what of that is not for the class that
-- is asked for.
local function keepFloors(l)
  local free = max(l.pool, 0)
  for c = 1, by.n do
    local kept = floor(by.told[c * 6 - 3] * l.burst + WHOLE) - by.lent[c]
    kept = max(kept, 0)
    by.kept[c] = min(kept, free)
    free = free - by.kept[c]
  end
  by.free = free
  by.spared = max(l.pool, 0) - free - by.kept[by.first]
end

-- comeBack takes what the holder hands back.
local function comeBack(l, a, q, own)
  local claimed = ceil(q.left * (1 + 2 * DRIFT)) + 1
  rejoin(l, own)
  if own.seq and q.seq > own.seq then
    local back = 0
    a.was = own.demand
    if own.flags % ENDED >= MARKED or q.seen >= own.seq then
      a.flags, a.held, back = MARKED, q.held, q.give
    end
    if a.held > 0 then a.left = min(own.at + own.life - a.at, claimed) end
    if q.seen < own.seq then back = back + own.add end
    local most = own.burst - above(a.held)
    back = min(back, most)
    l.pool = l.pool + back
    if by then
      book(l, a, q, own, back)
    end
  elseif q.claim >= 0 and l.born >= l.begins then
    a.flags, a.held, a.left = MARKED, q.held, min(claimed, a.refills)
    l.pool = l.pool - above(a.held)
    if by then
      adoptByClass(l, a)
    end
  end
  if q.debt < 0 then
    if own.seq and q.seen == own.seq and q.since == own.at then
      l.pool = max(l.pool, min(l.pool - q.debt, l.burst - l.bursts - above(a.held)))
    end
  elseif not own.seq or q.since > own.seq then
    l.pool = l.pool - q.debt
    if by then
      bookDebt(q)
    end
  end
  a.held = min(a.held, 2 * MAX_BURST - l.bursts)
  local room = l.burst - l.bursts - above(a.held)
  l.pool = min(l.pool, max(room, 0))
end

-- batch sets a.keep, how many tokens the lease shall have.
local function batch(l, a, q, sum)
  local avail = max(l.pool, 0) + a.held
  a.keep = 0
  if q.mode == BATCHES then
    a.keep = floor(min(avail, q.batch))
  elseif (q.mode ~= PER_REQUEST or q.maxHold > q.maxRefresh) and a.demand > 0 and
    not (a.dry and l.unrest > QUOTA_HUNGER) then
    a.keep = ceil(a.demand * a.refresh * QUOTA_ROOM / 1000000)
    local part = floor(avail * QUOTA_PART * a.demand / sum)
    a.keep = min(a.keep, part)
    if q.mode ~= SHARES and a.keep < q.smallest then a.keep = 0 end
  end
end

-- class_quota.go

-- lendByClass lends each class a part of what is kept for it, and to all together a part of what is
-- kept for none.
local function lendByClass(l, a, q, sum)
  local first = by.first
  by.lent[first] = by.lent[first] + a.taken
  by.own[first], by.adds[first] = by.own[first] + a.kept, a.kept
  keepFloors(l)

  local hungry = l.unrest > QUOTA_HUNGER
  local lends = a.demand > 0 and (q.mode ~= PER_REQUEST or q.maxHold > q.maxRefresh)
  local held = a.held
  a.keep = 0
  for c = 1, by.n do
    local d = by.told[c * 6 - 4] / RESOLUTION
    d = min(d, 2 * MAX_RATE - l.classes[c])
    a.classes[c], l.classes[c], held = d, l.classes[c] + d, held - by.own[c]
    if lends and d > 0 and (by.kept[c] >= 1 or not hungry) then
      local need = ceil(d * a.refresh * QUOTA_ROOM / 1000000)
      local part = floor((by.kept[c] + by.own[c]) * QUOTA_PART * d / l.classes[c])
      by.keep[c] = min(need, part)
      a.keep = a.keep + by.keep[c]
    end
  end
  local rest = 0
  if lends and (by.free >= 1 or not hungry) then
    local need = ceil(a.demand * a.refresh * QUOTA_ROOM / 1000000) - a.keep
    need = max(need, 0)
    local part = floor((by.free + held) * QUOTA_PART * a.demand / sum)
    rest = min(need, part)
  end
  a.keep = a.keep + rest
  if q.mode ~= SHARES and a.keep < q.smallest then
    a.keep, rest, by.keep = 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}
  end

  a.add = floor(max(min(rest - held, by.free), 0))
  for c = 1, by.n do
    local add = by.keep[c] - by.own[c]
    add = min(add, by.kept[c])
    add = floor(max(add, 0))
    by.adds[c], by.kept[c] = by.adds[c] + add, by.kept[c] - add
    by.lent[c], a.add = by.lent[c] + add, a.add + add
  end
  for c = by.n + 1, MAX_CLASSES do
    by.kept[c] = 0
  end
  local lent = write(LENT_FORMAT, unpack(by.lent, 1, MAX_CLASSES))
  local adds = write(LENT_FORMAT, unpack(by.adds))
  l.portions = {'&l', lent, '&l' .. ARGV[1], adds}
  a.portions = adds .. write(LENT_FORMAT, unpack(by.keep)) .. write(LENT_FORMAT, unpack(by.kept))
end

-- quota.go

-- lendBatch decides how many tokens the holder may have, and for how long.
local function lendBatch(l, a, q)
  a.demand = min(q.demand / RESOLUTION, 2 * MAX_RATE - l.demand)
  local sum, lag = l.demand + a.demand, min(q.lag, q.maxRefresh)
  a.contended, a.dry = sum * a.refills / 1000000 > l.pool, l.pool - (by and by.spared or 0) < 1

  a.longest = q.maxRefresh
  if l.unrest <= QUOTA_HUNGER and l.pool > l.burst * QUOTA_CALM then
    local calm = floor(min(q.maxHold / QUOTA_HOLD, a.refills / QUOTA_END))
    a.longest = max(a.longest, calm)
  end
  refresh(a, q, lag)
  if by then
    lendByClass(l, a, q, sum)
  else
    batch(l, a, q, sum)
    a.add = floor(max(min(a.keep - a.held, l.pool), 0))
  end
  if a.keep == 0 then a.refresh = q.minRefresh end
  a.burst = above(a.held + a.add)
  if a.burst > 0 then a.shape = BATCH end
  l.pool, a.add = l.pool - a.add, a.add + a.kept
  a.granted = a.refresh + max(a.refresh, q.maxRefresh) + lag
  if a.burst > 0 then a.granted = l.tick * ERA end
  a.granted = min(a.granted, a.refills)
  a.life = min(max(a.granted, a.left), a.refills)
end

-- deny is how long a holder shall not ask again, if it was denied.
local function deny(l, a, q)
  if q.take > a.taken then
    a.retry = a.refills
    if l.uses then
      local n = l.burst - max(q.min - a.taken, 1)
      n = max(n, 0)
      under(l, n)
      a.retry = min(max(a.retry, l.under - l.at), MAX_FILL)
    end
    if l.bursts > 0 then a.retry = min(a.retry, q.maxRefresh) end
    if a.frees then a.retry = min(a.retry, a.frees) end
  end
end

-- (open)
if l.window == q.window and l.offset == q.offset then
  bounds(l, t)
end
if l.begins and l.at < l.begins then
  -- All that is out has ended with its window.
  l.at, l.wipe = t, true
  open(l, q, own)
end
-- (begin)
local was = l.burst
declare(l, a, q, own)
l.pool = l.pool + (l.burst - was) -- what has been used stays the same
bounds(l, t)
a.refills, a.flags = l.finishes - t, 0
if by then
  classify(l, a, own)
  if l.wrong then return redis.error_reply(l.wrong) end
end
comeBack(l, a, q, own)
if by then
  keepFloors(l)
end
take(l, a, q, by and by.spared or 0)
lendBatch(l, a, q)
deny(l, a, q)
insert(l, a, own)

if l.expiry < l.finishes then
  l.ttl = ceil((l.finishes - now + l.tick * ERA + 1000000) / 1000)
  l.expiry = now + l.ttl * 1000
end
-- (close)
