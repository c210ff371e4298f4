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

-- under sets l.under, when no more than n tokens of other frames count, from l.at on.
local function under(l, n)
  local sum = 0
  for i = 1, 5, 2 do
    if l.uses[i + 1] > l.at then sum = sum + l.uses[i] end
  end
  l.under = l.at
  for i = 1, 5, 2 do
    if l.uses[i + 1] > l.at and sum > n then
      sum, l.under = sum - l.uses[i], l.uses[i + 1]
    end
  end
  local lacks = (l.uses[7] - l.at) * l.uses[8] / 1000000
  if min(lacks, PANE_MOST) > n then
    local at = ceil(l.uses[7] - floor(n) * 1000000 / l.uses[8])
    l.under = max(l.under, at)
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
  if q.take > a.taken then
    l.unrest = 1
    if l.uses then
      used(l, l.at)
      local missing = max(max(q.min - a.taken, 1) - (l.pool - spared), 1)
      local n = l.used - missing
      if n >= 0 then
        under(l, n)
        a.frees = max(l.under - l.at, q.minRefresh)
      end
    end
  end
end

