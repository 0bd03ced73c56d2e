package redisregistry

import (
	"net/url"
	"strconv"

	"github.com/ringfence/ringfence/registry/internal/kv"
)

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
