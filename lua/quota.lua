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

-- (window)
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
    end
    if a.held > 0 then a.left = min(own.at + own.life - a.at, claimed) end
    if q.seen < own.seq then back = back + own.add end
    local most = own.burst - above(a.held)
    l.pool = l.pool + min(back, most)
  elseif q.claim >= 0 and l.born >= l.begins then
    a.flags, a.held, a.left = MARKED, q.held, min(claimed, a.refills)
    l.pool = l.pool - above(a.held)
  end
  if q.debt < 0 then
    if own.seq and q.seen == own.seq and q.since == own.at then
      l.pool = max(l.pool, min(l.pool - q.debt, l.burst - l.bursts - above(a.held)))
    end
  elseif not own.seq or q.since > own.seq then
    l.pool = l.pool - q.debt
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

-- lendBatch decides how many tokens the holder may have, and for how long.
local function lendBatch(l, a, q)
  a.demand = min(q.demand / RESOLUTION, 2 * MAX_RATE - l.demand)
  local sum, lag = l.demand + a.demand, min(q.lag, q.maxRefresh)
  a.contended, a.dry = sum * a.refills / 1000000 > l.pool, l.pool < 1

  a.longest = q.maxRefresh
  if l.unrest <= QUOTA_HUNGER and l.pool > l.burst * QUOTA_CALM then
    local calm = floor(min(q.maxHold / QUOTA_HOLD, a.refills / QUOTA_END))
    a.longest = max(a.longest, calm)
  end
  refresh(a, q, lag)
  batch(l, a, q, sum)
  if a.keep == 0 then a.refresh = q.minRefresh end
  a.add = floor(max(min(a.keep - a.held, l.pool), 0))
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
    a.retry = l.bursts > 0 and min(a.refills, q.maxRefresh) or a.refills
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
