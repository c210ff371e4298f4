-- What the ledger of a key knows. Reads only: it works with EVAL_RO and on
-- replicas, and does not bring the ledger forward in time.
--
-- Go twin: lease.Ledger.View (TestTwins compares them).
--
-- KEYS[1]  the limited key, as exchange.lua keeps it
-- Reply    an array of arrays of strings, empty if there is no such key: first
--          name, value, name, value, ... of the ledger itself, then the id and
--          the names and values of each holder, in any order. Names and units
--          are those of lease.View and lease.HolderView; ends are counts with a
--          space between; flags sum up 1 high, 2 ended.
--          An error 'RATION ...' if what is stored cannot be understood.

local format, byte = string.format, string.byte

local function whole(s, i)
  local n = 0
  for _, b in ipairs({byte(s, i, i + 6)}) do
    n = n * 256 + b
  end
  return n
end

local function fraction(s, i)
  local a, b = byte(s, i + 7, i + 8)
  local x = math.ldexp(whole(s, i), a % 128 * 256 + b - 16384)
  return a < 128 and x or -x
end

local function scaled(s, i) return whole(s, i) / 1048576 end

local function count(s, i)
  local a, b = byte(s, i, i + 1)
  return a * 256 + b
end

-- list appends names and values to row.
local function list(row, values)
  for _, x in ipairs(values) do
    row[#row + 1] = type(x) == 'number' and format('%.17g', x) or x
  end
  return row
end

local stored = redis.pcall('HGETALL', KEYS[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local reply, state = {}, {}
for i = 1, #stored, 2 do
  local id, s = stored[i], stored[i + 1]
  if id == '#' or id == '@' or id == '=' then
    state[id] = s
  elseif #s ~= 59 then
    return redis.error_reply('RATION bad record of holder ' .. id)
  else
    reply[#reply + 1] = list({id}, {
      'seq', whole(s, 1), 'at', whole(s, 8), 'rate', scaled(s, 15), 'burst', scaled(s, 22),
      'until', whole(s, 29), 'life', whole(s, 36), 'demand', scaled(s, 43), 'add', fraction(s, 50),
      'flags', byte(s, 59),
    })
  end
end
if #stored == 0 then return reply end

local sums, ends, about = state['#'], state['@'], state['=']
if not (sums and ends and about) then
  return redis.error_reply('RATION no ledger: a hash without state')
end
local rate, burst = string.match(about, '([^,]+),([^,]+)$', 29)
if #sums ~= 64 or #ends ~= 46 or not rate then
  return redis.error_reply('RATION bad state')
end
local slots = {}
for i = 1, 23 do
  slots[i] = format('%d', count(ends, 2 * i - 1))
end
table.insert(reply, 1, list({}, {
  'rate', rate, 'burst', burst, 'at', whole(sums, 1), 'rates', scaled(sums, 8), 'bursts', scaled(sums, 15),
  'demand', scaled(sums, 22), 'low', scaled(sums, 29), 'pool', fraction(sums, 36), 'unrest', fraction(sums, 45),
  'high', count(sums, 54), 'holders', count(sums, 56), 'declared', whole(sums, 58), 'ends', table.concat(slots, ' '),
  'born', whole(about, 1), 'slot', whole(about, 8), 'expiry', whole(about, 15), 'ahead', whole(about, 22),
}))
return reply
