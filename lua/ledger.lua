-- The skeleton of a ledger, which the scripts of all kinds of limit share: its clock, the
-- limits that are declared, which holders there are, and the ends of their leases.

-- ledger.go

-- clock sets a.at, the time of this exchange. That of a quota is a calendar's.
local function clock(l, a, now)
  local calendar = l.window and l.window > 0 and l.offset ~= SLIDING
  a.at = now + (calendar and 0 or l.ahead)
  if a.at < l.at then
    if a.at < l.at - CLOCK_STEP and not calendar then l.ahead = l.at - now end
    a.at = l.at
    l.expiry = 0 -- do not rely on what another clock said
  end
end

-- fills sets l.fills, how long an empty pool takes to fill, in µs, at most a sixth of an era.
local function fills(l)
  l.fills = 0
  if l.rate ~= 0 then
    local fills = l.burst * 1000000 / l.rate
    l.fills = min(fills, l.tick * ERA / 6)
  end
end

-- room.go

-- spans sets l.lasting, how long a span is in which the least room counts.
local function spans(l)
  fills(l)
  l.lasting = floor(max(SPAN_TICKS * l.tick, l.fills / (ROOM_SPANS - 2)))
end

-- noteRoom notes the room that the pool has at l.at, and has had at least since from.
local function noteRoom(l, from)
  if l.rooms then
    local room = min(max(l.burst - l.bursts - l.pool, 0), l.burst)
    room = floor(room * ROOM_PARTS / l.burst)
    spans(l)
    local first, last = floor(from / l.lasting), floor(l.at / l.lasting)
    local i = first % ROOM_SPANS + 1
    if room < l.rooms[i] then l.rooms[i] = room end
    first = max(first, last - ROOM_SPANS)
    for span = first + 1, last do
      l.rooms[span % ROOM_SPANS + 1] = room
    end
  end
end

-- clearRooms forgets rooms: the limit or the tick changes.
local function clearRooms(l)
  if l.rooms then l.rooms = {0, 0, 0, 0, 0, 0, 0, 0} end
end

-- keepRooms ends an exchange: rooms are kept while somebody refills from a lease.
local function keepRooms(l)
  if l.rates == 0 or l.window then
    l.rooms = nil
  else
    l.rooms = l.rooms or {0, 0, 0, 0, 0, 0, 0, 0}
    noteRoom(l, l.at)
  end
end

-- caution.go

-- readCaution reads the field, or sets l.wrong.
local function readCaution(l, text)
  l.caution, l.denied, l.wary = 0, 0, text
  if text and #text == CAUTION then
    l.caution, l.denied = read(CAUTION_FORMAT, text)
    if l.caution - l.caution ~= 0 or l.denied - l.denied ~= 0 then l.wrong = 'RATION bad state' end
  elseif text then
    l.wrong = 'RATION bad state'
  end
end

-- weigh counts tokens that were denied, or below 0 those that were lost.
local function weigh(l, tokens)
  local missed = min(max(tokens, -tokens), max(l.denied, -l.denied))
  if missed > 0 and (tokens < 0) ~= (l.denied < 0) then
    local rise = CAUTION_GAIN * (1 + l.caution) * missed / l.rate
    l.caution = min(l.caution + rise, CAUTION_MOST)
  end
  l.denied = max(min(l.denied + tokens, l.rate), -l.rate)
end

-- calm lets caution and denials fall.
local function calm(l, dt)
  l.caution = max(l.caution - dt * (1 + l.caution) / CAUTION_FOR, 0)
  l.denied = l.denied * max(1 - dt / CAUTION_FOR, 0)
  if dt >= l.forgets or max(l.denied, -l.denied) < DENIED_LEAST then l.denied = 0 end
end

-- writeWith writes fields, with that of caution if there is any, by one HSET.
local function writeWith(l, fields)
  if not l.window and (l.caution > 0 or l.denied ~= 0) then
    fields[#fields + 1] = '&r'
    fields[#fields + 1] = write(CAUTION_FORMAT, l.caution, l.denied)
    l.wary = nil
  end
  redis.call('HSET', KEYS[1], unpack(fields))
end

-- ledger.go

-- trim lets go what the pool has no room for.
local function trim(l, room)
  if l.pool >= room then
    local over = room - l.pool
    weigh(l, over)
    l.pool, l.denied = room, max(l.denied, 0)
  end
end

local function refill(l, t)
  local free, room = max(l.rate - l.rates, 0), max(l.burst - l.bursts, min(l.pool, 0))
  l.pool = l.pool + free * (t - l.at) / 1000000
  if l.wary then
    calm(l, t - l.at)
  end
  trim(l, room)
  fills(l)
  l.unrest = l.unrest / (1 + (t - l.at) / max(CALMS_IN, l.fills))
  local from = l.at
  l.at = t
  noteRoom(l, from)
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
        local rate, burst, holders = read(DECLARED_FORMAT, text)
        l.list[i] = {rate, burst, holders}
        if rate - rate ~= 0 or rate <= 0 and not l.window or burst < 1 then
          l.wrong = 'RATION bad state'
        end
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
  d[1], d[2], d[3] = min(d[1], q.rate), min(d[2], q.burst), d[3] + 1
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
    n, last, rate, burst = n + 1, max(last, i), min(rate, d[1]), min(burst, d[2])
  end
  if n == 1 then l.only, last = a.limit, 0 end
  local text = ARGV[3]
  if rate ~= q.rate or burst ~= q.burst then
    text = format('%.17g,%.0f', rate, burst)
    if q.window then text = text .. format(',%.0f,%.0f', q.window, q.offset) end
  end
  if text ~= l.limit or last ~= l.places then l.expiry = 0 end
  if rate ~= l.rate or burst ~= l.burst then
    clearRooms(l)
  end
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
        leave(l, own.limit)
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
    if d then
      writeDeclared(d, text)
    end
    if text and text ~= texts[i] then
      redis.call('HSET', KEYS[1], format('%%%d', i), text)
    elseif texts[i] and not text then
      redis.call('HDEL', KEYS[1], format('%%%d', i))
    end
  end
end

-- ends.go

-- tickWidth sets l.width, the width of a tick by the holder's policy.
local function tickWidth(l, q)
  local quarter, least = floor(q.maxRefresh / 4), ceil(q.maxHold / ERA)
  l.width = max(quarter, least)
end

-- lasts is when something of a lease next flows back, in µs from its beginning.
local function lasts(width, after, life, shape, flags)
  if shape == BLOCK and flags >= MARKED then
    after = width * SLOTS_KEPT
    return min(life, after)
  end
  if flags >= ENDED or shape ~= SLICE then after = life end
  return after
end

-- place is where the calendar counts a lease, from 0.
local function place(width, at, after, life, shape, flags)
  after = lasts(width, after, life, shape, flags)
  if after <= width * REACH then return floor((at + after) / width) % TICKS end
  return TICKS + floor((at + after) / (width * ERA)) % ERAS
end

-- passed sets l.due if a lease ended in a tick that has passed until t. It looks at ticks of a
-- width, n of them from first on.
local function passed(l, t, width, first, n)
  local tick, last = floor(l.at / width), floor(t / width)
  tick = max(tick, last - n)
  while tick < last and not l.due do
    local i = (first + tick % n) * 2
    l.due = sub(l.ends, i + 1, i + 2) ~= '\0\0'
    tick = tick + 1
  end
end

-- due tells by l.due whether a lease may have ended until t.
local function due(l, q, t)
  local width = l.tick
  local eighth = width * EIGHTH
  tickWidth(l, q)
  local another = l.window ~= q.window or l.offset ~= q.offset
  l.due = l.width > width or (l.demand > l.rate * CALM_DEMAND or l.places > 0 or another) and
    floor(l.at / eighth) < floor(t / eighth) and sub(l.ends, TICKS * 2 + 1) ~= '\0\0\0\0\0\0'
  if floor(l.at / width) < floor(t / width) then
    passed(l, t, width, 0, TICKS)
    passed(l, t, width * ERA, TICKS, ERAS)
  end
end

-- class.go

-- readClasses reads the demands by class into l.classes, if they are not known yet.
local function readClasses(l)
  local text = not l.classes and not l.wipe and redis.call('HMGET', KEYS[1], '&c')[1]
  if text and #text ~= CLASSES then
    l.wrong = 'RATION bad state'
  elseif text then
    l.classes = {read(CLASSES_FORMAT, text)}
    for i = 1, MAX_CLASSES do
      l.classes[i] = l.classes[i] / RESOLUTION
    end
  end
  l.classes = l.classes or {0, 0, 0, 0, 0, 0, 0, 0}
end

-- lessen takes the demands by class of a holder out of the sums, which a text has as it is stored.
local function lessen(l, text)
  if text and #text == CLASSES then
    local was = {read(CLASSES_FORMAT, text)}
    for i = 1, MAX_CLASSES do
      was[i] = l.classes[i] - was[i] / RESOLUTION
      l.classes[i] = max(was[i], 0)
    end
  elseif text then
    l.wrong = 'RATION bad state'
  end
end

-- readLent reads l.lent, the numbers by class of the field &l, and sets l.portions if there are any.
local function readLent(l, texts)
  l.lent = {0, 0, 0, 0, 0, 0, 0, 0}
  if texts[2] and #texts[2] == LENT then
    l.lent, l.portions = {read(LENT_FORMAT, texts[2])}, true
    for c = 1, MAX_CLASSES do
      if l.lent[c] - l.lent[c] ~= 0 then l.wrong = 'RATION bad state' end
    end
  elseif texts[2] then
    l.wrong = 'RATION bad state'
  end
end

-- desert does so for a holder that has gone.
local function desert(l, id)
  local text = redis.call('HMGET', KEYS[1], '&&' .. id)[1]
  if text then
    readClasses(l)
    lessen(l, text)
    l.gone = l.gone or {}
    l.gone[#l.gone + 1] = '&&' .. id
    if l.window then l.gone[#l.gone + 1] = '&l' .. id end
  end
end

-- ends.go

-- leases reads those that have a record into l.leases, or sets l.wrong.
local function leases(l, fields)
  l.leases = {}
  for i = 1, #fields, 2 do
    local id, text = fields[i], fields[i + 1]
    if id ~= '#' and id ~= '@' and id ~= '=' and byte(id) ~= 37 and byte(id) ~= 38 then -- % and &
      if #text ~= RECORD then
        l.wrong = 'RATION bad record of holder ' .. id
        break
      end
      local r = {read(RECORD_FORMAT, text)}
      scaleRecord(l, r)
      l.leases[id] = r
    elseif id == '&c' then
      l.classed = true
    end
  end
end

-- finish goes through the leases that ended until t, in the order in which they did. It
-- sets l.changed: what to write of records, and false for those that have gone.
local function finish(l, t)
  local events = {}
  l.changed, l.ended = {}, {}
  for id, r in pairs(l.leases) do
    local ends, dies = r.at + lasts(l.tick, r.refills, r.life, r.shape, r.flags), r.at + r.life
    if ends < dies and ends <= t then
      events[#events + 1] = {ends, id, false}
    end
    if dies <= t then events[#events + 1] = {dies, id, true} end
  end
  -- Events of one moment may come in any order: nothing flows in between, and
  -- the sums are exact. (Redis compares strings by its locale, Go by bytes.)
  table.sort(events, function(x, y) return x[1] < y[1] end)
  for _, event in ipairs(events) do
    local id, r = event[2], l.leases[event[2]]
    refill(l, max(event[1], l.at))
    if not event[3] then
      if r.shape == BLOCK then
        l.earmark, r.flags, r.mark = l.earmark - r.mark, r.flags - MARKED, 0
      else
        l.rates, r.flags, l.denied = l.rates - r.rate, r.flags + ENDED, 0
      end
      local text
      writeRecord(r, text)
      l.changed[id] = text
    else
      l.holders = l.holders - 1
      if r.flags < ENDED then l.rates = l.rates - r.rate end
      l.bursts, l.demand = l.bursts - r.burst, l.demand - r.demand
      if r.flags % 2 == HIGH then l.high = l.high - 1 else l.low = l.low - r.demand end
      l.earmark = l.earmark - r.mark
      leave(l, r.limit)
      l.leases[id], l.changed[id] = nil, false
      if l.classed then
        desert(l, id)
      end
      if l.offset == SLIDING then l.ended[#l.ended + 1] = r end
    end
  end
end

-- count makes the sums anew. They are what they were, unless somebody has tampered with them.
local function count(l)
  l.holders, l.rates, l.bursts, l.demand, l.low, l.high, l.earmark = 0, 0, 0, 0, 0, 0, 0
  for _, r in pairs(l.leases) do
    if r.flags < ENDED then l.rates = l.rates + r.rate end
    l.bursts, l.demand = l.bursts + r.burst, l.demand + r.demand
    if r.flags % 2 == HIGH then l.high = l.high + 1 else l.low = l.low + r.demand end
    l.holders, l.earmark = l.holders + 1, l.earmark + r.mark
  end
end

-- lay puts them into the calendar, those of a crowd by the end of their tokens.
local function lay(l)
  local counts = {}
  for i = 1, TICKS + ERAS do
    counts[i] = 0
  end
  for id, r in pairs(l.leases) do
    local shape = l.crowd > 0 and BATCH or r.shape
    local tick = place(l.tick, r.at, r.refills, r.life, shape, r.flags)
    counts[tick + 1] = counts[tick + 1] + 1
    if tick ~= r.place then
      local text
      r.place = tick
      writeRecord(r, text)
      l.changed[id] = text
    end
  end
  for i, n in ipairs(counts) do
    counts[i] = char(floor(n / 256), n % 256)
  end
  l.ends = table.concat(counts)
end

-- A crowd is more than LOOKS holders. No exchange looks at all of them: 20,000 would stop all
-- clients of the server meanwhile (TestManyEnd). Each place of the calendar has a pile, the sums
-- of its leases and when the last of them ends. Then all have ended, or are in other piles, and
-- the pile falls at once. The records that it leaves do not count. They are swept later, about
-- LOOKS at each exchange. (Go has no twin of piles: lease.Ledger looks at all.)

-- heap adds a lease to the pile of its place, or takes it out if step is -1.
local function heap(l, place, step, rate, burst, demand, flags, mark, dies)
  local pile = {read(PILE_FORMAT, sub(l.piles, place * PILE + 8, place * PILE + PILE + 7))}
  for i = 3, 6 do
    pile[i] = pile[i] / RESOLUTION
  end
  if flags < ENDED then pile[3] = pile[3] + step * rate end
  pile[4], pile[5] = pile[4] + step * burst, pile[5] + step * demand
  if flags % 2 == HIGH then pile[7] = pile[7] + step else pile[6] = pile[6] + step * demand end
  pile[8] = pile[8] + step * mark
  if step > 0 and pile[1] < dies then pile[1] = dies end
  if step > 0 and dies < l.next then l.next = dies end
  local text
  writePile(pile, text)
  l.piles, l.piled =
    sub(l.piles, 1, place * PILE + 7) .. text .. sub(l.piles, place * PILE + PILE + 8), true
end

-- fall takes the piles whose last lease has ended until t out of the sums.
local function fall(l, t)
  if l.next <= t then
    local events = {}
    l.ended, l.next = {}, 9007199254740992 -- 2^53
    for i = 0, TICKS + ERAS - 1 do
      local pile = {read(PILE_FORMAT, sub(l.piles, i * PILE + 8, i * PILE + PILE + 7))}
      if pile[1] > t and pile[1] < l.next then l.next = pile[1] end
      if pile[1] > 0 and pile[1] <= t then
        pile[9] = i
        events[#events + 1] = pile
      end
    end
    table.sort(events, function(x, y) return x[1] < y[1] end)
    for _, event in ipairs(events) do
      local i = event[9]
      local high, low = byte(l.ends, i * 2 + 1, i * 2 + 2)
      refill(l, max(event[1], l.at))
      l.holders, l.high = l.holders - high * 256 - low, l.high - event[7]
      l.rates, l.bursts = l.rates - event[3] / RESOLUTION, l.bursts - event[4] / RESOLUTION
      l.demand, l.low = l.demand - event[5] / RESOLUTION, l.low - event[6] / RESOLUTION
      l.earmark = l.earmark - event[8]
      if l.offset == SLIDING then
        l.ended[#l.ended + 1] = {0, event[1], 0, event[4] / RESOLUTION, 0, 0}
      end
      l.ends = sub(l.ends, 1, i * 2) .. '\0\0' .. sub(l.ends, i * 2 + 3)
      local pile, text = {0, event[1], 0, 0, 0, 0, 0, 0}, nil
      writePile(pile, text)
      l.piles, l.piled =
        sub(l.piles, 1, i * PILE + 7) .. text .. sub(l.piles, i * PILE + PILE + 8), true
    end
  end
end

-- drop lets the records go that piles have left, and the holder's own.
local function drop(l, own)
  local fell = {}
  for i = 0, TICKS + ERAS - 1 do
    fell[i] = {read(PILE_FORMAT, sub(l.piles, i * PILE + 8, i * PILE + PILE + 7))}
  end
  l.changed = {}
  for id, r in pairs(l.leases) do
    local at = fell[r.place]
    if at and r.at + r.life <= at[2] then
      l.leases[id], l.changed[id] = nil, false
      if l.classed then
        desert(l, id)
      end
      if id ~= ARGV[1] then
        leave(l, r.limit)
      end
    end
  end
  local at = own.seq and fell[own.place]
  if at and own.at + own.life <= at[2] then
    leave(l, own.limit)
    if l.changed[ARGV[1]] == nil then
      desert(l, ARGV[1])
    end
    own.seq = nil
  end
end

-- sweep is for what piles leave. Few holders are no crowd any more.
local function sweep(l, own)
  local n, fields = redis.call('HLEN', KEYS[1]), {}
  if n <= LOOKS / 2 then
    fields = redis.call('HGETALL', KEYS[1])
  elseif n > l.holders + l.places + 16 then
    local page = redis.call('HSCAN', KEYS[1], format('%.0f', l.pass), 'COUNT', LOOKS)
    l.pass, fields = tonumber(page[1]), page[2]
    if l.pass > 9007199254740992 then l.pass = 0 end -- 2^53: no pass is as long
    l.classed = redis.call('HMGET', KEYS[1], '&c')[1] ~= false
  else
    l.pass = 0
  end
  leases(l, fields)
  if not l.wrong then
    drop(l, own)
  end
  if n <= LOOKS / 2 and not l.wrong then
    l.crowd, l.pass, l.expiry, l.piled = 0, 0, 0, true
    count(l)
    lay(l)
  end
end

-- gather makes a crowd of the holders before there is one more than LOOKS.
local function gather(l)
  if not l.leases then
    leases(l, redis.call('HGETALL', KEYS[1]))
    l.changed = {}
  end
  l.crowd, l.expiry, l.next = 1, 0, 9007199254740992 -- 2^53
  l.piles = string.rep('\0', (TICKS + ERAS) * PILE + 7)
  lay(l)
  for _, r in pairs(l.leases) do
    heap(l, r.place, 1, r.rate, r.burst, r.demand, r.flags, r.mark, r.at + r.life)
  end
end

-- writePiles writes them, if they have changed.
local function writePiles(l)
  if l.crowd > 0 then
    redis.call('HSET', KEYS[1], '&s', write('>I7', l.next) .. sub(l.piles, 8))
  else
    redis.call('HDEL', KEYS[1], '&s')
  end
end

-- readPiles reads them.
local function readPiles(l)
  if l.crowd > 0 then
    l.piles, l.crowd = redis.call('HMGET', KEYS[1], '&s')[1], 0
    if l.piles and #l.piles == (TICKS + ERAS) * PILE + 7 then
      l.crowd, l.next = 1, read('>I7', l.piles)
    elseif l.piles then
      l.wrong = 'RATION bad state'
    end
  end
end

-- sliding.go

-- spend counts n tokens as spent in a pane, by chunks of panes: the number of the chunk, and
-- what is in each of its panes. Tokens spent a Window ago, or before, do not count.
local function spend(l, pane, n)
  if pane + SLIDE_PANES < floor(l.at / l.span) then
    l.pool = l.pool + n
  elseif n > 0 then
    local number = floor(pane / CHUNK_PANES)
    local place, i = number % CHUNKS + 1, pane % CHUNK_PANES + 2
    local chunk = l.chunks[place] or {number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
    local over = max(chunk[i] + n - PANE_MOST, 0)
    l.pool, chunk[i] = l.pool + over, chunk[i] + (n - over)
    l.chunks[place], l.dirty[place] = chunk, true
  end
end

-- readPanes reads the chunks, or sets l.wrong. None is as old as 65536 of them.
local function readPanes(l)
  local fields = {}
  for i = 1, CHUNKS do
    fields[i] = format('&%d', i)
  end
  local texts = redis.call('HMGET', KEYS[1], unpack(fields))
  l.chunks, l.dirty = {}, {}
  for i = 1, CHUNKS do
    if texts[i] and #texts[i] == CHUNK then
      local chunk = {read(CHUNK_FORMAT, texts[i])}
      local number = floor(floor(l.at / l.span) / CHUNK_PANES)
      chunk[1] = number - (number - chunk[1]) % 65536
      l.chunks[i] = chunk
    elseif texts[i] then
      l.wrong = 'RATION bad state'
    end
  end
end

-- slide lets go what was spent a Window before t, and counts what leases had that have ended.
local function slide(l, t)
  l.span = ceil(l.window * (1 + DRIFT) / SLIDE_PANES)
  if not l.chunks then
    readPanes(l)
  end
  local last = floor(t / l.span) - SLIDE_PANES - 1
  for i = 1, CHUNKS do
    local chunk = l.chunks[i]
    if chunk and chunk[1] * CHUNK_PANES <= last then
      local left = 0
      for j = 2, CHUNK_PANES + 1 do
        if chunk[1] * CHUNK_PANES + j - 2 <= last then
          l.pool, chunk[j] = l.pool + chunk[j], 0
        end
        left = left + chunk[j]
      end
      if left == 0 then l.chunks[i] = nil end
      l.dirty[i] = true
    end
  end
  for _, r in ipairs(l.ended or {}) do
    spend(l, floor((r.at + r.life) / l.span), r.burst)
  end
  l.pool = min(l.pool, max(l.burst - l.bursts, 0))
end

-- writePanes writes the chunks that have changed.
local function writePanes(l)
  for i in pairs(l.dirty) do
    local chunk = l.chunks[i]
    if chunk then
      chunk[1] = chunk[1] % 65536
      local text
      writeChunk(chunk, text)
      redis.call('HSET', KEYS[1], format('&%d', i), text)
    else
      redis.call('HDEL', KEYS[1], format('&%d', i))
    end
  end
end

-- past.go

-- readPast reads what was used under other frames, or sets l.wrong.
local function readPast(l)
  if l.past > 0 then
    local text = redis.call('HMGET', KEYS[1], '&0')[1]
    l.past = 0
    if text and #text == PAST then
      l.uses, l.past = {read(PAST_FORMAT, text)}, 1
      l.uses[9] = nil -- where the text ends
      if l.uses[8] - l.uses[8] ~= 0 then l.wrong = 'RATION bad state' end
    elseif text then
      l.wrong = 'RATION bad state'
    end
  end
end

-- used sets l.used, what of it counts at t in the pool.
local function used(l, t)
  l.used = 0
  if l.uses and l.window ~= 0 then
    local lacks = (l.uses[7] - t) * l.uses[8] / 1000000
    lacks = min(max(lacks, 0), PANE_MOST)
    for i = 1, 5, 2 do
      if l.uses[i + 1] > t then l.used = l.used + l.uses[i] end
    end
    if l.window then
      lacks = ceil(lacks)
    elseif l.used > l.burst then
      l.used = l.burst
    end
    l.used = max(l.used, lacks)
  end
end

-- forget lets go what does not count any more.
local function forget(l)
  local u = l.uses
  if u and (u[2] > 0 and u[2] <= l.at or u[7] > 0 and u[7] <= l.at) then
    while u[2] > 0 and u[2] <= l.at do
      l.uses = {u[3], u[4], u[5], u[6], 0, 0, u[7], u[8]}
      u = l.uses
    end
    if u[7] <= l.at then u[7], u[8] = 0, 0 end
    l.recast, l.expiry = true, 0
  end
  if u and u[2] + u[7] == 0 then l.uses, l.past = nil, 0 end
end

-- elapse brings the pool from l.was up to now.
local function elapse(l)
  if l.uses then
    if l.window and l.window > 0 then
      used(l, l.was)
      local before = l.used
      used(l, l.at)
      l.pool = l.pool + (before - l.used)
    end
    forget(l)
  end
end

-- window.go

-- bounds sets l.begins and l.finishes, when the window of a quota does in which t lies.
local function bounds(l, t)
  local at = t + l.offset
  if l.window == MONTH then
    local z = floor(at / DAY) + MARCH
    local era = floor(z / CYCLE)
    local doe = z - era * CYCLE
    local leaps = floor(doe / 1460) - floor(doe / CENTURY) + floor(doe / (CYCLE - 1))
    local year = floor((doe - leaps) / 365)
    local begins = year * 365 + floor(year / 4) - floor(year / 100)
    local month = floor((5 * (doe - begins) + 2) / 153)
    local first, following = floor((153 * month + 2) / 5), floor((153 * (month + 1) + 2) / 5)
    first, following = first + begins, following + begins
    if month == 11 then
      year = year + 1
      following = year == 400 and CYCLE or year * 365 + floor(year / 4) - floor(year / 100)
    end
    l.begins = (era * CYCLE + first - MARCH) * DAY - l.offset
    l.finishes = (era * CYCLE + following - MARCH) * DAY - l.offset
  else
    if l.window == WEEK then at = at - MONDAY end
    l.begins = t - (at - floor(at / l.window) * l.window)
    l.finishes = l.begins + l.window
  end
end

-- past.go

-- add counts tokens until the end of a window.
local function add(l, tokens, ends)
  local u, i = l.uses, 1
  tokens = min(tokens, PANE_MOST)
  while i < 7 and u[i + 1] > 0 and u[i + 1] < ends do
    i = i + 2
  end
  if i < 7 and u[i + 1] == ends then
    u[i] = u[i] + tokens < PANE_MOST and u[i] + tokens or PANE_MOST
  else
    local full, rate = u[7], u[8]
    u[7], u[8] = 0, 0
    for j = 8, i + 2, -1 do
      u[j] = u[j - 2]
    end
    u[i], u[i + 1] = tokens, ends
    if u[8] > 0 then
      u[3] = u[3] + u[1] < PANE_MOST and u[3] + u[1] or PANE_MOST
      for j = 1, 6 do
        u[j] = u[j + 2]
      end
    end
    u[7], u[8] = full, rate
  end
end

-- remember adds to it what was used under the frame that is left.
local function remember(l)
  local tokens, ends = 0, 0
  l.uses, l.past, l.recast = l.uses or {0, 0, 0, 0, 0, 0, 0, 0}, 1, true
  if l.offset == SLIDING then
    for i = 1, CHUNKS do
      local chunk = l.chunks[i]
      for j = 2, chunk and CHUNK_PANES + 1 or 0 do
        local pane = chunk[1] * CHUNK_PANES + j - 2
        tokens = tokens + chunk[j]
        if chunk[j] > 0 and ends <= pane then ends = pane + 1 end
      end
    end
    ends = (ends + SLIDE_PANES) * l.span
  elseif not l.window then
    local lacks = l.burst - l.pool
    if lacks > 0 then
      local fills = ceil(lacks * 1000000 / l.rate)
      fills = min(fills, LONGEST_PAST)
      l.uses[7], l.uses[8] = l.at + fills, l.rate
    end
  elseif l.window > 0 then
    used(l, l.at)
    tokens, ends = ceil(l.burst - l.pool - l.used), l.finishes
  end
  if tokens > 0 and ends > l.at then
    add(l, tokens, ends)
  end
  forget(l)
end

-- writePasts writes it, if it has changed.
local function writePasts(l)
  if l.uses then
    local past, text = l.uses, nil
    writePast(past, text)
    redis.call('HSET', KEYS[1], '&0', text)
  else
    redis.call('HDEL', KEYS[1], '&0')
  end
end

-- ends.go

-- advance brings the bucket to time t. Holders are looked at only when a lease has ended
-- since the last time.
local function advance(l, q, own, t)
  l.forgets = q.maxRefresh * DENIED_FOR
  due(l, q, t)
  if l.crowd > 0 then
    fall(l, t)
  elseif l.due then
    leases(l, redis.call('HGETALL', KEYS[1]))
    if not l.wrong then
      finish(l, t)
    end
  end
  if l.width > l.tick and not l.wrong then
    l.tick, l.expiry = l.width, 0
    clearRooms(l)
  end
  if l.crowd > 0 then
    sweep(l, own)
  elseif l.leases and not l.wrong then
    count(l)
    lay(l)
  end
  refill(l, t)
  if l.offset == SLIDING and not l.wrong then
    slide(l, t)
  end
  elapse(l)
end

-- ledger.go

-- remove takes the holder's lease out of the sums. The calendar has it until insert.
local function remove(l, own)
  if own.flags < ENDED then l.rates = l.rates - own.rate end
  l.bursts, l.demand = l.bursts - own.burst, l.demand - own.demand
  if own.flags % 2 == HIGH then l.high = l.high - 1 else l.low = l.low - own.demand end
  l.earmark = l.earmark - own.mark
  if l.crowd > 0 then
    heap(l, own.place, -1, own.rate, own.burst, own.demand, own.flags, own.mark, 0)
  end
end

-- rejoin takes the lease of a holder that comes back out of the sums, or counts one holder more.
local function rejoin(l, own)
  if own.seq then
    remove(l, own)
  else
    l.holders = l.holders + 1
  end
end

-- shift counts a lease in another tick of the calendar, or in none.
local function shift(l, old, new)
  if old ~= new then
    for step = -1, 1, 2 do
      local tick = step < 0 and old or step > 0 and new
      if tick then
        local high, low = byte(l.ends, tick * 2 + 1, tick * 2 + 2)
        local n = high * 256 + low + step
        l.ends = sub(l.ends, 1, tick * 2) .. char(floor(n / 256), n % 256) ..
          sub(l.ends, tick * 2 + 3)
      end
    end
  end
end

-- insert puts the new lease in the place of the old one.
local function insert(l, a, own)
  l.rates, l.bursts, l.demand = l.rates + a.rate, l.bursts + a.burst, l.demand + a.demand
  l.earmark = l.earmark + a.mark
  if a.flags % 2 == HIGH then l.high = l.high + 1 else l.low = l.low + a.demand end
  local shape = l.crowd > 0 and BATCH or a.shape
  a.place = place(l.tick, a.at, a.refills, a.life, shape, a.flags)
  if l.crowd > 0 then
    heap(l, a.place, 1, a.rate, a.burst, a.demand, a.flags, a.mark, a.at + a.life)
  end
  shift(l, own.seq and own.place, a.place)
end

-- writeEnds makes l.ends what is stored: the calendar, the rooms if they are kept, and the pass
-- if one is under way, behind rooms of nothing where none are kept.
local function writeEnds(l)
  if l.rooms or l.pass > 0 then
    l.ends = l.ends .. write(ROOMS_FORMAT, unpack(l.rooms or {0, 0, 0, 0, 0, 0, 0, 0}))
    if l.pass > 0 then l.ends = l.ends .. format('%.0f', l.pass) end
  end
end

-- writeByClass writes the demands by class, and the holder's own.
local function writeByClass(l, a)
  local text
  writeClasses(l.classes, text)
  redis.call('HSET', KEYS[1], '&c', text)
  for _, field in ipairs(l.gone or {}) do
    redis.call('HDEL', KEYS[1], field)
  end
  if a.classes then
    writeClasses(a.classes, text)
    redis.call('HSET', KEYS[1], '&&' .. ARGV[1], text)
  end
end

-- writeOthers writes what has changed but the ledger itself and the holder's record.
local function writeOthers(l)
  if l.dirty then
    writePanes(l)
  end
  if l.classes then
    writeByClass(l, a)
  end
  if l.portions then
    redis.call('HSET', KEYS[1], unpack(l.portions))
  end
  if l.list then
    writeLimits(l)
  end
  if l.recast then
    writePasts(l)
  end
  if l.piled then
    writePiles(l)
  end
  if l.wary and not l.window then
    redis.call('HDEL', KEYS[1], '&r')
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
end

-- kind.go

-- open starts the ledger of a key that nobody has asked for, or of another frame or window
-- than before. Its time is set already.
local function open(l, q, own)
  l.rates, l.bursts, l.demand, l.low, l.pool, l.unrest = 0, 0, 0, 0, 0, 0
  l.high, l.holders, l.earmark, l.places, l.only, l.pass = 0, 0, 0, 0, 1, 0
  l.rate, l.burst, l.limit, l.window, l.offset = q.rate, q.burst, ARGV[3], q.window, q.offset
  tickWidth(l, q)
  l.tick, l.expiry, l.ahead = l.width, 0, 0
  l.ends = NO_ENDS
  if q.claim < 0 or q.window then l.pool = l.burst end
  if l.uses then
    l.recast = true
    used(l, l.at)
    l.pool = min(l.pool, l.burst - l.used)
    if not l.window then l.uses[7], l.uses[8] = 0, 0 end
    forget(l)
  end
  own.seq, l.list, l.texts, l.leases, l.changed = nil, nil, nil, nil, nil
  l.chunks, l.dirty, l.ended, l.rooms, l.crowd, l.piles, l.piled = nil, nil, nil, nil, 0, nil, nil
  l.classes, l.gone, l.caution, l.denied, l.wary = nil, nil, 0, 0, nil
end

-- leaveKind takes the holder off a ledger of another kind than it declares.
local function leaveKind(l, own)
  if own.seq then
    remove(l, own)
    if l.offset == SLIDING then
      spend(l, floor(l.at / l.span), own.burst)
    end
    leave(l, own.limit)
    desert(l, ARGV[1])
    shift(l, own.place, nil)
    l.holders, own.seq = l.holders - 1, nil
  end
end
