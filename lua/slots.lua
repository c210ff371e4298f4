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
  if l.bursts < 0 then l.bursts = 0 end -- of a state that was spoilt
  if own.seq and own.refills > 0 then a.refills = own.refills + a.at - own.at end
  if own.seq and q.seq > own.seq or q.claim >= 0 then
    a.held, a.left = ceil(q.held), ceil((ceil(q.left * (1 + 2 * DRIFT)) + 1) / SLOTS_TOLD)
    if a.held > 2 * MAX_BURST - l.bursts then a.held = 2 * MAX_BURST - l.bursts end
    if a.left > l.tick * ERA * 2 then a.left = l.tick * ERA * 2 end
  end
end

-- fairPart finds the part of all slots that the holder is due, and how many nobody will want.
local function fairPart(l, a, q)
  a.demand = q.peak
  if a.demand < q.demand / RESOLUTION then a.demand = q.demand / RESOLUTION end
  if a.demand > l.burst then a.demand = l.burst end
  if a.demand > 2 * MAX_RATE - l.demand then a.demand = 2 * MAX_RATE - l.demand end
  a.demand = floor(a.demand)
  local level = l.burst - l.earmark - l.low
  level = (level < 0 and 0 or level) / (l.high + 1)
  a.fair = a.demand
  if a.demand > level then a.flags, a.fair = HIGH, level < 1 and 0 or ceil(level) end
  local sum = l.demand + a.demand
  a.unwanted = l.burst - sum - sqrt(sum)
  if a.unwanted < 0 then a.unwanted = 0 end
  a.contended = l.earmark > 0 or l.demand > 0 and a.unwanted == 0
end

-- block sets a.keep, how many slots the holder may go on using.
local function block(l, a, q)
  a.keep = a.demand
  local sum = l.demand + a.demand
  if l.earmark > 0 then
    a.keep = a.rate < a.fair and a.rate or a.fair
  else
    if a.contended then
      a.keep = a.fair < 1 and 1 or a.fair
    elseif sum > 0 then
      local spare, most = a.unwanted * a.demand / sum, a.demand * SLOTS_SPARE + 1
      a.keep = a.keep + floor(spare < most and spare or most)
    end
    if q.mode == PER_REQUEST and a.keep > a.rate then a.keep = a.rate end
  end
end

-- lendBlock takes slots for the jobs that wait, and then the idle ones of the block.
local function lendBlock(l, a, q)
  local free = l.burst - l.bursts - a.held - l.earmark
  local least = q.min < 1 and 1 or q.min
  if q.take > 0 and free >= least then
    local most = free < q.take and free or q.take
    if a.contended then
      local due = a.fair - a.held
      if due < least then due = least end
      if most > due then most = due end
    end
    a.taken = floor(most)
    if q.unit > 1 then a.taken = q.min + floor((a.taken - q.min) / q.unit) * q.unit end
  end
  a.kept = a.taken
  a.rate = floor(q.got < a.held and q.got or a.held) + a.taken
  block(l, a, q)
  local left = l.burst < l.bursts and 0 or l.burst - l.bursts
  if a.keep > left then a.keep = left end
  a.add = 0
  if not a.contended then
    a.add = a.keep - a.held - a.taken
    if a.add > free - a.taken then a.add = free - a.taken end
    if a.add < 0 then a.add = 0 end
  end
  a.add = a.add + a.taken
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
        a.flags, l.earmark = a.flags + MARKED, q.min < 1 and 1 or q.min
      end
      if l.unrest < waited then l.unrest = waited end
    end
  end
end

-- renew is when the holder comes back, and how long it keeps its block.
local function renew(l, a, q)
  local longest, denied = q.maxRefresh, q.take > a.taken
  a.refresh, a.life = longest, longest * SLOTS_LIFE
  if a.life < q.maxHold then a.life = q.maxHold end
  if a.burst == 0 then
    a.life = longest * 2 + (q.lag < longest and q.lag or longest)
  elseif a.burst == a.rate and not denied then
    a.refresh = floor(a.life * SLOTS_RENEWAL)
  end
  if denied then
    a.retry = longest
    if a.taken == 0 then
      a.retry = floor(a.refills * (a.flags >= MARKED and SLOTS_ASK or SLOTS_AGAIN))
      if a.retry < q.minRefresh then a.retry = q.minRefresh end
      if a.retry > longest then a.retry = longest end
    end
  end
  a.granted = floor(a.life * SLOTS_TOLD)
  if a.life < a.left then a.life = a.left end
end

-- (open)
-- (begin)
l.at = l.at + 1
a.at, a.refills, a.flags, a.dry = l.at, 0, 0, false
declare(l, a, q, own)
if l.earmark > l.burst then l.earmark = l.burst end
comeHome(l, a, q, own)
fairPart(l, a, q)
lendBlock(l, a, q)
keepFor(l, a, q)
renew(l, a, q)
insert(l, a, own)
l.pool = l.burst < l.bursts and 0 or l.burst - l.bursts

local longest = l.tick * ERA * 2 -- longest life of a lease, by any holder's policy
if l.expiry < now + longest then
  l.ttl = ceil((longest * 2 + 1000000) / 1000)
  l.expiry = now + l.ttl * 1000
end
-- (close)
