package redisregistry

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/ringfence/ringfence/registry/driver"
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
	if len(namespace) > 128 || strings.ContainsRune(namespace, 0) {
		return names{}, fmt.Errorf("namespace %.20q (%d bytes): expected at most 128 bytes without NUL: %w", namespace, len(namespace), driver.ErrInvalid)
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
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return "[" + prefix, "+"
	}
	end[len(end)-1]++
	return "[" + prefix, "(" + string(end)
}
