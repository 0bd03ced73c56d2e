-- Reads the entries of a range of keys at one point in time.
--
-- KEYS  meta entries keys bound sessions
-- ARGV  prefix of session keys, lower and upper end of the range (as of ZRANGE BYLEX), the longest key and value
-- Returns -1 and 0 when a key of the namespace is lost, else the revision, the server's time in ms, then key and entry (see apply.lua) of each.
-- Of a key that is too long there is one byte too many; a value that is too large is NUL and its length.

local call, byte, sub, find = redis.call, string.byte, string.sub, string.find
-- Each entry has its name in the index, and nothing is written without a revision. A key that was
-- evicted, or deleted by hand, must not look like entries that never were.
local count = call('HLEN', KEYS[2])
if count ~= call('ZCARD', KEYS[3]) or count > 0 and call('HEXISTS', KEYS[1], 'revision') == 0 then return { -1, 0 } end
local longest, largest = ARGV[4] + 0, ARGV[5] + 0
local names = call('ZRANGE', KEYS[3], ARGV[2], ARGV[3], 'BYLEX')
local time = call('TIME')
local revision = tonumber(call('HGET', KEYS[1], 'revision') or 0) or 0
if not (revision >= 0 and revision < 1e13) then revision = 0 end -- who writes is told
local out, o = { revision, time[1] * 1000 + math.floor(time[2] / 1000) }, 2
local lives = {}
for from = 1, #names, 2000 do
  local to = math.min(from + 1999, #names)
  local got = call('HMGET', KEYS[2], unpack(names, from, to))
  for j = from, to do
    local entry, is, head = got[j - from + 1], true, 25
    if not entry then return { -1, 0 } end -- another one has no name
    local stop = byte(entry, 25) == 98 and find(entry, '\0', 26, true)
    if stop then
      local session = sub(entry, 26, stop - 1)
      is = lives[session]
      if is == nil then
        is = call('EXISTS', ARGV[1] .. session) == 1
        lives[session] = is
      end
      if stop <= largest then head = stop end
    end
    if is then
      local size = #entry - head
      if size > largest then entry = sub(entry, 1, head) .. '\0' .. size end
      out[o + 1], out[o + 2] = sub(names[j], 1, longest + 1), entry
      o = o + 2
    end
  end
end
return out
