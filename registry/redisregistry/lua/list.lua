-- Reads the entries of a range of keys at one point in time.
--
-- KEYS  meta entries keys bound sessions
-- ARGV  prefix of session keys, lower and upper end of the range (as of ZRANGE BYLEX)
-- Returns -1 and 0 when a key of the namespace is lost, else the revision, the server's time in ms, then key and entry (see apply.lua) of each.

local call, byte, sub, find = redis.call, string.byte, string.sub, string.find
-- Each entry has its name in the index, and nothing is written without a revision. A key that was
-- evicted, or deleted by hand, must not look like entries that never were.
local count = call('HLEN', KEYS[2])
if count ~= call('ZCARD', KEYS[3]) or count > 0 and call('HEXISTS', KEYS[1], 'revision') == 0 then return { -1, 0 } end
local names = call('ZRANGE', KEYS[3], ARGV[2], ARGV[3], 'BYLEX')
local time = call('TIME')
local revision = tonumber(call('HGET', KEYS[1], 'revision') or 0)
local out, o = { revision, time[1] * 1000 + math.floor(time[2] / 1000) }, 2
local lives = {}
for from = 1, #names, 2000 do
  local to = math.min(from + 1999, #names)
  local got = call('HMGET', KEYS[2], unpack(names, from, to))
  for j = from, to do
    local entry, is = got[j - from + 1], true
    if not entry then return { -1, 0 } end -- another one has no name
    local stop = byte(entry, 25) == 98 and find(entry, '\0', 26, true)
    if stop then
      local session = sub(entry, 26, stop - 1)
      is = lives[session]
      if is == nil then
        is = call('EXISTS', ARGV[1] .. session) == 1
        lives[session] = is
      end
    end
    if is then
      out[o + 1], out[o + 2] = names[j], entry
      o = o + 2
    end
  end
end
return out
