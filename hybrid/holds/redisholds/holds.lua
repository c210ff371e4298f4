-- Does one batch of calls about holds. Its Go twin is holds.Memory (TestTwins).
--
-- KEYS  1: the name before all keys, with a hash tag, so that a Cluster has them on one node:
--          NAME:h:HOLD   string: a hold that is open; then its end, see read
--          NAME:ends     sorted set: holds that are open, by the end of their lives in ms
--          NAME:of:HOME  hash: notices of a replica, by their IDs
-- ARGV  1: the home of the batch; 2: for how many ms an end is remembered; 3: for how many ms the
--       sorted set stays without a change; 4: the number of notices that are acknowledged; their
--       IDs; then eight for each call: verb, name, life in ms, until in ms of Unix time, "1" if an
--       unsettled hold is spent, numbers with spaces between them, content, and token and answer
--       with a line end between them
-- reply: now in ms of Unix time; the number of calls; for each call verdict, end in ms, and token
--       and answer; then ID and value of each notice
-- time: the server's. A repeat does what its verbs say: nothing is done twice.
--
-- A batch ends up to 100 holds whose lives have ended, and those that it names. More would stop all
-- clients of the server: 30,000 holds take a second (TestManyEnds).
local home, kept, longest = ARGV[1], ARGV[2], ARGV[3]
local open, box = KEYS[1] .. ':ends', KEYS[1] .. ':of:'
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)

local function text(n)
  return string.format('%.0f', n)
end

local function numbers(s)
  local list = {}
  for n in string.gmatch(s, '%S+') do
    list[#list + 1] = tonumber(n)
  end
  return list
end

local function tell(replica, id, value)
  redis.call('HSET', box .. replica, id, value)
  redis.call('PEXPIRE', box .. replica, kept)
end

-- read returns a hold. One that has ended has only its end: the numbers that it was settled with,
-- or 'over'. A repeat needs no more, and most of a busy service's holds have ended.
local function read(key)
  local s = redis.call('GET', key)
  if not s then
    return nil
  end
  local ends, spent, home_size, content_size, estimate, at =
    string.match(s, '^open (%d+) (%d) (%d+) (%d+) ([%d ]*)\n()')
  if not ends then
    return { ended = s }
  end
  local content = at + home_size
  local told = content + content_size
  return {
    ends = ends, spent = spent, estimate = estimate, home = string.sub(s, at, content - 1),
    content = string.sub(s, content, told - 1), told = string.sub(s, told),
  }
end

-- write writes a hold that is open, for a life from now.
local function write(name, key, h, life)
  h.ends = text(now + life)
  redis.call('SET', key, 'open ' .. h.ends .. ' ' .. h.spent .. ' ' .. #h.home .. ' ' .. #h.content
    .. ' ' .. h.estimate .. '\n' .. h.home .. h.content .. h.told, 'PX', text(life + kept))
  redis.call('ZADD', open, h.ends, name)
  redis.call('PEXPIRE', open, longest)
end

-- finish ends a hold that is open.
local function finish(name, key, h, ended)
  redis.call('SET', key, ended, 'PX', kept)
  redis.call('ZREM', open, name)
  h.ends, h.told = nil, nil
end

-- charge tells a replica to charge what another one's estimate was too low by.
local function charge(name, h, used)
  local above, more = {}, false
  local e = numbers(h.estimate)
  for i, n in ipairs(numbers(used)) do
    above[i] = text(math.max(n - e[i], 0))
    more = more or n > e[i]
  end
  if more then
    tell(home, 'c' .. name, table.concat(above, ' ') .. '\n' .. h.content)
  end
end

local function none(estimate)
  return (string.gsub(estimate, '%S+', '0'))
end

local function expire(name, key, h)
  local used = h.estimate
  if h.spent ~= '1' then
    used = none(used)
  end
  finish(name, key, h, 'over')
  tell(h.home, 'e' .. name, used)
end

local function reserve(c, key)
  if now > tonumber(c.before) then
    return { 'late', '0', '\n' }
  end
  local h = {
    home = home, spent = c.spent, estimate = c.numbers, content = c.content, told = c.told,
  }
  write(c.name, key, h, c.life)
  return { 'done', h.ends, h.told }
end

local function settle(c, key, h)
  if h.ended == 'over' then
    return 'over'
  end
  local as, used = h.ended or h.estimate, c.numbers
  if used == '' then
    used = none(as)
  end
  if #numbers(used) ~= #numbers(as) then
    return 'numbers'
  elseif not h.ended then
    finish(c.name, key, h, used)
    if home == h.home then
      tell(home, 'w' .. c.name, used)
    else
      tell(h.home, 'r' .. c.name, used)
      charge(c.name, h, used)
    end
    return 'done'
  elseif used == h.ended then
    return 'repeated'
  end
  return 'differs'
end

local function verdict(c, key, h)
  if c.verb == 'settle' then
    return settle(c, key, h)
  elseif h.ended then
    return 'over'
  elseif c.verb == 'extend' then
    if now + c.life > tonumber(h.ends) then
      write(c.name, key, h, c.life)
    end
    return 'done'
  elseif c.content ~= '' and c.content ~= h.content then
    return 'differs'
  end
  return 'repeated'
end

local function act(c)
  local key = KEYS[1] .. ':h:' .. c.name
  local h = read(key)
  if h and h.ends and tonumber(h.ends) <= now then
    expire(c.name, key, h)
    h = { ended = 'over' }
  end
  if h then
    return { verdict(c, key, h), h.ends or '0', h.told or '\n' }
  elseif c.verb == 'reserve' then
    return reserve(c, key)
  end
  return { 'absent', '0', '\n' }
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', open, '-inf', text(now), 'LIMIT', 0, 100)) do
  local key = KEYS[1] .. ':h:' .. name
  local h = read(key)
  if h and h.ends then
    expire(name, key, h)
  else -- it was evicted
    redis.call('ZREM', open, name)
  end
end
local at = 5
for _ = 1, tonumber(ARGV[4]) do
  redis.call('HDEL', box .. home, ARGV[at])
  at = at + 1
end
local reply = { text(now), text((#ARGV - at + 1) / 8) }
while at < #ARGV do
  local a = act({
    verb = ARGV[at], name = ARGV[at + 1], life = tonumber(ARGV[at + 2]), before = ARGV[at + 3],
    spent = ARGV[at + 4], numbers = ARGV[at + 5], content = ARGV[at + 6], told = ARGV[at + 7],
  })
  for _, x in ipairs(a) do
    reply[#reply + 1] = x
  end
  at = at + 8
end
for _, x in ipairs(redis.call('HGETALL', box .. home)) do
  reply[#reply + 1] = x
end
return reply
