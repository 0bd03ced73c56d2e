package redisregistry

// The keys of a namespace, all behind one hash tag {ringfence/<namespace>}: and so in one slot.
//
//	meta               hash    format; revision, which counts the calls that changed something
//	entries            hash    key → entry, see entry.go
//	keys               zset    the keys of the entries, for ranges by prefix
//	bound              zset    <session> NUL <key> of entries that are bound to a session
//	sessions           set     those that were not cleared away yet
//	session:<session>  string  expires with the session
//
// An entry of a session counts as absent from the moment its session's key has expired, by the server's clock.
// Channels are those of all databases, so the database's number is in their names: <db>:changes has the keys
// that changed, divided by NUL (empty: many); <db>:detector has the calls of the failure detector;
// <db>:presence:<process> has no messages, and a subscriber as long as the process lives.
