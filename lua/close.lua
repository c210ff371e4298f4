-- Every exchange ends so: it writes, and replies.
writeSums(l, sums)
writeOwn(a, record)
writeEnds(l)
if l.wipe then redis.call('PEXPIRE', KEYS[1], '0') end
if l.ttl then
  writeAbout(l, about)
  redis.call('HSET', KEYS[1], '#', sums, '@', l.ends, '=', about .. l.limit, ARGV[1], record)
  redis.call('PEXPIRE', KEYS[1], format('%d', l.ttl))
else
  redis.call('HSET', KEYS[1], '#', sums, '@', l.ends, ARGV[1], record)
end
writeOthers(l)
local flags = (a.contended and CONTENDED or 0) + (a.dry and DRY or 0)
return {
  record, sums, a.keep * RESOLUTION, a.refresh, a.granted, a.taken - a.kept, a.retry, flags, l.limit,
}
