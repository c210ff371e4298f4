-- Makes a change of one domain, if its base is the newest version.
--
-- KEYS[1]  hash of the book: newest record of each domain; under '' the id of the last change
-- KEYS[2]  hash of the domain: version to record
-- ARGV     domain, base, payload, id of the change, revisions to keep, most domains
-- Reply    {'made', record}; {'conflict', newest version}; {'full', number of domains}
--
-- A record is "VERSION SECONDS MICROSECONDS PAYLOAD", the time that of the server. A payload
-- begins with "-" for a deletion. The same payload again, base included, is the same change:
-- its answer was lost, and it gets its record once more.
--
-- What can fail has failed before the second write: a wrong type, memory, a replica. PUBLISH
-- may fail, as to a user who may not: readers poll, too.
local newest = redis.call('HGET', KEYS[1], ARGV[1])
local version, deleted = '0', false
if newest then
	local old
	version, old = string.match(newest, '^(%d+) %d+ %d+ (.*)$')
	if not version then
		return redis.error_reply('ERR the record of the domain is odd')
	end
	if old == ARGV[3] then
		return {'made', newest}
	end
	deleted = string.sub(old, 1, 1) == '-'
elseif redis.call('HLEN', KEYS[1]) > tonumber(ARGV[6]) then
	return {'full', ARGV[6]}
end

local deletes = string.sub(ARGV[3], 1, 1) == '-'
local makes = deleted and not deletes and ARGV[2] == '0'
if ARGV[2] ~= version and not makes or deleted and deletes then
	return {'conflict', version}
end

local number = tonumber(version) + 1
local now = redis.call('TIME')
version = string.format('%.0f', number)
local record = version .. ' ' .. now[1] .. ' ' .. now[2] .. ' ' .. ARGV[3]
redis.call('HSET', KEYS[2], version, record)
redis.call('HSET', KEYS[1], ARGV[1], record, '', ARGV[4])
redis.call('HDEL', KEYS[2], string.format('%.0f', number - tonumber(ARGV[5])))
redis.pcall('PUBLISH', KEYS[1], ARGV[4])
return {'made', record}
