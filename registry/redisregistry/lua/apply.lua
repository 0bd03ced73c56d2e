-- Applies transactions in order, each all or nothing. First everything that they touch is read,
-- then they are worked out in tables, last what has changed is written: so a failure of the
-- store (no memory, a slot that moves away) comes before the first write and leaves no trace.
--
-- A quiet put (a checkpoint, as a rule) does not read the entry it replaces, which saves a tenth of
-- the time: HSET tells whether the key is new. A replaced entry that was bound to a session stays in
-- the index of bound entries; the sweep compares the two.
--
-- KEYS  meta entries keys bound sessions
-- ARGV  nonce, prefix of session keys, channel of changes, then runs of transactions alike:
--       how many, checks, puts and deletes of each, 1 when watchers need not be told, and
--       for each transaction
--         key version     of each check ('' = is absent)
--         key content     of each put: what stands behind the version of an entry
--         key             of each delete
-- Returns for each transaction the revision in the versions of its puts, -1-i when check i failed
-- (from 0), -1000000 when a session has ended.
--
-- An entry is version 'u' value, or version 'b' session NUL value. A version has 24 bytes.

local META, ENTRIES, NAMES, BOUND = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local nonce, session_prefix, channel = ARGV[1], ARGV[2], ARGV[3]
local call, byte, sub, find, format = redis.call, string.byte, string.sub, string.find, string.format
local VERSION, KIND, B = 24, 25, 98
local CHUNK = 2000 -- unpack has a limit of its own
local argc = #ARGV

-- What they touch and has to be read. A key may stand here more than once.
local names, n = {}, 0
local i = 4
while i <= argc do
  local count, checks, puts, deletes = tonumber(ARGV[i]), ARGV[i + 1] + 0, ARGV[i + 2] + 0, ARGV[i + 3] + 0
  local loud = ARGV[i + 4] == '0'
  i = i + 5
  for _ = 1, count do
    for _ = 1, checks do
      n = n + 1
      names[n] = ARGV[i]
      i = i + 2
    end
    for _ = 1, puts do
      if loud or byte(ARGV[i + 1], 1) == B then
        n = n + 1
        names[n] = ARGV[i]
      end
      i = i + 2
    end
    for _ = 1, deletes do
      n = n + 1
      names[n] = ARGV[i]
      i = i + 1
    end
  end
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

-- The session of an entry, or of a content when at is 1. Most calls meet none: any says whether
-- this one does.
local any = false
local function session_of(entry, at)
  local stop = entry and byte(entry, at) == B and find(entry, '\0', at, true)
  if stop then -- else it is damaged
    any = true
    return sub(entry, at + 1, stop - 1)
  end
end

-- now[key]: the entry as the transactions so far leave it, false = absent. dead[key]: the entry
-- of a session that has ended, which counts as absent and is still there.
local now, dead = {}, {}
for from = 1, n, CHUNK do
  local to = from + CHUNK - 1
  if to > n then to = n end
  local got = call('HMGET', ENTRIES, unpack(names, from, to))
  for j = from, to do
    local entry = got[j - from + 1]
    local session = session_of(entry, KIND)
    if session and not alive(session) then
      dead[names[j]] = entry
      entry = false
    end
    now[names[j]] = entry
  end
end

-- Work them out. was[key]: the entry in the store of a key that is written.
local revision = tonumber(call('HGET', META, 'revision') or 0)
revision = revision + 1
local version = format('%013d', revision) .. nonce
local was, order, w = {}, {}, 0
local unread, v = {}, 0 -- written keys whose old entry was not read; not in order
local told, t = {}, 0
local results, r = {}, 0

local function touch(key)
  was[key] = now[key] or dead[key] or false
  w = w + 1
  order[w] = key
end

i = 4
while i <= argc do
  local count, checks, puts, deletes = tonumber(ARGV[i]), ARGV[i + 1] + 0, ARGV[i + 2] + 0, ARGV[i + 3] + 0
  local loud = ARGV[i + 4] == '0'
  i = i + 5
  for _ = 1, count do
    local writes = i + 2 * checks
    local ends = writes + 2 * puts
    local result = 0
    for j = 0, checks - 1 do
      local entry, want = now[ARGV[i]], ARGV[i + 1]
      i = i + 2
      if (entry and sub(entry, 1, VERSION) or '') ~= want then
        result = -1 - j
        break
      end
    end
    if result == 0 then
      for j = writes, ends - 1, 2 do
        local content = ARGV[j + 1]
        if byte(content, 1) == B and not alive(session_of(content, 1)) then
          result = -1000000
          break
        end
      end
    end
    if result == 0 then
      local again = false
      for j = writes, ends - 1, 2 do
        local key = ARGV[j]
        if now[key] == nil then
          now[key], was[key] = false, false
          v = v + 1
          unread[v] = key
        elseif was[key] == nil then
          touch(key)
        else
          again = true
        end
      end
      if again then -- no key gets one version twice
        revision = revision + 1
        version = format('%013d', revision) .. nonce
      end
      result = revision
      for j = writes, ends - 1, 2 do
        now[ARGV[j]] = version .. ARGV[j + 1]
        if loud then
          t = t + 1
          told[t] = ARGV[j]
        end
      end
      for j = ends, ends + deletes - 1 do
        local key = ARGV[j]
        if now[key] then
          if was[key] == nil then touch(key) end
          now[key] = false
          if loud then
            t = t + 1
            told[t] = key
          end
        end
      end
    end
    r = r + 1
    results[r] = result
    i = ends + deletes
  end
end
if w + v == 0 then return results end

-- Write what has changed.
local function flush(command, name, list, count)
  for from = 1, count, CHUNK do
    local to = from + CHUNK - 1
    if to > count then to = count end
    call(command, name, unpack(list, from, to))
  end
end

local set, added, gone, bind, unbind = {}, {}, {}, {}, {}
local s, a, g, b, u = 0, 0, 0, 0, 0
for j = 1, w do
  local key = order[j]
  local entry, old = now[key], was[key]
  if any then
    local before, after = session_of(old, KIND), session_of(entry, KIND)
    if before and before ~= after then
      u = u + 1
      unbind[u] = before .. '\0' .. key
    end
    if after and after ~= before then
      bind[b + 1], bind[b + 2] = 0, after .. '\0' .. key
      b = b + 2
    end
  end
  if entry then
    set[s + 1], set[s + 2] = key, entry
    s = s + 2
    if not old then
      added[a + 1], added[a + 2] = 0, key
      a = a + 2
    end
  elseif old then
    g = g + 1
    gone[g] = key
  end
end
-- Redis sends it after the script. A refusal here (no right to the channel) leaves no trace either.
if t > 100 then
  call('SPUBLISH', channel, '') -- too many to name: all
elseif t > 0 then
  call('SPUBLISH', channel, table.concat(told, '\0'))
end
call('HSET', META, 'revision', format('%d', revision))
for from = 1, v, CHUNK / 2 do
  local to = from + CHUNK / 2 - 1
  if to > v then to = v end
  local pairs_of, p = {}, 0
  for j = from, to do
    pairs_of[p + 1], pairs_of[p + 2] = unread[j], now[unread[j]]
    p = p + 2
  end
  if call('HSET', ENTRIES, unpack(pairs_of, 1, p)) > 0 then
    local scored = {}
    for j = 1, p, 2 do scored[j], scored[j + 1] = 0, pairs_of[j] end
    call('ZADD', NAMES, unpack(scored, 1, p))
  end
end
flush('HSET', ENTRIES, set, s)
flush('ZADD', NAMES, added, a)
flush('HDEL', ENTRIES, gone, g)
flush('ZREM', NAMES, gone, g)
flush('ZREM', BOUND, unbind, u)
flush('ZADD', BOUND, bind, b)
return results
