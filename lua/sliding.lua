-- One exchange between a holder and the ledger of a key that has a sliding window.
--
-- Go twin: lease.slidingLedger, whose phases have the same names here, in the same order.
-- Read that one first: it has the reasons. The skeleton, KEYS, ARGV and the reply are those
-- of exchange.lua, with the same meanings, but for:
--
-- ARGV[2]  has three numbers more: the window's length in µs, -1, and how many of the tokens
--          that the holder keeps are spent. ARGV[3] is 0,burst,window,-1.
-- Reply    the record's refills is when the panes let go what is missing, µs from at.
-- Fields   &1 to &6 are the panes, twelve in each, as far as any of the twelve has tokens.
--          ledger.lua has them, as leases of a sliding window end in every script.
-- TTL      until nothing that is spent or on lease now counts any more.

-- (prelude)
-- (ledger)

-- (window)
-- sliding.go

-- handBack takes what the holder hands back, and counts as spent now what it does not tell of
-- any more.
local function handBack(l, a, q, own)
  local claimed = ceil(q.left * (1 + 2 * DRIFT)) + 1
  rejoin(l, own)
  local held, pane, n = ceil(q.held), floor(a.at / l.span), 0
  held = min(held, 2 * MAX_BURST - l.bursts)
  if own.seq and own.at + own.life <= a.at then
    pane, n = floor((own.at + own.life) / l.span), own.burst
  elseif own.seq then
    a.was, a.held, a.left = own.demand, held, min(own.at + own.life - a.at, claimed)
    local back = floor(q.give)
    if q.seen < own.seq then back = back + own.add end
    back = min(back, own.burst - held)
    l.pool, n = l.pool + back, own.burst - held - back
  elseif q.claim >= 0 and a.at - l.born < l.tick * ERA then
    a.held, a.left = held, min(claimed, l.tick * ERA)
    l.pool = l.pool - held
  end
  spend(l, pane, n)
  if q.debt > 0 and (not own.seq or q.since > own.seq) then
    l.pool = l.pool - ceil(q.debt)
    spend(l, floor(a.at / l.span), ceil(q.debt))
  end
end

-- takeUp takes tokens for the requests that wait, and sets a.used, which of those that are held
-- are spent.
local function takeUp(l, a, q)
  local reserves, spared = q.hold, 0
  q.hold = 1
  if l.high > 0 and q.min <= a.part then
    spared = max(l.pool - max(a.part - a.held, 0), 0)
  end
  take(l, a, q, spared)
  a.used = ceil(q.used)
  a.used = min(a.used, a.held - a.taken)
  if reserves == 0 then a.used = a.used + a.taken end
end

-- tempo is when the holder shall come back.
local function tempo(l, a, q)
  local part, most, lag = l.window * SLIDE_REFRESH, q.maxHold / SLIDE_HOLD, q.lag
  a.usual = floor(max(min(most, part), q.maxRefresh))
  a.longest = a.usual
  if not a.contended and l.pool > l.burst * SLIDE_CALM then
    a.longest = floor(max(min(most, 2 * part), q.maxRefresh))
  end
  lag = min(l.tick * SLIDE_LAG, lag)
  a.lag = lag
  refresh(a, q, lag)
end

-- lends sets a.wants, how many free tokens the holder should have.
local function lends(l, a, q)
  local avail = max(l.pool - a.spared, 0) + a.free
  a.wants = 0
  if q.mode == BATCHES then
    a.wants = floor(min(avail, q.batch))
  else
    local need = ceil(a.demand * min(a.usual, a.refresh) / 1000000)
    if (need >= q.smallest or q.mode == SHARES) and a.demand > 0 and q.mode ~= PER_REQUEST then
      local part = avail
      if not a.contended then part = floor(avail * SLIDE_PART * a.demand / a.sum) end
      a.leased, a.wants = true, min(part, need)
    end
  end
end

-- reclaim makes a holder that has more than its part give up some of that.
local function reclaim(l, a, q, most)
  if l.pool < 0 and a.held > 0 then
    local keep = a.held - ceil(a.held * -l.pool / (l.bursts + a.held))
    a.keep = min(a.keep, max(keep, 0))
  end
  a.keep = min(a.keep, l.burst - a.spared)
  if l.high > 0 or a.held > most * SLIDE_UNEVEN then
    local keep = most + floor(max(a.held - most, 0) * SLIDE_KEEP)
    a.keep = min(a.keep, keep)
  end
  local short = q.take > a.taken or l.pool - a.spared < 1
  if short and a.held * SLIDE_UNEVEN < most then a.flags = HIGH end
  if a.flags == HIGH or l.high > 0 then
    local few = floor(q.smallest * 1000000 / max(a.demand, 0.000001))
    local sooner = floor(a.longest / 4)
    a.longest = min(a.longest, max(sooner, q.maxRefresh, few))
    a.refresh = min(a.refresh, a.longest)
  end
end

-- lives is how long the lease does.
local function lives(l, a, q)
  a.leased = a.leased or a.wants + a.free > 0 or a.used >= q.smallest
  a.granted = 2 * a.refresh + a.lag
  if not a.leased and (a.burst > 0 or a.flags ~= HIGH) then
    local trips = a.lag == 0 and q.maxRefresh or max(4 * a.lag + q.minRefresh, l.span)
    a.granted = max(min(q.maxRefresh, trips), 2 * a.lag)
    a.refresh = 2 * a.granted
  end
  a.life = max(a.granted, a.left)
end

-- allot decides how many tokens the holder may have, how many of those it shall keep, and for
-- how long.
local function allot(l, a, q)
  a.contended = a.sum * l.window / 1000000 > l.burst or l.pool < 0

  tempo(l, a, q)
  a.free, a.spared = a.held - a.used, 0
  if l.holders > 1 or a.at - l.born >= l.window then a.spared = ceil(l.burst * SLIDE_SPARED) end
  lends(l, a, q)
  a.keep = a.used + a.wants
  local most = a.keep
  if a.contended then
    most = a.part
    reclaim(l, a, q, most)
  end
  a.add = max(min(a.wants - a.free, most - a.held, l.pool), 0)
  a.burst = a.held + a.add
  if a.burst > 0 then a.shape = BATCH end
  l.pool, a.add = l.pool - a.add, a.add + a.kept
  a.dry = l.pool - a.spared < 1
  lives(l, a, q)
end

-- leaving sets a.leaves, when so many tokens have left the panes, in µs from now, if ever.
local function leaving(l, a, missing)
  local pane, last = floor(a.at / l.span) - SLIDE_PANES, floor(a.at / l.span)
  a.leaves = nil
  while pane <= last do
    local chunk = l.chunks[floor(pane / CHUNK_PANES) % CHUNKS + 1]
    local n = chunk and chunk[pane % CHUNK_PANES + 2] or 0
    missing = missing - n
    if n > 0 and missing <= 0 then
      a.leaves = (pane + SLIDE_PANES + 1) * l.span - a.at
      break
    end
    pane = pane + 1
  end
end

-- pause is how long the holder shall not ask for more, if that is not there.
local function pause(l, a, q)
  local low = a.free + a.add - a.kept < a.wants / 2
  if a.leased and a.contended and (q.take > a.taken or a.dry or low) then
    a.retry = a.refresh
  elseif q.take > a.taken then
    leaving(l, a, max(q.min - a.taken, 1) - l.pool)
    a.retry = a.leaves or MAX_FILL
    if l.bursts + a.burst > 0 then a.retry = min(a.retry, a.longest) end
    a.retry = min(max(a.retry, 1000), MAX_FILL)
  end
  if a.frees then a.retry = min(a.retry, a.frees) end
end

-- foresee sets a.refills, how long it takes at least until there is what was denied, or a token.
local function foresee(l, a, q)
  local needed, known = 1, l.pool + l.bursts + a.burst - a.used
  if q.take > a.taken then needed = max(q.min - a.taken, 1) end
  if l.uses then
    used(l, l.at)
    known = known + l.used
  end
  if needed > known then
    leaving(l, a, needed - known)
    if a.leaves then
      a.refills = min(a.leaves, MAX_FILL)
      if l.pool < 0 then a.retry = min(a.retry, max(a.leaves, 1000)) end
    end
  end
end

-- (open)
-- (begin)
a.leased = false
if l.wipe then
  l.chunks, l.dirty, l.span = {}, {}, ceil(l.window * (1 + DRIFT) / SLIDE_PANES)
end
local was = l.burst
declare(l, a, q, own)
l.pool = l.pool + (l.burst - was) -- what counts stays the same
a.refills, a.flags = 0, 0
handBack(l, a, q, own)
a.demand = min(q.demand / RESOLUTION, 2 * MAX_RATE - l.demand)
a.sum = l.demand + a.demand
a.part = floor(l.burst * a.demand / max(a.sum, 0.000001))
takeUp(l, a, q)
allot(l, a, q)
pause(l, a, q)
foresee(l, a, q)
insert(l, a, own)

local ttl = (SLIDE_PANES + 2) * l.span + l.tick * ERA + 1000000
if l.expiry < now + ttl then
  l.ttl = ceil(ttl * 1.25 / 1000)
  l.expiry = now + l.ttl * 1000
end
-- (close)
