-- One exchange between a holder and the ledger of a key that has a quota.
--
-- Go twin: lease.quotaLedger, whose phases have the same names here, in the same order.
-- Read that one first: it has the reasons. The skeleton, KEYS, ARGV and the reply are those
-- of exchange.lua, with the same meanings, but for:
--
-- ARGV[2]  has two numbers more, the window's length and the offset, in µs. So has
--          ARGV[3]: 0,burst,window,offset.
-- Reply    the record's refills is how long the window goes on, µs from at.
--
-- Time     is this server's, or that of the last exchange if it steps back.
-- TTL      until the window ends, and an era and a second more: whoever comes back with a
--          lease of the window before finds that it is known.

-- (prelude)
-- (ledger)

-- quota.go

-- comeBack takes what the holder hands back.
local function comeBack(l, a, q, own)
  local claimed = ceil(q.left * (1 + 2 * DRIFT)) + 1
  rejoin(l, own)
  if own.seq and q.seq > own.seq then
    local back = 0
    a.was = own.demand
    if own.flags % ENDED >= MARKED or q.seen >= own.seq then
      a.flags, a.held, back = MARKED, q.held, q.give
      a.left = own.at + own.life - a.at
      if claimed < a.left then a.left = claimed end
    end
    if q.seen < own.seq then back = back + own.add end
    local most = own.burst - ceil(a.held * RESOLUTION) / RESOLUTION
    if back > most then back = most end
    l.pool = l.pool + back
  elseif q.claim >= 0 and l.born >= l.begins then
    a.flags, a.held, a.left = MARKED, q.held, claimed
    if a.left > a.refills then a.left = a.refills end
    l.pool = l.pool - ceil(a.held * RESOLUTION) / RESOLUTION
  end
  if q.debt < 0 then
    a.back = own.seq and q.seen == own.seq and q.since == own.at
    if a.back then l.pool = l.pool - q.debt end
  elseif not own.seq or q.since > own.seq then
    l.pool = l.pool - q.debt
  end
  if a.held > 2 * MAX_BURST - l.bursts then a.held = 2 * MAX_BURST - l.bursts end
  local room = l.burst - l.bursts - ceil(a.held * RESOLUTION) / RESOLUTION
  if room < 0 then room = 0 end
  if l.pool > room then l.pool = room end
end

-- take takes tokens for the requests that wait.
local function take(l, a, q)
  if q.take > 0 and l.pool >= q.min then
    a.taken = floor(l.pool < q.take and l.pool or q.take)
    if q.unit > 1 then a.taken = q.min + floor((a.taken - q.min) / q.unit) * q.unit end
    l.pool = l.pool - a.taken
  end
  if q.hold > 0 then a.kept, a.held = a.taken, a.held + a.taken end
  if q.take > a.taken then l.unrest = 1 end
end

-- batch sets a.keep, how many tokens the lease shall have.
local function batch(l, a, q, sum)
  local avail = (l.pool > 0 and l.pool or 0) + a.held
  a.keep = 0
  if q.mode == BATCHES then
    a.keep = floor(q.batch < avail and q.batch or avail)
  elseif (q.mode ~= PER_REQUEST or q.maxHold > q.maxRefresh) and a.demand > 0 and
    not (a.dry and l.unrest > QUOTA_HUNGER) then
    a.keep = ceil(a.demand * a.refresh * QUOTA_ROOM / 1000000)
    local part = floor(avail * QUOTA_PART * a.demand / sum)
    if a.keep > part then a.keep = part end
    if q.mode ~= SHARES and a.keep < q.smallest then a.keep = 0 end
  end
end

-- lendBatch decides how many tokens the holder may have, and for how long.
local function lendBatch(l, a, q)
  a.demand = q.demand / RESOLUTION
  if a.demand > 2 * MAX_RATE - l.demand then a.demand = 2 * MAX_RATE - l.demand end
  local sum = l.demand + a.demand
  a.contended, a.dry = sum * a.refills / 1000000 > l.pool, l.pool < 1

  local longest = q.maxRefresh
  if l.unrest <= QUOTA_HUNGER and l.pool > l.burst * QUOTA_CALM then
    local calm = q.maxHold / QUOTA_HOLD
    if calm > a.refills / QUOTA_END then calm = a.refills / QUOTA_END end
    calm = floor(calm)
    if longest < calm then longest = calm end
  end
  local lag = q.lag
  if lag > q.maxRefresh then lag = q.maxRefresh end
  a.refresh = longest
  if a.demand > 0 then
    local refresh = floor(q.batch * 1000000 / a.demand)
    if refresh < a.refresh then a.refresh = refresh end
    if a.refresh < q.minRefresh then a.refresh = q.minRefresh end
    if a.refresh < lag then a.refresh = lag end
  end
  batch(l, a, q, sum)
  if a.keep == 0 then a.refresh = q.minRefresh end
  a.add = a.keep - a.held
  if a.add > l.pool then a.add = l.pool end
  a.add = a.add > 0 and floor(a.add) or 0
  a.burst = ceil((a.held + a.add) * RESOLUTION) / RESOLUTION
  if a.burst > 0 then a.shape = BATCH end
  l.pool, a.add = l.pool - a.add, a.add + a.kept
  a.granted = 2 * a.refresh + lag
  if a.granted > a.refills then a.granted = a.refills end
  a.life = a.granted < a.left and a.left or a.granted
  if a.life > a.refills then a.life = a.refills end
end

-- deny is how long a holder shall not ask again, if it was denied.
local function deny(l, a, q)
  if q.take > a.taken then
    a.retry = a.refills
    if l.bursts > 0 and a.retry > q.maxRefresh then a.retry = q.maxRefresh end
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
comeBack(l, a, q, own)
take(l, a, q)
lendBatch(l, a, q)
deny(l, a, q)
insert(l, a, own)

if l.expiry < l.finishes then
  l.ttl = ceil((l.finishes - now + l.tick * ERA + 1000000) / 1000)
  l.expiry = now + l.ttl * 1000
end
-- (close)
