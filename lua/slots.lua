-- One exchange between a holder and the ledger of a key that has slots.
--
-- Go twin: lease.slotsLedger, whose phases have the same names here, in the same order.
-- Read that one first: it has the reasons. The skeleton, KEYS, ARGV and the reply are those
-- of exchange.lua, with the same meanings, but for:
--
-- ARGV[2]  has two numbers more, both 0. So has ARGV[3]: 0,slots,0,0.
-- Reply    the record's at is the block's fence.
--
-- Time     is this server's, and a µs more with each exchange.
-- TTL      until all leases have ended, and as long again.

-- (prelude)
-- (ledger)

-- slots.go

-- comeHome finds out what the holder still has.
local function comeHome(l, a, q, own)
  rejoin(l, own)
  l.bursts = max(l.bursts, 0) -- of a state that was spoilt
  if own.seq and own.refills > 0 then a.refills = own.refills + a.at - own.at end
  if own.seq and q.seq > own.seq or q.claim >= 0 then
    a.held, a.left = ceil(q.held), ceil((ceil(q.left * (1 + 2 * DRIFT)) + 1) / SLOTS_TOLD)
    a.held, a.left = min(a.held, 2 * MAX_BURST - l.bursts), min(a.left, l.tick * ERA * 2)
  end
end

-- fairPart finds the part of all slots that the holder is due, and how many nobody will want.
local function fairPart(l, a, q)
  a.demand = max(q.peak, q.demand / RESOLUTION)
  a.demand = floor(min(a.demand, l.burst, 2 * MAX_RATE - l.demand))
  local level = max(l.burst - l.earmark - l.low, 0) / (l.high + 1)
  a.fair = a.demand
  if a.demand > level then a.flags, a.fair = HIGH, level < 1 and 0 or ceil(level) end
  local sum = l.demand + a.demand
  a.unwanted = max(l.burst - sum - math.sqrt(sum), 0)
  a.contended = l.earmark > 0 or l.demand > 0 and a.unwanted == 0
end

-- block sets a.keep, how many slots the holder may go on using.
local function block(l, a, q)
  a.keep = a.demand
  local sum = l.demand + a.demand
  if l.earmark > 0 then
    a.keep = min(a.fair, a.rate)
  else
    if a.contended then
      a.keep = max(a.fair, 1)
    elseif sum > 0 then
      a.keep = a.keep + floor(min(a.demand * SLOTS_SPARE + 1, a.unwanted * a.demand / sum))
    end
    if q.mode == PER_REQUEST then a.keep = min(a.keep, a.rate) end
  end
end

-- lendBlock takes slots for the jobs that wait, and then the idle ones of the block.
local function lendBlock(l, a, q)
  local free = l.burst - l.bursts - a.held - l.earmark
  local least = max(q.min, 1)
  if q.take > 0 and free >= least then
    local most = min(q.take, free)
    if a.contended then most = min(most, max(a.fair - a.held, least)) end
    a.taken = floor(most)
    if q.unit > 1 then a.taken = q.min + floor((a.taken - q.min) / q.unit) * q.unit end
  end
  a.kept = a.taken
  a.rate = floor(min(a.held, q.got)) + a.taken
  block(l, a, q)
  a.keep = min(a.keep, max(l.burst - l.bursts, 0))
  a.add = a.taken
  if not a.contended then
    a.add = max(min(a.keep - a.held - a.taken, free - a.taken), 0) + a.taken
  end
  a.burst = a.held + a.add
  if a.burst > 0 then a.shape = BLOCK end
end

-- keepFor keeps slots for a holder that got none.
local function keepFor(l, a, q)
  local waited = a.refills
  a.refills = 0
  if q.take > 0 and a.taken == 0 and q.min <= l.burst then
    a.refills = waited + 1
    if a.held == 0 or a.held + 1 < a.fair or q.min > 1 then
      if l.earmark == 0 and waited >= l.unrest * SLOTS_TURN then
        a.flags, a.mark = a.flags + MARKED, max(q.min, 1)
      end
      l.unrest = max(l.unrest, waited)
    end
  end
end

-- renew is when the holder comes back, and how long it keeps its block.
local function renew(l, a, q)
  local longest, denied = q.maxRefresh, q.take > a.taken
  a.refresh, a.life = longest, max(longest * SLOTS_LIFE, q.maxHold)
  if a.burst == 0 then
    a.life = longest * 2 + min(longest, q.lag)
  elseif a.burst == a.rate and not denied then
    a.refresh = floor(a.life * SLOTS_RENEWAL)
  end
  if denied then
    a.retry = longest
    if a.taken == 0 then
      a.retry = floor(a.refills * (a.flags >= MARKED and SLOTS_ASK or SLOTS_AGAIN))
      a.retry = min(max(a.retry, q.minRefresh), longest)
    end
  end
  a.granted = floor(a.life * SLOTS_TOLD)
  a.life = max(a.life, a.left)
end

-- (open)
-- (begin)
l.at = l.at + 1
a.at, a.refills, a.flags, a.dry = l.at, 0, 0, false
declare(l, a, q, own)
comeHome(l, a, q, own)
fairPart(l, a, q)
lendBlock(l, a, q)
keepFor(l, a, q)
renew(l, a, q)
insert(l, a, own)
l.pool = max(l.burst - l.bursts, 0)

local longest = l.tick * ERA * 2 -- longest life of a lease, by any holder's policy
if l.expiry < now + longest then
  l.ttl = ceil((longest * 2 + 1000000) / 1000)
  l.expiry = now + l.ttl * 1000
end
-- (close)
