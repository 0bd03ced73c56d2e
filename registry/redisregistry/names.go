package redisregistry

import (
	"net/url"
	"strconv"

	"github.com/ringfence/ringfence/registry/internal/kv"
)

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

// names are the keys and channels of a namespace. The hash tag holds its escaped name, so that all lie in one
// slot, and none in another namespace.
type names struct {
	meta     string   // hash: format, revision
	keys     []string // what the scripts get as KEYS
	session  string   // prefix of the key of a session: a string that expires
	changes  string   // channel: keys that have changed, divided by NUL; empty: any
	detector string   // channel: calls of the failure detectors
	presence string   // prefix of the channel that a process subscribes to while it lives
}

func newNames(namespace string, db int) (names, error) {
	if err := kv.CheckNamespace(namespace); err != nil {
		return names{}, err
	}
	root := "{ringfence/" + url.QueryEscape(namespace) + "}:"
	// Channels, unlike keys, are those of all databases. Without the number the failure detectors of one
	// database would silence those of another.
	channel := root + strconv.Itoa(db) + ":"
	return names{
		meta:     root + "meta",
		keys:     []string{root + "meta", root + "entries", root + "keys", root + "bound", root + "sessions"},
		session:  root + "session:",
		changes:  channel + "changes",
		detector: channel + "detector",
		presence: channel + "presence:",
	}, nil
}

// span is the range of keys below prefix, as ZRANGE BYLEX has it.
func span(prefix string) (from, to string) {
	if prefix == "" {
		return "-", "+"
	}
	if end := kv.After(prefix); end != nil {
		return "[" + prefix, "(" + string(end)
	}
	return "[" + prefix, "+"
}
