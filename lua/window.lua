-- What kinds with a window share: quotas and sliding windows.

-- window.go

-- refresh is when the holder shall come back, at the latest after a.longest.
local function refresh(a, q, lag)
  a.refresh = a.longest
  if a.demand > 0 then
    local batch = floor(q.batch * 1000000 / a.demand)
    a.refresh = max(min(batch, a.longest), q.minRefresh, lag)
  end
end

-- take takes tokens for the requests that wait. Some of the pool are spared for others.
local function take(l, a, q, spared)
  local avail = l.pool - spared
  if q.take > 0 and avail >= q.min then
    a.taken = floor(min(q.take, avail))
    if q.unit > 1 then a.taken = q.min + floor((a.taken - q.min) / q.unit) * q.unit end
    l.pool = l.pool - a.taken
  end
  if q.hold > 0 then a.kept, a.held = a.taken, a.held + a.taken end
  if q.take > a.taken then l.unrest = 1 end
end

