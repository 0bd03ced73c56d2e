-- Reads the entries of a range of keys at one point in time.
--
-- KEYS  meta versions values keys bound sessions
-- ARGV  prefix of session keys, lower and upper end of the range (as of ZRANGE BYLEX)
-- Returns the revision, then key, "version" or "version session", and value of each entry.

local call, sub, find = redis.call, string.sub, string.find
local names = call('ZRANGE', KEYS[4], ARGV[2], ARGV[3], 'BYLEX')
local out, o = { tonumber(call('HGET', KEYS[1], 'revision') or 0) }, 1
local lives = {}
for from = 1, #names, 2000 do
  local to = math.min(from + 1999, #names)
  local versions = call('HMGET', KEYS[2], unpack(names, from, to))
  local values = call('HMGET', KEYS[3], unpack(names, from, to))
  for j = from, to do
    local raw = versions[j - from + 1]
    local space = find(raw, ' ', 1, true)
    local is = true
    if space then
      local session = sub(raw, space + 1)
      is = lives[session]
      if is == nil then
        is = call('EXISTS', ARGV[1] .. session) == 1
        lives[session] = is
      end
    end
    if is then
      out[o + 1], out[o + 2], out[o + 3] = names[j], raw, values[j - from + 1]
      o = o + 3
    end
  end
end
return out
