-- Every exchange ends so: it writes, and replies. The key outlives what counts of other frames.
if l.uses then
  local u = l.uses
  local last = max(u[7], u[2], u[4], u[6])
  if l.expiry < last + 1000000 then
    l.ttl = ceil((last + 1000000 - now) / 1000)
    l.expiry = now + l.ttl * 1000
  end
end
writeSums(l, sums)
writeOwn(a, record)
writeEnds(l)
if l.wipe then redis.call('PEXPIRE', KEYS[1], '0') end
if l.ttl then
  writeAbout(l, about)
  local fields = {'#', sums, '@', l.ends, ARGV[1], record, '=', about .. l.limit}
  writeWith(l, fields)
  redis.call('PEXPIRE', KEYS[1], format('%d', l.ttl))
elseif not l.window and (l.caution > 0 or l.denied ~= 0) then
  local fields = {'#', sums, '@', l.ends, ARGV[1], record}
  writeWith(l, fields)
else
  redis.call('HSET', KEYS[1], '#', sums, '@', l.ends, ARGV[1], record)
end
writeOthers(l)
local flags = (a.contended and CONTENDED or 0) + (a.dry and DRY or 0) + (a.parts and CLASSED or 0) +
  (a.portions and PORTIONED or 0) + (a.parts and a.parts.ahead and AHEAD or 0)
return record .. sums .. write(
  ANSWER_FORMAT, a.keep * RESOLUTION, a.refresh, a.granted, a.taken - a.kept, a.retry, flags
) .. (a.parts and write(PARTS_FORMAT, unpack(a.parts)) or a.portions or '') .. l.limit
