-- Applies transactions in order, each all or nothing. First everything that they touch is read,
-- then they are worked out in tables, last what has changed is written: so a failure of the
-- store (no memory, a slot that moves away) comes before the first write and leaves no trace.
--
-- KEYS  meta versions values keys bound sessions
-- ARGV  nonce, prefix of session keys, channel of changes, then for each transaction its shape
--       and the arguments of each letter of the shape:
--       c key version          check ('' = is absent)
--       p key value            put
--       b key value session    put of an entry that is bound to a session
--       d key                  delete
--       q                      watchers need not be told (the last letter)
-- Returns for each transaction the revision before its first write, -1-i when check i failed
-- (from 0), -1000000 when a session has ended.

local META, VERSIONS, VALUES, NAMES, BOUND = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local nonce, session_prefix, channel = ARGV[1], ARGV[2], ARGV[3]
local call, byte, sub, find, format = redis.call, string.byte, string.sub, string.find, string.format
local C, P, B, D = 99, 112, 98, 100
local ARGS = { [C] = 2, [P] = 2, [B] = 3, [D] = 1, [113] = 0 }
local CHUNK = 2000 -- unpack has a limit of its own

-- What they touch.
local names, seen, n = {}, {}, 0
local i, argc = 4, #ARGV
while i <= argc do
  local shape = ARGV[i]
  i = i + 1
  for j = 1, #shape do
    local op = byte(shape, j)
    local key = ARGV[i]
    if op ~= 113 and not seen[key] then
      seen[key] = true
      n = n + 1
      names[n] = key
    end
    i = i + ARGS[op]
  end
end

-- stored[key]: version, or "version session", or false, as it is in the store.
local stored = {}
for from = 1, n, CHUNK do
  local to = math.min(from + CHUNK - 1, n)
  local got = call('HMGET', VERSIONS, unpack(names, from, to))
  for j = from, to do stored[names[j]] = got[j - from + 1] end
end

local lives = {}
local function alive(session)
  local is = lives[session]
  if is == nil then
    is = call('EXISTS', session_prefix .. session) == 1
    lives[session] = is
  end
  return is
end

local function session_of(raw)
  local space = raw and find(raw, ' ', 1, true)
  return space and sub(raw, space + 1)
end

-- now[key]: its version as the transactions so far leave it, '' = absent.
local now = {}
for j = 1, n do
  local raw = stored[names[j]]
  local version = raw or ''
  local space = raw and find(raw, ' ', 1, true)
  if space then
    version = alive(sub(raw, space + 1)) and sub(raw, 1, space - 1) or ''
  end
  now[names[j]] = version
end

-- Work them out. written[key]: the new form of stored[key].
local first = tonumber(call('HGET', META, 'revision') or 0)
local revision = first
local written, values, order, w = {}, {}, {}, 0
local told, t = {}, 0
local results, r = {}, 0

local function write(key, raw, version)
  if written[key] == nil then
    w = w + 1
    order[w] = key
  end
  written[key] = raw
  now[key] = version
  revision = revision + 1
end

i = 4
while i <= argc do
  local shape = ARGV[i]
  local letters, start, result = #shape, i + 1, revision
  local check = 0
  i = start
  for j = 1, letters do
    local op = byte(shape, j)
    if op == C then
      if result >= 0 and now[ARGV[i]] ~= ARGV[i + 1] then result = -1 - check end
      check = check + 1
    elseif op == B and result >= 0 and not alive(ARGV[i + 2]) then
      result = -1000000
    end
    i = i + ARGS[op]
  end
  r = r + 1
  results[r] = result
  if result >= 0 then
    local quiet = byte(shape, letters) == 113
    local at = start
    for j = 1, letters do
      local op, key = byte(shape, j), ARGV[at]
      if op == P or op == B then
        local version = format('%d', revision + 1) .. '.' .. nonce
        values[key] = ARGV[at + 1]
        write(key, op == B and version .. ' ' .. ARGV[at + 2] or version, version)
      elseif op == D and now[key] ~= '' then
        write(key, false, '')
      end
      if not quiet and op ~= C and op ~= 113 then
        t = t + 1
        told[t] = key
      end
      at = at + ARGS[op]
    end
  end
end
if revision == first then return results end

-- Write what has changed.
local function flush(command, name, list, count)
  for from = 1, count, CHUNK do
    call(command, name, unpack(list, from, math.min(from + CHUNK - 1, count)))
  end
end

local versions, contents, added, gone, bind, unbind = {}, {}, {}, {}, {}, {}
local s, a, g, b, u = 0, 0, 0, 0, 0
for j = 1, w do
  local key = order[j]
  local raw, was = written[key], stored[key]
  local before, after = session_of(was), session_of(raw)
  if before and before ~= after then
    u = u + 1
    unbind[u] = before .. '\0' .. key
  end
  if after and after ~= before then
    bind[b + 1], bind[b + 2] = 0, after .. '\0' .. key
    b = b + 2
  end
  if raw then
    versions[s + 1], versions[s + 2] = key, raw
    contents[s + 1], contents[s + 2] = key, values[key]
    s = s + 2
    if not was then
      added[a + 1], added[a + 2] = 0, key
      a = a + 2
    end
  elseif was then
    g = g + 1
    gone[g] = key
  end
end
call('HSET', META, 'revision', format('%d', revision))
flush('HSET', VERSIONS, versions, s)
flush('HSET', VALUES, contents, s)
flush('ZADD', NAMES, added, a)
flush('HDEL', VERSIONS, gone, g)
flush('HDEL', VALUES, gone, g)
flush('ZREM', NAMES, gone, g)
flush('ZREM', BOUND, unbind, u)
flush('ZADD', BOUND, bind, b)
if t > 100 then
  call('SPUBLISH', channel, '') -- too many to name: all
elseif t > 0 then
  call('SPUBLISH', channel, table.concat(told, '\0'))
end
return results
