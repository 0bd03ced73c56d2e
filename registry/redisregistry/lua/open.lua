-- Opens a session.
--
-- KEYS  meta entries keys bound sessions, key of the session
-- ARGV  session, TTL in ms

redis.call('SADD', KEYS[5], ARGV[1])
redis.call('SET', KEYS[6], ARGV[2], 'PX', ARGV[2])
return 1
