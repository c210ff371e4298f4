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
--          space between; flags sum up 1 intact, 2 contended, 4 high, 8 ended.
--          An error 'RATION ...' if what is stored cannot be understood.

local format = string.format

local STATE = {'rate', 'burst', 'at', 'pool', 'rates', 'bursts', 'demand', 'low', 'high', 'unrest', 'born', 'slot', 'holders', 'expiry', 'ends'}
local RECORD = {'seq', 'at', 'rate', 'burst', 'keep', 'refresh', 'until', 'life', 'demand', 'taken', 'add', 'retry', 'flags'}

-- spell appends the names and values of a list to row, and returns row, or nil
-- if the list is not as it should be. Values in scaled are in 2^-20.
local function spell(row, names, list, scaled)
  local ok, values = pcall(cjson.decode, list)
  if not ok or not values or #values ~= #names then
    return nil
  end
  for i, name in ipairs(names) do
    local value = values[i]
    if name == 'ends' then
      local counts = {}
      for a, b, c in string.gmatch(value, '(.)(.)(.)') do
        counts[#counts + 1] = format('%d', ((a:byte() - 48) * 40 + b:byte() - 48) * 40 + c:byte() - 48)
      end
      if #counts ~= 20 then return nil end
      value = table.concat(counts, ' ')
    elseif type(value) ~= 'number' then
      return nil
    else
      value = format('%.17g', scaled[name] and value / 1048576 or value)
    end
    row[#row + 1] = name
    row[#row + 1] = value
  end
  return row
end

local stored = redis.pcall('HGETALL', KEYS[1])
if stored.err then
  return redis.error_reply('RATION no ledger: ' .. stored.err)
end
local ledger
local reply = {}
for i = 1, #stored, 2 do
  local id, text = stored[i], stored[i + 1]
  if id == '#' then
    ledger = spell({}, STATE, text, {rates = true, demand = true, low = true})
    if not ledger then
      return redis.error_reply('RATION bad state')
    end
  else
    local row = spell({id}, RECORD, text, {rate = true, demand = true})
    if not row then
      return redis.error_reply('RATION bad record of holder ' .. id)
    end
    reply[#reply + 1] = row
  end
end
if ledger then
  table.insert(reply, 1, ledger)
elseif #reply > 0 then
  return redis.error_reply('RATION no ledger: a hash without state')
end
return reply
