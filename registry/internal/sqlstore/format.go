package sqlstore

// The tables. A key is the namespace, a NUL byte, and the key of the registry.
//
//	ringfence_schema     id, version                   one row: 1, the format
//	ringfence_entries    k, version, session_id,       version: 65 random bits of the writer and its count;
//	                     content                       content is NULL for an empty value
//	ringfence_sessions   id, process, ttl, expires     microseconds, by the clock of the database
//	ringfence_revision   id, revision                  counts the transactions that watches hear of
//	ringfence_changes    revision, change_keys         what the latest 1,024 or so changed; each key behind its
//	                                                   length; one zero byte: too many; "!sessions" first
//	ringfence_slots      id, used                      64 rows that stand for absent keys; not in SQLite
//	ringfence_listeners  process, since                who wants to be woken; MariaDB and MySQL only
//
// Locks are taken in this order, at READ COMMITTED: rows of sessions by id; rows of keys by key; for keys
// without a row the slot FNV-1a(key) mod 64, by number, and the rows once more; the row of the revision last,
// unless the transaction is quiet. That last lock makes revisions appear in order. SQLite has one writer instead.
// The rows of schema, revision and slots are never deleted: without one of them the registry is damaged, not empty.
