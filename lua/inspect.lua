-- What the ledger of a key knows. Reads only: it works with EVAL_RO and on
-- replicas, and does not bring the ledger forward in time.
--
-- Go twin: lease.Ledger.View (TestTwins compares them).
--
-- KEYS[1]  the limited key, as exchange.lua keeps it
-- Reply    an array of arrays of strings, empty if there is no such key: first
--          name, value, name, value, ... of the ledger itself, then the id and
--          the names and values of each holder, in any order. Names are those of
--          layout.go, and limit (as ARGV[3] of exchange.lua), ends and limits; ends are counts
--          with a space between, limits are place, rate, burst and holders of each, if
--          there are several; panes are the end and the tokens of each pane of a sliding
--          window that has some, in any order; rooms and classes are those of layout.go; uses
--          are the tokens, the end and the rate of each part of the past, if there is any. Units
--          are those of lease.View and lease.HolderView.
--          An error 'RATION ...' if what is stored cannot be understood, or is of
--          another version.

-- (prelude)
-- list appends names and numbers to row.
local function list(row, names, numbers)
  for i, name in ipairs(names) do
    row[#row + 1] = name
    row[#row + 1] = format('%.17g', numbers[i])
  end
  return row
end

local stored = redis.pcall('HGETALL', KEYS[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
if #stored == 0 then return {} end
local reply, records, state, limits, chunks, uses, piles = {}, {}, {}, {}, {}, {}, nil
local classes, caution = {}, {0, 0}
for i = 1, #stored, 2 do
  local id, text = stored[i], stored[i + 1]
  if id == '#' or id == '@' or id == '=' then
    state[id] = text
  elseif byte(id) == 37 then -- %
    if #text ~= DECLARED then return redis.error_reply('RATION bad state') end
    limits[#limits + 1] =
      format('%s %.17g %.17g %.17g', sub(id, 2), read(DECLARED_FORMAT, text))
  elseif id == '&r' then
    if #text ~= CAUTION then return redis.error_reply('RATION bad state') end
    caution = {read(CAUTION_FORMAT, text)}
  elseif id == '&s' then
    piles = text
  elseif id == '&c' or sub(id, 1, 2) == '&&' then
    if #text ~= CLASSES then return redis.error_reply('RATION bad state') end
    local d = {read(CLASSES_FORMAT, text)}
    for j = 1, MAX_CLASSES do
      d[j] = format('%.17g', d[j] / RESOLUTION)
    end
    classes[id] = table.concat(d, ' ', 1, MAX_CLASSES)
  elseif sub(id, 1, 2) == '&l' then
    if #text ~= LENT then return redis.error_reply('RATION bad state') end
    local d = {read(LENT_FORMAT, text)}
    for j = 1, MAX_CLASSES do
      d[j] = format('%.17g', d[j])
    end
    classes[id] = table.concat(d, ' ', 1, MAX_CLASSES)
  elseif id == '&0' then
    if #text ~= PAST then return redis.error_reply('RATION bad state') end
    local u = {read(PAST_FORMAT, text)}
    for j = 1, 5, 2 do
      if u[j + 1] > 0 then uses[#uses + 1] = format('%.17g %.17g 0', u[j], u[j + 1]) end
    end
    if u[7] > 0 then uses[#uses + 1] = format('0 %.17g %.17g', u[7], u[8]) end
  elseif byte(id) == 38 then -- &
    if #text ~= CHUNK then return redis.error_reply('RATION bad state') end
    chunks[#chunks + 1] = {read(CHUNK_FORMAT, text)}
  else
    records[id] = text
  end
end

local sums, ends, about = state['#'], state['@'], state['=']
flaw(l, sums, ends, about)
if l.wrong then return redis.error_reply(l.wrong) end
l.SUMS = read(SUMS_FORMAT, sums)
scaleSums(l)
l.ABOUT = read(ABOUT_FORMAT, about)
local limit = sub(about, ABOUT + 1)
if not string.find(limit, '^[^,]+,[^,]+') then return redis.error_reply('RATION bad state') end
local ticks = {}
for i = 1, TICKS + ERAS do
  local high, low = byte(ends, 2 * i - 1, 2 * i)
  ticks[i] = format('%d', high * 256 + low)
end
local spent, window = {}, string.match(limit, ',(%d+),%-1$')
local span = window and ceil(window * (1 + DRIFT) / SLIDE_PANES)
for _, chunk in ipairs(chunks) do
  for j = 2, CHUNK_PANES + 1 do
    if window and chunk[j] > 0 then
      local number = floor(floor(l.at / span) / CHUNK_PANES)
      number = number - (number - chunk[1]) % 65536
      local ends = (number * CHUNK_PANES + j - 1) * span
      spent[#spent + 1] = format('%.17g %.17g', ends, chunk[j])
    end
  end
end
local rooms = ''
if #ends >= (TICKS + ERAS) * 2 + ROOMS and l.rates > 0 and string.find(limit, '^[^,]+,[^,]+$') then
  local text = sub(ends, (TICKS + ERAS) * 2 + 1, (TICKS + ERAS) * 2 + ROOMS)
  local list = {read(ROOMS_FORMAT, text)}
  list[#list] = nil -- where the text ends
  rooms = table.concat(list, ' ')
end
reply[1] = list({
  'limit', limit, 'ends', table.concat(ticks, ' '), 'limits', table.concat(limits, ' '),
  'pass', sub(ends, (TICKS + ERAS) * 2 + ROOMS + 1), 'panes', table.concat(spent, ' '),
  'rooms', rooms, 'classes', classes['&c'] or '', 'lent', classes['&l'] or '',
  'uses', table.concat(uses, ' '),
}, {names.SUMS, names.ABOUT, names.CAUTION}, {l.SUMS, l.ABOUT, unpack(caution, 1, 2)})

for id, text in pairs(records) do
  if #text ~= RECORD then
    return redis.error_reply('RATION bad record of holder ' .. id)
  end
  local r = {read(RECORD_FORMAT, text)}
  scaleRecord(l, r)
  local from = l.crowd > 0 and piles and r.place * PILE + 8
  local pile = from and #piles >= from + PILE - 1 and {read(PILE_FORMAT, sub(piles, from, from + PILE - 1))}
  if not pile or r.at + r.life > pile[2] then -- else it has fallen, and is swept later
    local demands, adds = classes['&&' .. id] or '', classes['&l' .. id] or ''
    reply[#reply + 1] = list({id, 'classes', demands, 'adds', adds}, {names.RECORD}, r)
  end
end
if l.wrong then return redis.error_reply(l.wrong) end
return reply
