-- Ends sessions: the expired ones, the named ones, and those of named processes whose presence channel
-- has no subscriber. Returns the other processes with live sessions and no subscriber.
--
-- KEYS  meta entries keys bound sessions
-- ARGV  prefix of session keys, prefix of presence channels, channel of changes, then words:
--       s:<session>    end it
--       p:<process>    end all of its sessions unless somebody subscribes to its presence channel
-- Returns the other processes that have live sessions but no presence.

local BOUND, SESSIONS = KEYS[4], KEYS[5]
local session_prefix, presence_prefix, channel = ARGV[1], ARGV[2], ARGV[3]
local call, sub, find = redis.call, string.sub, string.find

local close, suspect = {}, {}
for i = 4, #ARGV do
  local word = ARGV[i]
  if sub(word, 1, 2) == 's:' then close[sub(word, 3)] = true else suspect[sub(word, 3)] = true end
end

local sessions = call('SMEMBERS', SESSIONS)
if #sessions == 0 then return {} end

-- Which keys are there: one command when all are, as they mostly are.
local names, live = {}, {}
for i, id in ipairs(sessions) do names[i] = session_prefix .. id end
local all = true
for from = 1, #names, 2000 do
  local to = math.min(from + 1999, #names)
  if call('EXISTS', unpack(names, from, to)) ~= to - from + 1 then all = false end
end
for i, id in ipairs(sessions) do
  live[id] = (all or call('EXISTS', names[i]) == 1) and not close[id]
end

-- Which processes are present. A session is <process>.<number>.
local channels, process_of, asked = {}, {}, {}
for _, id in ipairs(sessions) do
  local process = sub(id, 1, (find(id, '.', 1, true) or 1) - 1)
  process_of[id] = process
  if live[id] and not asked[process] then
    asked[process] = true
    channels[#channels + 1] = presence_prefix .. process
  end
end
local silent = {}
for from = 1, #channels, 2000 do
  local got = call('PUBSUB', 'SHARDNUMSUB', unpack(channels, from, math.min(from + 1999, #channels)))
  for i = 1, #got, 2 do
    if got[i + 1] == 0 then silent[sub(got[i], #presence_prefix + 1)] = true end
  end
end

local told = {}
for i, id in ipairs(sessions) do
  local process = process_of[id]
  if not live[id] or suspect[process] and silent[process] then
    call('DEL', names[i])
    call('SREM', SESSIONS, id)
    for _, member in ipairs(call('ZRANGE', BOUND, '[' .. id .. '\0', '(' .. id .. '\1', 'BYLEX')) do
      local key = sub(member, #id + 2)
      local entry = call('HGET', KEYS[2], key)
      call('ZREM', BOUND, member)
      if entry and sub(entry, 25, 26 + #id) == 'b' .. id .. '\0' then -- not overwritten since, see apply.lua
        call('HDEL', KEYS[2], key)
        call('ZREM', KEYS[3], key)
        call('HINCRBY', KEYS[1], 'revision', 1)
        told[#told + 1] = key
      end
    end
  end
end
if #told > 100 then
  call('SPUBLISH', channel, '')
elseif #told > 0 then
  call('SPUBLISH', channel, table.concat(told, '\0'))
end

local missing = {}
for process in pairs(silent) do
  if not suspect[process] then missing[#missing + 1] = process end
end
return missing
