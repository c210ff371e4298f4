-- What processes tell of themselves, see publish.lua. Reads only.
--
-- KEYS[1]  the hash
-- Reply    an array of strings, three for each process: its name, how many ms ago the text
--          came, and the text
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local all, reply = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local at, ends, text = string.match(all[i + 1], '^(%d+) (%d+) (.*)$')
  if ends and tonumber(ends) > now then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = string.format('%.0f', now - at)
    reply[#reply + 1] = text
  end
end
return reply
