-- Every exchange goes on so: it ends the leases that have ended, leaves a ledger of another
-- kind than the holder declares, and begins the answer.
l.was = l.at
advance(l, q, own, t)
if l.crowd == 0 and l.holders >= LOOKS and not l.wrong then
  gather(l)
end
if l.wrong then return redis.error_reply(l.wrong) end
if l.leases and l.leases[ARGV[1]] then
  own.RECORD = unpack(l.leases[ARGV[1]])
elseif l.leases and l.changed[ARGV[1]] == false then
  own.seq = nil
end
if not own.seq and l.holders >= MAX_HOLDERS then return 'stale,' .. l.limit end
if l.window ~= q.window or l.offset ~= q.offset then
  leaveKind(l, own)
  keepRooms(l)
  if l.window and l.window > 0 and l.offset ~= SLIDING then
    bounds(l, l.was)
    if l.at >= l.finishes then l.holders = 0 end -- all leases end with their window
  end
  if l.holders > 0 then
    writeEnds(l)
    writeSums(l, sums)
    writeAbout(l, about)
    local fields = {'#', sums, '@', l.ends, '=', about .. l.limit}
    writeWith(l, fields)
    redis.call('HDEL', KEYS[1], ARGV[1])
    writeOthers(l)
    return format('elsewhere,%d,%d,', q.maxRefresh, l.holders) .. l.limit
  end
  remember(l)
  l.born, l.wipe = l.at, true
  open(l, q, own)
  l.was = l.at
  clock(l, a, now)
  l.at, t = a.at, a.at
end
a.seq, a.rate, a.burst, a.shape, a.taken, a.retry, a.share = q.seq, 0, 0, NONE, 0, 0, 0
a.held, a.left, a.was, a.kept, a.mark = 0, 0, 0, 0, 0
